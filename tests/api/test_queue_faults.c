/* Asynchronous calls and what goes wrong: close, lost connections, servers that go away. */
#include "queued.h"

#include <dlfcn.h>

#define WAITS 50

static lk_lock *locks[WAITS];

static void make_locks(void)
{
	for (size_t i = 0; i < WAITS; i++) {
		char name[32];
		snprintf(name, sizeof(name), "fault-%zu", i);
		locks[i] = new_lock(client, name);
	}
}

static void free_locks(void)
{
	for (size_t i = 0; i < WAITS; i++)
		lk_lock_free(locks[i]);
}

/* ---- close ---- */

/* Some are held, some wait, some were just started: each completes once, and nothing stays. */
static void close_in_flight(int how)
{
	lk_completion got = LK_COMPLETION_INIT;
	int seen[WAITS] = {0};
	open_queue();
	make_locks();
	for (size_t i = 0; i < WAITS; i++) {
		begin_acquire(locks[i], i % 3 ? "task" : "other", i % 5 ? -1 : 60000, i);
	}
	int code = program_close(client, how, &err);
	if (code == LK_EHELD) /* the first grants were faster */
		code = program_close(client, LK_CLOSE_RELEASE, &err);
	check(code == 0 || code == LK_EMAYBEHELD);
	program_free(client);
	for (size_t taken = 0; taken < WAITS; taken++) {
		got = next_completion();
		check_int(++seen[got.tag], ==, 1);
		check(got.error.code == 0 || got.error.code == LK_ECLOSED ||
		      got.error.code == LK_EMAYBEHELD);
	}
	expect(0, lk_queue_take(queue, &got, 1, 0, &err));
	expect(0, lk_queue_free(queue, &err));
	free_locks();
}

static void test_close_while_requests_start(void **state)
{
	for (int round = 0; round < 10; round++)
		close_in_flight(round % 2 ? LK_CLOSE_RELEASE : LK_CLOSE_IF_IDLE);
}

/* The client is freed first; what was not taken can be. */
static void test_a_queue_outlives_its_client(void **state)
{
	open_queue();
	lk_lock *lock = new_lock(client, "outlives");
	stranger_takes("outlives", 3600000);
	uint64_t id = begin_acquire(lock, "task", -1, 9);
	lk_lock_free(lock);
	program_free(client);
	check_int(completed(id, LK_ECLOSED).tag, ==, 9);
	expect(0, lk_queue_free(queue, &err));
	redis_do(&server, "DEL outlives");
}

/* ---- connections and servers ---- */

/* A replica refuses each try and runs none, so nothing may be held, also of a try that was sent
 * behind one that was refused. The second client sends its record before its first try. */
static void test_a_replica_holds_nothing(void **state)
{
	for (int records = 0; records < 2; records++) {
		lk_error wrong = {.code = 0};
		open_queue_with(records ? "client_record=short" : "");
		make_locks();
		redis_do(&server, "REPLICAOF 127.0.0.1 1");
		for (size_t i = 0; i < WAITS; i++)
			begin_acquire(locks[i], "task", slow_ms(1000) + (int64_t)i, i);
		for (size_t i = 0; i < WAITS; i++) {
			lk_completion got = next_completion();
			if (got.error.code != LK_EUNAVAILABLE && got.error.code != LK_EUNREACHABLE)
				wrong = got.error;
		}
		redis_do(&server, "REPLICAOF NO ONE");
		if (wrong.code)
			check_fail(__FILE__, __LINE__, "%d %s", wrong.code, wrong.message);
		free_locks();
		close_queue(0);
	}
}

/* The library's own call: somebody else always has the mutex just then. */
static _Atomic bool mutexes_busy;
static _Atomic unsigned tries;

int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
	static int (*real)(pthread_mutex_t * mutex);
	void *found = real ? NULL : dlsym(RTLD_NEXT, "pthread_mutex_trylock");
	if (found)
		memcpy(&real, &found, sizeof(real));
	return mutexes_busy && ++tries % 3 ? EBUSY : real(mutex);
}

/* What the background thread could not read at once it reads soon, not at the command limit. */
static void test_a_busy_connection_is_read_later(void **state)
{
	open_queue();
	lk_lock *lock = new_lock(client, "busy");
	acquire(lock, "task");
	release(lock, "task");
	mutexes_busy = true;
	for (int i = 0; i < 100; i++) {
		acquire(lock, "task");
		release(lock, "task");
	}
	mutexes_busy = false;
	check_int(stats_of(client).disconnects, ==, 0);
	lk_lock_free(lock);
	close_queue(0);
}

/* Looks at keys that the server shall tell of (CLIENT TRACKING). */
static long long looks(void)
{
	return redis_info(&server, "commandstats", "cmdstat_client|caching:calls=");
}

/*
 * Nobody calls; only the watchdog and the probes of the connection send anything, once each wait,
 * the first one for its lock, has had a look at its key.
 */
static void test_waits_send_nothing(void **state)
{
	open_queue();
	long long before = looks();
	make_locks();
	for (size_t i = 0; i < WAITS; i++) {
		redis_do(&server, "HSET fault-%d stranger:1 1", (int)i);
		redis_do(&server, "PEXPIRE fault-%d 3600000", (int)i);
		begin_acquire(locks[i], "task", -1, i);
	}
	wait_until(stats_of(client).busy >= 2 * WAITS, 20000); /* again once subscribed */
	wait_until(looks() >= before + WAITS, 20000);
	uint64_t commands = stats_of(client).commands;
	sleep_ms(1500);
	check_int(stats_of(client).commands, ==, commands);
	for (size_t i = 0; i < WAITS; i++) {
		char name[32];
		snprintf(name, sizeof(name), "fault-%zu", i);
		stranger_releases(name);
		lk_completion got = next_completion();
		check_int(got.error.code, ==, 0);
		check_int(got.tag, ==, i);
	}
	for (size_t i = 0; i < WAITS; i++)
		release(locks[i], "task");
	free_locks();
	close_queue(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_close_while_requests_start),
		api_test(test_a_queue_outlives_its_client),
		api_test(test_a_replica_holds_nothing),
		api_test(test_a_busy_connection_is_read_later),
		api_test(test_waits_send_nothing),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
