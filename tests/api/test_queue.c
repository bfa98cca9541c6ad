/* Asynchronous calls: what each one says, in what order, and what it refuses. */
#include "queued.h"

#include <sys/wait.h>
#include <unistd.h>

static void test_every_kind(void **state)
{
	open_queue();
	for (size_t i = 0; i < KINDS; i++) {
		lk_lock *lock = new_kind(i, client);
		char field[LK_FIELD_SIZE];
		int64_t deadline_ns = 0;
		uint64_t fence = 0, id = begin_acquire(lock, "task", -1, 40 + i);
		lk_completion got = completed(id, 0);
		check_int(got.operation, ==, LK_OP_ACQUIRE);
		check_int(got.tag, ==, 40 + i);
		expect(0, lk_lock_export(lock, "task", field, sizeof(field), &err));
		check(!strcmp(got.field, field));
		expect(0, lk_lock_deadline_ns(lock, "task", &deadline_ns, &err));
		check_int(got.deadline_ns, <=, deadline_ns);
		if (i == KIND_FENCED)
			expect(0, lk_lock_fence(lock, "task", &fence, &err));
		check_int(got.fence, ==, fence);
		got = completed(begin_extend(lock, "task", 60000), 0);
		check_int(got.operation, ==, LK_OP_EXTEND);
		check_int(remaining(lock, "task"), >, 50000);
		got = completed(begin_release(lock, "task"), 0);
		check_int(got.operation, ==, LK_OP_RELEASE);
		check_int(got.tag, ==, 7);
		completed(begin_release(lock, "task"), LK_ENOTOWNER);
		completed(begin_extend(lock, "task", 60000), LK_ENOTOWNER);
		lk_lock_free(lock);
		redis_do(&server, "DEL lockkeeper_fence:{kind}");
	}
	close_queue(0);
}

/* Of every kind that excludes itself. */
static void test_a_waiter_is_served(void **state)
{
	open_queue();
	for (size_t i = 0; i < KINDS; i++) {
		if (i == KIND_READ)
			continue;
		lk_lock *lock = new_kind(i, client);
		acquire(lock, "first");
		completed(begin_acquire(lock, "second", 0, 0), LK_EBUSY);
		begin_acquire(lock, "second", slow_ms(60), 0);
		int code = next_completion().error.code; /* a busy server may not have said so */
		check(code == LK_ETIMEDOUT || code == LK_EMAYBEHELD);
		uint64_t second = begin_acquire(lock, "second", -1, 0);
		uint64_t third = begin_acquire(lock, "third", -1, 0);
		check_int(lk_queue_take(queue, &(lk_completion)LK_COMPLETION_INIT, 1, 50, &err), ==,
			  0);
		release_to(lock, "first", second);
		release_to(lock, "second", third);
		release(lock, "third");
		lk_lock_free(lock);
		redis_do(&server, "DEL lockkeeper_fence:{kind}");
	}
	close_queue(0);
}

/* Threads and tasks stand in one wait queue. */
static void wait_in_thread(size_t index, void *argument)
{
	expect(0, lk_lock_acquire(argument, -1, NULL, &err));
	expect(0, lk_lock_release(argument, NULL, &err));
}

static void test_blocking_and_asynchronous_callers_in_one_wait_queue(void **state)
{
	struct threads thread;
	needs_a_thread();
	open_queue();
	lk_lock *lock = new_lock(client, "line");
	acquire(lock, "first");
	uint64_t second = begin_acquire(lock, "second", -1, 0);
	wait_until(stats_of(client).waiting == 1, 5000);
	threads_start(&thread, 1, wait_in_thread, lock);
	wait_until(stats_of(client).waiting == 2, 5000);
	uint64_t fourth = begin_acquire(lock, "fourth", -1, 0);
	wait_until(stats_of(client).waiting == 3, 5000);
	expect(0, lk_lock_release(
			  lock, &(lk_release_options){sizeof(lk_release_options), .owner = "first"},
			  &err)); /* by a call that blocks */
	completed(second, 0);
	check(!thread_done(&thread, 0));
	release_to(lock, "second", fourth);
	threads_join(&thread, 20000);
	release(lock, "fourth");
	expect(0, lk_lock_acquire(
			  lock, -1,
			  &(lk_acquire_options){sizeof(lk_acquire_options), .owner = "blocking"},
			  &err));
	release(lock, "blocking"); /* and the other way round */
	lk_lock_free(lock);
	close_queue(0);
}

/* ---- many at a time ---- */

#define NAMES 1000

static void test_a_thousand_in_flight(void **state)
{
	static lk_lock *locks[NAMES];
	static lk_completion got[64] = {LK_COMPLETION_INIT};
	static int seen[NAMES];
	size_t acquired = 0, released = 0;
	open_queue_with("tracking=off"); /* which is a connection more where it takes long */
	memset(seen, 0, sizeof(seen));
	for (size_t i = 0; i < NAMES; i++) {
		char name[32];
		snprintf(name, sizeof(name), "many-%zu", i);
		locks[i] = new_lock(client, name);
		begin_acquire(locks[i], "task", -1, i);
	}
	while (released < NAMES) {
		int count = lk_queue_take(queue, got, COUNT(got), 20000, &err);
		check_int(count, >, 0);
		for (int i = 0; i < count; i++) {
			check_int(got[i].error.code, ==, 0);
			if (got[i].operation == LK_OP_RELEASE) {
				released++;
				continue;
			}
			acquired++;
			check_int(++seen[got[i].tag], ==, 1);
			begin_release(locks[got[i].tag], "task");
		}
	}
	check_int(acquired, ==, NAMES);
	check_int(stats_of(client).connects, <=, 3);
	for (size_t i = 0; i < NAMES; i++)
		lk_lock_free(locks[i]);
	close_queue(0);
}

/* Any thread starts, any thread takes. */
struct crowd {
	_Atomic int started, taken, inside, bad;
};

/* Each acquire has an owner of its own, by its tag: the same would re-enter. */
static void give_back(struct crowd *crowd, lk_lock *lock, const lk_completion *got)
{
	char owner[32];
	crowd->taken++;
	check_int(got->error.code, ==, 0);
	if (got->operation != LK_OP_ACQUIRE)
		return;
	crowd->bad += crowd->inside++ != 0;
	snprintf(owner, sizeof(owner), "task-%d", (int)got->tag);
	crowd->inside--;
	crowd->started++;
	begin_release(lock, owner);
}

static void start_and_take(size_t index, void *argument)
{
	enum { ROUNDS = 300 };
	struct crowd *crowd = argument;
	char owner[32];
	lk_completion got = LK_COMPLETION_INIT;
	own_lock *lock = new_lock(client, "crowd");
	for (int i = 0; i < ROUNDS; i++) {
		int tag = (int)index * ROUNDS + i;
		snprintf(owner, sizeof(owner), "task-%d", tag);
		crowd->started++;
		begin_acquire(lock, owner, -1, (uint64_t)tag);
		if (lk_queue_take(queue, &got, 1, slow_ms(10), &err) == 1)
			give_back(crowd, lock, &got);
	}
}

static void test_queues_are_shared_by_threads(void **state)
{
	struct crowd crowd = {0};
	struct threads threads;
	open_queue();
	threads_start(&threads, 4, start_and_take, &crowd);
	threads_join(&threads, 120000);
	lk_lock *lock = new_lock(client, "crowd");
	while (crowd.taken < crowd.started) {
		lk_completion got = next_completion();
		give_back(&crowd, lock, &got);
	}
	check_int(crowd.taken, ==, 2 * 4 * 300);
	check_int(crowd.bad, ==, 0);
	lk_lock_free(lock);
	close_queue(0);
}

static void test_two_clients_on_one_queue(void **state)
{
	open_queue();
	lk_client *other = open_client();
	lk_lock *lock = new_lock(client, "shared"), *theirs = new_lock(other, "shared");
	acquire(lock, "task");
	uint64_t id = begin_acquire(theirs, "task", -1, 0);
	completed(begin_acquire(theirs, "other", 0, 0), LK_EBUSY);
	release_to(lock, "task", id);
	release(theirs, "task");
	lk_lock_free(lock);
	lk_lock_free(theirs);
	close_client(other);
	close_queue(0);
}

/* ---- the queue ---- */

static void test_descriptor_tells_of_completions(void **state)
{
	open_queue();
	lk_lock *lock = new_lock(client, "tells");
	check(!queue_is_readable());
	begin_acquire(lock, "task", -1, 0);
	wait_until(queue_is_readable(), 5000);
	begin_acquire(lock, "task", -1, 0);
	wait_until(lk_lock_hold_count(lock, "task", &err) == 2, 5000);
	next_completion();
	wait_until(queue_is_readable(), 5000);
	next_completion();
	check(!queue_is_readable());
	release(lock, "task");
	release(lock, "task");
	check(!queue_is_readable());
	lk_lock_free(lock);
	close_queue(0);
}

static void test_a_full_queue_refuses(void **state)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_completion got[4] = {LK_COMPLETION_INIT};
	lk_queue *small = NULL;
	lk_client *own = open_client();
	lk_lock *lock = new_lock(own, "full");
	expect(0, lk_queue_new(&small, 2, &err));
	options.owner = "task";
	for (int round = 0; round < 3; round++) {
		expect(0, lk_queue_start(small,
					 request_of(ACQUIRE, .lock = lock, .wait_ms = -1,
						    .acquire = &options),
					 NULL, &err));
		expect(0, lk_queue_start(small,
					 request_of(ACQUIRE, .lock = lock, .wait_ms = -1,
						    .acquire = &options),
					 NULL, &err));
		expect(LK_ELIMIT, lk_queue_start(small,
						 request_of(ACQUIRE, .lock = lock, .wait_ms = -1,
							    .acquire = &options),
						 NULL, &err));
		expect(LK_EPENDING, lk_queue_free(small, &err));
		wait_until(lk_lock_hold_count(lock, "task", &err) == 2 * (round + 1), 5000);
		expect(LK_EPENDING, lk_queue_free(small, &err));
		expect(LK_ELIMIT, lk_queue_start(small,
						 request_of(EXTEND, .lock = lock, .lease_ms = 60000,
							    .extend = extend_by("task")),
						 NULL, &err));
		int taken = 0;
		while (taken < 2)
			taken += lk_queue_take(small, got, COUNT(got), 5000, &err);
		check_int(taken, ==, 2);
	}
	expect(0, lk_queue_free(small, &err));
	expect(0, lk_queue_free(NULL, &err));
	lk_lock_free(lock);
	drop_client(own);
}

static void test_cancel(void **state)
{
	open_queue();
	lk_lock *lock = new_lock(client, "cancel");
	uint64_t held = begin_acquire(lock, "first", -1, 0);
	completed(held, 0);
	expect(0, lk_queue_cancel(queue, held, &err));
	expect(0, lk_queue_cancel(queue, 123456, &err));
	check_int(lk_lock_is_held(lock, "first", &err), ==, 1);
	uint64_t second = begin_acquire(lock, "second", -1, 0);
	uint64_t third = begin_acquire(lock, "third", -1, 0);
	expect(1, lk_queue_cancel(queue, second, &err));
	completed(second, LK_ECANCELLED);
	release_to(lock, "first", third);
	release(lock, "third");
	stranger_takes("cancel", 3600000); /* the head, which listens */
	uint64_t waits = begin_acquire(lock, "task", -1, 0);
	wait_until(redis_integer(&server, "PUBLISH redisson_lock__channel:{cancel} 1") == 1, 5000);
	expect(1, lk_queue_cancel(queue, waits, &err));
	completed(waits, LK_ECANCELLED);
	stranger_releases("cancel");
	lk_lock_free(lock);
	close_queue(0);
}

/* ---- what is refused ---- */

static void refuses_acquire(lk_lock *lock, int64_t wait_ms, const lk_acquire_options *options)
{
	uint64_t id = 5;
	expect(LK_EINVAL,
	       lk_queue_start(queue,
			      request_of(ACQUIRE, .lock = lock, .wait_ms = wait_ms,
					 .acquire = options, .tag = options ? options->tag : 0),
			      &id, &err));
	check_int(id, ==, 5);
}

static void test_bad_input(void **state)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_release_options give = LK_RELEASE_OPTIONS_INIT;
	lk_queue *none = NULL;
	lk_completion got = LK_COMPLETION_INIT;
	open_queue();
	lk_lock *lock = new_lock(client, "bad");
	refuses_acquire(lock, -1, NULL);
	refuses_acquire(lock, -1, &options); /* no owner */
	options.owner = "task";
	refuses_acquire(NULL, -1, &options);
	refuses_acquire(lock, -2, &options);
	options.lease_ms = 1;
	refuses_acquire(lock, -1, &options);
	options.lease_ms = 0;
	expect(0, lk_cancel_new(&options.cancel, &err));
	refuses_acquire(lock, -1, &options);
	lk_cancel_free(options.cancel);
	options.cancel = NULL;
	expect(LK_EINVAL,
	       lk_queue_start(NULL,
			      request_of(ACQUIRE, .lock = lock, .wait_ms = -1, .acquire = &options),
			      NULL, &err));
	refuses(RELEASE, .lock = lock);
	give.owner = "task";
	give.no_wait = 1;
	refuses(RELEASE, .lock = lock, .release = &give);
	refuses(EXTEND, .lock = lock, .lease_ms = 60000);
	refuses(EXTEND, .lock = lock, .lease_ms = 0, .extend = extend_by("task"));
	expect(LK_EINVAL, lk_queue_take(queue, &got, 0, 0, &err));
	expect(LK_EINVAL, lk_queue_take(queue, NULL, 1, 0, &err));
	expect(LK_EINVAL, lk_queue_take(queue, &got, 1, -2, &err));
	expect(LK_EINVAL, lk_queue_take(NULL, &got, 1, 0, &err));
	expect(LK_EINVAL, lk_queue_fd(NULL, &err));
	expect(LK_EINVAL, lk_queue_cancel(NULL, 1, &err));
	expect(LK_EINVAL, lk_queue_new(NULL, 0, &err));
	expect(LK_EINVAL, lk_queue_new(&none, LK_QUEUE_CAPACITY_MAX + 1, &err));
	check(!none);
	expect(0, lk_queue_take(queue, &got, 1, 0, &err));
	lk_lock_free(lock);
	close_queue(0);
}

static void test_releases_and_extensions_are_not_cancelled(void **state)
{
	open_queue();
	lk_lock *lock = new_lock(client, "firm");
	acquire(lock, "task");
	server_pause(&server);
	uint64_t id = begin_extend(lock, "task", 60000);
	expect(LK_EINVAL, lk_queue_cancel(queue, id, &err));
	uint64_t given = begin_release(lock, "task");
	expect(LK_EINVAL, lk_queue_cancel(queue, given, &err));
	server_resume(&server);
	for (int both = 0; both < 2; both++) {
		lk_completion got = next_completion();
		check(got.id == given ? got.error.code == 0
				      : got.error.code == 0 || got.error.code == LK_ENOTOWNER);
	}
	lk_lock_free(lock);
	close_queue(0);
}

static int in_child(lk_lock *lock)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_completion got = LK_COMPLETION_INIT;
	options.owner = "task";
	return lk_queue_start(queue,
			      request_of(ACQUIRE, .lock = lock, .wait_ms = -1, .acquire = &options),
			      NULL, NULL) == LK_EFORKED &&
	       lk_queue_take(queue, &got, 1, 0, NULL) == LK_EFORKED &&
	       lk_queue_cancel(queue, 1, NULL) == LK_EFORKED &&
	       lk_queue_fd(queue, NULL) == LK_EFORKED && lk_queue_free(queue, NULL) == 0;
}

static void test_fork(void **state)
{
	int status = -1;
	open_queue();
	lk_lock *lock = new_lock(client, "fork");
	stranger_takes("fork", 3600000);
	uint64_t id = begin_acquire(lock, "task", -1, 0);
	pid_t child = fork();
	if (child == 0)
		_exit(in_child(lock) ? 0 : 1);
	waitpid(child, &status, 0);
	check_int(status, ==, 0);
	stranger_releases("fork");
	completed(id, 0);
	release(lock, "task");
	lk_lock_free(lock);
	close_queue(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_every_kind),
		api_test(test_a_waiter_is_served),
		api_test(test_blocking_and_asynchronous_callers_in_one_wait_queue),
		api_test(test_a_thousand_in_flight),
		api_test(test_queues_are_shared_by_threads),
		api_test(test_two_clients_on_one_queue),
		api_test(test_descriptor_tells_of_completions),
		api_test(test_a_full_queue_refuses),
		api_test(test_cancel),
		api_test(test_bad_input),
		api_test(test_releases_and_extensions_are_not_cancelled),
		api_test(test_fork),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
