/* Asynchronous calls for several permits at once: all or none, what each says, and that no permit
 * is lost, whatever becomes of a request. Redis judges. */
#include "queued.h"

#define THREE 3

static lk_permit_semaphore *slots;
static int64_t all; /* how many there are */

static void open_slots(int64_t permits, const char *options)
{
	client = open_driven("%s", options);
	expect(0, lk_queue_new(&queue, 0, &err));
	expect(0, lk_permit_semaphore_new(&slots, client, "slots", LK_STRLEN, NULL, &err));
	all = permits;
	redis_do(&server, "SET slots %lld", (long long)permits);
}

static long long in_use(void)
{
	return redis_integer(&server, "ZCARD {slots}:timeout");
}

static long long are_free(void)
{
	return redis_integer(&server, "GET slots");
}

/* So many are in use, and the others are free. */
static void check_used(int64_t count)
{
	check_int(in_use(), ==, count);
	check_int(are_free(), ==, all - count);
}

/* Whether they are in the end. */
static void will_be_free(int64_t count)
{
	wait_until(are_free() == count && in_use() == all - count, 20000);
}

static void delete_slots(void)
{
	redis_do(&server, "DEL slots {slots}:timeout");
}

static void close_slots(size_t left)
{
	lk_permit_semaphore_free(slots);
	close_queue(left);
	check_int(in_use(), ==, 0);
	delete_slots();
}

/* ---- starts that are good, by their ids ---- */

static uint64_t begin_take(int64_t count, int64_t wait_ms, const lk_acquire_options *options)
{
	uint64_t id = 0;
	expect(0, lk_queue_start(queue,
				 request_of(ACQUIRE, .permit_semaphore = slots, .number = count,
					    .wait_ms = wait_ms, .acquire = options,
					    .tag = options ? options->tag : 0),
				 &id, &err));
	check(id != 0);
	return id;
}

static uint64_t begin_give(const lk_permit *permits, int64_t count)
{
	uint64_t id = 0;
	expect(0, lk_queue_start(queue,
				 request_of(RELEASE, .permit_semaphore = slots, .permits = permits,
					    .number = count, .tag = 7),
				 &id, &err));
	return id;
}

/* Those of a completion: how many. */
static int64_t ids_of(const lk_completion *got, lk_permit *permits, int64_t room)
{
	int count = lk_completion_permits(got, permits, room, &err);
	check_int(count, ==, got->answer);
	return count;
}

static void take(lk_permit *permits, int64_t count)
{
	lk_completion got = completed(begin_take(count, -1, NULL), 0);
	check_int(ids_of(&got, permits, count), ==, count);
}

static int64_t left_ms(const lk_permit *permit)
{
	int64_t ms = INT64_MIN;
	int rc = lk_permit_semaphore_remaining_ms(slots, permit->id, &ms, &err);
	return rc < 0 ? rc : ms;
}

/* ---- what each call says ---- */

static void test_all_or_none(void **state)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_permit ids[THREE];
	open_slots(5, "");
	options.lease_ms = 20000;
	options.tag = 41;
	lk_completion got = completed(begin_take(THREE, -1, &options), 0);
	check_int(got.operation, ==, LK_OP_ACQUIRE);
	check_int(got.tag, ==, 41);
	check_int(got.deadline_ns, >, now_ns() + 10000 * INT64_C(1000000));
	check_int(ids_of(&got, ids, THREE), ==, THREE);
	check(strcmp(got.field, ids[0].id) == 0);
	check(strcmp(ids[0].id, ids[1].id) != 0 && strcmp(ids[1].id, ids[2].id) != 0);
	for (size_t i = 0; i < THREE; i++)
		check(left_ms(&ids[i]) > 10000 && left_ms(&ids[i]) <= 20000);
	check_int(stats_of(client).held, ==, THREE);
	check_used(THREE);
	completed(begin_take(THREE, 0, NULL), LK_EBUSY);
	got = completed(begin_take(THREE, slow_ms(50), NULL), LK_ETIMEDOUT);
	check(strstr(got.error.message, "acquire 3 of \"slots\": too few are free") != NULL);
	check_used(THREE);
	got = completed(begin_give(ids, THREE), 0);
	check_int(got.operation, ==, LK_OP_RELEASE);
	check_int(got.tag, ==, 7);
	check_used(0);
	check_int(stats_of(client).held, ==, 0);
	completed(begin_give(ids, THREE), LK_ENOTOWNER);
	check_used(0);
	close_slots(0);
}

/* Each of them is known by its id, and can go back alone. */
static void test_as_many_as_can_be(void **state)
{
	static lk_permit ids[LK_PERMITS_AT_ONCE_MAX];
	enum { MOST = LK_PERMITS_AT_ONCE_MAX };
	open_slots(MOST, "");
	take(ids, MOST);
	check_used(MOST);
	for (size_t i = 0; i < MOST; i += 111)
		check_int(left_ms(&ids[i]), >, 0);
	completed(begin_give(ids + 300, 1), 0);
	completed(begin_give(ids + 400, 99), 0);
	check_used(MOST - 100);
	completed(begin_give(ids, MOST), LK_ENOTOWNER);
	check_used(MOST - 100);
	memcpy(ids + 300, ids + MOST - 1, sizeof(ids[0]));
	memcpy(ids + 400, ids + MOST - 100, 99 * sizeof(ids[0]));
	completed(begin_give(ids, MOST - 100), 0);
	check_used(0);
	close_slots(0);
}

/* The completion is a value: what it says can be read from a copy, when all else is gone. */
static void test_the_ids_outlive_all(void **state)
{
	lk_permit before[THREE], after[THREE], one;
	open_slots(5, "");
	lk_completion copy = completed(begin_take(THREE, -1, NULL), 0);
	ids_of(&copy, before, THREE);
	starts(ACQUIRE, .permit_semaphore = slots, .wait_ms = -1, .number = 1);
	lk_completion single = next_completion();
	check_int(ids_of(&single, &one, 1), ==, 1);
	check(strcmp(single.field, one.id) == 0);
	close_slots(0);
	ids_of(&copy, after, THREE);
	check(memcmp(before, after, sizeof(before)) == 0);
}

/* What another took from the server, with its place among those that are free. */
static void lose_one(const char *pop)
{
	redis_do(&server, "%s {slots}:timeout", pop);
	redis_do(&server, "INCR slots");
}

/* Where one is not in use, nothing is done: the others are held, and renewed. */
static void test_one_is_unknown(void **state)
{
	char options[64];
	lk_permit ids[4];
	snprintf(options, sizeof(options), "watchdog_ms=%lld", slow_ms(600));
	open_slots(4, options);
	take(ids, THREE);
	memset(&ids[3], 'a', 32);
	ids[3].id[32] = 0;
	lk_completion got = completed(begin_give(ids, 4), LK_ENOTOWNER);
	check(strstr(got.error.message, "one of the permits is not in use") != NULL);
	check_used(THREE);
	uint64_t renewals = stats_of(client).renewals;
	wait_until(stats_of(client).renewals >= renewals + 2 * THREE, 20000);
	lose_one("ZPOPMIN"); /* lost, which does not hide that another is unknown */
	completed(begin_give(ids, 4), LK_ENOTOWNER);
	check_used(2);
	completed(begin_give(ids, THREE), LK_ELOST);
	check_used(0);
	close_slots(0);
}

/* It was given back by another, and nobody has noticed yet; or it is known. */
static void test_one_is_lost(void **state)
{
	char options[64];
	lk_permit ids[THREE];
	open_slots(THREE, "");
	take(ids, THREE);
	lose_one("ZPOPMIN");
	lk_completion got = completed(begin_give(ids, THREE), LK_ELOST);
	check(strstr(got.error.message, "1 of 3 were lost") != NULL);
	check_used(0);
	check_int(stats_of(client).held, ==, 0);
	close_slots(0);
	snprintf(options, sizeof(options), "watchdog_ms=%lld", slow_ms(300));
	open_slots(THREE, options);
	take(ids, THREE);
	lose_one("ZPOPMAX");
	wait_until(stats_of(client).lost == 1, 20000);
	completed(begin_give(ids, THREE), LK_ELOST);
	completed(begin_give(ids, THREE), LK_ENOTOWNER);
	check_used(0);
	close_slots(0);
}

/* ---- between grant and take ---- */

/* One lease for all: it is over before anybody looks. */
static void taken_too_late(int no_loss)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_permit_semaphore_options meant = LK_PERMIT_SEMAPHORE_OPTIONS_INIT;
	lk_permit ids[THREE];
	open_slots(THREE, "");
	meant.no_loss = no_loss;
	lk_permit_semaphore_free(slots);
	expect(0, lk_permit_semaphore_new(&slots, client, "slots", LK_STRLEN, &meant, &err));
	options.lease_ms = slow_ms(200);
	uint64_t late = begin_take(THREE, -1, &options);
	wait_until(queue_is_readable(), 5000);
	wait_until(stats_of(client).held == 0, 20000);
	lk_completion got = completed(late, LK_EMAYBEHELD);
	check_int(got.answer, ==, 0);
	expect(LK_EINVAL, lk_completion_permits(&got, ids, THREE, &err));
	take(ids, THREE);
	completed(begin_give(ids, THREE), 0);
	check_used(0);
	close_slots(0);
}

static void test_taken_too_late(void **state)
{
	taken_too_late(0);
	taken_too_late(1);
}

/* Whichever it is, and whether or not somebody has noticed: all others go back. */
static void one_ended_before(const char *pop, const char *options, uint64_t lost)
{
	lk_event event = LK_EVENT_INIT;
	open_slots(THREE, options);
	uint64_t id = begin_take(THREE, -1, NULL);
	wait_until(queue_is_readable(), 5000);
	lose_one(pop);
	wait_until(stats_of(client).lost >= lost, 20000);
	lk_completion got = completed(id, LK_EMAYBEHELD);
	check(strstr(got.error.message, "a permit ended before the completion was taken") != NULL);
	will_be_free(THREE);
	check_int(stats_of(client).held, ==, 0);
	if (!program_drives()) /* nobody knows of a hold, so nobody is told of its end */
		expect(0, lk_event_wait(client, &event, 0, NULL, &err));
	close_slots(0);
}

static void test_one_ended_before_all_were_taken(void **state)
{
	char options[64];
	snprintf(options, sizeof(options), "watchdog_ms=%lld", slow_ms(300));
	one_ended_before("ZPOPMIN", options, 1);
	one_ended_before("ZPOPMAX", options, 1);
}

/* Nobody takes it while its client lives: the close gives the permits back, and says so. */
static void test_a_completion_that_is_never_taken(void **state)
{
	lk_permit ids[THREE];
	open_slots(THREE, "");
	uint64_t id = begin_take(THREE, -1, NULL);
	wait_until(queue_is_readable(), 5000);
	expect(LK_EPENDING, lk_queue_free(queue, &err));
	check_used(THREE);
	expect(LK_EHELD, program_close(client, LK_CLOSE_IF_IDLE, &err));
	lk_permit_semaphore_free(slots);
	expect(0, program_close(client, LK_CLOSE_RELEASE, &err));
	program_free(client);
	check_used(0);
	lk_completion got = completed(id, LK_EMAYBEHELD);
	expect(LK_EINVAL, lk_completion_permits(&got, ids, THREE, &err));
	expect(0, lk_queue_free(queue, &err));
	delete_slots();
}

/* ---- handles, and bad input ---- */

/* What the program gave is its own again when a start has returned. */
static void test_handles_and_ids_are_freed_first(void **state)
{
	lk_permit ids[2 * THREE];
	open_slots(2 * THREE, "");
	take(ids, 2 * THREE);
	server_pause(&server);
	begin_give(ids, THREE);
	begin_give(ids + THREE, THREE);
	begin_take(2 * THREE, -1, NULL);
	memset(ids, 'x', sizeof(ids));
	lk_permit_semaphore_free(slots);
	slots = NULL;
	server_resume(&server);
	for (int i = 0; i < 3; i++) {
		lk_completion got = next_completion();
		check_int(got.error.code, ==, 0);
		if (got.operation == LK_OP_ACQUIRE)
			check_int(ids_of(&got, ids, 2 * THREE), ==, 2 * THREE);
	}
	check_used(2 * THREE);
	close_slots(0);
}

static void test_bad_input(void **state)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	const int64_t wrong[] = {0, -1, INT64_MIN, LK_PERMITS_AT_ONCE_MAX + 1, INT64_MAX};
	lk_permit ids[2] = {{"0123456789abcdef0123456789abcdef"},
			    {"0123456789abcdef0123456789abcde0"}};
	open_slots(2, "");
	for (size_t i = 0; i < COUNT(wrong); i++) {
		refuses(ACQUIRE, .permit_semaphore = slots, .number = wrong[i], .wait_ms = -1);
		check(strstr(err.message, "LK_OP_ACQUIRE: count is ") != NULL);
		refuses(RELEASE, .permit_semaphore = slots, .permits = ids, .number = wrong[i]);
		check(strstr(err.message, "LK_OP_RELEASE: count is ") != NULL);
	}
	expect(LK_EINVAL, lk_queue_start(NULL,
					 request_of(ACQUIRE, .permit_semaphore = slots, .number = 2,
						    .wait_ms = -1),
					 NULL, &err));
	refuses(ACQUIRE, .permit_semaphore = NULL, .number = 2, .wait_ms = -1);
	refuses(ACQUIRE, .permit_semaphore = slots, .number = 2, .wait_ms = -2);
	options.owner = "task";
	refuses(ACQUIRE, .permit_semaphore = slots, .number = 2, .wait_ms = -1, .acquire = &options,
		.tag = options.tag);
	expect(LK_EINVAL, lk_queue_start(NULL,
					 request_of(RELEASE, .permit_semaphore = slots,
						    .permits = ids, .number = 2),
					 NULL, &err));
	refuses(RELEASE, .permit_semaphore = NULL, .permits = ids, .number = 2);
	refuses(RELEASE, .permit_semaphore = slots, .number = 2);
	ids[1].id[31] = 'X';
	refuses(RELEASE, .permit_semaphore = slots, .permits = ids, .number = 2);
	check(strstr(err.message, "0123456789abcdef0123456789abcdeX") != NULL);
	expect(0, lk_queue_take(queue, &(lk_completion)LK_COMPLETION_INIT, 1, 0, &err));
	close_slots(0);
}

/* What is no grant of permits has no ids, and nothing is written. */
static void test_completions_without_ids(void **state)
{
	lk_permit ids[THREE], before[THREE];
	open_slots(THREE, "");
	memset(before, 'b', sizeof(before));
	memset(ids, 'b', sizeof(ids));
	lk_completion got = completed(begin_take(THREE, -1, NULL), 0), wrong = got;
	expect(LK_EINVAL, lk_completion_permits(NULL, ids, THREE, &err));
	expect(LK_EINVAL, lk_completion_permits(&got, NULL, THREE, &err));
	expect(LK_EINVAL, lk_completion_permits(&got, ids, THREE - 1, &err));
	check(strstr(err.message, "room is 2, and there are 3 permits") != NULL);
	wrong.operation = LK_OP_RELEASE;
	expect(LK_EINVAL, lk_completion_permits(&wrong, ids, THREE, &err));
	wrong = got;
	wrong.answer = LK_PERMITS_AT_ONCE_MAX + 1;
	expect(LK_EINVAL, lk_completion_permits(&wrong, ids, INT64_MAX, &err));
	wrong = got;
	wrong.field[31] = '1'; /* not the first of its acquire */
	expect(LK_EINVAL, lk_completion_permits(&wrong, ids, THREE, &err));
	memset(wrong.field, 'a', sizeof(wrong.field));
	expect(LK_EINVAL, lk_completion_permits(&wrong, ids, THREE, &err));
	lk_lock *lock = new_lock(client, "lock");
	wrong = acquire(lock, "task");
	expect(LK_EINVAL, lk_completion_permits(&wrong, ids, THREE, &err));
	check(memcmp(ids, before, sizeof(ids)) == 0);
	release(lock, "task");
	lk_lock_free(lock);
	ids_of(&got, ids, THREE);
	completed(begin_give(ids, THREE), 0);
	close_slots(0);
}

/* Any number of permits is one request. */
static void test_a_full_queue_refuses(void **state)
{
	lk_queue *small = NULL;
	lk_completion got = LK_COMPLETION_INIT;
	lk_permit ids[THREE];
	open_slots(THREE, "");
	expect(0, lk_queue_new(&small, 1, &err));
	expect(0, lk_queue_start(small,
				 request_of(ACQUIRE, .permit_semaphore = slots, .number = THREE,
					    .wait_ms = -1),
				 NULL, &err));
	expect(LK_ELIMIT,
	       lk_queue_start(small, request_of(ACQUIRE, .permit_semaphore = slots, .number = 1),
			      NULL, &err));
	expect(1, lk_queue_take(small, &got, 1, 20000, &err));
	ids_of(&got, ids, THREE);
	expect(0, lk_queue_start(small,
				 request_of(RELEASE, .permit_semaphore = slots, .permits = ids,
					    .number = THREE),
				 NULL, &err));
	expect(LK_ELIMIT, lk_queue_start(small,
					 request_of(RELEASE, .permit_semaphore = slots,
						    .permits = ids, .number = THREE),
					 NULL, &err));
	expect(1, lk_queue_take(small, &got, 1, 20000, &err));
	check_int(got.error.code, ==, 0);
	check_used(0);
	expect(0, lk_queue_free(small, &err));
	close_slots(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		counter_test(test_all_or_none),
		counter_test(test_as_many_as_can_be),
		counter_test(test_the_ids_outlive_all),
		counter_test(test_one_is_unknown),
		counter_test(test_one_is_lost),
		counter_test(test_taken_too_late),
		counter_test(test_one_ended_before_all_were_taken),
		counter_test(test_a_completion_that_is_never_taken),
		counter_test(test_handles_and_ids_are_freed_first),
		counter_test(test_bad_input),
		counter_test(test_completions_without_ids),
		counter_test(test_a_full_queue_refuses),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
