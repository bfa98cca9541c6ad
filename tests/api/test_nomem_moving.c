/*
 * Memory, descriptors and threads that run out where a client looks for its master itself, at each
 * request of the library in turn, once and from there on: every call succeeds or says so, nothing
 * leaks (ASan looks), and no lock is left behind.
 *
 * LK_TEST_DEPLOYMENT=cluster: at a cluster of one node; else at a master that has no replicas.
 */
#include "fixture.h"
#include "nomem_looped.h"
#include "nomem.h"

#include <lockkeeper/doctor.h>

struct script {
	char url[80];
	lk_config *config;
	lk_client *client;
	struct looped looped;
	lk_lock *lock, *fair;
	lk_semaphore *pool;
};

/* Whether it was done. It fails for what runs out, and for nothing else. Where that is so for good,
 * nobody can be asked whether a grant counts that the master has done. */
static bool is_done(int code)
{
	bool open = for_good && code == LK_EMAYBEHELD;
	if (code != LK_ENOMEM && code != LK_ESYSTEM && !open)
		check_code(code, 0, "a call", __FILE__, __LINE__);
	return code == 0;
}

/* What fails once is made good, on a slow machine too; what fails for good is not waited for. */
static const char *retry_limit(void)
{
	return for_good ? "500" : "3000";
}

static bool is_configured(struct script *script)
{
	return is_done(lk_config_new(&script->config, &err)) &&
	       is_done(lk_config_set(script->config, "url", script->url, &err)) &&
	       is_done(lk_config_set(script->config, "client_record", "off", &err)) &&
	       is_done(lk_config_set(script->config, "retry_ms", retry_limit(), &err));
}

static bool run_lock(lk_lock *lock)
{
	return is_done(lk_lock_acquire(lock, -1, NULL, &err)) &&
	       is_done(lk_lock_extend(lock, 40000, NULL, &err)) &&
	       is_done(lk_lock_release(lock, NULL, &err));
}

typedef void runner(struct script *script);

static void run_looped(struct script *script)
{
	is_done(looped_run(&script->looped, script->config));
}

static void run_calls(struct script *script)
{
	int64_t left;
	bool done = is_done(lk_client_new(&script->client, script->config, &err)) &&
		    is_done(lk_client_ping(script->client, &err)) &&
		    is_done(lk_lock_new(&script->lock, script->client, "free", 4, &err)) &&
		    run_lock(script->lock) &&
		    is_done(lk_fair_lock_new(&script->fair, script->client, "fair", 4, &err)) &&
		    run_lock(script->fair) &&
		    is_done(lk_semaphore_new(&script->pool, script->client, "pool", 4, NULL,
					     &err)) &&
		    is_done(lk_semaphore_add(script->pool, 1, &err)) &&
		    is_done(lk_semaphore_acquire(script->pool, 1, -1, NULL, &err)) &&
		    is_done(lk_semaphore_available(script->pool, &left, &err));
	if (done)
		check_int(left, ==, 0);
}

static void end(struct script *script)
{
	armed = false;
	if (script->client)
		expect(0, lk_client_close(script->client, LK_CLOSE_RELEASE, &err));
	lk_lock_free(script->lock);
	lk_lock_free(script->fair);
	lk_semaphore_free(script->pool);
	lk_client_free(script->client);
	looped_end(&script->looped);
	lk_config_free(script->config);
}

/* Fails the n-th request; false when the script needed fewer. */
static bool run_failing(const char *url, runner *run, long n, bool ever_after)
{
	struct script script = {.client = NULL};
	snprintf(script.url, sizeof(script.url), "%s", url);
	countdown = n;
	for_good = ever_after;
	armed = true;
	if (is_configured(&script))
		run(&script);
	end(&script);
	return countdown <= 0;
}

static bool is_cluster(void)
{
	return strncmp(server.url_tcp, "redis-cluster", 13) == 0;
}

static void sweep_at(const char *url, runner *run, bool for_ever)
{
	long n = 1;
	while (run_failing(url, run, n, for_ever)) {
		if (redis_integer(&server, "EXISTS free") ||
		    redis_integer(&server, "EXISTS fair") ||
		    redis_integer(&server, "EXISTS looped"))
			check_fail(__FILE__, __LINE__, "request %ld: a lock is left behind", n);
		redis_do(&server, "DEL pool");
		check_int(++n, <, REQUESTS_MAX);
	}
	print_message("%ld requests\n", n - 1);
	check_int(n, >, 20);
	redis_do(&server, "DEL pool");
}

static void sweep(runner *run, bool for_ever)
{
	char url[80];
	/* A list of one is refused; nobody is at the other. */
	snprintf(url, sizeof(url), "redis-%s://127.0.0.1:%d%s",
		 is_cluster() ? "cluster" : "replicas", server.port,
		 is_cluster() ? "" : ",127.0.0.1:1");
	sweep_at(url, run, for_ever);
}

static void test_each_request_fails_once(void **state)
{
	sweep(run_calls, false);
}

static void test_nothing_is_left_from_each_request_on(void **state)
{
	sweep(run_calls, true);
}

static void test_each_request_without_threads_fails_once(void **state)
{
	sweep(run_looped, false);
}

static void test_nothing_is_left_without_threads(void **state)
{
	sweep(run_looped, true);
}

/* A report is whole, or there is none. It is not to wait for messages that cannot come. */
static void run_doctor(struct script *script)
{
	lk_doctor *doctor = NULL;
	char limit[24];
	snprintf(limit, sizeof(limit), "%lld", for_good ? slow_ms(400) : 3000LL);
	if (!is_done(lk_config_set(script->config, "connect_timeout_ms", limit, &err)) ||
	    !is_done(lk_config_set(script->config, "command_timeout_ms", limit, &err)) ||
	    !is_done(lk_client_new(&script->client, script->config, &err)))
		return;
	int code = lk_doctor_new(&doctor, &script->client, 1, NULL, 0, &err);
	if (code != LK_ENOMEM && code != LK_ESYSTEM)
		expect(0, code);
	check((code == 0) == (doctor != NULL));
	lk_doctor_free(doctor);
	int64_t failover_ms = 7;
	if (!is_done(lk_failover_time(script->client, &failover_ms, &err)))
		check_int(failover_ms, ==, 7);
}

static void test_doctor(void **state)
{
	char url[80];
	if (is_cluster())
		return;
	/* The master's other name is asked as if it were a replica. */
	snprintf(url, sizeof(url), "redis-replicas://127.0.0.1:%d,localhost:%d", server.port,
		 server.port);
	sweep_at(url, run_doctor, false);
	sweep_at(url, run_doctor, true);
}

/* It is none, but it answers. */
static void test_doctor_of_a_sentinel(void **state)
{
	char url[80];
	if (is_cluster())
		return;
	snprintf(url, sizeof(url), "redis-sentinel://127.0.0.1:%d/some", server.port);
	sweep_at(url, run_doctor, false);
	sweep_at(url, run_doctor, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		counter_test(test_each_request_fails_once),
		counter_test(test_nothing_is_left_from_each_request_on),
		counter_test(test_each_request_without_threads_fails_once),
		counter_test(test_nothing_is_left_without_threads),
		counter_test(test_doctor),
		counter_test(test_doctor_of_a_sentinel),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
