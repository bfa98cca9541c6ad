/* The time to live of counters: who gives it, keeps it, prolongs it. */
#include "fixture.h"

#include <lockkeeper/latch.h>
#include <lockkeeper/permit_semaphore.h>
#include <lockkeeper/semaphore.h>

#define TTL_MS INT64_C(600000)
#define SHORT_MS INT64_C(300000)
#define SLACK_MS 60000 /* between a call and the look at what it has left */

static int64_t ttl_of(const char *key)
{
	return redis_integer(&server, "PTTL %s", key);
}

/* It was given, or prolonged, a moment ago. */
static void check_lasts(const char *key, int64_t ttl_ms)
{
	check_int(ttl_of(key), <=, ttl_ms);
	check_int(ttl_of(key), >, ttl_ms - SLACK_MS);
}

static void shorten(const char *key)
{
	check_int(redis_integer(&server, "PEXPIRE %s %lld", key, (long long)SHORT_MS), ==, 1);
}

/* ---- semaphores ---- */

static lk_semaphore *new_semaphore(lk_client *client, int64_t permits, int64_t ttl_ms)
{
	lk_semaphore *semaphore = NULL;
	lk_semaphore_options options = LK_SEMAPHORE_OPTIONS_INIT;
	options.permits = permits;
	options.ttl_ms = ttl_ms;
	expect(0, lk_semaphore_new(&semaphore, client, "s", 1, &options, &err));
	return semaphore;
}

/* Each way to make one. */
static void test_a_semaphore_that_is_made(void **state)
{
	own_client *client = open_client();
	own_semaphore *bare = new_semaphore(client, 0, TTL_MS),
		      *said = new_semaphore(client, 3, TTL_MS);
	expect(1, lk_semaphore_try_set(bare, 3, 0, &err));
	check_lasts("s", TTL_MS);
	expect(1, lk_semaphore_delete(bare, &err));
	expect(1, lk_semaphore_try_set(bare, 3, 2 * TTL_MS, &err)); /* the call says so */
	check_lasts("s", 2 * TTL_MS);
	expect(1, lk_semaphore_delete(bare, &err));
	expect(0, lk_semaphore_release(bare, 1, NULL, &err));
	check_lasts("s", TTL_MS);
	expect(1, lk_semaphore_delete(bare, &err));
	expect(0, lk_semaphore_add(bare, 2, &err));
	check_lasts("s", TTL_MS);
	expect(1, lk_semaphore_delete(bare, &err));
	expect(LK_EBUSY,
	       lk_semaphore_acquire(said, 4, 0, NULL, &err)); /* refused, and made all the same */
	check_lasts("s", TTL_MS);
	expect(1, lk_semaphore_delete(bare, &err));
	expect(0, lk_semaphore_acquire(said, 1, 0, NULL, &err));
	check_lasts("s", TTL_MS);
	expect(1, lk_semaphore_delete(bare, &err));
}

static void each_prolongs(lk_semaphore *semaphore)
{
	int64_t drained = 0;
	shorten("s");
	expect(0, lk_semaphore_try_set(semaphore, 5, 0, &err));
	check_lasts("s", TTL_MS);
	shorten("s");
	expect(0, lk_semaphore_acquire(semaphore, 1, 0, NULL, &err));
	check_lasts("s", TTL_MS);
	shorten("s");
	expect(0, lk_semaphore_release(semaphore, 1, NULL, &err));
	check_lasts("s", TTL_MS);
	shorten("s");
	expect(1, lk_semaphore_release(semaphore, 1, if_exists, &err));
	check_lasts("s", TTL_MS);
	shorten("s");
	expect(0, lk_semaphore_add(semaphore, -1, &err));
	check_lasts("s", TTL_MS);
	shorten("s");
	expect(0, lk_semaphore_drain(semaphore, &drained, &err));
	check_lasts("s", TTL_MS);
	shorten("s");
	expect(0, lk_semaphore_drain(semaphore, &drained, &err)); /* nothing is left to drain */
	check_lasts("s", TTL_MS);
}

static void each_keeps(lk_semaphore *semaphore)
{
	int64_t number = 0;
	expect(0, lk_semaphore_try_set(semaphore, 5, 0, &err));
	expect(0, lk_semaphore_release(semaphore, 2, NULL, &err));
	expect(0, lk_semaphore_acquire(semaphore, 1, 0, NULL, &err));
	expect(LK_EBUSY, lk_semaphore_acquire(semaphore, 100, 0, NULL, &err));
	expect(0, lk_semaphore_add(semaphore, -1, &err));
	expect(0, lk_semaphore_available(semaphore, &number, &err));
	expect(0, lk_semaphore_drain(semaphore, &number, &err));
}

static void test_a_semaphore_that_has_one(void **state)
{
	own_client *client = open_client();
	own_semaphore *lasting = new_semaphore(client, 0, TTL_MS),
		      *plain = new_semaphore(client, 0, 0);
	expect(1, lk_semaphore_try_set(lasting, 5, 0, &err));
	each_prolongs(lasting);
	shorten("s");
	each_keeps(plain);
	check_lasts("s", SHORT_MS);
	redis_do(&server, "PEXPIRE s %lld", 4 * (long long)TTL_MS);
	each_keeps(lasting); /* never shortened */
	check_lasts("s", 4 * TTL_MS);
	expect(1, lk_semaphore_delete(plain, &err));
}

/* Whoever made it wanted it to stay. */
static void test_a_semaphore_that_has_none(void **state)
{
	own_client *client = open_client();
	own_semaphore *semaphore = new_semaphore(client, 7, TTL_MS);
	redis_do(&server, "SET s 5");
	each_keeps(semaphore);
	check_int(ttl_of("s"), ==, -1);
	expect(1, lk_semaphore_delete(semaphore, &err));
}

/* ---- permit semaphores ---- */

static lk_permit_semaphore *new_permits(lk_client *client, int64_t permits, int64_t ttl_ms)
{
	lk_permit_semaphore *semaphore = NULL;
	lk_permit_semaphore_options options = LK_PERMIT_SEMAPHORE_OPTIONS_INIT;
	options.permits = permits;
	options.ttl_ms = ttl_ms;
	expect(0, lk_permit_semaphore_new(&semaphore, client, "p", 1, &options, &err));
	return semaphore;
}

static void check_both_last(int64_t ttl_ms)
{
	check_lasts("p", ttl_ms);
	check_lasts("{p}:timeout", ttl_ms);
}

static void shorten_both(void)
{
	shorten("p");
	shorten("{p}:timeout");
}

static void test_a_permit_semaphore(void **state)
{
	lk_permit permit, other;
	own_client *client = open_client();
	own_permits *semaphore = new_permits(client, 3, TTL_MS);
	expect(0, lk_permit_semaphore_acquire(semaphore, 1, &permit, 0, NULL, &err));
	check_both_last(TTL_MS);
	shorten_both();
	expect(0, lk_permit_semaphore_try_set(semaphore, 3, &err));
	check_both_last(TTL_MS);
	shorten_both();
	expect(0, lk_permit_semaphore_add(semaphore, 1, &err));
	check_both_last(TTL_MS);
	shorten_both();
	expect(0, lk_permit_semaphore_set(semaphore, 3, &err));
	check_both_last(TTL_MS);
	shorten_both();
	expect(0, lk_permit_semaphore_acquire(semaphore, 1, &other, 0, NULL, &err));
	check_both_last(TTL_MS);
	shorten_both();
	expect(0, lk_permit_semaphore_release(semaphore, &other, 1, &err));
	check_both_last(SHORT_MS);
	expect(0, lk_permit_semaphore_release(semaphore, &permit, 1, &err));
	redis_do(&server, "PEXPIRE p %lld", 4 * (long long)TTL_MS);
	expect(0, lk_permit_semaphore_try_set(semaphore, 3, &err));
	expect(0, lk_permit_semaphore_add(semaphore, 1, &err));
	check_lasts("p", 4 * TTL_MS);
	expect(0, lk_permit_semaphore_set(semaphore, 3, &err)); /* alone may shorten it */
	check_lasts("p", TTL_MS);
	expect(1, lk_permit_semaphore_delete(semaphore, &err));
	expect(1, lk_permit_semaphore_try_set(semaphore, 3, &err));
	check_lasts("p", TTL_MS);
	expect(1, lk_permit_semaphore_delete(semaphore, &err));
	expect(0, lk_permit_semaphore_add(semaphore, 3, &err));
	check_lasts("p", TTL_MS);
	expect(1, lk_permit_semaphore_delete(semaphore, &err));
	expect(0, lk_permit_semaphore_set(semaphore, 3, &err));
	check_lasts("p", TTL_MS);
	expect(1, lk_permit_semaphore_delete(semaphore, &err));
}

static void test_a_permit_semaphore_that_has_none(void **state)
{
	lk_permit permit;
	own_client *client = open_client();
	own_permits *lasting = new_permits(client, 3, TTL_MS), *plain = new_permits(client, 0, 0);
	redis_do(&server, "SET p 5");
	expect(0, lk_permit_semaphore_try_set(lasting, 3, &err));
	expect(0, lk_permit_semaphore_acquire(lasting, 1, &permit, 0, NULL, &err));
	expect(0, lk_permit_semaphore_add(lasting, 1, &err));
	check_int(ttl_of("p"), ==, -1);
	check_int(ttl_of("{p}:timeout"), ==, -1);
	expect(0, lk_permit_semaphore_set(plain, 5, &err));
	check_int(ttl_of("p"), ==, -1);
	expect(0, lk_permit_semaphore_set(lasting, 5, &err)); /* who says how many says how long */
	check_both_last(TTL_MS);
	expect(0, lk_permit_semaphore_set(plain, 5, &err));
	check_both_last(TTL_MS);
	expect(0, lk_permit_semaphore_release(lasting, &permit, 1, &err));
	expect(1, lk_permit_semaphore_delete(lasting, &err));
}

/* Permits without their key would count as free: neither key ends before the last permit. */
static void test_it_lasts_as_long_as_a_permit(void **state)
{
	lk_permit permit, renewed;
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	own_client *client = open_client_with("watchdog_ms=%lld", slow_ms(900));
	own_permits *semaphore = new_permits(client, 2, 1000);
	options.lease_ms = TTL_MS;
	expect(0, lk_permit_semaphore_acquire(semaphore, 1, &permit, 0, &options, &err));
	check_both_last(TTL_MS);
	expect(0, lk_permit_semaphore_update_lease(semaphore, permit.id, 2 * TTL_MS, &err));
	check_both_last(2 * TTL_MS);
	expect(0, lk_permit_semaphore_release(semaphore, &permit, 1, &err));
	expect(1, lk_permit_semaphore_delete(semaphore, &err));
	expect(0, lk_permit_semaphore_acquire(semaphore, 1, &renewed, 0, NULL, &err));
	uint64_t renewals = stats_of(client).renewals;
	redis_do(&server, "PEXPIRE p %lld", slow_ms(700));
	redis_do(&server, "PEXPIRE {p}:timeout %lld", slow_ms(700));
	wait_until(stats_of(client).renewals >= renewals + 8, 60000); /* three leases */
	check_int(ttl_of("p"), >, 0);
	check_int(ttl_of("{p}:timeout"), >, 0);
	expect(0, lk_permit_semaphore_release(semaphore, &renewed, 1, &err));
	lk_permit_semaphore_delete(semaphore, &err);
}

/* ---- latches ---- */

static lk_latch *new_latch(lk_client *client, int64_t ttl_ms)
{
	lk_latch *latch = NULL;
	lk_latch_options options = LK_LATCH_OPTIONS_INIT;
	options.ttl_ms = ttl_ms;
	expect(0, lk_latch_new(&latch, client, "l", 1, ttl_ms ? &options : NULL, &err));
	return latch;
}

static void test_a_latch(void **state)
{
	int64_t left = 0;
	own_client *client = open_client();
	own_latch *lasting = new_latch(client, TTL_MS), *plain = new_latch(client, 0);
	expect(1, lk_latch_try_set(lasting, 5, &err));
	check_lasts("l", TTL_MS);
	shorten("l");
	expect(0, lk_latch_count_down(lasting, 1, &left, &err));
	check_lasts("l", TTL_MS);
	shorten("l");
	expect(0, lk_latch_try_set(lasting, 5, &err));
	check_lasts("l", TTL_MS);
	shorten("l");
	expect(0, lk_latch_count_down(plain, 1, &left, &err));
	expect(0, lk_latch_count(lasting, &left, &err));
	expect(LK_ETIMEDOUT, lk_latch_await(lasting, 1, NULL, &err));
	check_lasts("l", SHORT_MS);
	redis_do(&server, "PERSIST l");
	expect(0, lk_latch_count_down(lasting, 1, &left, &err));
	check_int(ttl_of("l"), ==, -1);
	expect(0, lk_latch_count_down(lasting, left, &left, &err));
	check_int(ttl_of("l"), ==, -2);
}

/* Its end opens it. */
static void test_a_latch_whose_time_is_over(void **state)
{
	own_client *client = open_client();
	own_latch *latch = new_latch(client, slow_ms(200));
	expect(1, lk_latch_try_set(latch, 1, &err));
	expect(0, lk_latch_await(latch, slow_ms(20000), NULL, &err));
}

static void test_options(void **state)
{
	own_client *client = open_client();
	lk_latch *latch = NULL;
	lk_semaphore *semaphore = NULL;
	lk_permit_semaphore *permits = NULL;
	int64_t wrong[] = {-1, LK_LEASE_MAX_MS + 1};
	for (size_t i = 0; i < COUNT(wrong); i++) {
		lk_latch_options of_latch = {sizeof(of_latch), wrong[i]};
		lk_semaphore_options of_semaphore = {sizeof(of_semaphore), 0, wrong[i]};
		lk_permit_semaphore_options of_permits = {sizeof(of_permits), 0, wrong[i], 0};
		expect(LK_EINVAL, lk_latch_new(&latch, client, "n", 1, &of_latch, &err));
		check(strstr(err.message, "ttl_ms") != NULL);
		expect(LK_EINVAL,
		       lk_semaphore_new(&semaphore, client, "n", 1, &of_semaphore, &err));
		check(strstr(err.message, "ttl_ms") != NULL);
		expect(LK_EINVAL,
		       lk_permit_semaphore_new(&permits, client, "n", 1, &of_permits, &err));
		check(strstr(err.message, "ttl_ms") != NULL);
	}
	expect(LK_EINVAL, lk_latch_new(NULL, client, "n", 1, NULL, &err));
}

/* ---- asynchronous calls ---- */

static void take(lk_queue *queue, int code)
{
	lk_completion done = LK_COMPLETION_INIT;
	expect(1, lk_queue_take(queue, &done, 1, slow_ms(20000), &err));
	check_int(done.error.code, ==, code);
}

static void test_asynchronous_calls(void **state)
{
	uint64_t id;
	lk_queue *queue = NULL;
	lk_client *client = open_client();
	lk_semaphore *semaphore = new_semaphore(client, 3, TTL_MS);
	lk_latch *latch = new_latch(client, TTL_MS);
	lk_permit_semaphore *permits = new_permits(client, 3, TTL_MS);
	expect(0, lk_queue_new(&queue, 0, &err));
	expect(0, lk_queue_start(queue, request_of(ACQUIRE, .semaphore = semaphore, .number = 1),
				 &id, &err));
	take(queue, 0);
	check_lasts("s", TTL_MS);
	shorten("s");
	expect(0, lk_queue_start(queue, request_of(RELEASE, .semaphore = semaphore, .number = 1),
				 &id, &err));
	take(queue, 0);
	check_lasts("s", TTL_MS);
	expect(0,
	       lk_queue_start(queue, request_of(TRY_SET, .latch = latch, .number = 1), &id, &err));
	take(queue, 0);
	check_lasts("l", TTL_MS);
	expect(0,
	       lk_queue_start(queue, request_of(TRY_SET, .permit_semaphore = permits, .number = 3),
			      &id, &err));
	take(queue, 0);
	shorten("p");
	expect(0,
	       lk_queue_start(queue, request_of(ACQUIRE, .permit_semaphore = permits, .number = 1),
			      &id, &err));
	take(queue, 0);
	check_both_last(TTL_MS);
	expect(1, lk_semaphore_delete(semaphore, &err));
	expect(1, lk_latch_delete(latch, &err));
	expect(1, lk_permit_semaphore_delete(permits, &err));
	expect(0, lk_queue_free(queue, &err));
	lk_semaphore_free(semaphore);
	lk_latch_free(latch);
	lk_permit_semaphore_free(permits);
	drop_client(client);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		counter_test(test_a_semaphore_that_is_made),
		counter_test(test_a_semaphore_that_has_one),
		counter_test(test_a_semaphore_that_has_none),
		counter_test(test_a_permit_semaphore),
		counter_test(test_a_permit_semaphore_that_has_none),
		counter_test(test_it_lasts_as_long_as_a_permit),
		counter_test(test_a_latch),
		counter_test(test_a_latch_whose_time_is_over),
		counter_test(test_options),
		counter_test(test_asynchronous_calls),
	};
	return cmocka_run_group_tests_name("counter_ttl", tests, start_server, stop_server);
}
