/* Asynchronous calls of a red lock: the same majorities, in a program that waits in one place. */
#include "queued.h"
#include "quorum.h"

struct set {
	lk_client *client[MOST];
	lk_lock *lock;
};

static void open_set(struct set *set, const char *config)
{
	lk_red_lock_options trusting = LK_RED_LOCK_OPTIONS_INIT;
	trusting.quarantine_ms = -1;
	trusting.node_limit_ms = slow_ms(1000);
	for (size_t i = 0; i < MOST; i++)
		set->client[i] = open_driven_at(nodes[i].url_unix, config);
	expect(0, lk_red_lock_new(&set->lock, set->client, MOST, "q", LK_STRLEN, &trusting, &err));
	expect(0, lk_queue_new(&queue, 0, &err));
}

/* Takes what is left, which is `left` completions. */
static void close_set(struct set *set, size_t left)
{
	lk_completion completion = LK_COMPLETION_INIT;
	lk_lock_free(set->lock);
	for (size_t i = 0; i < MOST; i++) {
		program_close(set->client[i], LK_CLOSE_ABANDON, NULL);
		program_free(set->client[i]);
	}
	for (size_t i = 0; i < left; i++)
		expect(1, lk_queue_take(queue, &completion, 1, slow_ms(20000), &err));
	expect(0, lk_queue_take(queue, &completion, 1, 0, &err));
	expect(0, lk_queue_free(queue, &err));
}

/* With a short limit of that kind; "a" has the lock, on every node. */
static void open_held(struct set *set, const char *option, int64_t limit_ms)
{
	char config[64];
	snprintf(config, sizeof(config), "%s=%lld", option, slow_ms(limit_ms));
	open_set(set, config);
	acquire(set->lock, "a");
	wait_until(nodes_with("q") == MOST, 5000);
}

static int64_t left_ms(const lk_completion *completion)
{
	return (completion->deadline_ns - now_ns()) / 1000000;
}

/* Also a deadline, a re-entry, another owner, and the end of it on every node. */
static void test_all_nodes_have_it(void **state)
{
	(void)state;
	struct set set;
	open_set(&set, "");
	lk_completion got = acquire(set.lock, "a");
	check(left_ms(&got) > 20000 && left_ms(&got) < 30000);
	check(got.field[0] == '\0');
	wait_until(nodes_with("q") == MOST, 5000);
	expect(1, lk_lock_is_held(set.lock, "a", &err));
	acquire(set.lock, "a");
	completed(begin_acquire(set.lock, "b", 0, 0), LK_EBUSY);
	completed(begin_acquire(set.lock, "b", slow_ms(100), 0), LK_ETIMEDOUT);
	completed(begin_release(set.lock, "b"), LK_ENOTOWNER);
	release(set.lock, "a");
	check_int(nodes_with("q"), ==, MOST);
	release(set.lock, "a");
	wait_until(nodes_with("q") == 0, 5000);
	close_set(&set, 0);
}

/* Two programs, of which one waits until the other releases. */
static void test_a_waiter_is_next(void **state)
{
	(void)state;
	struct set ours, theirs;
	open_set(&theirs, "");
	lk_queue *their_queue = queue;
	open_set(&ours, "");
	lk_queue *our_queue = queue;
	acquire(ours.lock, "a");
	queue = their_queue;
	uint64_t id = begin_acquire(theirs.lock, "b", -1, 0);
	completed(begin_acquire(theirs.lock, "c", slow_ms(100), 0), LK_ETIMEDOUT);
	queue = our_queue;
	release(ours.lock, "a");
	queue = their_queue;
	completed(id, 0);
	release(theirs.lock, "b");
	close_set(&theirs, 0);
	queue = our_queue;
	close_set(&ours, 0);
}

static void test_a_majority_is_enough_and_a_minority_is_not(void **state)
{
	(void)state;
	struct set set;
	open_set(&set, "");
	server_kill(&nodes[1]);
	acquire(set.lock, "a");
	check_int(nodes_with("q"), ==, 2);
	completed(begin_extend(set.lock, "a", 60000), 0);
	check_int(redis_integer(&nodes[0], "PTTL q"), >, 50000);
	release(set.lock, "a");
	server_kill(&nodes[2]);
	lk_completion got = completed(begin_acquire(set.lock, "a", 0, 0), LK_ENOQUORUM);
	check(strstr(got.error.message, "1 of 3 nodes grant it, 2 are needed") != NULL);
	wait_until(nodes_with("q") == 0, 5000);
	close_set(&set, 0);
}

/* It grants the lock when it is back: to the hold, or it goes back. */
static void test_a_silent_node(void **state)
{
	(void)state;
	struct set set;
	open_set(&set, "");
	acquire(set.lock, "a");
	release(set.lock, "a");
	wait_until(nodes_with("q") == 0, 5000);
	server_pause(&nodes[2]);
	acquire(set.lock, "a");
	server_resume(&nodes[2]);
	wait_until(nodes_with("q") == MOST, 5000);
	server_pause(&nodes[2]);
	release(set.lock, "a");
	acquire(set.lock, "b");
	release(set.lock, "b");
	server_resume(&nodes[2]);
	wait_until(nodes_with("q") == 0, 5000);
	close_set(&set, 0);
}

static void test_a_cancel_gives_back(void **state)
{
	(void)state;
	struct set set;
	open_set(&set, "");
	stranger_on(0, 60000);
	stranger_on(1, 60000);
	uint64_t id = begin_acquire(set.lock, "a", -1, 0);
	wait_until(redis_info(&nodes[2], "commandstats", "cmdstat_evalsha:calls=") > 0, 5000);
	expect(1, lk_queue_cancel(queue, id, &err));
	completed(id, LK_ECANCELLED);
	wait_until(nodes_with("q") == 2, 5000);
	redis_do(&nodes[0], "DEL q");
	redis_do(&nodes[1], "DEL q");
	close_set(&set, 0);
}

/* Two of three nodes do not answer the release before it has to be told. */
static void test_a_release_that_is_not_confirmed(void **state)
{
	(void)state;
	struct set set;
	open_held(&set, "command_timeout_ms", 400);
	server_pause(&nodes[0]);
	server_pause(&nodes[1]);
	completed(begin_release(set.lock, "a"), LK_EMAYBEHELD);
	expect(0, lk_lock_is_held(set.lock, "a", &err));
	server_resume(&nodes[0]);
	server_resume(&nodes[1]);
	wait_until(nodes_with("q") == 0, 20000);
	close_set(&set, 0);
}

static void test_a_lost_majority_is_told(void **state)
{
	(void)state;
	struct set set;
	open_held(&set, "watchdog_ms", 900);
	starts(NOTICE, .client = set.client[0], .tag = 9);
	stranger_instead(0);
	stranger_instead(2);
	lk_completion got = next_completion();
	if (got.event == LK_EVENT_AT_RISK)
		got = next_completion();
	check_int(got.operation, ==, LK_OP_NOTICE);
	check_int(got.event, ==, LK_EVENT_LOST);
	completed(begin_release(set.lock, "a"), LK_ELOST);
	redis_do(&nodes[0], "DEL q");
	redis_do(&nodes[2], "DEL q");
	wait_until(nodes_with("q") == 0, 5000);
	close_set(&set, 1);
}

/* While the first client is closed, a waiter and a release of it are completed. */
static void test_close_completes_what_is_in_flight(void **state)
{
	(void)state;
	struct set set;
	open_held(&set, "command_timeout_ms", 400);
	begin_acquire(set.lock, "b", -1, 0);
	server_pause(&nodes[1]);
	server_pause(&nodes[2]);
	begin_release(set.lock, "a");
	wait_until(lk_lock_is_held(set.lock, "a", &err) == 0, 5000); /* it is on its way */
	program_close(set.client[0], LK_CLOSE_RELEASE, NULL);
	for (int i = 0; i < 2; i++) {
		lk_completion got = next_completion();
		bool releases = got.operation == LK_OP_RELEASE;
		check_int(got.error.code, ==, releases ? LK_EMAYBEHELD : LK_ECLOSED);
	}
	server_resume(&nodes[1]);
	server_resume(&nodes[2]);
	wait_until(nodes_with("q") == 0, 20000);
	close_set(&set, 0);
}

static void test_one_loop_drives_all_of_them(void **state)
{
	(void)state;
	lk_client *mixed[MOST];
	lk_lock *lock = NULL;
	lk_config *config = NULL;
	expect(0, lk_config_new(&config, &err));
	for (size_t i = 0; i < MOST; i++) {
		expect(0, lk_config_set(config, "url", nodes[i].url_unix, &err));
		if (i == 1)
			lk_config_set_threadless(config, NULL, NULL);
		expect(0, lk_client_new(&mixed[i], config, &err));
	}
	expect(LK_EINVAL, lk_red_lock_new(&lock, mixed, MOST, "q", LK_STRLEN, NULL, &err));
	check(strstr(err.message, "one client is threadless and another is not") != NULL);
	for (size_t i = 0; i < MOST; i++)
		lk_client_free(mixed[i]);
	lk_config_free(config);
}

/* ---- freed by the one thread that drives them ---- */

static void take_turns(const struct set *set)
{
	for (size_t i = 0; i < MOST; i++)
		expect(0, lk_client_process(set->client[i], &err));
}

static void complete_alone(const struct set *set)
{
	lk_completion got = LK_COMPLETION_INIT;
	int64_t end_ms = now_ms() + slow_ms(20000);
	while (lk_queue_take(queue, &got, 1, 0, &err) == 0) {
		check(now_ms() < end_ms);
		take_turns(set);
	}
	check_int(got.error.code, ==, 0);
}

static void open_alone(struct set *set)
{
	lk_red_lock_options trusting = LK_RED_LOCK_OPTIONS_INIT;
	lk_config *config = NULL;
	trusting.quarantine_ms = -1;
	expect(0, lk_config_new(&config, &err));
	lk_config_set_threadless(config, NULL, NULL);
	for (size_t i = 0; i < MOST; i++) {
		expect(0, lk_config_set(config, "url", nodes[i].url_unix, &err));
		expect(0, lk_client_new(&set->client[i], config, &err));
	}
	lk_config_free(config);
	expect(0, lk_red_lock_new(&set->lock, set->client, MOST, "q", LK_STRLEN, &trusting, &err));
	expect(0, lk_queue_new(&queue, 0, &err));
	begin_acquire(set->lock, "a", -1, 0);
	complete_alone(set);
	begin_release(set->lock, "a");
	complete_alone(set);
}

/* The nodes do what was asked for while their clients are freed, the first client first. */
static void test_free_gives_back_every_part(void **state)
{
	(void)state;
	struct set set;
	lk_completion got = LK_COMPLETION_INIT;
	open_alone(&set);
	for (size_t i = 0; i < MOST; i++)
		server_pause(&nodes[i]);
	begin_acquire(set.lock, "a", -1, 0);
	take_turns(&set);
	for (size_t i = 0; i < MOST; i++)
		server_resume(&nodes[i]);
	for (size_t i = 0; i < MOST; i++)
		lk_client_free(set.client[i]);
	expect(1, lk_queue_take(queue, &got, 1, 0, &err));
	check_int(got.error.code, ==, LK_ECLOSED);
	check_int(nodes_with("q"), ==, 0);
	lk_lock_free(set.lock);
	expect(0, lk_queue_free(queue, &err));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		quorum_test(test_all_nodes_have_it),
		quorum_test(test_a_waiter_is_next),
		quorum_test(test_a_majority_is_enough_and_a_minority_is_not),
		quorum_test(test_a_silent_node),
		quorum_test(test_a_cancel_gives_back),
		quorum_test(test_a_release_that_is_not_confirmed),
		quorum_test(test_a_lost_majority_is_told),
		quorum_test(test_close_completes_what_is_in_flight),
		quorum_test(test_one_loop_drives_all_of_them),
		quorum_test(test_free_gives_back_every_part),
	};
	return cmocka_run_group_tests(tests, start_nodes, stop_nodes);
}
