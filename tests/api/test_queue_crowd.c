/* Asynchronous calls: queues between many threads, tasks and clients. */
#include "queued.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the queue ---- */

static void test_the_oldest_first(void **state)
{
	enum { REQUESTS = 10 };
	lk_completion got[REQUESTS] = {LK_COMPLETION_INIT};
	uint64_t ids[REQUESTS];
	open_queue();
	lk_lock *lock = new_lock(client, "oldest");
	for (int i = 0; i < REQUESTS; i++) { /* one owner: each is completed before the next */
		ids[i] = begin_acquire(lock, "task", -1, 0);
		wait_until(lk_lock_hold_count(lock, "task", &err) == i + 1, 5000);
	}
	wait_until(queue_is_readable(), 5000);
	expect(3, lk_queue_take(queue, got, 3, 0, &err));
	check(queue_is_readable());
	int taken = 3;
	while (taken < REQUESTS) {
		got[taken].struct_size = sizeof(got[0]);
		taken += lk_queue_take(queue, got + taken, COUNT(got) - (size_t)taken, -1, &err);
	}
	check_int(taken, ==, REQUESTS);
	check(!queue_is_readable());
	for (int i = 0; i < REQUESTS; i++) {
		check_int(got[i].id, ==, ids[i]);
		release(lock, "task");
	}
	completed(begin_release(lock, "task"), LK_ENOTOWNER);
	lk_lock_free(lock);
	close_queue(0);
}

static int descriptors(void)
{
	int count = 0;
	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void test_a_queue_takes_one_descriptor(void **state)
{
	lk_queue *own = NULL;
	int before = descriptors();
	expect(0, lk_queue_new(&own, 0, &err));
	int taken = descriptors() - before;
	expect(0, lk_queue_free(own, &err));
	check_int(descriptors(), ==, before);
	check_int(taken, ==, 1);
}

static void test_take_waits_as_long_as_it_is_told(void **state)
{
	lk_completion got = LK_COMPLETION_INIT;
	open_queue();
	int64_t begun_ms = now_ms();
	expect(0, lk_queue_take(queue, &got, 1, 60, &err));
	check_int(now_ms() - begun_ms, >=, 60);
	close_queue(0);
}

static void take_one(size_t index, void *argument)
{
	lk_completion *got = argument;
	got[index].struct_size = sizeof(got[index]);
	expect(1, lk_queue_take(queue, &got[index], 1, -1, &err));
}

/* Each of those who wait is woken for one. */
static void test_each_taker_gets_one(void **state)
{
	enum { TAKERS = 6, ROUNDS = 30 };
	lk_completion got[TAKERS] = {LK_COMPLETION_INIT};
	lk_lock *locks[TAKERS];
	struct threads takers;
	char name[32];
	open_queue();
	for (int i = 0; i < TAKERS; i++) {
		snprintf(name, sizeof(name), "one-%d", i);
		locks[i] = new_lock(client, name);
	}
	for (int round = 0; round < ROUNDS; round++) {
		int seen[TAKERS] = {0};
		threads_start(&takers, TAKERS, take_one, got);
		for (uint64_t i = 0; i < TAKERS; i++)
			begin_acquire(locks[i], "task", -1, i);
		threads_join(&takers, 20000);
		for (int i = 0; i < TAKERS; i++) {
			check_int(got[i].error.code, ==, 0);
			check_int(++seen[got[i].tag], ==, 1);
		}
		for (int i = 0; i < TAKERS; i++)
			release(locks[i], "task");
	}
	for (int i = 0; i < TAKERS; i++)
		lk_lock_free(locks[i]);
	close_queue(0);
}

static void test_a_client_has_several_queues(void **state)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_queue *second = NULL;
	lk_completion got = LK_COMPLETION_INIT;
	open_queue();
	expect(0, lk_queue_new(&second, 1, &err));
	lk_lock *lock = new_lock(client, "several");
	acquire(lock, "first");
	options.owner = "second";
	uint64_t id = 0;
	expect(0, lk_queue_start(second,
				 request_of(ACQUIRE, .lock = lock, .wait_ms = -1,
					    .acquire = &options, .tag = options.tag),
				 &id, &err));
	expect(0, lk_queue_cancel(queue, id + 100, &err));
	expect(LK_EPENDING, lk_queue_free(second, &err));
	release(lock, "first");
	expect(1, lk_queue_take(second, &got, 1, -1, &err));
	check_int(got.id, ==, id);
	check_int(got.error.code, ==, 0);
	check(!queue_is_readable());
	expect(0, lk_queue_free(second, &err));
	release(lock, "second"); /* by another queue than that of its acquire */
	lk_lock_free(lock);
	close_queue(0);
}

/* ---- what is refused ---- */

static void test_refused_starts_take_no_room(void **state)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_queue *small = NULL;
	lk_completion got = LK_COMPLETION_INIT;
	uint64_t id = 5;
	open_queue();
	lk_client *closed = open_client();
	lk_lock *lock = new_lock(client, "room"), *theirs = new_lock(closed, "room");
	expect(0, program_close(closed, LK_CLOSE_IF_IDLE, &err));
	expect(0, lk_queue_new(&small, 1, &err));
	for (int i = 0; i < 10; i++) {
		options.owner = NULL;
		expect(LK_EINVAL,
		       lk_queue_start(small,
				      request_of(ACQUIRE, .lock = lock, .wait_ms = -1,
						 .acquire = &options, .tag = options.tag),
				      &id, &err));
		options.owner = "task";
		expect(LK_ECLOSED,
		       lk_queue_start(small,
				      request_of(ACQUIRE, .lock = theirs, .wait_ms = -1,
						 .acquire = &options, .tag = options.tag),
				      &id, &err));
		expect(LK_ECLOSED,
		       lk_queue_start(small,
				      request_of(EXTEND, .lock = theirs, .lease_ms = 60000,
						 .extend = extend_by("task")),
				      &id, &err));
	}
	check_int(id, ==, 5);
	expect(0, lk_queue_take(small, &got, 1, 0, &err));
	expect(0, lk_queue_start(small,
				 request_of(ACQUIRE, .lock = lock, .wait_ms = -1,
					    .acquire = &options, .tag = options.tag),
				 &id, &err));
	uint64_t first = id;
	expect(LK_ELIMIT, lk_queue_start(small,
					 request_of(ACQUIRE, .lock = lock, .wait_ms = -1,
						    .acquire = &options, .tag = options.tag),
					 &id, &err));
	check_int(id, ==, first);
	expect(1, lk_queue_take(small, &got, 1, -1, &err));
	check_int(got.id, ==, first);
	expect(0, lk_queue_free(small, &err));
	release(lock, "task");
	lk_lock_free(lock);
	lk_lock_free(theirs);
	program_free(closed);
	close_queue(0);
}

/* What the child of a fork cannot do: use the parent's clients with a queue of its own. */
static bool child_is_refused(lk_lock *lock)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_release_options give = LK_RELEASE_OPTIONS_INIT;
	lk_queue *own = NULL;
	options.owner = give.owner = "task";
	return lk_queue_start(queue, request_of(RELEASE, .lock = lock, .release = &give), NULL,
			      NULL) == LK_EFORKED &&
	       lk_queue_start(queue,
			      request_of(EXTEND, .lock = lock, .lease_ms = 60000,
					 .extend = extend_by("task")),
			      NULL, NULL) == LK_EFORKED &&
	       lk_queue_new(&own, 0, NULL) == 0 &&
	       lk_queue_start(own,
			      request_of(ACQUIRE, .lock = lock, .wait_ms = -1, .acquire = &options,
					 .tag = options.tag),
			      NULL, NULL) == LK_EFORKED &&
	       lk_queue_start(own, request_of(RELEASE, .lock = lock, .release = &give), NULL,
			      NULL) == LK_EFORKED &&
	       lk_queue_free(own, NULL) == 0 && lk_queue_free(queue, NULL) == 0;
}

static void test_children(void **state)
{
	int status = -1;
	open_queue();
	lk_lock *lock = new_lock(client, "children");
	uint64_t id = begin_acquire(lock, "task", -1, 0);
	wait_until(queue_is_readable(), 5000); /* and nobody has taken it */
	pid_t child = fork();
	if (child == 0)
		_exit(child_is_refused(lock) ? 0 : 1);
	waitpid(child, &status, 0);
	check_int(status, ==, 0);
	check(queue_is_readable());
	completed(id, 0);
	release(lock, "task");
	lk_lock_free(lock);
	close_queue(0);
}

/* ---- cancel ---- */

enum { WAITS = 400 };

struct cancels {
	uint64_t ids[WAITS];
	_Atomic int asked;
};

static void cancel_all(size_t index, void *argument)
{
	struct cancels *cancels = argument;
	for (size_t i = 0; i < WAITS; i++) {
		uint64_t id = cancels->ids[index % 2 ? i : WAITS - 1 - i];
		int answer = lk_queue_cancel(queue, id, &err);
		check(answer == 0 || answer == 1);
		cancels->asked += answer;
	}
}

static void test_many_cancel(void **state)
{
	static struct cancels cancels;
	static int seen[WAITS];
	struct threads threads;
	lk_lock *locks[8];
	char text[32];
	open_queue();
	memset(seen, 0, sizeof(seen));
	for (size_t i = 0; i < COUNT(locks); i++) {
		snprintf(text, sizeof(text), "cancel-%zu", i);
		stranger_takes(text, 3600000);
		locks[i] = new_lock(client, text);
	}
	for (uint64_t i = 0; i < WAITS; i++) {
		snprintf(text, sizeof(text), "owner-%d", (int)i);
		cancels.ids[i] = begin_acquire(locks[i % COUNT(locks)], text, -1, i);
	}
	threads_start(&threads, 4, cancel_all, &cancels);
	threads_join(&threads, 20000);
	for (int i = 0; i < WAITS; i++) {
		lk_completion got = next_completion();
		check_int(got.error.code, ==, LK_ECANCELLED);
		check_int(++seen[got.tag], ==, 1);
	}
	check_int(cancels.asked, >=, WAITS);
	check_int(stats_of(client).waiting, ==, 0);
	for (size_t i = 0; i < COUNT(locks); i++) {
		redis_do(&server, "DEL cancel-%d", (int)i);
		lk_lock_free(locks[i]);
	}
	close_queue(0);
}

/* ---- who has the lock, of several clients ---- */

enum { NAMES = 3, CLIENTS = 2 };

/* A tag is a task: its name and client, and a number of its own. */
struct market {
	lk_client *clients[CLIENTS];
	lk_lock *locks[CLIENTS][NAMES];
	_Atomic int inside[NAMES], served, failed, left;
	uint64_t tasks;
};

enum { TASKS = 500 };

/* ---- close, while threads start ---- */

enum { STARTERS = 4, STARTS_MAX = 15000 };

struct closing {
	lk_lock *locks[8];
	_Atomic int started[STARTERS];
};

static void start_until_closed(size_t index, void *argument)
{
	struct closing *closing = argument;
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	char owner[32];
	int code = 0;
	options.owner = owner;
	for (uint64_t i = 0; i < STARTS_MAX; i++) {
		snprintf(owner, sizeof(owner), "owner-%d-%d", (int)index, (int)i % 50);
		options.tag = index * STARTS_MAX + i;
		code = lk_queue_start(queue,
				      request_of(ACQUIRE, .lock = closing->locks[i % 8],
						 .wait_ms = -1, .acquire = &options,
						 .tag = options.tag),
				      NULL, NULL);
		if (code)
			break;
		closing->started[index]++;
	}
	check(code == 0 || code == LK_ECLOSED);
}

/* Each request that was started completes, and none twice. */
static void close_while_threads_start(struct closing *closing)
{
	static unsigned char seen[STARTERS * STARTS_MAX];
	struct threads threads;
	char name[32];
	int total = 0;
	open_queue();
	memset(seen, 0, sizeof(seen));
	memset(closing, 0, sizeof(*closing));
	for (size_t i = 0; i < COUNT(closing->locks); i++) {
		snprintf(name, sizeof(name), "closing-%zu", i);
		closing->locks[i] = new_lock(client, name);
	}
	threads_start(&threads, STARTERS, start_until_closed, closing);
	wait_until(closing->started[0] > 500, 5000);
	expect(0, program_close(client, LK_CLOSE_RELEASE, &err));
	threads_join(&threads, 60000);
	for (int i = 0; i < STARTERS; i++)
		total += closing->started[i];
	for (int i = 0; i < total; i++)
		check_int(++seen[next_completion().tag], ==, 1);
	for (size_t i = 0; i < COUNT(closing->locks); i++)
		lk_lock_free(closing->locks[i]);
	close_queue(0);
}

static void test_close_while_threads_start(void **state)
{
	static struct closing closing;
	for (int round = 0; round < 5; round++)
		close_while_threads_start(&closing);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_the_oldest_first),
		api_test(test_a_queue_takes_one_descriptor),
		api_test(test_take_waits_as_long_as_it_is_told),
		api_test(test_each_taker_gets_one),
		api_test(test_a_client_has_several_queues),
		api_test(test_refused_starts_take_no_room),
		api_test(test_children),
		api_test(test_many_cancel),
		api_test(test_close_while_threads_start),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
