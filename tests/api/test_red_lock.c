/* The red lock: majorities, and nodes that are dead, silent, erring, empty or the same. */
#include "quorum.h"

static void test_all_nodes_have_it(void **state)
{
	struct quorum ours, theirs;
	lk_acquire_options options = with_lease(20000);
	open_quorum(&ours, NODES, "", NULL);
	open_quorum(&theirs, NODES, "", NULL);
	know_all(&ours, NODES);
	expect(0, lk_lock_acquire(ours.lock, -1, &options, &err));
	wait_until(nodes_with("q") == NODES, 5000);
	int64_t left_ms = remaining(ours.lock, NULL);
	check(left_ms > 10000 && left_ms <= 20000 - 200 - 2);
	expect(1, lk_lock_is_held(ours.lock, NULL, &err));
	expect(1, is_locked(theirs.lock, &err));
	expect(LK_EBUSY, lk_lock_acquire(theirs.lock, 0, NULL, &err));
	expect(LK_ETIMEDOUT, lk_lock_acquire(theirs.lock, slow_ms(200), NULL, &err));
	expect(LK_ENOTOWNER, lk_lock_release(theirs.lock, NULL, &err));
	check_int(nodes_with("q"), ==, NODES);
	expect(0, lk_lock_acquire(ours.lock, -1, &options, &err));
	expect(2, lk_lock_hold_count(ours.lock, NULL, &err));
	expect(0, lk_lock_release(ours.lock, NULL, &err));
	expect(0, lk_lock_release(ours.lock, NULL, &err));
	wait_until(nodes_with("q") == 0, 5000);
	expect(0, is_locked(theirs.lock, &err));
	expect(0, lk_lock_acquire(theirs.lock, slow_ms(5000), NULL, &err));
	expect(0, lk_lock_release(theirs.lock, NULL, &err));
	close_quorum(&ours, NODES);
	close_quorum(&theirs, NODES);
}

static void test_a_majority_is_enough_and_a_minority_is_not(void **state)
{
	struct quorum quorum;
	open_quorum(&quorum, NODES, "", NULL);
	stranger_on(0, 60000);
	stranger_on(3, 60000);
	expect(0, lk_lock_acquire(quorum.lock, 0, NULL, &err));
	expect(0, lk_lock_release(quorum.lock, NULL, &err));
	wait_until(nodes_with("q") == 2, 5000);
	stranger_on(4, 60000);
	expect(LK_EBUSY, lk_lock_acquire(quorum.lock, 0, NULL, &err));
	check(strstr(err.message, "of 5 nodes grant it, 3 are needed") != NULL);
	wait_until(nodes_with("q") == 3, 5000);
	for (size_t i = 0; i < NODES; i++)
		redis_do(&nodes[i], "DEL q");
	close_quorum(&quorum, NODES);
}

static void test_dead_nodes(void **state)
{
	struct quorum quorum;
	open_quorum(&quorum, NODES, "", NULL);
	server_kill(&nodes[0]);
	server_kill(&nodes[1]);
	expect(0, lk_lock_acquire(quorum.lock, 0, NULL, &err));
	check_int(nodes_with("q"), ==, 3);
	expect(0, lk_lock_release(quorum.lock, NULL, &err));
	wait_until(nodes_with("q") == 0, 5000);
	server_kill(&nodes[2]);
	expect(LK_ENOQUORUM, lk_lock_acquire(quorum.lock, 0, NULL, &err));
	check(strstr(err.message, "of 5 nodes grant it, 3 are needed") != NULL);
	check(strstr(err.message, nodes[2].url_unix) != NULL);
	expect(LK_ENOQUORUM, lk_lock_acquire(quorum.lock, 200, NULL, &err));
	wait_until(nodes_with("q") == 0, 5000);
	server_start_again(&nodes[2]);
	expect(0, lk_lock_acquire(quorum.lock, slow_ms(10000), NULL, &err));
	expect(0, lk_lock_release(quorum.lock, NULL, &err));
	close_quorum(&quorum, NODES);
}

/* A node that is another's when a majority has granted: he may be about to give it back. It is not
 * left for the next look, which is 10 s away. */
static void test_a_node_that_was_busy_joins(void **state)
{
	struct quorum quorum;
	lk_acquire_options options = with_lease(60000);
	open_quorum(&quorum, MOST, "", NULL);
	know_all(&quorum, MOST);
	stranger_on(1, 300);
	expect(0, lk_lock_acquire(quorum.lock, 0, &options, &err));
	check_int(redis_integer(&nodes[1], "HEXISTS q stranger:1"), ==, 1);
	wait_until(redis_integer(&nodes[1], "PTTL q") > 30000, 5000);
	expect(0, lk_lock_release(quorum.lock, NULL, &err));
	wait_until(nodes_with("q") == 0, 5000);
	close_quorum(&quorum, MOST);
}

/* A node that was not asked has not granted it: the quorum is certain to be missed. */
static void test_a_node_that_was_not_asked_holds_nothing(void **state)
{
	struct quorum quorum;
	lk_red_lock_options options = LK_RED_LOCK_OPTIONS_INIT;
	options.quarantine_ms = -1;
	options.node_limit_ms = slow_ms(50);
	open_quorum(&quorum, MOST, "command_timeout_ms=10000", &options);
	server_pause(&nodes[1]);
	server_pause(&nodes[2]);
	expect(LK_ENOQUORUM,
	       lk_lock_acquire(quorum.lock, 0, NULL, &err)); /* they have not said who they are */
	server_resume(&nodes[1]);
	server_resume(&nodes[2]);
	know_all(&quorum, MOST);
	server_pause(&nodes[1]);
	server_pause(&nodes[2]);
	for (int i = 0; i < 4; i++) /* so many are left open */
		expect(LK_EMAYBEHELD, lk_lock_acquire(quorum.lock, 0, NULL, &err));
	expect(LK_ENOQUORUM, lk_lock_acquire(quorum.lock, 0, NULL, &err));
	server_resume(&nodes[1]);
	server_resume(&nodes[2]);
	wait_until(nodes_with("q") == 0, 8000);
	close_quorum(&quorum, MOST);
}

/* The other owner has one node of three, and a second does not answer. */
static void test_an_owner_in_the_way_does_not_hide_what_may_be_held(void **state)
{
	struct quorum quorum;
	open_quorum(&quorum, MOST, command_limit(300), NULL);
	know_all(&quorum, MOST);
	stranger_on(1, 60000);
	server_pause(&nodes[2]);
	expect(LK_EMAYBEHELD, lk_lock_acquire(quorum.lock, 0, NULL, &err));
	server_resume(&nodes[2]);
	redis_do(&nodes[1], "DEL q");
	wait_until(nodes_with("q") == 0, 8000);
	close_quorum(&quorum, MOST);
}

/* It waits behind a hold of its own client, and has used most of its limit before its first try. */
static void test_a_wait_limit_bounds_the_first_try_of_a_caller_that_has_waited(void **state)
{
	struct quorum quorum;
	lk_red_lock_options options = LK_RED_LOCK_OPTIONS_INIT;
	lk_acquire_options other = with_lease(slow_ms(600));
	other.owner = "other";
	options.quarantine_ms = -1;
	options.node_limit_ms = slow_ms(8000);
	open_quorum(&quorum, MOST, command_limit(8000), &options);
	know_all(&quorum, MOST);
	expect(0, lk_lock_acquire(quorum.lock, slow_ms(10000), &other, &err));
	server_pause(&nodes[1]);
	server_pause(&nodes[2]);
	int64_t begun_ms = now_ms();
	expect(LK_EMAYBEHELD, lk_lock_acquire(quorum.lock, slow_ms(900), NULL, &err));
	check_int(now_ms() - begun_ms, <, slow_ms(4000)); /* of 8,600 for a whole try */
	server_resume(&nodes[1]);
	server_resume(&nodes[2]);
	wait_until(nodes_with("q") == 0, 20000);
	close_quorum(&quorum, MOST);
}

/* It cannot grant, but two of three can: the owner in the way is waited for. */
static void test_one_wrong_key_does_not_end_the_wait(void **state)
{
	struct quorum quorum;
	open_quorum(&quorum, MOST, "", NULL);
	know_all(&quorum, MOST);
	redis_do(&nodes[2], "SET q text");
	stranger_on(0, 400);
	expect(0, lk_lock_acquire(quorum.lock, slow_ms(10000), NULL, &err));
	expect(0, lk_lock_release(quorum.lock, NULL, &err));
	redis_do(&nodes[2], "DEL q");
	close_quorum(&quorum, MOST);
}

static void test_nobody_waits_for_the_release(void **state)
{
	struct quorum quorum;
	lk_release_options release = LK_RELEASE_OPTIONS_INIT;
	release.no_wait = 1;
	open_quorum(&quorum, NODES, "", NULL);
	know_all(&quorum, NODES);
	for (int i = 0; i < 50; i++) {
		expect(0, lk_lock_acquire(quorum.lock, slow_ms(10000), NULL, &err));
		expect(0, lk_lock_release(quorum.lock, &release, &err));
	}
	wait_until(nodes_with("q") == 0, 5000);
	close_quorum(&quorum, NODES);
}

static void test_a_fresh_node_has_no_vote(void **state)
{
	struct quorum quorum;
	lk_red_lock_options options = LK_RED_LOCK_OPTIONS_INIT;
	options.quarantine_ms = 600000;
	open_quorum(&quorum, MOST, "", &options);
	expect(LK_ENOQUORUM, lk_lock_acquire(quorum.lock, 0, NULL, &err));
	check(strstr(err.message, "no vote for") != NULL);
	wait_until(nodes_with("q") == 0, 5000);
	/* They write everything down: what was granted is known after a restart. */
	for (size_t i = 0; i < 2; i++) {
		redis_do(&nodes[i], "CONFIG SET appendfsync always");
		redis_do(&nodes[i], "CONFIG SET appendonly yes");
	}
	close_quorum(&quorum, MOST);
	open_quorum(&quorum, MOST, "", &options);
	expect(0, lk_lock_acquire(quorum.lock, 0, NULL, &err));
	expect(0, lk_lock_release(quorum.lock, NULL, &err));
	for (size_t i = 0; i < 2; i++) {
		redis_do(&nodes[i], "CONFIG SET appendonly no");
		redis_do(&nodes[i], "CONFIG SET appendfsync everysec");
	}
	close_quorum(&quorum, MOST);
}

static void test_two_addresses_of_one_server(void **state)
{
	lk_red_lock_options options = LK_RED_LOCK_OPTIONS_INIT;
	options.quarantine_ms = -1;
	lk_client *clients[] = {open_client_at(nodes[0].url_unix, ""),
				open_client_at(nodes[1].url_unix, ""),
				open_client_at(nodes[0].url_tcp, "")};
	lk_lock *lock = NULL;
	expect(0, lk_red_lock_new(&lock, clients, 3, "q", 1, &options, &err));
	/* The first may be granted by the two others, before the third has said who it is. */
	int64_t end_ms = now_ms() + slow_ms(5000);
	int rc = 0;
	while (rc == 0 && now_ms() < end_ms)
		if ((rc = lk_lock_acquire(lock, 0, NULL, &err)) == 0)
			expect(0, lk_lock_release(lock, NULL, &err));
	check_int(rc, ==, LK_EINVAL);
	check(strstr(err.message, "one server") != NULL);
	wait_until(nodes_with("q") == 0, 5000);
	lk_lock_free(lock);
	for (size_t i = 0; i < 3; i++)
		close_client(clients[i]);
}

static void test_strings_are_shared_with_others(void **state)
{
	struct quorum quorum;
	lk_red_lock_options options = LK_RED_LOCK_OPTIONS_INIT;
	options.quarantine_ms = -1;
	options.plain = 1;
	open_quorum(&quorum, MOST, "", &options);
	redis_do(&nodes[0], "SET q token NX PX 60000");
	redis_do(&nodes[2], "SET q token NX PX 60000");
	expect(LK_EBUSY, lk_lock_acquire(quorum.lock, 0, NULL, &err));
	redis_do(&nodes[0], "DEL q");
	redis_do(&nodes[2], "DEL q");
	know_all(&quorum, MOST);
	expect(0, lk_lock_acquire(quorum.lock, 0, NULL, &err));
	wait_until(nodes_with("q") == MOST, 5000);
	for (size_t i = 0; i < MOST; i++)
		check_int(redis_integer(&nodes[i], "STRLEN q"), >, 36);
	expect(0, lk_lock_release(quorum.lock, NULL, &err));
	wait_until(nodes_with("q") == 0, 5000);
	close_quorum(&quorum, MOST);
}

static void wait_in_vain(size_t index, void *argument)
{
	int rc = lk_lock_acquire(argument, -1, NULL, &err);
	check(rc == LK_ENOQUORUM || rc == LK_EMAYBEHELD);
}

/* Another has it for ten minutes; then a majority dies, or says nothing any more. */
static void wait_without_a_majority(void (*end)(struct server *server))
{
	struct quorum quorum;
	struct threads threads;
	char config[96];
	snprintf(config, sizeof(config), "retry_ms=%lld command_timeout_ms=%lld", slow_ms(500),
		 slow_ms(300));
	open_quorum(&quorum, MOST, config, NULL);
	know_all(&quorum, MOST);
	for (size_t i = 0; i < MOST; i++)
		stranger_on(i, 600000);
	threads_start(&threads, 1, wait_in_vain, quorum.lock);
	wait_until(stats_of(quorum.client[0]).busy > 0, 5000);
	for (size_t i = 1; i < MOST; i++)
		end(&nodes[i]);
	threads_join(&threads, 20000);
	for (size_t i = 0; i < MOST; i++) {
		if (nodes[i].pid)
			server_resume(&nodes[i]);
		else
			server_start_again(&nodes[i]);
	}
	for (size_t i = 0; i < MOST; i++)
		redis_do(&nodes[i], "DEL q");
	close_quorum(&quorum, MOST);
}

static void test_a_wait_without_limit_ends_with_its_nodes(void **state)
{
	wait_without_a_majority(server_kill);
	wait_without_a_majority(server_pause);
}

static void test_bad_input(void **state)
{
	struct quorum quorum;
	lk_red_lock_options options = LK_RED_LOCK_OPTIONS_INIT;
	lk_lock *out = NULL;
	char field[LK_FIELD_SIZE];
	open_quorum(&quorum, MOST, "", NULL);
	lk_client **c = quorum.client;
	lk_client *twice[] = {c[0], c[1], c[0]};
	lk_client *none[] = {c[0], NULL, c[1]};
	lk_client *turned[] = {c[0], c[2], c[1]};
	expect(LK_EINVAL, lk_red_lock_new(&out, twice, 3, "r", 1, NULL, &err));
	expect(LK_EINVAL, lk_red_lock_new(&out, none, 3, "r", 1, NULL, &err));
	expect(LK_EINVAL, lk_red_lock_new(&out, c, 2, "r", 1, NULL, &err));
	expect(LK_EINVAL, lk_red_lock_new(&out, c, LK_RED_NODES_MAX + 1, "r", 1, NULL, &err));
	expect(LK_EINVAL, lk_red_lock_new(&out, NULL, 3, "r", 1, NULL, &err));
	expect(LK_EINVAL, lk_red_lock_new(&out, c, 3, "", 0, NULL, &err));
	expect(LK_EINVAL, lk_red_lock_new(NULL, c, 3, "r", 1, NULL, &err));
	expect(LK_EINVAL, lk_red_lock_new(&out, turned, 3, "q", 1, NULL, &err));
	options.plain = 2;
	expect(LK_EINVAL, lk_red_lock_new(&out, c, 3, "r", 1, &options, &err));
	options.plain = 0;
	options.quarantine_ms = -2;
	expect(LK_EINVAL, lk_red_lock_new(&out, c, 3, "r", 1, &options, &err));
	check(out == NULL);
	expect(LK_EINVAL, lk_lock_export(quorum.lock, NULL, field, sizeof(field), &err));
	expect(LK_EINVAL, is_held_by(quorum.lock, "f", &err));
	expect(LK_EINVAL, lk_lock_extend(quorum.lock, 1000, extend_of("f"), &err));
	int owners, listeners;
	lk_acquire_options acquire = LK_ACQUIRE_OPTIONS_INIT;
	acquire.hears_asks = 1;
	expect(LK_EINVAL, lk_lock_acquire(quorum.lock, 0, &acquire, &err));
	acquire.hears_asks = 0;
	acquire.note = "why";
	expect(LK_EINVAL, lk_lock_acquire(quorum.lock, 0, &acquire, &err));
	expect(LK_EINVAL, lk_lock_ask(quorum.lock, NULL, &owners, &listeners, &err));
	int64_t ttl_ms;
	expect(LK_EINVAL, lk_lock_server_ttl_ms(quorum.lock, &ttl_ms, &err));
	lk_lock *nested[] = {quorum.lock};
	expect(LK_EINVAL, lk_multi_lock_new(&out, nested, 1, &err));
	close_quorum(&quorum, MOST);
}

/* ---- renewals: by majority, repaired where it stands ---- */

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
		quorum_test(test_all_nodes_have_it),
		quorum_test(test_a_majority_is_enough_and_a_minority_is_not),
		quorum_test(test_dead_nodes),
		quorum_test(test_a_node_that_was_busy_joins),
		quorum_test(test_a_wait_limit_bounds_the_first_try_of_a_caller_that_has_waited),
		quorum_test(test_a_node_that_was_not_asked_holds_nothing),
		quorum_test(test_an_owner_in_the_way_does_not_hide_what_may_be_held),
		quorum_test(test_one_wrong_key_does_not_end_the_wait),
		quorum_test(test_nobody_waits_for_the_release),
		quorum_test(test_a_fresh_node_has_no_vote),
		quorum_test(test_two_addresses_of_one_server),
		quorum_test(test_strings_are_shared_with_others),
		quorum_test(test_a_wait_without_limit_ends_with_its_nodes),
		quorum_test(test_bad_input),
		quorum_test(test_a_named_lease_is_repaired),
		quorum_test(test_notices_say_why),
	};
	return cmocka_run_group_tests(tests, start_nodes, stop_nodes);
}
