/* The plain lock: a string that any program may hold, and what the calls on it promise. */
#include "fixture.h"

static lk_lock *new_plain(lk_client *client, const char *name, int64_t poll_ms)
{
	lk_lock *lock = NULL;
	lk_plain_lock_options options = LK_PLAIN_LOCK_OPTIONS_INIT;
	options.poll_ms = poll_ms;
	expect(0, lk_plain_lock_new(&lock, client, name, strlen(name), &options, &err));
	return lock;
}

static void check_holder(const char *name, const char *token)
{
	redisReply *reply = redis_ask(&server, "GET %s", name);
	check(reply->type == REDIS_REPLY_STRING && !strcmp(reply->str, token));
	freeReplyObject(reply);
}

static void test_the_field_is_the_token(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_plain(client, "plain", 0);
	char field[LK_FIELD_SIZE];
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, lk_lock_export(lock, NULL, field, sizeof(field), &err));
	check_holder("plain", field);
	check_int(redis_integer(&server, "PTTL plain"), >, 20000);
	expect(1, is_locked(lock, &err));
	expect(1, is_held_by(lock, field, &err));
	expect(0, is_held_by(lock, "somebody", &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	expect(0, is_locked(lock, &err));
	expect(0, is_held_by(lock, field, &err));
	expect(LK_ENOTOWNER, lk_lock_release(lock, NULL, &err));
}

static void test_options(void **state)
{
	own_client *client = open_client();
	own_lock *lock = NULL;
	lk_plain_lock_options options = LK_PLAIN_LOCK_OPTIONS_INIT;
	const int64_t wrong[] = {-1, LK_POLL_MAX_MS + 1, INT64_MIN, INT64_MAX};
	for (size_t i = 0; i < COUNT(wrong); i++) {
		options.poll_ms = wrong[i];
		expect(LK_EINVAL, lk_plain_lock_new(&lock, client, "x", 1, &options, &err));
		check(strstr(err.message, "poll_ms") != NULL);
	}
	options.poll_ms = LK_POLL_MIN_MS;
	expect(LK_EINVAL, lk_plain_lock_new(&lock, client, "", 0, &options, &err));
	expect(LK_EINVAL, lk_plain_lock_new(&lock, client, NULL, 1, &options, &err));
	expect(LK_EINVAL, lk_plain_lock_new(&lock, NULL, "x", 1, &options, &err));
	expect(LK_EINVAL, lk_plain_lock_new(NULL, client, "x", 1, &options, &err));
	options.struct_size = 1;
	expect(LK_EINVAL, lk_plain_lock_new(&lock, client, "x", 1, &options, &err));
	check(lock == NULL);
	expect(0, lk_plain_lock_new(&lock, client, "x", 1, NULL, &err));
}

static void test_reentry_costs_nothing(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_plain(client, "again", 0);
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	uint64_t commands = stats_of(client).commands;
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, lk_lock_acquire(lock, 0, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	check_int(stats_of(client).commands, ==, commands);
	check_int(lk_lock_hold_count(lock, NULL, &err), ==, 1);
	expect(0, lk_lock_release(lock, NULL, &err));
}

struct crowd {
	lk_lock *lock;
	_Atomic int inside;
	_Atomic int turns;
};

static void take_turns(size_t index, void *argument)
{
	struct crowd *crowd = argument;
	for (int i = 0; i < 50; i++) {
		expect(0, lk_lock_acquire(crowd->lock, -1, NULL, &err));
		check_int(crowd->inside++, ==, 0);
		crowd->inside--;
		crowd->turns++;
		expect(0, lk_lock_release(crowd->lock, NULL, &err));
	}
}

static void test_threads_hand_it_on_in_memory(void **state)
{
	own_client *client = open_client();
	struct crowd crowd = {.lock = new_plain(client, "crowd", 0)};
	struct threads threads;
	threads_start(&threads, 8, take_turns, &crowd);
	threads_join(&threads, 60000);
	check_int(crowd.turns, ==, 400);
	check_int(stats_of(client).handovers, >, 0);
	lk_lock_free(crowd.lock);
}

static void acquire_then_release(size_t index, void *argument)
{
	expect(0, lk_lock_acquire(argument, slow_ms(20000), NULL, &err));
	expect(0, lk_lock_release(argument, NULL, &err));
}

/* A stranger says nothing: only looking again finds that it has gone. */
static void test_poll_ms(void **state)
{
	own_client *often = open_client(), *seldom = open_client();
	own_lock *quick = new_plain(often, "poll", 5), *slow = new_plain(seldom, "poll", 60000);
	struct threads quick_one, slow_one;
	redis_do(&server, "SET poll stranger PX 600000");
	threads_start(&quick_one, 1, acquire_then_release, quick);
	threads_start(&slow_one, 1, acquire_then_release, slow);
	wait_until(stats_of(often).busy >= 10, 20000);
	check_int(stats_of(seldom).busy, <=, 3);
	redis_do(&server, "DEL poll");
	threads_join(&quick_one, 20000);
	threads_join(&slow_one, 20000); /* by the message of the quick one */
}

static void test_a_stranger_without_ttl(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_plain(client, "ever", 20);
	int64_t ttl_ms = 0;
	redis_do(&server, "SET ever stranger");
	expect(LK_EBUSY, lk_lock_acquire(lock, 0, NULL, &err));
	expect(LK_ETIMEDOUT, lk_lock_acquire(lock, slow_ms(200), NULL, &err));
	expect(0, lk_lock_server_ttl_ms(lock, &ttl_ms, &err));
	check_int(ttl_ms, ==, -1);
	expect(LK_ENOTOWNER, lk_lock_extend(lock, 1000, extend_of("other"), &err));
	expect(0, lk_lock_release(lock, release_of("stranger"), &err));
	expect(0, lk_lock_force_release(lock, &err));
	redis_do(&server, "SET ever stranger");
	expect(1, lk_lock_force_release(lock, &err));
}

static void test_other_types_are_refused(void **state)
{
	own_client *client = open_client();
	own_lock *plain = new_plain(client, "type", 0), *lock = new_lock(client, "type");
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(LK_EWRONGTYPE, lk_lock_acquire(plain, 0, NULL, &err));
	check(strstr(err.message, "reentrant lock") && strstr(err.message, "plain lock"));
	expect(LK_EWRONGTYPE, lk_lock_force_release(plain, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	expect(0, lk_lock_acquire(plain, -1, NULL, &err));
	expect(LK_EWRONGTYPE, lk_lock_acquire(lock, 0, NULL, &err));
	expect(0, lk_lock_release(plain, NULL, &err));
}

static void test_lost_when_somebody_takes_it_away(void **state)
{
	own_client *client = open_client_with("watchdog_ms=%lld", slow_ms(600));
	own_lock *lock = new_plain(client, "taken", 0);
	lk_event event = LK_EVENT_INIT;
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	redis_do(&server, "SET taken thief PX 600000");
	check_int(next_event(client, &event, 5000), ==, LK_EVENT_LOST);
	expect(LK_ELOST, lk_lock_release(lock, NULL, &err));
	check_holder("taken", "thief");
	redis_do(&server, "DEL taken");
}

/* Each call is the first of a new client: it has to find out how to put it. */
static int at_a_full_server(int (*call)(lk_lock *lock))
{
	lk_client *client = open_client();
	lk_lock *lock = new_plain(client, "full", 0);
	redis_do(&server, "CONFIG SET maxmemory 1");
	int rc = call(lock);
	lk_error why = err;
	redis_do(&server, "CONFIG SET maxmemory 0");
	lk_lock_free(lock);
	close_client(client);
	err = why;
	return rc;
}

static int extend_somebody(lk_lock *lock)
{
	return lk_lock_extend(lock, 600000, extend_of("somebody"), &err);
}

static int release_somebody(lk_lock *lock)
{
	return lk_lock_release(lock, release_of("somebody"), &err);
}

static int force(lk_lock *lock)
{
	return lk_lock_force_release(lock, &err);
}

static void test_release_works_although_memory_is_full(void **state)
{
	redis_do(&server, "SET full somebody PX 60000");
	expect(0, at_a_full_server(extend_somebody));
	check_int(redis_integer(&server, "PTTL full"), >, 500000);
	expect(0, at_a_full_server(release_somebody));
	expect(LK_ENOTOWNER, at_a_full_server(release_somebody));
	redis_do(&server, "SET full somebody PX 60000");
	expect(1, at_a_full_server(force));
	expect(0, at_a_full_server(force));
}

static lk_lock *new_notifying(lk_client *client, const char *name, const char *notify)
{
	lk_lock *lock = NULL;
	lk_plain_lock_options options = LK_PLAIN_LOCK_OPTIONS_INIT;
	options.poll_ms = LK_POLL_MAX_MS;
	options.notify = notify;
	expect(0, lk_plain_lock_new(&lock, client, name, strlen(name), &options, &err));
	return lock;
}

static void take_in_time(size_t index, void *argument)
{
	expect(0, lk_lock_acquire(argument, slow_ms(20000), NULL, &err));
	expect(0, lk_lock_release(argument, NULL, &err));
}

/* Their message, and that of ours in another client: neither waiter would look again before. */
static void test_woken_by_the_messages_of_another_library(void **state)
{
	own_client *client = open_client(), *other = open_client();
	own_lock *waits = new_notifying(client, "told", "redis-lock-py");
	own_lock *holds = new_notifying(other, "told", "redis-lock-py");
	struct threads threads;
	redis_do(&server, "SET told stranger PX %d", (int)slow_ms(60000));
	threads_start(&threads, 1, take_in_time, waits);
	wait_until(redis_integer(&server, "PUBLISH rlock-channel:told busy") == 1, 5000);
	redis_do(&server, "DEL told");
	redis_do(&server, "PUBLISH rlock-channel:told ok");
	threads_join(&threads, 20000);
	expect(0, lk_lock_acquire(holds, -1, NULL, &err));
	threads_start(&threads, 1, take_in_time, waits);
	wait_until(redis_integer(&server, "PUBLISH rlock-channel:told busy") == 1, 5000);
	expect(0, lk_lock_release(holds, NULL, &err));
	threads_join(&threads, 20000);
}

/* Waiters of ours that have no such option are told as before. */
static void test_ours_are_told_too(void **state)
{
	own_client *client = open_client(), *other = open_client();
	own_lock *waits = new_plain(client, "lock:both", LK_POLL_MAX_MS);
	own_lock *holds = new_notifying(other, "lock:both", "python-redis-lock");
	struct threads threads;
	expect(0, lk_lock_acquire(holds, -1, NULL, &err));
	threads_start(&threads, 1, take_in_time, waits);
	wait_until(redis_integer(&server, "PUBLISH redisson_lock__channel:{lock:both} busy") == 1,
		   5000);
	expect(0, lk_lock_release(holds, NULL, &err));
	threads_join(&threads, 20000);
	redis_do(&server, "DEL lock-signal:both");
}

static void test_notify_is_one_for_all_handles(void **state)
{
	own_client *client = open_client();
	lk_lock *first = new_plain(client, "one", 0), *lock = NULL;
	own_lock *second = new_notifying(client, "one", "publish a b");
	own_lock *third = new_notifying(client, "one", "publish a b");
	lk_plain_lock_options options = LK_PLAIN_LOCK_OPTIONS_INIT;
	static const char *const bad[] = {"publish a c", "walrus", "", "publish a", "push a b c"};
	for (size_t i = 0; i < COUNT(bad); i++) {
		options.notify = bad[i];
		expect(LK_EINVAL, lk_plain_lock_new(&lock, client, "one", 3, &options, &err));
		check(!lock);
	}
	lk_lock_free(first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_the_field_is_the_token),
		api_test(test_options),
		api_test(test_reentry_costs_nothing),
		api_test(test_threads_hand_it_on_in_memory),
		api_test(test_poll_ms),
		api_test(test_a_stranger_without_ttl),
		api_test(test_other_types_are_refused),
		api_test(test_woken_by_the_messages_of_another_library),
		api_test(test_ours_are_told_too),
		api_test(test_notify_is_one_for_all_handles),
		api_test(test_lost_when_somebody_takes_it_away),
		api_test(test_release_works_although_memory_is_full),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
