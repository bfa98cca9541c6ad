/* Renewals of the red lock: by majority, repaired where it stands, lost where it does not. */
#include "quorum.h"

/* No watchdog: but a lost connection lets it look, and what it then gives is to last. */
static void test_a_named_lease_is_repaired(void **state)
{
	struct quorum quorum;
	lk_acquire_options options = with_lease(60000);
	open_quorum(&quorum, MOST, "", NULL);
	know_all(&quorum, MOST);
	expect(0, lk_lock_acquire(quorum.lock, -1, &options, &err));
	wait_until(nodes_with("q") == MOST, 5000);
	server_kill(&nodes[0]);
	server_start_again(&nodes[0]);
	wait_until(lk_client_ping(quorum.client[0], NULL) == 0, 10000);
	/* At once, not at the next look, which is 10 s away. */
	wait_until(redis_integer(&nodes[0], "PTTL q") > 20000, 5000);
	expect(0, lk_lock_release(quorum.lock, NULL, &err));
	wait_until(nodes_with("q") == 0, 5000);
	close_quorum(&quorum, MOST);
}

/* What the first node that did not confirm it says is told beside the count. */
static void test_notices_say_why(void **state)
{
	struct quorum quorum;
	lk_event event = LK_EVENT_INIT;
	char config[64];
	snprintf(config, sizeof(config), "watchdog_ms=%lld", slow_ms(1500));
	open_quorum(&quorum, MOST, config, NULL);
	know_all(&quorum, MOST);
	expect(0, lk_lock_acquire(quorum.lock, -1, NULL, &err));
	wait_until(nodes_with("q") == MOST, 5000);
	redis_do(&nodes[0], "CONFIG SET min-replicas-to-write 1");
	redis_do(&nodes[2], "CONFIG SET min-replicas-to-write 1");
	for (int type = LK_EVENT_AT_RISK; type <= LK_EVENT_LOST; type++) {
		check_int(next_event(quorum.client[0], &event, 10000), ==, type);
		check_int(event.code, ==, LK_ENOQUORUM);
		check(strstr(event.reason, "1 of 3 nodes") && strstr(event.reason, "NOREPLICAS"));
		check(*event.server && !*event.node);
	}
	redis_do(&nodes[0], "CONFIG SET min-replicas-to-write 0");
	redis_do(&nodes[2], "CONFIG SET min-replicas-to-write 0");
	expect(LK_ELOST, lk_lock_release(quorum.lock, NULL, &err));
	wait_until(nodes_with("q") == 0, 5000);
	close_quorum(&quorum, MOST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		quorum_test(test_a_named_lease_is_repaired),
		quorum_test(test_notices_say_why),
	};
	return cmocka_run_group_tests(tests, start_nodes, stop_nodes);
}
