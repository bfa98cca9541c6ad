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

static void test_close_completes_what_is_in_flight(void **state)
{
	(void)state;
	open_queue();
	make_locks();
	stranger_takes("fault-0", 3600000);
	stranger_takes("fault-1", 3600000);
	uint64_t listens = begin_acquire(locks[0], "task", -1, 0);
	wait_until(redis_integer(&server, "PUBLISH redisson_lock__channel:{fault-0} 1") == 1, 5000);
	uint64_t stands = begin_acquire(locks[0], "behind", -1, 0);
	acquire(locks[2], "task");
	uint64_t again = begin_acquire(locks[2], "other", -1, 0);
	wait_until(stats_of(client).waiting == 3, 5000);
	expect(LK_EHELD, program_close(client, LK_CLOSE_IF_IDLE, &err));
	expect(0, program_close(client, LK_CLOSE_RELEASE, &err));
	for (int i = 0; i < 3; i++) {
		lk_completion got = next_completion();
		check(got.id == listens || got.id == stands || got.id == again);
		check_int(got.error.code, ==, LK_ECLOSED);
	}
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.owner = "late";
	expect(LK_ECLOSED, lk_queue_start(queue,
					  request_of(ACQUIRE, .lock = locks[3], .wait_ms = -1,
						     .acquire = &options),
					  NULL, &err));
	check_int(redis_integer(&server, "EXISTS fault-2"), ==, 0);
	redis_do(&server, "DEL fault-0 fault-1");
	free_locks();
	close_queue(0);
}

static void test_close_while_requests_start(void **state)
{
	(void)state;
	for (int round = 0; round < 10; round++)
		close_in_flight(round % 2 ? LK_CLOSE_RELEASE : LK_CLOSE_IF_IDLE);
}

/* The client is freed first; what was not taken can be. */
static void test_a_queue_outlives_its_client(void **state)
{
	(void)state;
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

/* ---- grants that are taken too late ---- */

static void test_a_grant_taken_too_late(void **state)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_completion got = LK_COMPLETION_INIT;
	(void)state;
	open_queue();
	lk_lock *lock = new_lock(client, "late");
	options.owner = "task";
	options.lease_ms = slow_ms(200);
	starts(ACQUIRE, .lock = lock, .wait_ms = -1, .acquire = &options);
	wait_until(queue_is_readable(), 5000);
	wait_until(lk_lock_is_held(lock, "task", &err) == 0, 20000);
	expect(1, lk_queue_take(queue, &got, 1, 0, &err));
	check_int(got.error.code, ==, LK_EMAYBEHELD);
	check_int(lk_lock_hold_count(lock, "task", &err), ==, 0);
	acquire(lock, "task"); /* no loss is left to be released first */
	release(lock, "task");
	lk_lock_free(lock);
	close_queue(0);
}

/* The watchdog renews what was not taken yet, and the completion says until when. */
static void test_a_grant_is_renewed_until_it_is_taken(void **state)
{
	(void)state;
	client = open_driven("watchdog_ms=%lld", slow_ms(300));
	expect(0, lk_queue_new(&queue, 0, &err));
	lk_lock *lock = new_lock(client, "renewed");
	uint64_t id = begin_acquire(lock, "task", -1, 0);
	wait_until(stats_of(client).renewals >= 4, 20000);
	int64_t deadline_ns;
	expect(0, lk_lock_deadline_ns(lock, "task", &deadline_ns, &err));
	check_int(completed(id, 0).deadline_ns, >=, deadline_ns);
	release(lock, "task");
	lk_lock_free(lock);
	close_queue(0);
}

static void test_a_loss_is_told(void **state)
{
	lk_event event = LK_EVENT_INIT;
	(void)state;
	client = open_driven("watchdog_ms=%lld", slow_ms(300));
	expect(0, lk_queue_new(&queue, 0, &err));
	lk_lock *lock = new_lock(client, "lost");
	completed(begin_acquire(lock, "task", -1, 55), 0);
	redis_do(&server, "DEL lost");
	int type;
	do
		type = next_event(client, &event, 5000);
	while (type == LK_EVENT_AT_RISK);
	check_int(type, ==, LK_EVENT_LOST);
	check_int(event.tag, ==, 55);
	completed(begin_acquire(lock, "task", -1, 0), LK_ELOST);
	completed(begin_release(lock, "task"), LK_ELOST);
	acquire(lock, "task");
	release(lock, "task");
	lk_lock_free(lock);
	close_queue(0);
}

/* ---- connections and servers ---- */

/* Pairs of all names, so many rounds each, while something is done to the server. */
static void work_under(int rounds, void (*harm)(void))
{
	int todo[WAITS], open = WAITS, taken = 0;
	for (size_t i = 0; i < WAITS; i++) {
		todo[i] = rounds;
		begin_acquire(locks[i], "task", -1, i);
	}
	while (open > 0) {
		lk_completion got = next_completion();
		int index = (int)got.tag;
		if (got.operation == LK_OP_ACQUIRE && got.error.code == 0) {
			lk_release_options give = LK_RELEASE_OPTIONS_INIT;
			give.owner = "task";
			starts(RELEASE, .lock = locks[index], .release = &give,
			       .tag = (uint64_t)index);
			continue;
		}
		check(got.error.code == 0 || got.error.code == LK_EMAYBEHELD);
		if (++taken % 100 == 0)
			harm();
		if (--todo[index] > 0)
			begin_acquire(locks[index], "task", -1, (uint64_t)index);
		else
			open--;
	}
	wait_until(redis_integer(&server, "DBSIZE") == 0, slow_ms(40000));
}

static void cut(void)
{
	redis_do(&server, "CLIENT KILL TYPE normal SKIPME yes");
	redis_do(&server, "CLIENT KILL TYPE pubsub SKIPME yes");
}

static void flush_scripts(void)
{
	redis_do(&server, "SCRIPT FLUSH");
}

static void test_connections_are_cut(void **state)
{
	(void)state;
	open_queue();
	make_locks();
	work_under(40, cut);
	check_int(stats_of(client).disconnects, >, 0);
	free_locks();
	close_queue(0);
}

static void test_scripts_are_flushed(void **state)
{
	(void)state;
	open_queue();
	make_locks();
	work_under(40, flush_scripts);
	free_locks();
	close_queue(0);
}

static void test_waits_outlive_a_restart(void **state)
{
	int granted[WAITS] = {0};
	(void)state;
	open_queue();
	make_locks();
	for (size_t i = 0; i < WAITS; i++) {
		redis_do(&server, "HSET fault-%d stranger:1 1", (int)i);
		redis_do(&server, "PEXPIRE fault-%d 3600000", (int)i);
		begin_acquire(locks[i], "task", -1, i);
	}
	wait_until(stats_of(client).busy >= WAITS, 20000);
	server_kill(&server);
	server_start_again(&server); /* and the strangers' locks are gone */
	for (size_t i = 0; i < WAITS; i++) {
		lk_completion got = next_completion();
		check_int(got.error.code, ==, 0);
		check_int(++granted[got.tag], ==, 1);
	}
	for (size_t i = 0; i < WAITS; i++)
		begin_release(locks[i], "task");
	for (size_t i = 0; i < WAITS; i++)
		check_int(next_completion().error.code, ==, 0);
	free_locks();
	close_queue(0);
}

/* Nothing is answered: limits and leases are kept by the clock, and nothing stays afterwards. */
static void test_a_silent_server(void **state)
{
	(void)state;
	client = open_driven("command_timeout_ms=%lld", slow_ms(300));
	expect(0, lk_queue_new(&queue, 0, &err));
	make_locks();
	acquire(locks[0], "task");
	server_pause(&server);
	for (size_t i = 1; i < WAITS; i++)
		begin_acquire(locks[i], "task", slow_ms(100), i);
	for (size_t i = 1; i < WAITS; i++) {
		lk_completion got = next_completion();
		check(got.error.code == LK_EMAYBEHELD || got.error.code == LK_EUNREACHABLE);
	}
	uint64_t id = begin_release(locks[0], "task");
	server_resume(&server);
	completed(id, 0);
	wait_until(redis_integer(&server, "DBSIZE") == 0, slow_ms(20000));
	free_locks();
	close_queue(0);
}

/* A replica refuses each try and runs none, so nothing may be held, also of a try that was sent
 * behind one that was refused. The second client sends its record before its first try. */
static void test_a_replica_holds_nothing(void **state)
{
	(void)state;
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
	(void)state;
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

static void test_no_server(void **state)
{
	(void)state;
	client = open_driven_at("unix:///nowhere/socket", "");
	expect(0, lk_queue_new(&queue, 0, &err));
	lk_lock *lock = new_lock(client, "nowhere");
	lk_completion got = completed(begin_acquire(lock, "task", -1, 0), LK_EUNREACHABLE);
	check(strstr(got.error.message, "nowhere/socket") != NULL);
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
	(void)state;
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
		api_test(test_close_completes_what_is_in_flight),
		api_test(test_close_while_requests_start),
		api_test(test_a_queue_outlives_its_client),
		api_test(test_a_grant_taken_too_late),
		api_test(test_a_grant_is_renewed_until_it_is_taken),
		api_test(test_a_loss_is_told),
		api_test(test_connections_are_cut),
		api_test(test_scripts_are_flushed),
		api_test(test_waits_outlive_a_restart),
		api_test(test_a_silent_server),
		api_test(test_a_replica_holds_nothing),
		api_test(test_a_busy_connection_is_read_later),
		api_test(test_no_server),
		api_test(test_waits_send_nothing),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
