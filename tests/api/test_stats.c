/* Counters and histograms: each counts what its comment says, no more and no less. */
#include "fixture.h"

static uint64_t sum(const lk_histogram *histogram)
{
	uint64_t total = 0;
	for (size_t i = 0; i < LK_HISTOGRAM_SIZE; i++)
		total += histogram->bucket[i];
	return total;
}

/* The bucket in which a duration belongs, by the definition in the header. */
static size_t bucket_of(uint64_t us)
{
	size_t bucket = 0;
	while (bucket + 1 < LK_HISTOGRAM_SIZE && us >= UINT64_C(1) << (bucket + 1))
		bucket++;
	return bucket;
}

static void test_a_new_client_has_done_nothing(void **state)
{
	own_client *client = open_client();
	lk_stats stats = stats_of(client), zero = {.struct_size = sizeof(zero)};
	check(!memcmp(&stats, &zero, sizeof(stats)));
}

static void test_of_pairs_and_reentries(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "pairs");
	for (int i = 0; i < 10; i++) {
		expect(0, lk_lock_acquire(lock, -1, NULL, &err));
		expect(0, lk_lock_acquire(lock, 0, NULL, &err));
		check_int(stats_of(client).held, ==, 1);
		expect(0, lk_lock_release(lock, NULL, &err));
		expect(0, lk_lock_release(lock, NULL, &err));
	}
	lk_stats stats = stats_of(client);
	check_int(stats.acquires, ==, 10);
	check_int(stats.reentries, ==, 10);
	check_int(stats.wire_grants, ==, 10);
	check_int(stats.releases, ==, 10);
	check_int(stats.handovers + stats.busy + stats.timeouts + stats.cancels, ==, 0);
	check_int(stats.failures + stats.lost + stats.compensations + stats.resent, ==, 0);
	check_int(stats.held + stats.waiting, ==, 0);
	check_int(stats.connects, >=, 1);
	check_int(stats.connects, <=, 3);
	check_int(stats.disconnects, ==, 0);
	check_int(stats.wait_us.count, ==, 10);
	check_int(stats.hold_us.count, ==, 10);
	check_int(sum(&stats.wait_us), ==, 10);
	check_int(sum(&stats.hold_us), ==, 10);
}

static void test_commands_are_counted_as_the_server_does(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "commands");
	expect(0, lk_lock_acquire(lock, -1, NULL, &err)); /* loads the scripts, connects */
	expect(0, lk_lock_release(lock, NULL, &err));
	uint64_t before = stats_of(client).commands;
	long long calls = redis_info(&server, "commandstats", "cmdstat_evalsha:calls=");
	for (int i = 0; i < 50; i++) {
		expect(0, lk_lock_acquire(lock, -1, NULL, &err));
		expect(0, lk_lock_release(lock, NULL, &err));
	}
	check_int(stats_of(client).commands - before, ==, 100);
	check_int(redis_info(&server, "commandstats", "cmdstat_evalsha:calls=") - calls, ==, 100);
}

static void test_of_failures(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "busy"), *text = new_lock(client, "text");
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	stranger_takes("busy", slow_ms(60000));
	redis_do(&server, "SET text x");
	expect(LK_EBUSY, lk_lock_acquire(lock, 0, NULL, &err));
	expect(LK_ETIMEDOUT, lk_lock_acquire(lock, slow_ms(200), NULL, &err));
	expect(LK_EWRONGTYPE, lk_lock_acquire(text, 0, NULL, &err));
	expect(0, lk_cancel_new(&options.cancel, &err));
	lk_cancel_now(options.cancel);
	expect(LK_ECANCELLED, lk_lock_acquire(lock, -1, &options, &err));
	lk_stats stats = stats_of(client);
	check_int(stats.timeouts, ==, 1);
	check_int(stats.refusals, ==, 1);
	check_int(stats.busy, >=, 2);
	check_int(stats.cancels, ==, 1);
	check_int(stats.failures, ==, 1);
	check_int(stats.acquires + stats.wire_grants, ==, 0);
	check_int(stats.wait_us.count, ==, 0);
	stranger_releases("busy");
	redis_do(&server, "DEL text");
	lk_cancel_free(options.cancel);
}

static void test_histograms(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "histogram");
	int64_t taken_ns = now_ns();
	stranger_takes("histogram", 200);
	int64_t start_ns = now_ns();
	uint64_t before_us = (uint64_t)(start_ns - taken_ns) / 1000; /* on a busy machine: long */
	expect(0, lk_lock_acquire(lock, slow_ms(10000), NULL, &err));
	uint64_t waited_us = (uint64_t)(now_ns() - start_ns) / 1000;
	sleep_ms(50);
	expect(0, lk_lock_release(lock, NULL, &err));
	uint64_t all_us = (uint64_t)(now_ns() - start_ns) / 1000;
	lk_stats stats = stats_of(client);
	check_int(stats.wait_us.count, ==, 1);
	check_int(stats.wait_us.sum_us, <=, waited_us);
	check_int(stats.wait_us.sum_us + before_us, >=, 150000);
	check_int(stats.wait_us.bucket[bucket_of(stats.wait_us.sum_us)], ==, 1);
	check_int(stats.hold_us.count, ==, 1);
	check_int(stats.hold_us.sum_us, >=, 50000);
	check_int(stats.hold_us.sum_us, <=, all_us);
	check_int(stats.hold_us.bucket[bucket_of(stats.hold_us.sum_us)], ==, 1);
}

static void take_turns(size_t index, void *argument)
{
	lk_lock *lock = argument;
	for (int i = 0; i < 250; i++) {
		expect(0, lk_lock_acquire(lock, -1, NULL, &err));
		expect(0, lk_lock_release(lock, NULL, &err));
	}
}

static void test_of_handovers(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "line");
	struct threads threads;
	threads_start(&threads, 8, take_turns, lock);
	threads_join(&threads, 60000);
	lk_stats stats = stats_of(client);
	check_int(stats.acquires, ==, 2000);
	check_int(stats.wire_grants + stats.handovers, ==, 2000);
	check_int(stats.releases, ==, stats.wire_grants);
	check_int(stats.wait_us.count, ==, 2000);
	check_int(stats.hold_us.count, ==, 2000);
	check_int(sum(&stats.wait_us), ==, 2000);
	check_int(stats.held + stats.waiting, ==, 0);
}

static void test_reconnects(void **state)
{
	own_client *client = open_client();
	expect(0, lk_client_ping(client, &err));
	uint64_t before = stats_of(client).connects;
	redis_do(&server, "CLIENT KILL TYPE normal SKIPME yes");
	expect(0, lk_client_ping(client, &err));
	check_int(stats_of(client).connects, >, before);
	check_int(stats_of(client).disconnects, >=, 1);
}

/* A program built with an earlier, shorter struct gets just that much. */
static void test_of_a_shorter_struct(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "short");
	lk_stats stats;
	memset(&stats, 0x5a, sizeof(stats));
	stats.struct_size = offsetof(lk_stats, handovers);
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	expect(0, lk_client_stats(client, &stats, &err));
	check_int(stats.struct_size, ==, offsetof(lk_stats, handovers));
	check_int(stats.acquires, ==, 1);
	check_int(stats.handovers, ==, 0x5a5a5a5a5a5a5a5a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_a_new_client_has_done_nothing),
		api_test(test_of_pairs_and_reentries),
		api_test(test_commands_are_counted_as_the_server_does),
		api_test(test_of_failures),
		api_test(test_histograms),
		api_test(test_of_handovers),
		api_test(test_reconnects),
		api_test(test_of_a_shorter_struct),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
