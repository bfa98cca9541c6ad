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

static int64_t left_ms(const lk_completion *completion)
{
	return (completion->deadline_ns - now_ns()) / 1000000;
}

/* Also a deadline, a re-entry, another owner, and the end of it on every node. */
static void test_all_nodes_have_it(void **state)
{
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

static void test_one_loop_drives_all_of_them(void **state)
{
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		quorum_test(test_all_nodes_have_it),
		quorum_test(test_a_waiter_is_next),
		quorum_test(test_one_loop_drives_all_of_them),
	};
	return cmocka_run_group_tests(tests, start_nodes, stop_nodes);
}
