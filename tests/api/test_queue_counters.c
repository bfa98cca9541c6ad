/* Asynchronous calls of semaphores, latches and permit semaphores: what each says, and that no
 * permit is lost, whatever becomes of a request. */
#include "queued.h"

static lk_semaphore *pool;
static lk_latch *gate;
static lk_permit_semaphore *slots;

static void open_counters(const char *options)
{
	client = open_driven("%s", options);
	expect(0, lk_queue_new(&queue, 0, &err));
	expect(0, lk_semaphore_new(&pool, client, "pool", LK_STRLEN, NULL, &err));
	expect(0, lk_latch_new(&gate, client, "gate", LK_STRLEN, NULL, &err));
	expect(0, lk_permit_semaphore_new(&slots, client, "slots", LK_STRLEN, NULL, &err));
}

static void free_handles(void)
{
	lk_semaphore_free(pool);
	lk_latch_free(gate);
	lk_permit_semaphore_free(slots);
}

static void close_counters(size_t left)
{
	free_handles();
	close_queue(left);
	redis_do(&server, "DEL pool gate slots");
}

static void set_gate(int64_t count)
{
	uint64_t id = 0;
	expect(0,
	       lk_queue_start(queue, request_of(TRY_SET, .latch = gate, .number = count, .tag = 7),
			      &id, &err));
	completed(id, 0);
}

static void set_slots(int64_t permits)
{
	uint64_t id = 0;
	expect(0, lk_queue_start(queue,
				 request_of(TRY_SET, .permit_semaphore = slots, .number = permits,
					    .tag = 7),
				 &id, &err));
	completed(id, 0);
}

/* ---- starts that are good, by their ids ---- */

static uint64_t begin_take(int64_t permits, int64_t wait_ms, uint64_t tag)
{
	uint64_t id = 0;
	expect(0, lk_queue_start(queue,
				 request_of(ACQUIRE, .semaphore = pool, .number = permits,
					    .wait_ms = wait_ms, .tag = tag),
				 &id, &err));
	check(id != 0);
	return id;
}

static uint64_t begin_give(int64_t permits)
{
	uint64_t id = 0;
	expect(0,
	       lk_queue_start(queue,
			      request_of(RELEASE, .semaphore = pool, .number = permits, .tag = 7),
			      &id, &err));
	return id;
}

static uint64_t begin_await(int64_t wait_ms, uint64_t tag)
{
	uint64_t id = 0;
	expect(0, lk_queue_start(queue,
				 request_of(AWAIT, .latch = gate, .wait_ms = wait_ms, .tag = tag),
				 &id, &err));
	return id;
}

static uint64_t begin_down(int64_t by)
{
	uint64_t id = 0;
	expect(0,
	       lk_queue_start(queue, request_of(COUNT_DOWN, .latch = gate, .number = by, .tag = 7),
			      &id, &err));
	return id;
}

static uint64_t begin_permit(int64_t wait_ms, const lk_acquire_options *options)
{
	uint64_t id = 0;
	expect(0, lk_queue_start(queue,
				 request_of(ACQUIRE, .permit_semaphore = slots, .wait_ms = wait_ms,
					    .number = 1, .acquire = options,
					    .tag = options ? options->tag : 0),
				 &id, &err));
	return id;
}

static uint64_t begin_permit_release(const char *permit)
{
	uint64_t id = 0;
	expect(0, lk_queue_start(queue,
				 request_of(RELEASE, .permit_semaphore = slots,
					    .permits = (const lk_permit *)permit, .number = 1,
					    .tag = 7),
				 &id, &err));
	return id;
}

static uint64_t begin_lease(const char *permit, int64_t lease_ms)
{
	uint64_t id = 0;
	expect(0, lk_queue_start(queue,
				 request_of(EXTEND, .permit_semaphore = slots,
					    .permits = (const lk_permit *)permit, .number = 1,
					    .lease_ms = lease_ms, .tag = 7),
				 &id, &err));
	return id;
}

/* The next completion answers a request with tag 7 with that number. */
static void answers(int operation, int64_t answer)
{
	lk_completion got = next_completion();
	check_int(got.error.code, ==, 0);
	check_int(got.tag, ==, 7);
	check_int(got.operation, ==, operation);
	check_int(got.answer, ==, answer);
}

static long long free_permits(void)
{
	return redis_integer(&server, "GET pool");
}

/* ---- what each call says ---- */

static void test_semaphores(void **state)
{
	open_counters("");
	starts(RELEASE, .semaphore = pool, .number = 1, .semaphore_release = if_exists, .tag = 7);
	answers(LK_OP_RELEASE, 0);
	starts(COUNT, .semaphore = pool, .tag = 7);
	answers(LK_OP_COUNT, 0);
	starts(TRY_SET, .semaphore = pool, .number = 3, .tag = 7);
	answers(LK_OP_TRY_SET, 1);
	starts(TRY_SET, .semaphore = pool, .number = 9, .tag = 7);
	answers(LK_OP_TRY_SET, 0);
	lk_completion got = completed(begin_take(2, -1, 40), 0);
	check_int(got.operation, ==, LK_OP_ACQUIRE);
	check_int(got.tag, ==, 40);
	check(!got.field[0] && got.fence == 0 && got.deadline_ns == 0);
	completed(begin_take(2, 0, 0), LK_EBUSY);
	got = completed(begin_take(2, slow_ms(50), 0), LK_ETIMEDOUT);
	check(strstr(got.error.message, "acquire 2 of \"pool\": too few are free") != NULL);
	got = completed(begin_give(2), 0);
	check_int(got.operation, ==, LK_OP_RELEASE);
	starts(ADD, .semaphore = pool, .number = -5, .tag = 7);
	answers(LK_OP_ADD, 1);
	starts(COUNT, .semaphore = pool, .tag = 7);
	answers(LK_OP_COUNT, -2);
	completed(begin_give(6), 0);
	starts(DRAIN, .semaphore = pool, .tag = 7);
	answers(LK_OP_DRAIN, 4);
	starts(RELEASE, .semaphore = pool, .number = 1, .semaphore_release = if_exists, .tag = 7);
	answers(LK_OP_RELEASE, 1);
	starts(DELETE, .semaphore = pool, .tag = 7);
	answers(LK_OP_DELETE, 1);
	starts(DELETE, .semaphore = pool, .tag = 7);
	answers(LK_OP_DELETE, 0);
	close_counters(0);
}

static void test_latches(void **state)
{
	open_counters("");
	check_int(completed(begin_await(-1, 9), 0).operation, ==, LK_OP_AWAIT);
	completed(begin_await(0, 0), 0);
	starts(TRY_SET, .latch = gate, .number = 3, .tag = 7);
	answers(LK_OP_TRY_SET, 1);
	starts(TRY_SET, .latch = gate, .number = 4, .tag = 7);
	answers(LK_OP_TRY_SET, 0);
	starts(COUNT, .latch = gate, .tag = 7);
	answers(LK_OP_COUNT, 3);
	lk_completion got = completed(begin_await(0, 0), LK_ETIMEDOUT);
	check(strstr(got.error.message, "await \"gate\": it is still closed") != NULL);
	completed(begin_await(slow_ms(50), 0), LK_ETIMEDOUT);
	check_int(completed(begin_down(2), 0).answer, ==, 1);
	uint64_t waits = begin_await(-1, 0), down = begin_down(1);
	for (int both = 0; both < 2; both++) {
		got = next_completion();
		check_int(got.error.code, ==, 0);
		check(got.id == waits || (got.id == down && got.answer == 0));
	}
	check_int(completed(begin_down(1), 0).answer, ==, 0);
	starts(DELETE, .latch = gate, .tag = 7);
	answers(LK_OP_DELETE, 0);
	starts(TRY_SET, .latch = gate, .number = 4, .tag = 7);
	answers(LK_OP_TRY_SET, 1);
	starts(DELETE, .latch = gate, .tag = 7);
	answers(LK_OP_DELETE, 1);
	close_counters(0);
}

static int64_t left_ms(const char *permit)
{
	int64_t ms = INT64_MIN;
	int rc = lk_permit_semaphore_remaining_ms(slots, permit, &ms, &err);
	return rc < 0 ? rc : ms;
}

static void test_permits(void **state)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_permit other;
	open_counters("");
	completed(begin_permit(0, NULL), LK_EBUSY);
	starts(TRY_SET, .permit_semaphore = slots, .number = 2, .tag = 7);
	answers(LK_OP_TRY_SET, 1);
	starts(SET, .permit_semaphore = slots, .number = 3, .tag = 7);
	answers(LK_OP_SET, 1);
	starts(ADD, .permit_semaphore = slots, .number = -1, .tag = 7);
	answers(LK_OP_ADD, 1);
	options.lease_ms = 20000;
	options.tag = 41;
	lk_completion got = completed(begin_permit(-1, &options), 0);
	check_int(got.operation, ==, LK_OP_ACQUIRE);
	check_int(got.tag, ==, 41);
	check_int(strlen(got.field), ==, 32);
	check(left_ms(got.field) > 10000 && left_ms(got.field) <= 20000);
	check_int(got.deadline_ns, >, now_ns() + 10000 * INT64_C(1000000));
	lk_completion lease = completed(begin_lease(got.field, 60000), 0);
	check_int(lease.operation, ==, LK_OP_EXTEND);
	check_int(left_ms(got.field), >, 50000);
	check_int(stats_of(client).held, ==, 1);
	/* another client's: its id is all that is needed */
	lk_client *stranger = open_client();
	lk_permit_semaphore *theirs = NULL;
	expect(0, lk_permit_semaphore_new(&theirs, stranger, "slots", LK_STRLEN, NULL, &err));
	expect(0, lk_permit_semaphore_acquire(theirs, 1, &other, 0, NULL, &err));
	completed(begin_permit(slow_ms(50), NULL), LK_ETIMEDOUT);
	completed(begin_lease(other.id, 50000), 0);
	check_int(completed(begin_permit_release(other.id), 0).operation, ==, LK_OP_RELEASE);
	completed(begin_permit_release(other.id), LK_ENOTOWNER);
	completed(begin_lease(other.id, 50000), LK_ENOTOWNER);
	lk_permit_semaphore_free(theirs);
	drop_client(stranger);
	completed(begin_permit_release(got.field), 0);
	completed(begin_permit_release(got.field), LK_ENOTOWNER);
	check_int(redis_integer(&server, "GET slots"), ==, 2);
	starts(DELETE, .permit_semaphore = slots, .tag = 7);
	answers(LK_OP_DELETE, 1);
	close_counters(0);
}

static void test_keys_of_other_types(void **state)
{
	open_counters("");
	redis_do(&server, "SET pool text");
	redis_do(&server, "HSET gate a b");
	redis_do(&server, "HSET slots a b");
	completed(begin_take(1, 0, 0), LK_EWRONGTYPE);
	completed(begin_give(1), LK_EWRONGTYPE);
	completed(begin_await(-1, 0), LK_EWRONGTYPE);
	completed(begin_await(0, 0), LK_EWRONGTYPE);
	completed(begin_down(1), LK_EWRONGTYPE);
	completed(begin_permit(0, NULL), LK_EWRONGTYPE);
	redis_do(&server, "SET pool 2147483647");
	completed(begin_give(1), LK_EINVAL);
	close_counters(0);
}

/* ---- those who wait ---- */

/* One request serves all who wait at a latch. */
static void test_a_latch_opens_for_all(void **state)
{
	enum { WAITERS = 1000 };
	static int seen[WAITERS];
	open_counters("");
	memset(seen, 0, sizeof(seen));
	set_gate(1);
	for (size_t i = 0; i < WAITERS; i++)
		begin_await(-1, i);
	wait_until(stats_of(client).waiting == WAITERS, 20000);
	uint64_t commands = stats_of(client).commands;
	redis_do(&server, "DEL gate");
	redis_do(&server, "PUBLISH redisson_countdownlatch__channel__{gate} 0");
	for (size_t i = 0; i < WAITERS; i++) {
		lk_completion got = next_completion();
		check_int(got.error.code, ==, 0);
		check_int(++seen[got.tag], ==, 1);
	}
	check_int(stats_of(client).commands - commands, <, 20);
	close_counters(0);
}

/* ---- permits between grant and take ---- */

static void taken_too_late(int no_loss)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_permit_semaphore_options meant = LK_PERMIT_SEMAPHORE_OPTIONS_INIT;
	lk_completion got = LK_COMPLETION_INIT;
	open_counters("");
	set_slots(1);
	meant.no_loss = no_loss;
	lk_permit_semaphore_free(slots);
	expect(0, lk_permit_semaphore_new(&slots, client, "slots", LK_STRLEN, &meant, &err));
	options.lease_ms = slow_ms(200);
	begin_permit(-1, &options);
	wait_until(queue_is_readable(), 5000);
	wait_until(stats_of(client).held == 0, 20000);
	expect(1, lk_queue_take(queue, &got, 1, 0, &err));
	check_int(got.error.code, ==, LK_EMAYBEHELD);
	got = completed(begin_permit(-1, NULL), 0);
	completed(begin_permit_release(got.field), 0);
	close_counters(0);
}

static void test_a_permit_taken_too_late(void **state)
{
	taken_too_late(0);
	taken_too_late(1);
}

static void test_a_permit_is_renewed_until_it_is_taken(void **state)
{
	char options[64];
	needs_a_thread();
	snprintf(options, sizeof(options), "watchdog_ms=%lld", slow_ms(300));
	open_counters(options);
	set_slots(1);
	uint64_t id = begin_permit(-1, NULL);
	wait_until(stats_of(client).renewals >= 4, 20000);
	lk_completion got = completed(id, 0);
	check_int(got.deadline_ns, >, now_ns());
	completed(begin_lease(got.field, 60000), 0);
	int64_t ms;
	expect(0, lk_permit_semaphore_server_ttl_ms(slots, got.field, &ms, &err));
	check_int(ms, >, 50000);
	redis_do(&server, "DEL {slots}:timeout");
	completed(begin_lease(got.field, 70000), LK_ELOST);
	completed(begin_permit_release(got.field), LK_ELOST);
	completed(begin_permit_release(got.field), LK_ENOTOWNER);
	close_counters(0);
}

/* ---- handles, and bad input ---- */

static void test_handles_are_freed_first(void **state)
{
	open_counters("");
	server_pause(&server);
	for (int i = 0; i < 20; i++) {
		begin_give(1);
		begin_down(1);
		begin_take(1, -1, 0);
		begin_await(-1, 0);
		starts(COUNT, .semaphore = pool);
	}
	free_handles();
	pool = NULL;
	gate = NULL;
	slots = NULL;
	server_resume(&server);
	for (int i = 0; i < 100; i++)
		check_int(next_completion().error.code, ==, 0);
	check_int(free_permits(), ==, 0);
	close_counters(0);
}

static void test_bad_input(void **state)
{
	const char *id = "0123456789abcdef0123456789abcdef";
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_cancel *cancel = NULL;
	open_counters("");
	expect(0, lk_cancel_new(&cancel, &err));
	expect(LK_EINVAL,
	       lk_queue_start(NULL,
			      request_of(ACQUIRE, .semaphore = pool, .number = 1, .wait_ms = -1),
			      NULL, &err));
	refuses(ACQUIRE, .semaphore = NULL, .number = 1, .wait_ms = -1);
	refuses(ACQUIRE, .semaphore = pool, .wait_ms = -1);
	check(strstr(err.message, "LK_OP_ACQUIRE: permits is 0, not 1") != NULL);
	refuses(ACQUIRE, .semaphore = pool, .number = 1, .wait_ms = -2);
	refuses(RELEASE, .semaphore = pool);
	refuses(RELEASE, .semaphore = pool, .number = -1, .semaphore_release = if_exists);
	refuses(TRY_SET, .semaphore = pool, .number = -1);
	refuses(TRY_SET, .semaphore = pool, .number = 1, .ttl_ms = -1);
	refuses(ADD, .semaphore = pool);
	refuses(DRAIN, .semaphore = NULL);
	expect(LK_EINVAL, lk_queue_start(NULL, request_of(COUNT, .semaphore = pool), NULL, &err));
	refuses(DELETE, .semaphore = NULL);
	refuses(AWAIT, .latch = NULL, .wait_ms = -1);
	refuses(AWAIT, .latch = gate, .wait_ms = -2);
	refuses(COUNT_DOWN, .latch = gate);
	refuses(TRY_SET, .latch = gate);
	refuses(COUNT, .latch = NULL);
	refuses(DELETE, .latch = NULL);
	refuses(ACQUIRE, .permit_semaphore = NULL, .wait_ms = -1, .number = 1);
	refuses(ACQUIRE, .permit_semaphore = slots, .wait_ms = -2, .number = 1);
	options.cancel = cancel;
	refuses(ACQUIRE, .permit_semaphore = slots, .wait_ms = -1, .number = 1, .acquire = &options,
		.tag = options.tag);
	check(strstr(err.message, "use lk_queue_cancel()") != NULL);
	options.cancel = NULL;
	options.owner = "task";
	refuses(ACQUIRE, .permit_semaphore = slots, .wait_ms = -1, .number = 1, .acquire = &options,
		.tag = options.tag);
	refuses(RELEASE, .permit_semaphore = slots, .number = 1);
	refuses(RELEASE, .permit_semaphore = slots, .permits = (const lk_permit *)"0123",
		.number = 1);
	refuses(RELEASE, .permit_semaphore = NULL, .permits = (const lk_permit *)id, .number = 1);
	refuses(EXTEND, .permit_semaphore = slots, .permits = (const lk_permit *)id, .number = 1);
	refuses(EXTEND, .permit_semaphore = slots, .permits = (const lk_permit *)"x", .number = 1,
		.lease_ms = 5000);
	refuses(SET, .permit_semaphore = slots, .number = -1);
	refuses(TRY_SET, .permit_semaphore = slots, .number = -1);
	refuses(ADD, .permit_semaphore = slots);
	refuses(DELETE, .permit_semaphore = NULL);
	expect(0, lk_queue_take(queue, &(lk_completion)LK_COMPLETION_INIT, 1, 0, &err));
	lk_cancel_free(cancel);
	close_counters(0);
}

/* Where there is no count, the first call that needs one sets it. */
static void test_the_number_is_said_for_good(void **state)
{
	lk_semaphore_options of_pool = LK_SEMAPHORE_OPTIONS_INIT;
	lk_permit_semaphore_options of_slots = LK_PERMIT_SEMAPHORE_OPTIONS_INIT;
	open_counters("");
	lk_semaphore_free(pool);
	lk_permit_semaphore_free(slots);
	of_pool.permits = 3;
	of_slots.permits = 2;
	expect(0, lk_semaphore_new(&pool, client, "pool", LK_STRLEN, &of_pool, &err));
	expect(0, lk_permit_semaphore_new(&slots, client, "slots", LK_STRLEN, &of_slots, &err));
	completed(begin_take(2, 0, 0), 0);
	check_int(free_permits(), ==, 1);
	redis_do(&server, "DEL pool");
	completed(begin_give(2), 0);
	check_int(free_permits(), ==, 3);
	lk_completion got = completed(begin_permit(0, NULL), 0);
	check_int(redis_integer(&server, "GET slots"), ==, 1);
	completed(begin_permit_release(got.field), 0);
	close_counters(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		counter_test(test_semaphores),
		counter_test(test_latches),
		counter_test(test_permits),
		counter_test(test_keys_of_other_types),
		counter_test(test_a_latch_opens_for_all),
		counter_test(test_a_permit_taken_too_late),
		counter_test(test_a_permit_is_renewed_until_it_is_taken),
		counter_test(test_handles_are_freed_first),
		counter_test(test_bad_input),
		counter_test(test_the_number_is_said_for_good),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
