/* The doctor as a program uses it. What it finds is tested by unit/test_doctor, and on servers with
 * bad settings by cli/test_doctor.py. */
#include "fixture.h"

#include <lockkeeper/doctor.h>

static const lk_finding *finding_of(const lk_doctor *doctor, const char *id)
{
	const lk_finding *finding;
	for (size_t i = 0; (finding = lk_doctor_finding(doctor, i)); i++)
		if (strcmp(finding->id, id) == 0)
			return finding;
	return NULL;
}

static lk_doctor *examine(lk_client *client)
{
	lk_doctor *doctor = NULL;
	expect(0, lk_doctor_new(&doctor, &client, 1, NULL, 0, &err));
	return doctor;
}

static void test_findings(void **state)
{
	lk_client *client = open_client();
	lk_doctor *doctor = examine(client);
	int before = LK_SEVERITY_ERROR;
	size_t count = 0;
	for (const lk_finding *finding; (finding = lk_doctor_finding(doctor, count)); count++) {
		check(finding->severity <= before);
		before = finding->severity;
		check(!strcmp(finding->node, lk_client_node(client)));
		check(*finding->detail && *finding->meaning && *finding->remedy);
	}
	check(count > 0);
	check_int(lk_doctor_worst(doctor), ==, lk_doctor_finding(doctor, 0)->severity);
	check(!lk_doctor_finding(doctor, (size_t)-1));
	check(finding_of(doctor, "round-trip"));
	check(strstr(lk_doctor_promise(doctor), "one server: "));
	lk_doctor_free(doctor);
	drop_client(client);
}

static void test_nodes(void **state)
{
	lk_client *clients[] = {open_client(), open_client()};
	lk_doctor *doctor = NULL;
	expect(0, lk_doctor_new(&doctor, clients, 2, "job", LK_STRLEN, &err));
	for (size_t i = 0; i < 2; i++) {
		const lk_doctor_node *node = lk_doctor_node_at(doctor, i);
		check(!strcmp(node->url, lk_client_node(clients[i])));
		check(*node->server && *node->version);
		check(!strcmp(node->role, "master"));
		check(node->round_trip_us >= 0);
	}
	check(!lk_doctor_node_at(doctor, 2));
	check(finding_of(doctor, "quorum-same-server"));
	check(!strcmp(finding_of(doctor, "quorum-too-few")->node, ""));
	check_int(lk_doctor_worst(doctor), ==, LK_SEVERITY_ERROR);
	lk_doctor_free(doctor);
	drop_client(clients[0]);
	drop_client(clients[1]);
}

static void test_the_report_outlives_the_client(void **state)
{
	lk_client *client = open_client();
	char url[300];
	snprintf(url, sizeof(url), "%s", lk_client_node(client));
	lk_doctor *doctor = examine(client);
	drop_client(client);
	check(!strcmp(lk_doctor_node_at(doctor, 0)->url, url));
	check(!strcmp(lk_doctor_finding(doctor, 0)->node, url));
	lk_doctor_free(doctor);
}

static void test_a_server_that_is_down_is_a_finding(void **state)
{
	lk_client *client;
	expect(0, lk_client_open(&client, "unix:///nowhere/at/all", &err));
	lk_doctor *doctor = examine(client);
	check(!strcmp(lk_doctor_finding(doctor, 0)->id, "unreachable"));
	check(!lk_doctor_finding(doctor, 1));
	check_int(lk_doctor_node_at(doctor, 0)->round_trip_us, ==, -1);
	check(!strcmp(lk_doctor_node_at(doctor, 0)->server, ""));
	lk_doctor_free(doctor);
	lk_client_free(client);
}

static void test_bad_input(void **state)
{
	lk_client *client = open_client(), *clients[LK_RED_NODES_MAX + 1];
	for (size_t i = 0; i < sizeof(clients) / sizeof(clients[0]); i++)
		clients[i] = client;
	lk_doctor *doctor = NULL;
	expect(LK_EINVAL, lk_doctor_new(NULL, clients, 1, NULL, 0, &err));
	expect(LK_EINVAL, lk_doctor_new(&doctor, NULL, 1, NULL, 0, &err));
	expect(LK_EINVAL, lk_doctor_new(&doctor, clients, 0, NULL, 0, &err));
	expect(LK_EINVAL, lk_doctor_new(&doctor, clients, LK_RED_NODES_MAX + 1, NULL, 0, &err));
	check(strstr(err.message, "33"));
	expect(LK_EINVAL, lk_doctor_new(&doctor, clients, 1, "", 0, &err));
	clients[1] = NULL;
	expect(LK_EINVAL, lk_doctor_new(&doctor, clients, 2, NULL, 0, &err));
	check(!doctor && !lk_doctor_free(NULL));
	expect(0, lk_client_close(client, LK_CLOSE_RELEASE, &err));
	expect(LK_ECLOSED, lk_doctor_new(&doctor, clients, 1, NULL, 0, &err));
	check(!doctor);
	lk_client_free(client);
}

/* One server has no failover; of the others cli/test_failover_time.py tells. */
static void test_the_time_of_a_failover(void **state)
{
	lk_client *client = open_client();
	int64_t failover_ms = 7;
	expect(LK_EINVAL, lk_failover_time(client, NULL, &err));
	expect(LK_EINVAL, lk_failover_time(NULL, &failover_ms, &err));
	check_int(failover_ms, ==, 7);
	expect(0, lk_failover_time(client, &failover_ms, &err));
	check_int(failover_ms, ==, 0);
	drop_client(client);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_findings),
		api_test(test_nodes),
		api_test(test_the_report_outlives_the_client),
		api_test(test_a_server_that_is_down_is_a_finding),
		api_test(test_bad_input),
		api_test(test_the_time_of_a_failover),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
