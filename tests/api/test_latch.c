/* The count-down latch: set, counted down, awaited. */
#include "fixture.h"

static lk_latch *new_latch(lk_client *client, const char *name)
{
	lk_latch *latch = NULL;
	expect(0, lk_latch_new(&latch, client, name, strlen(name), NULL, &err));
	return latch;
}

static int64_t count_of(lk_latch *latch)
{
	int64_t count = -1;
	expect(0, lk_latch_count(latch, &count, &err));
	return count;
}

static void test_set_and_count_down(void **state)
{
	own_client *client = open_client();
	own_latch *ready = new_latch(client, "ready");
	int64_t left = -1;
	expect(0, lk_latch_await(ready, -1, NULL, &err));
	expect(0, lk_latch_count_down(ready, 1, &left, &err));
	check_int(left, ==, 0);
	check_int(redis_integer(&server, "EXISTS ready"), ==, 0);
	expect(1, lk_latch_try_set(ready, 5, &err));
	expect(0, lk_latch_try_set(ready, 7, &err));
	check_int(count_of(ready), ==, 5);
	expect(LK_ETIMEDOUT, lk_latch_await(ready, 0, NULL, &err));
	expect(LK_ETIMEDOUT, lk_latch_await(ready, slow_ms(200), NULL, &err));
	expect(0, lk_latch_count_down(ready, 3, &left, &err));
	check_int(left, ==, 2);
	expect(0, lk_latch_count_down(ready, 1, NULL, &err));
	expect(0, lk_latch_count_down(ready, 9, &left, &err));
	check_int(left, ==, 0);
	check_int(redis_integer(&server, "EXISTS ready"), ==, 0);
	expect(0, lk_latch_await(ready, 0, NULL, &err));
	expect(1, lk_latch_try_set(ready, LK_LATCH_COUNT_MAX, &err));
	check_int(count_of(ready), ==, LK_LATCH_COUNT_MAX);
	expect(0, lk_latch_count_down(ready, 1, &left, &err));
	check_int(left, ==, LK_LATCH_COUNT_MAX - 1);
	expect(1, lk_latch_delete(ready, &err));
	expect(0, lk_latch_delete(ready, &err));
}

static void test_bad_input(void **state)
{
	own_client *client = open_client();
	lk_latch *latch = new_latch(client, "latch"), *none = NULL;
	int64_t count = 77;
	const int64_t wrong[] = {0, -1, INT64_MIN, LK_LATCH_COUNT_MAX + 1, INT64_MAX};
	expect(LK_EINVAL, lk_latch_new(&none, client, "a}b", 3, NULL, &err));
	expect(LK_EINVAL, lk_latch_new(NULL, client, "a", 1, NULL, &err));
	for (size_t i = 0; i < COUNT(wrong); i++) {
		expect(LK_EINVAL, lk_latch_try_set(latch, wrong[i], &err));
		expect(LK_EINVAL, lk_latch_count_down(latch, wrong[i], NULL, &err));
	}
	expect(LK_EINVAL, lk_latch_count(latch, NULL, &err));
	expect(LK_EINVAL, lk_latch_await(NULL, -1, NULL, &err));
	expect(LK_EINVAL, lk_latch_await(latch, -2, NULL, &err));
	redis_do(&server, "HSET latch x:1 1");
	expect(LK_EWRONGTYPE, lk_latch_await(latch, -1, NULL, &err));
	check(strstr(err.message, "hash") && strstr(err.message, "latch"));
	expect(LK_EWRONGTYPE, lk_latch_count_down(latch, 1, NULL, &err));
	expect(LK_EWRONGTYPE, lk_latch_try_set(latch, 1, &err));
	expect(LK_EWRONGTYPE, lk_latch_delete(latch, &err));
	expect(LK_EWRONGTYPE, lk_latch_count(latch, &count, &err));
	check_int(count, ==, 77);
	redis_do(&server, "DEL latch");
	lk_latch_free(latch);
}

struct waiting {
	lk_latch *latch;
	_Atomic int through;
};

static void await_body(size_t index, void *argument)
{
	struct waiting *waiting = argument;
	expect(0, lk_latch_await(waiting->latch, slow_ms(20000), NULL, &err));
	waiting->through++;
}

static void test_one_look_serves_all(void **state)
{
	own_client *client = open_client(), *other = open_client();
	struct waiting waiting = {.latch = new_latch(client, "gate")};
	own_latch *same = new_latch(other, "gate");
	struct threads threads;
	expect(1, lk_latch_try_set(same, 2, &err));
	threads_start(&threads, 50, await_body, &waiting);
	wait_until(stats_of(client).waiting == 50, 10000);
	wait_until(redis_integer(&server, "PUBLISH redisson_countdownlatch__channel__{gate} 1") ==
			   1,
		   5000);
	expect(0, lk_latch_count_down(same, 1, NULL, &err));
	check_int(waiting.through, ==, 0);
	uint64_t before = stats_of(client).wire_grants;
	expect(0, lk_latch_count_down(same, 1, NULL, &err));
	expect(0, lk_latch_await(waiting.latch, 0, NULL, &err)); /* who waits or not */
	threads_join(&threads, 20000);
	check_int(waiting.through, ==, 50);
	check_int(stats_of(client).wire_grants - before, ==, 1);
	lk_latch_free(waiting.latch);
}

static void test_removed_or_set_behind_our_back(void **state)
{
	own_client *client = open_client();
	struct waiting waiting = {.latch = new_latch(client, "gate")};
	struct threads threads;
	expect(1, lk_latch_try_set(waiting.latch, 2, &err));
	threads_start(&threads, 2, await_body, &waiting);
	wait_until(stats_of(client).waiting == 2, 5000);
	redis_do(&server, "DEL gate"); /* without a message */
	threads_join(&threads, 20000);
	expect(1, lk_latch_try_set(waiting.latch, 1, &err));
	threads_start(&threads, 2, await_body, &waiting);
	wait_until(stats_of(client).waiting == 2, 5000);
	expect(1, lk_latch_delete(waiting.latch, &err));
	threads_join(&threads, 20000);
	check_int(waiting.through, ==, 4);
	lk_latch_free(waiting.latch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		counter_test(test_set_and_count_down),
		counter_test(test_bad_input),
		counter_test(test_one_look_serves_all),
		counter_test(test_removed_or_set_behind_our_back),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
