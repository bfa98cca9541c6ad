/* The spin lock: no messages, pauses that grow, and the reentrant lock's hash. */
#include "fixture.h"

static lk_lock *new_spin(lk_client *client, const lk_spin_lock_options *options)
{
	lk_lock *lock = NULL;
	expect(0, lk_spin_lock_new(&lock, client, "spin", 4, options, &err));
	return lock;
}

static lk_spin_lock_options pauses(int64_t min_ms, int64_t max_ms, int factor)
{
	lk_spin_lock_options options = LK_SPIN_LOCK_OPTIONS_INIT;
	options.spin_min_ms = min_ms;
	options.spin_max_ms = max_ms;
	options.spin_factor = factor;
	return options;
}

static long long calls(const char *command)
{
	char field[64];
	snprintf(field, sizeof(field), "cmdstat_%s:calls=", command);
	return redis_info(&server, "commandstats", field);
}

static void test_on_the_wire(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_spin(client, NULL);
	char field[LK_FIELD_SIZE], seen[LK_FIELD_SIZE];
	redis_do(&server, "CONFIG RESETSTAT");
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	check(redis_field(&server, "spin", 4, seen, sizeof(seen)));
	expect(0, lk_lock_export(lock, NULL, field, sizeof(field), &err));
	check(!strcmp(field, seen));
	check_int(redis_integer(&server, "HGET spin %s", field), ==, 1);
	check_int(redis_integer(&server, "PTTL spin"), >, 20000);
	expect(0, lk_lock_acquire(lock, -1, NULL, &err)); /* re-entry: no command */
	expect(0, lk_lock_release(lock, NULL, &err));
	expect(1, is_locked(lock, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	expect(0, is_locked(lock, &err));
	check_int(calls("evalsha"), ==, 1);
	check_int(calls("hdel"), ==, 1);
	check_int(calls("publish") + calls("subscribe"), ==, 0);
}

/* How often a waiter asks within `wait_ms`. On a busy machine the last answer may come too late. */
static long long tries_of(lk_client *client, const lk_spin_lock_options *options, int64_t wait_ms)
{
	lk_lock *lock = new_spin(client, options);
	redis_do(&server, "CONFIG RESETSTAT");
	int64_t start_ms = now_ms();
	int rc = lk_lock_acquire(lock, wait_ms, NULL, &err);
	if (rc != LK_EMAYBEHELD)
		check_int(rc, ==, LK_ETIMEDOUT);
	check_int(now_ms() - start_ms, >=, wait_ms);
	check_int(now_ms() - start_ms, <, wait_ms + slow_ms(2000));
	lk_lock_free(lock);
	return calls("evalsha");
}

static void test_the_pauses_are_as_they_are_set(void **state)
{
	own_client *client = open_client();
	lk_spin_lock_options steady = pauses(100, 100, 1), slow = pauses(200, 3600000, 16);
	stranger_takes("spin", 600000);
	/* Each pause is between a half and the whole: at most 1 + 1200 / 50 tries, and a wake. */
	long long tries = tries_of(client, &steady, 1200);
	check(tries >= 3 && tries <= 26);
	/* 200, 3200, …: the second pause outlasts the wait. */
	tries = tries_of(client, &slow, 1200);
	check(tries >= 2 && tries <= 3);
	/* 1, 2, 4 … 128: seven pauses of 127 ms in all, then one each 64 to 128 ms. */
	tries = tries_of(client, NULL, 1200);
	check(tries >= 4 && tries <= 8 + 1200 / 64 + 2);
	redis_do(&server, "DEL spin");
}

static void cancel_it(size_t index, void *argument)
{
	wait_until(calls("evalsha") >= 1, 10000);
	lk_cancel_now(argument);
}

static void test_a_pause_can_be_cancelled(void **state)
{
	own_client *client = open_client();
	lk_spin_lock_options hour = pauses(3600000, 0, 0);
	own_lock *lock = new_spin(client, &hour);
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	struct threads threads;
	expect(0, lk_cancel_new(&options.cancel, &err));
	stranger_takes("spin", 600000);
	redis_do(&server, "CONFIG RESETSTAT");
	threads_start(&threads, 1, cancel_it, options.cancel);
	expect(LK_ECANCELLED, lk_lock_acquire(lock, -1, &options, &err));
	threads_join(&threads, 10000);
	expect(LK_EBUSY, lk_lock_acquire(lock, 0, NULL, &err));
	redis_do(&server, "DEL spin");
	lk_cancel_free(options.cancel);
}

static void test_by_wire_field(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_spin(client, NULL);
	char field[LK_FIELD_SIZE];
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, lk_lock_export(lock, NULL, field, sizeof(field), &err));
	expect(1, is_held_by(lock, field, &err));
	expect(0, lk_lock_release(lock, release_of(field), &err));
	expect(LK_ENOTOWNER, lk_lock_release(lock, release_of(field), &err));
	expect(LK_ELOST, lk_lock_release(lock, NULL, &err));
}

/* ---- with the other kinds that have this hash ---- */

#define THREADS 6
#define ROUNDS 25

struct mixed {
	lk_client *clients[2];
	_Atomic int inside;
};

static lk_lock *kind_of(size_t index, lk_client *client)
{
	lk_lock *lock = NULL;
	switch (index % 3) {
	case 0:
		return new_spin(client, NULL);
	case 1:
		expect(0, lk_fenced_lock_new(&lock, client, "spin", 4, NULL, &err));
		return lock;
	default:
		return new_lock(client, "spin");
	}
}

/* Asks again and again: a spin lock's release wakes nobody who waits for a message. */
static void mixed_member(size_t index, void *argument)
{
	struct mixed *mixed = argument;
	own_lock *lock = kind_of(index, mixed->clients[index % 2]);
	int64_t end_ms = now_ms() + slow_ms(40000);
	for (int rounds = 0; rounds < ROUNDS && now_ms() < end_ms;) {
		int code = lk_lock_acquire(lock, 0, NULL, &err);
		check(code == 0 || code == LK_EBUSY);
		if (code == 0) {
			check_int(atomic_fetch_add(&mixed->inside, 1), ==, 0);
			atomic_fetch_sub(&mixed->inside, 1);
			expect(0, lk_lock_release(lock, NULL, &err));
			rounds++;
		}
		sleep_ms(1);
	}
	check_int(now_ms(), <, end_ms);
}

static void test_kinds_of_one_name_exclude_each_other(void **state)
{
	struct mixed mixed = {{open_client(), open_client()}, 0};
	struct threads threads;
	threads_start(&threads, THREADS, mixed_member, &mixed);
	threads_join(&threads, 60000);
	redis_do(&server, "DEL lockkeeper_fence:{spin}");
	close_client(mixed.clients[0]);
	close_client(mixed.clients[1]);
}

static void crowd_member(size_t index, void *argument)
{
	struct mixed *crowd = argument;
	own_lock *lock = new_spin(crowd->clients[index % 2], NULL);
	for (int i = 0; i < ROUNDS; i++) {
		expect(0, lk_lock_acquire(lock, slow_ms(60000), NULL, &err));
		check_int(atomic_fetch_add(&crowd->inside, 1), ==, 0);
		atomic_fetch_sub(&crowd->inside, 1);
		expect(0, lk_lock_release(lock, NULL, &err));
	}
}

static void test_threads_of_two_clients_exclude_each_other(void **state)
{
	struct mixed crowd = {{open_client(), open_client()}, 0};
	struct threads threads;
	threads_start(&threads, THREADS, crowd_member, &crowd);
	threads_join(&threads, 60000);
	close_client(crowd.clients[0]);
	close_client(crowd.clients[1]);
}

static void test_bad_options(void **state)
{
	own_client *client = open_client();
	const lk_spin_lock_options bad[] = {
		pauses(-1, 0, 0),
		pauses(0, -1, 0),
		pauses(INT64_MIN, 0, 0),
		pauses(LK_SPIN_MAX_MS + 1, 0, 0),
		pauses(0, LK_SPIN_MAX_MS + 1, 0),
		pauses(11, 10, 0),
		pauses(0, 0, -1),
		pauses(0, 0, LK_SPIN_FACTOR_MAX + 1),
		{.struct_size = 3},
	};
	lk_lock *lock = NULL;
	for (size_t i = 0; i < COUNT(bad); i++)
		expect(LK_EINVAL, lk_spin_lock_new(&lock, client, "spin", 4, &bad[i], &err));
	expect(LK_EINVAL, lk_spin_lock_new(NULL, client, "spin", 4, NULL, &err));
	expect(LK_EINVAL, lk_spin_lock_new(&lock, client, "", 0, NULL, &err));
	check(lock == NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_on_the_wire),
		api_test(test_the_pauses_are_as_they_are_set),
		api_test(test_a_pause_can_be_cancelled),
		api_test(test_by_wire_field),
		api_test(test_kinds_of_one_name_exclude_each_other),
		api_test(test_threads_of_two_clients_exclude_each_other),
		api_test(test_bad_options),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
