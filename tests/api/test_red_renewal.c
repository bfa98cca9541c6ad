/* Renewals of the red lock: by majority, repaired where it stands, lost where it does not. */
#include "quorum.h"

static void test_the_watchdog_renews_by_majority(void **state)
{
	(void)state;
	struct quorum quorum;
	char config[64];
	snprintf(config, sizeof(config), "watchdog_ms=%lld", slow_ms(600));
	open_quorum(&quorum, NODES, config, NULL);
	know_all(&quorum, NODES);
	expect(0, lk_lock_acquire(quorum.lock, -1, NULL, &err));
	wait_until(nodes_with("q") == NODES, 5000);
	server_kill(&nodes[0]);
	server_kill(&nodes[4]);
	sleep_ms(slow_ms(1500));
	expect(1, lk_lock_is_held(quorum.lock, NULL, &err));
	check_int(nodes_with("q"), ==, 3);
	expect(0, lk_lock_release(quorum.lock, NULL, &err));
	close_quorum(&quorum, NODES);
}

static void check_repair(int plain)
{
	struct quorum quorum;
	char config[64];
	lk_red_lock_options options = LK_RED_LOCK_OPTIONS_INIT;
	options.quarantine_ms = -1;
	options.plain = plain;
	snprintf(config, sizeof(config), "watchdog_ms=%lld", slow_ms(900));
	open_quorum(&quorum, MOST, config, &options);
	know_all(&quorum, MOST);
	expect(0, lk_lock_acquire(quorum.lock, -1, NULL, &err));
	wait_until(nodes_with("q") == MOST, 5000);
	server_kill(&nodes[2]);
	server_start_again(&nodes[2]);
	/* Another lock is what connects anew: the repair comes on a connection that is there. */
	lk_lock *other = new_lock(quorum.client[2], "other");
	expect(0, lk_lock_acquire(other, slow_ms(10000), NULL, &err));
	expect(0, lk_lock_release(other, NULL, &err));
	lk_lock_free(other);
	wait_until(nodes_with("q") == MOST, 10000);
	expect(1, lk_lock_is_held(quorum.lock, NULL, &err));
	expect(0, lk_lock_release(quorum.lock, NULL, &err));
	wait_until(nodes_with("q") == 0, 5000);
	close_quorum(&quorum, MOST);
}

static void test_an_emptied_node_is_given_it_again(void **state)
{
	(void)state;
	check_repair(0);
	check_repair(1); /* which asks each new connection first what the server can do */
}

/* No watchdog: but a lost connection lets it look, and what it then gives is to last. */
static void test_a_named_lease_is_repaired(void **state)
{
	(void)state;
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

static _Atomic bool taken_enough;

static void extend_again_and_again(size_t index, void *argument)
{
	(void)index;
	while (!taken_enough) {
		int rc = lk_lock_extend(argument, 30000, extend_by("o"), &err);
		check(rc == 0 || rc == LK_ENOTOWNER);
	}
}

/* All nodes are well: either it is held, or it is another's. */
static void test_an_extension_that_meets_a_release(void **state)
{
	(void)state;
	struct quorum quorum;
	struct threads threads;
	lk_acquire_options options = with_lease(20000);
	lk_release_options release = LK_RELEASE_OPTIONS_INIT;
	options.owner = release.owner = "o";
	taken_enough = false;
	open_quorum(&quorum, MOST, "", NULL);
	know_all(&quorum, MOST);
	threads_start(&threads, 1, extend_again_and_again, quorum.lock);
	int64_t end_ms = now_ms() + 1000;
	while (now_ms() < end_ms) {
		expect(0, lk_lock_acquire(quorum.lock, slow_ms(10000), &options, &err));
		expect(0, lk_lock_release(quorum.lock, &release, &err));
	}
	taken_enough = true;
	threads_join(&threads, 10000);
	wait_until(nodes_with("q") == 0, 5000);
	close_quorum(&quorum, MOST);
}

static void test_the_lock_is_lost_when_a_majority_forgot_it(void **state)
{
	(void)state;
	struct quorum quorum;
	lk_event event = LK_EVENT_INIT;
	char config[64];
	snprintf(config, sizeof(config), "watchdog_ms=%lld", slow_ms(900));
	open_quorum(&quorum, MOST, config, NULL);
	know_all(&quorum, MOST);
	expect(0, lk_lock_acquire(quorum.lock, -1, NULL, &err));
	wait_until(nodes_with("q") == MOST, 5000);
	stranger_instead(0);
	stranger_instead(2);
	int type = next_event(quorum.client[0], &event, 10000);
	if (type == LK_EVENT_AT_RISK) /* on a busy machine the renewal that finds out comes late */
		type = next_event(quorum.client[0], &event, 10000);
	check_int(type, ==, LK_EVENT_LOST);
	check(!strcmp(event.name, "q"));
	expect(LK_ELOST, lk_lock_acquire(quorum.lock, -1, NULL, &err));
	expect(LK_ELOST, lk_lock_release(quorum.lock, NULL, &err));
	for (size_t i = 0; i < MOST; i++)
		redis_do(&nodes[i], "DEL q");
	close_quorum(&quorum, MOST);
}

static void extend_for_an_hour(size_t index, void *argument)
{
	(void)index;
	expect(LK_ELOST, lk_lock_extend(argument, 3600000, extend_by("o"), &err));
}

/* The answer that makes it a loss comes last: what was extended until then is given back when its
 * owner releases it. */
static void test_a_lost_lock_is_not_taken_again_to_extend_it(void **state)
{
	(void)state;
	struct quorum quorum;
	struct threads threads;
	lk_acquire_options options = with_lease(20000);
	lk_release_options release = LK_RELEASE_OPTIONS_INIT;
	options.owner = release.owner = "o";
	open_quorum(&quorum, MOST, "", NULL);
	know_all(&quorum, MOST);
	expect(0, lk_lock_acquire(quorum.lock, -1, &options, &err));
	wait_until(nodes_with("q") == MOST, 5000);
	redis_do(&nodes[1], "DEL q");
	redis_do(&nodes[2], "DEL q");
	server_pause(&nodes[2]);
	threads_start(&threads, 1, extend_for_an_hour, quorum.lock);
	wait_until(redis_integer(&nodes[0], "PTTL q") > 20000, 5000);
	sleep_ms(100); /* the caller has read what the second one says */
	check_int(redis_integer(&nodes[1], "EXISTS q"), ==, 0);
	server_resume(&nodes[2]);
	threads_join(&threads, 10000);
	expect(LK_ELOST, lk_lock_release(quorum.lock, &release, &err));
	wait_until(nodes_with("q") == 0, 5000);
	close_quorum(&quorum, MOST);
}

/* The majority has it: the two nodes that forgot it, one before the answer and one after it, have
 * it again, for as long as the others. */
static void test_an_extension_repairs(void **state)
{
	(void)state;
	struct quorum quorum;
	lk_acquire_options options = with_lease(20000);
	open_quorum(&quorum, NODES, "", NULL);
	know_all(&quorum, NODES);
	expect(0, lk_lock_acquire(quorum.lock, -1, &options, &err));
	wait_until(nodes_with("q") == NODES, 5000);
	redis_do(&nodes[1], "DEL q");
	redis_do(&nodes[4], "DEL q");
	server_pause(&nodes[4]);
	expect(0, lk_lock_extend(quorum.lock, 3600000, NULL, &err));
	server_resume(&nodes[4]);
	wait_until(redis_integer(&nodes[1], "PTTL q") > 20000, 5000);
	wait_until(redis_integer(&nodes[4], "PTTL q") > 20000, 5000);
	expect(0, lk_lock_release(quorum.lock, NULL, &err));
	wait_until(nodes_with("q") == 0, 5000);
	close_quorum(&quorum, NODES);
}

/* Another had it in between, on the two nodes that have forgotten ours: they are never both heard
 * in one round until the first would have been repaired. */
static void test_no_renewal_hides_a_loss(void **state)
{
	(void)state;
	struct quorum quorum;
	lk_event event = LK_EVENT_INIT;
	char config[200];
	long long lease_ms = slow_ms(1500), limit_ms = slow_ms(150);
	snprintf(config, sizeof(config),
		 "watchdog_ms=%lld command_timeout_ms=%lld connect_timeout_ms=%lld", lease_ms,
		 limit_ms, limit_ms);
	open_quorum(&quorum, MOST, config, NULL);
	know_all(&quorum, MOST);
	expect(0, lk_lock_acquire(quorum.lock, -1, NULL, &err));
	wait_until(nodes_with("q") == MOST, 5000);
	server_pause(&nodes[0]);
	redis_do(&nodes[1], "DEL q");
	redis_do(&nodes[2], "DEL q");
	server_pause(&nodes[2]);
	sleep_ms(lease_ms / 3 + limit_ms * 5 / 4); /* the first round is over */
	server_resume(&nodes[2]);
	int type = next_event(quorum.client[0], &event, 10000);
	if (type == LK_EVENT_AT_RISK)
		type = next_event(quorum.client[0], &event, 10000);
	check_int(type, ==, LK_EVENT_LOST);
	server_resume(&nodes[0]);
	wait_until(nodes_with("q") == 0, 5000);
	expect(LK_ELOST, lk_lock_release(quorum.lock, NULL, &err));
	close_quorum(&quorum, MOST);
}

/* The first node stays silent, and is being connected to until long after the lease. The second
 * comes back in time. */
static void test_a_silent_node_does_not_hold_up_renewals(void **state)
{
	(void)state;
	struct quorum quorum;
	char config[64];
	long long lease_ms = slow_ms(1500);
	snprintf(config, sizeof(config), "watchdog_ms=%lld command_timeout_ms=%lld", lease_ms,
		 lease_ms / 6);
	open_quorum(&quorum, MOST, config, NULL);
	know_all(&quorum, MOST);
	expect(0, lk_lock_acquire(quorum.lock, -1, NULL, &err));
	wait_until(nodes_with("q") == MOST, 5000);
	server_pause(&nodes[0]);
	server_pause(&nodes[1]);
	int64_t back_ms = now_ms() + remaining(quorum.lock, NULL) - lease_ms / 4;
	while (now_ms() < back_ms)
		sleep_ms(1);
	server_resume(&nodes[1]);
	wait_until(remaining(quorum.lock, NULL) > lease_ms / 2, 1500);
	expect(1, lk_lock_is_held(quorum.lock, NULL, &err));
	server_resume(&nodes[0]);
	expect(0, lk_lock_release(quorum.lock, NULL, &err));
	wait_until(nodes_with("q") == 0, 5000);
	close_quorum(&quorum, MOST);
}

/* What the first node that did not confirm it says is told beside the count. */
static void test_notices_say_why(void **state)
{
	(void)state;
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

static void test_without_a_majority_it_ends_by_the_clock(void **state)
{
	(void)state;
	struct quorum quorum;
	lk_event event = LK_EVENT_INIT;
	char config[64];
	snprintf(config, sizeof(config), "watchdog_ms=%lld", slow_ms(900));
	open_quorum(&quorum, MOST, config, NULL);
	know_all(&quorum, MOST);
	expect(0, lk_lock_acquire(quorum.lock, -1, NULL, &err));
	server_pause(&nodes[0]);
	server_pause(&nodes[1]);
	check_int(next_event(quorum.client[0], &event, 10000), ==, LK_EVENT_AT_RISK);
	check_int(event.deadline_ns, >, now_ns() - slow_ms(90) * 1000000);
	check_int(next_event(quorum.client[0], &event, 10000), ==, LK_EVENT_LOST);
	check_int(event.deadline_ns, <=, now_ns());
	expect(0, lk_lock_is_held(quorum.lock, NULL, &err));
	expect(LK_ELOST, lk_lock_release(quorum.lock, NULL, &err));
	server_resume(&nodes[0]);
	server_resume(&nodes[1]);
	close_quorum(&quorum, MOST);
}

static void test_extension_needs_a_majority(void **state)
{
	(void)state;
	struct quorum quorum;
	lk_acquire_options options = with_lease(20000);
	open_quorum(&quorum, MOST, command_limit(500), NULL);
	know_all(&quorum, MOST);
	expect(0, lk_lock_acquire(quorum.lock, -1, &options, &err));
	expect(0, lk_lock_extend(quorum.lock, 50000, NULL, &err));
	check_int(remaining(quorum.lock, NULL), >, 40000);
	server_kill(&nodes[1]);
	expect(0, lk_lock_extend(quorum.lock, 90000, NULL, &err));
	server_kill(&nodes[2]);
	expect(LK_ENOQUORUM, lk_lock_extend(quorum.lock, 200000, NULL, &err));
	check_int(remaining(quorum.lock, NULL), <, 90000);
	expect(1, lk_lock_is_held(quorum.lock, NULL, &err));
	expect(LK_ENOQUORUM, is_locked(quorum.lock, &err));
	expect(LK_EMAYBEHELD, lk_lock_release(quorum.lock, NULL, &err));
	close_quorum(&quorum, MOST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		quorum_test(test_the_watchdog_renews_by_majority),
		quorum_test(test_an_emptied_node_is_given_it_again),
		quorum_test(test_a_named_lease_is_repaired),
		quorum_test(test_an_extension_that_meets_a_release),
		quorum_test(test_the_lock_is_lost_when_a_majority_forgot_it),
		quorum_test(test_a_lost_lock_is_not_taken_again_to_extend_it),
		quorum_test(test_an_extension_repairs),
		quorum_test(test_no_renewal_hides_a_loss),
		quorum_test(test_a_silent_node_does_not_hold_up_renewals),
		quorum_test(test_notices_say_why),
		quorum_test(test_without_a_majority_it_ends_by_the_clock),
		quorum_test(test_extension_needs_a_majority),
	};
	return cmocka_run_group_tests(tests, start_nodes, stop_nodes);
}
