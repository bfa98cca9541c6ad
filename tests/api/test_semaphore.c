/* The semaphore: permits taken and given back, counted once, waited for. */
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

static lk_semaphore *new_semaphore(lk_client *client, const char *name)
{
	lk_semaphore *semaphore = NULL;
	expect(0, lk_semaphore_new(&semaphore, client, name, strlen(name), NULL, &err));
	return semaphore;
}

static int64_t available(lk_semaphore *semaphore)
{
	int64_t permits = INT64_MIN;
	expect(0, lk_semaphore_available(semaphore, &permits, &err));
	return permits;
}

static void test_acquire_and_release(void **state)
{
	own_client *client = open_client();
	own_semaphore *pool = new_semaphore(client, "pool");
	check_int(available(pool), ==, 0);
	expect(1, lk_semaphore_try_set(pool, 3, 0, &err));
	expect(0, lk_semaphore_try_set(pool, 5, 0, &err));
	expect(0, lk_semaphore_acquire(pool, 2, -1, NULL, &err));
	check_int(redis_integer(&server, "GET pool"), ==, 1);
	expect(LK_EBUSY, lk_semaphore_acquire(pool, 2, 0, NULL, &err));
	check(strstr(err.message, "2 of \"pool\": too few are free") != NULL);
	expect(0, lk_semaphore_acquire(pool, 1, 0, NULL, &err));
	expect(LK_EBUSY, lk_semaphore_acquire(pool, 1, 0, NULL, &err));
	expect(LK_ETIMEDOUT, lk_semaphore_acquire(pool, 1, slow_ms(200), NULL, &err));
	expect(0, lk_semaphore_release(pool, 3, NULL, &err));
	check_int(available(pool), ==, 3);
	int64_t drained = 0;
	expect(0, lk_semaphore_drain(pool, &drained, &err));
	check_int(drained, ==, 3);
	expect(0, lk_semaphore_drain(pool, &drained, &err));
	check_int(drained, ==, 0);
	expect(0, lk_semaphore_add(pool, -2, &err));
	check_int(available(pool), ==, -2);
	expect(0, lk_semaphore_add(pool, 5, &err));
	check_int(available(pool), ==, 3);
	expect(1, lk_semaphore_delete(pool, &err));
	expect(0, lk_semaphore_delete(pool, &err));
	expect(0, lk_semaphore_release(pool, 1, if_exists, &err));
	expect(0, lk_semaphore_release(pool, 1, NULL, &err));
	expect(1, lk_semaphore_release(pool, 1, if_exists, &err));
	check_int(available(pool), ==, 2);
	expect(1, lk_semaphore_delete(pool, &err));
}

static void test_time_to_live_is_kept(void **state)
{
	own_client *client = open_client();
	own_semaphore *pool = new_semaphore(client, "brief");
	int64_t drained;
	expect(1, lk_semaphore_try_set(pool, 4, 60000, &err));
	expect(0, lk_semaphore_acquire(pool, 1, -1, NULL, &err));
	expect(0, lk_semaphore_add(pool, 2, &err));
	check_int(redis_integer(&server, "PTTL brief"), >, 30000);
	expect(0, lk_semaphore_drain(pool, &drained, &err));
	check_int(drained, ==, 5);
	expect(0, lk_semaphore_release(pool, 1, NULL, &err));
	check_int(redis_integer(&server, "PTTL brief"), >, 30000);
	expect(1, lk_semaphore_delete(pool, &err));
}

static void check_one_record(void)
{
	check_int(redis_integer(&server, "EVAL %s 0",
				"return #redis.call('KEYS', 'lockkeeper_sc:*')"),
		  ==, 1);
}

/* Each change deletes the record of the one before it, also if it does nothing, or is refused. */
static void test_one_record_is_left(void **state)
{
	own_client *client = open_client();
	own_semaphore *pool = new_semaphore(client, "pool");
	int64_t drained;
	for (int i = 0; i < 2; i++) {
		expect(i == 0, lk_semaphore_try_set(pool, LK_PERMITS_MAX, 0, &err));
		check_one_record();
	}
	expect(LK_EINVAL, lk_semaphore_add(pool, 1, &err));
	for (int i = 0; i < 2; i++) {
		expect(0, lk_semaphore_drain(pool, &drained, &err));
		check_one_record();
	}
	for (int i = 0; i < 2; i++) {
		expect(i == 0, lk_semaphore_delete(pool, &err));
		expect(0, lk_semaphore_release(pool, 1, if_exists, &err));
		check_one_record();
	}
}

static void test_bad_input(void **state)
{
	own_client *client = open_client();
	lk_semaphore *pool = new_semaphore(client, "pool"), *none = NULL;
	int64_t drained = 77;
	const int64_t wrong[] = {0, -1, INT64_MIN, LK_PERMITS_MAX + 1, INT64_MAX};
	expect(LK_EINVAL, lk_semaphore_new(NULL, client, "x", 1, NULL, &err));
	expect(LK_EINVAL, lk_semaphore_new(&none, NULL, "x", 1, NULL, &err));
	expect(LK_EINVAL, lk_semaphore_new(&none, client, "", 0, NULL, &err));
	expect(LK_EINVAL, lk_semaphore_new(&none, client, "a}b", 3, NULL, &err));
	check(none == NULL);
	for (size_t i = 0; i < COUNT(wrong); i++) {
		expect(LK_EINVAL, lk_semaphore_acquire(pool, wrong[i], -1, NULL, &err));
		check(strstr(err.message, "permits") != NULL);
		expect(LK_EINVAL, lk_semaphore_acquire(pool, wrong[i], 0, NULL, &err));
		expect(LK_EINVAL, lk_semaphore_release(pool, wrong[i], NULL, &err));
		expect(LK_EINVAL, lk_semaphore_release(pool, wrong[i], if_exists, &err));
		if (wrong[i] != -1)
			expect(LK_EINVAL, lk_semaphore_add(pool, wrong[i], &err));
		if (wrong[i] != 0)
			expect(LK_EINVAL, lk_semaphore_try_set(pool, wrong[i], 0, &err));
	}
	expect(LK_EINVAL, lk_semaphore_try_set(pool, 1, -1, &err));
	expect(LK_EINVAL, lk_semaphore_acquire(pool, 1, -2, NULL, &err));
	expect(LK_EINVAL, lk_semaphore_acquire(NULL, 1, -1, NULL, &err));
	expect(LK_EINVAL, lk_semaphore_drain(pool, NULL, &err));
	expect(LK_EINVAL, lk_semaphore_available(pool, NULL, &err));
	check_int(redis_integer(&server, "DBSIZE"), ==, 0);
	/* A count that would leave its range is as it was. */
	expect(1, lk_semaphore_try_set(pool, LK_PERMITS_MAX, 0, &err));
	expect(LK_EINVAL, lk_semaphore_release(pool, 1, NULL, &err));
	check(strstr(err.message, "range") != NULL);
	check_int(available(pool), ==, LK_PERMITS_MAX);
	redis_do(&server, "DEL pool");
	/* Another type under the name. */
	redis_do(&server, "HSET pool x:1 1");
	expect(LK_EWRONGTYPE, lk_semaphore_acquire(pool, 1, 0, NULL, &err));
	check(strstr(err.message, "hash") && strstr(err.message, "semaphore"));
	expect(LK_EWRONGTYPE, lk_semaphore_release(pool, 1, NULL, &err));
	expect(LK_EWRONGTYPE, lk_semaphore_try_set(pool, 1, 0, &err));
	expect(LK_EWRONGTYPE, lk_semaphore_drain(pool, &drained, &err));
	expect(LK_EWRONGTYPE, lk_semaphore_available(pool, &drained, &err));
	redis_do(&server, "SET pool text");
	expect(LK_EWRONGTYPE, lk_semaphore_acquire(pool, 1, 0, NULL, &err));
	expect(LK_EWRONGTYPE, lk_semaphore_release(pool, 1, NULL, &err));
	expect(LK_EWRONGTYPE, lk_semaphore_available(pool, &drained, &err));
	check_int(drained, ==, 77);
	redis_do(&server, "DEL pool");
	lk_semaphore_free(pool);
}

struct waiting {
	lk_semaphore *pool;
	int64_t permits;
	_Atomic int got;
};

static void wait_body(size_t index, void *argument)
{
	struct waiting *waiting = argument;
	expect(0,
	       lk_semaphore_acquire(waiting->pool, waiting->permits, slow_ms(20000), NULL, &err));
	waiting->got++;
}

static void test_waiters_of_one_client_each_get_theirs(void **state)
{
	own_client *client = open_client();
	struct waiting waiting = {.pool = new_semaphore(client, "many"), .permits = 1};
	struct threads threads;
	threads_start(&threads, 8, wait_body, &waiting);
	wait_until(stats_of(client).waiting == 8, 5000);
	expect(0, lk_semaphore_release(waiting.pool, 5, NULL, &err));
	wait_until(waiting.got == 5, 5000);
	sleep_ms(20);
	check_int(waiting.got, ==, 5);
	expect(0, lk_semaphore_release(waiting.pool, 3, NULL, &err));
	threads_join(&threads, 10000);
	check_int(available(waiting.pool), ==, 0);
	redis_do(&server, "DEL many");
	lk_semaphore_free(waiting.pool);
}

/* What a forked child may do with the parent's handles: be told so, and free them. */
static int child_calls(lk_semaphore *pool, lk_permit_semaphore *slots, lk_latch *gate)
{
	lk_permit permit;
	int64_t number;
	int wrong = lk_semaphore_acquire(pool, 1, 0, NULL, NULL) != LK_EFORKED;
	wrong += lk_semaphore_release(pool, 1, NULL, NULL) != LK_EFORKED;
	wrong += lk_semaphore_available(pool, &number, NULL) != LK_EFORKED;
	wrong += lk_permit_semaphore_acquire(slots, 1, &permit, 0, NULL, NULL) != LK_EFORKED;
	wrong += lk_permit_semaphore_set(slots, 1, NULL) != LK_EFORKED;
	wrong += lk_latch_await(gate, -1, NULL, NULL) != LK_EFORKED;
	wrong += lk_latch_count_down(gate, 1, NULL, NULL) != LK_EFORKED;
	lk_semaphore_free(pool);
	lk_permit_semaphore_free(slots);
	lk_latch_free(gate);
	return wrong;
}

static void test_forked(void **state)
{
	own_client *client = open_client();
	own_semaphore *pool = new_semaphore(client, "pool");
	own_permits *slots = NULL;
	own_latch *gate = NULL;
	lk_permit permit;
	int status = -1;
	expect(0, lk_permit_semaphore_new(&slots, client, "slots", 5, NULL, &err));
	expect(0, lk_latch_new(&gate, client, "gate", 4, NULL, &err));
	expect(0, lk_permit_semaphore_set(slots, 1, &err));
	expect(0, lk_permit_semaphore_acquire(slots, 1, &permit, -1, NULL, &err));
	pid_t pid = fork();
	if (pid == 0)
		_exit(child_calls(pool, slots, gate));
	check_int(waitpid(pid, &status, 0), ==, pid);
	check_int(status, ==, 0);
	expect(0, lk_permit_semaphore_release(slots, &permit, 1, &err));
	expect(1, lk_permit_semaphore_delete(slots, &err));
}

struct crowd {
	lk_client *clients[2];
	_Atomic int inside, most, done;
};

static lk_semaphore *new_semaphore_of(lk_client *client, const char *name, int64_t permits)
{
	lk_semaphore *semaphore = NULL;
	lk_semaphore_options options = LK_SEMAPHORE_OPTIONS_INIT;
	options.permits = permits;
	expect(0, lk_semaphore_new(&semaphore, client, name, LK_STRLEN, &options, &err));
	return semaphore;
}

/* Wherever there is no count, the first call that needs one sets it. */
static void test_the_number_is_said_for_good(void **state)
{
	own_client *client = open_client();
	own_semaphore *pool = new_semaphore_of(client, "pool", 3);
	lk_semaphore *none = NULL;
	lk_semaphore_options options = LK_SEMAPHORE_OPTIONS_INIT;
	check_int(available(pool), ==, 0); /* a question sets nothing */
	expect(0, lk_semaphore_acquire(pool, 2, 0, NULL, &err));
	check_int(available(pool), ==, 1);
	expect(LK_EBUSY, lk_semaphore_acquire(pool, 2, 0, NULL, &err));
	expect(0, lk_semaphore_release(pool, 2, NULL, &err));
	check_int(available(pool), ==, 3);
	expect(0, lk_semaphore_acquire(pool, 3, -1, NULL, &err));
	redis_do(&server, "DEL pool");
	expect(0, lk_semaphore_release(pool, 1, if_exists, &err));
	expect(0, lk_semaphore_release(pool, 2, NULL, &err)); /* of the count that is gone */
	check_int(available(pool), ==, 3);
	redis_do(&server, "DEL pool");
	expect(0, lk_semaphore_add(pool, -1, &err));
	check_int(available(pool), ==, 2);
	redis_do(&server, "SET pool 0"); /* there is one: it stays */
	expect(LK_EBUSY, lk_semaphore_acquire(pool, 1, 0, NULL, &err));
	redis_do(&server, "HSET other x 1");
	own_semaphore *other = new_semaphore_of(client, "other", 3);
	expect(LK_EWRONGTYPE, lk_semaphore_acquire(other, 1, 0, NULL, &err));
	options.permits = -1;
	expect(LK_EINVAL, lk_semaphore_new(&none, client, "x", 1, &options, &err));
	options.permits = LK_PERMITS_MAX + 1;
	expect(LK_EINVAL, lk_semaphore_new(&none, client, "x", 1, &options, &err));
	redis_do(&server, "DEL pool other");
}

static void take_one(size_t index, void *argument)
{
	expect(0, lk_semaphore_acquire(argument, 1, slow_ms(20000), NULL, &err));
}

/* Nobody holds a permit, and nobody sets the number anew. */
static void test_a_waiter_sets_a_lost_number(void **state)
{
	struct threads threads;
	own_client *client = open_client();
	own_semaphore *pool = new_semaphore_of(client, "lost", 2);
	redis_do(&server, "SET lost 0");
	threads_start(&threads, 2, take_one, pool);
	wait_until(stats_of(client).waiting == 2 && stats_of(client).busy > 0, 5000);
	redis_do(&server, "FLUSHALL");
	threads_join(&threads, 10000);
	check_int(redis_integer(&server, "GET lost"), ==, 0);
	redis_do(&server, "DEL lost");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		counter_test(test_acquire_and_release),
		counter_test(test_time_to_live_is_kept),
		counter_test(test_bad_input),
		counter_test(test_waiters_of_one_client_each_get_theirs),
		counter_test(test_forked),
		counter_test(test_one_record_is_left),
		counter_test(test_the_number_is_said_for_good),
		counter_test(test_a_waiter_sets_a_lost_number),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
