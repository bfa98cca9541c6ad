/*
 * A thread stalls while it starts an asynchronous call, and the client is closed meanwhile. The
 * mutexes are wrapped: the thread stops behind each of those that a start unlocks, in turn.
 */
#include "queued.h"

int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

static _Thread_local int until_stall; /* mutexes to unlock before; 0: never */
static _Atomic bool stalled, go_on;

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	int rc = __real_pthread_mutex_unlock(mutex);
	if (until_stall > 0 && --until_stall == 0) {
		stalled = true;
		while (!go_on)
			sleep_ms(1);
	}
	return rc;
}

struct start {
	lk_lock *lock;
	int operation;
	int stall_at;
	int code;
	_Atomic bool returned;
};

static int start(const struct start *start)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_release_options give = LK_RELEASE_OPTIONS_INIT;
	options.owner = give.owner = "task";
	switch (start->operation) {
	case LK_OP_ACQUIRE:
		return lk_queue_start(queue,
				      request_of(ACQUIRE, .lock = start->lock, .wait_ms = -1,
						 .acquire = &options),
				      NULL, NULL);
	case LK_OP_RELEASE:
		return lk_queue_start(queue,
				      request_of(RELEASE, .lock = start->lock, .release = &give),
				      NULL, NULL);
	default:
		return lk_queue_start(queue,
				      request_of(EXTEND, .lock = start->lock, .lease_ms = 60000,
						 .extend = extend_by("task")),
				      NULL, NULL);
	}
}

static void start_and_stall(size_t index, void *argument)
{
	struct start *stalling = argument;
	until_stall = stalling->stall_at;
	stalling->code = start(stalling);
	until_stall = 0;
	stalling->returned = true;
}

static void close_meanwhile(size_t index, void *argument)
{
	expect(0, program_close(argument, LK_CLOSE_RELEASE, &err));
}

/* Closes behind its back. A close may wait for the start, but not hold it up. */
static void close_and_go_on(void)
{
	struct threads closing;
	threads_start(&closing, 1, close_meanwhile, client);
	for (int64_t end_ms = now_ms() + slow_ms(300);
	     !thread_done(&closing, 0) && now_ms() < end_ms;)
		sleep_ms(1);
	go_on = true;
	threads_join(&closing, 20000);
}

/* False: a start does not unlock so many mutexes. */
static bool close_behind(int operation, int stall_at, bool used)
{
	struct start stalling = {.operation = operation, .stall_at = stall_at};
	struct threads thread;
	lk_completion got = LK_COMPLETION_INIT;
	open_queue();
	stalling.lock = new_lock(client, "stall");
	if (used) {
		acquire(stalling.lock, "other");
		release(stalling.lock, "other");
	}
	stalled = go_on = false;
	threads_start(&thread, 1, start_and_stall, &stalling);
	wait_until(stalled || stalling.returned, 5000);
	bool was_stalled = stalled;
	close_and_go_on();
	threads_join(&thread, 20000);
	check(stalling.code == 0 || stalling.code == LK_ECLOSED);
	int count = lk_queue_take(queue, &got, 1, stalling.code ? 0 : slow_ms(2000), &err);
	if (count != (stalling.code == 0))
		check_fail(__FILE__, __LINE__, "operation %d, behind mutex %d: %d completions",
			   operation, stall_at, count);
	lk_lock_free(stalling.lock);
	close_queue(0);
	return was_stalled;
}

static void close_behind_each(bool used)
{
	for (int operation = LK_OP_ACQUIRE; operation <= LK_OP_EXTEND; operation++) {
		int stall_at = 1;
		while (close_behind(operation, stall_at, used))
			stall_at++;
		check_int(stall_at, >, 2);
	}
}

static void test_close_while_a_start_stalls(void **state)
{
	close_behind_each(true);
}

/* Nothing runs in the background of the client yet. */
static void test_close_while_the_first_start_stalls(void **state)
{
	close_behind_each(false);
}

/* ---- the loop stalls between a request and what comes next ---- */

struct lk__conn;
struct lk__op;
struct lk__request;
void __real_lk__op_call(struct lk__op *op, struct lk__conn *conn, struct lk__request *request,
			int64_t until_ns);
void __wrap_lk__op_call(struct lk__op *op, struct lk__conn *conn, struct lk__request *request,
			int64_t until_ns);

static _Atomic int queue_stalls_ms;
static _Atomic bool is_queued;

void __wrap_lk__op_call(struct lk__op *op, struct lk__conn *conn, struct lk__request *request,
			int64_t until_ns)
{
	__real_lk__op_call(op, conn, request, until_ns);
	if (queue_stalls_ms) {
		is_queued = true;
		sleep_ms(queue_stalls_ms);
	}
}

/* The loop has nothing left to wait for, but the answer of a try that nobody wants. */
static void test_a_cancel_in_the_turn_of_its_start(void **state)
{
	open_queue();
	lk_lock *lock = new_lock(client, "wanted");
	acquire(lock, "task");
	release(lock, "task");
	queue_stalls_ms = 50;
	is_queued = false;
	uint64_t id = begin_acquire(lock, "task", -1, 0);
	wait_until(is_queued, 5000);
	check_int(lk_queue_cancel(queue, id, &err), ==, 1);
	completed(id, LK_ECANCELLED);
	queue_stalls_ms = 0;
	wait_until(stats_of(client).compensations == 1, 5000);
	wait_until(redis_integer(&server, "EXISTS wanted") == 0, 5000);
	lk_lock_free(lock);
	close_queue(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_close_while_a_start_stalls),
		api_test(test_close_while_the_first_start_stalls),
		api_test(test_a_cancel_in_the_turn_of_its_start),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
