/* The acquire machine, driven by a fake clock and scripted answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <lockkeeper/error.h>

#include "base/clock.h"
#include "sync/acquire.h"

#define MS LK__MS

static struct lk__acquire begin(bool once, bool listening, int64_t hold_off_until_ns)
{
	struct lk__acquire acquire = {.backoff_min_ns = 10 * MS, .backoff_max_ns = 2000 * MS};
	lk__acquire_begin(&acquire, once, listening, hold_off_until_ns);
	return acquire;
}

static struct lk__acquire_action step(struct lk__acquire *acquire, int type, int64_t now_ns)
{
	struct lk__acquire_event event = {.type = (enum lk__acquire_event_type)type};
	return lk__acquire_step(acquire, &event, now_ns);
}

static struct lk__acquire_action busy(struct lk__acquire *acquire, int64_t ttl_ms, int64_t now_ns)
{
	struct lk__acquire_event event = {.type = LK__ACQUIRE_BUSY, .ttl_ms = ttl_ms};
	return lk__acquire_step(acquire, &event, now_ns);
}

static struct lk__acquire_action failed(struct lk__acquire *acquire, int code, bool retryable,
					int64_t now_ns)
{
	struct lk__acquire_event event = {
		.type = LK__ACQUIRE_FAILED, .code = code, .retryable = retryable};
	return lk__acquire_step(acquire, &event, now_ns);
}

static void test_granted_at_once(void **state)
{
	struct lk__acquire acquire = begin(false, false, 0);
	(void)state;
	struct lk__acquire_action action = step(&acquire, LK__ACQUIRE_START, 5);
	assert_int_equal(action.type, LK__ACQUIRE_DO_TRY);
	assert_true(action.new_number);
	action = step(&acquire, LK__ACQUIRE_GRANTED, 6);
	assert_int_equal(action.type, LK__ACQUIRE_DO_GRANT);
	assert_int_equal(acquire.state, LK__ACQUIRE_IDLE);
}

/* A message may be the grant: then no try follows it. */
static void test_granted_by_a_message(void **state)
{
	struct lk__acquire acquire = begin(false, true, 0);
	(void)state;
	step(&acquire, LK__ACQUIRE_START, 0);
	assert_int_equal(busy(&acquire, 1000, 1).type, LK__ACQUIRE_DO_WAIT);
	assert_int_equal(step(&acquire, LK__ACQUIRE_GRANTED, 2).type, LK__ACQUIRE_DO_GRANT);
	assert_int_equal(acquire.state, LK__ACQUIRE_IDLE);
}

/* Subscribe, then try again, then wait: a release in between cannot be missed. */
static void test_busy_listens_then_tries_then_waits(void **state)
{
	struct lk__acquire acquire = begin(false, false, 0);
	(void)state;
	step(&acquire, LK__ACQUIRE_START, 0);
	assert_int_equal(busy(&acquire, 30000, 1).type, LK__ACQUIRE_DO_LISTEN);
	struct lk__acquire_action action = step(&acquire, LK__ACQUIRE_LISTENING, 2);
	assert_int_equal(action.type, LK__ACQUIRE_DO_TRY);
	assert_false(action.new_number);
	action = busy(&acquire, 200, 10 * MS);
	assert_int_equal(action.type, LK__ACQUIRE_DO_WAIT);
	assert_in_range(action.until_ns, 210 * MS, 212 * MS);
	assert_int_equal(lk__acquire_verdict(&acquire, false), LK_ETIMEDOUT);
	assert_int_equal(step(&acquire, LK__ACQUIRE_WOKEN, 20 * MS).type, LK__ACQUIRE_DO_TRY);
	assert_int_equal(busy(&acquire, 100, 30 * MS).type, LK__ACQUIRE_DO_WAIT);
	assert_int_equal(step(&acquire, LK__ACQUIRE_TIMER, 131 * MS).type, LK__ACQUIRE_DO_TRY);
	assert_int_equal(step(&acquire, LK__ACQUIRE_GRANTED, 132 * MS).type, LK__ACQUIRE_DO_GRANT);
}

static void test_once_never_waits(void **state)
{
	(void)state;
	struct lk__acquire acquire = begin(true, false, 1000 * MS);
	assert_int_equal(step(&acquire, LK__ACQUIRE_START, 0).type, LK__ACQUIRE_DO_TRY);
	struct lk__acquire_action action = busy(&acquire, 30000, 1);
	assert_int_equal(action.type, LK__ACQUIRE_DO_FAIL);
	assert_int_equal(action.code, LK_EBUSY);
	acquire = begin(true, false, 0);
	step(&acquire, LK__ACQUIRE_START, 0);
	action = failed(&acquire, LK_EUNAVAILABLE, true, 1);
	assert_int_equal(action.type, LK__ACQUIRE_DO_FAIL);
	assert_int_equal(action.code, LK_EUNAVAILABLE);
	acquire = begin(true, false, 0);
	step(&acquire, LK__ACQUIRE_START, 0);
	action = step(&acquire, LK__ACQUIRE_UNKNOWN, 1);
	assert_int_equal(action.type, LK__ACQUIRE_DO_FAIL);
	assert_int_equal(action.code, LK_EMAYBEHELD);
	assert_true(action.take_back);
}

static const struct {
	int64_t ttl_ms, least_ms, most_ms;
} ttls[] = {
	{-1, 1000, 1000}, /* no ttl: polled */
	{-2, 1000, 1000}, {0, 1, 20},      {1, 1, 20},
	{4, 4, 20},       {100, 100, 102}, {INT64_MAX / 2, 1000000, INT64_MAX / MS},
};

static void test_waits_for_each_ttl(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(ttls) / sizeof(ttls[0]); i++) {
		struct lk__acquire acquire = begin(false, true, 0);
		int64_t now_ns = 1000 * MS;
		step(&acquire, LK__ACQUIRE_START, now_ns);
		struct lk__acquire_action action = busy(&acquire, ttls[i].ttl_ms, now_ns);
		assert_int_equal(action.type, LK__ACQUIRE_DO_WAIT);
		assert_true(action.until_ns / MS - 1000 >= ttls[i].least_ms);
		assert_true(action.until_ns / MS - 1000 <= ttls[i].most_ms);
	}
}

static void test_refusals_back_off_up_to_a_limit(void **state)
{
	struct lk__acquire acquire = begin(false, true, 0);
	int64_t now_ns = 0, last_ns = 0;
	(void)state;
	step(&acquire, LK__ACQUIRE_START, now_ns);
	for (int i = 0; i < 100; i++) {
		struct lk__acquire_action action = failed(&acquire, LK_EUNAVAILABLE, true, now_ns);
		int64_t pause_ns = action.until_ns - now_ns;
		assert_int_equal(action.type, LK__ACQUIRE_DO_PAUSE);
		assert_false(action.take_back);
		assert_true(pause_ns >= 10 * MS && pause_ns <= 2000 * MS && pause_ns >= last_ns);
		last_ns = pause_ns;
		assert_int_equal(lk__acquire_verdict(&acquire, false), LK_EUNAVAILABLE);
		now_ns = action.until_ns;
		action = step(&acquire, LK__ACQUIRE_TIMER, now_ns);
		assert_int_equal(action.type, LK__ACQUIRE_DO_TRY);
		assert_false(action.new_number);
	}
	assert_int_equal(last_ns, 2000 * MS);
	assert_int_equal(acquire.failing_since_ns, 0);
	busy(&acquire, 10, now_ns); /* an answer: the next failure begins anew */
	assert_int_equal(lk__acquire_verdict(&acquire, false), LK_ETIMEDOUT);
	step(&acquire, LK__ACQUIRE_TIMER, now_ns);
	assert_int_equal(failed(&acquire, LK_EUNAVAILABLE, true, now_ns).until_ns,
			 now_ns + 10 * MS);
	assert_int_equal(acquire.failing_since_ns, now_ns);
}

static void test_fatal_refusals_end_it(void **state)
{
	struct lk__acquire acquire = begin(false, false, 0);
	(void)state;
	step(&acquire, LK__ACQUIRE_START, 0);
	struct lk__acquire_action action = failed(&acquire, LK_EWRONGTYPE, false, 1);
	assert_int_equal(action.type, LK__ACQUIRE_DO_FAIL);
	assert_int_equal(action.code, LK_EWRONGTYPE);
	assert_int_equal(acquire.state, LK__ACQUIRE_IDLE);
	step(&acquire, LK__ACQUIRE_START, 2);
	assert_int_equal(busy(&acquire, 10, 2).type, LK__ACQUIRE_DO_LISTEN);
	action = failed(&acquire, LK_EDENIED, false, 3); /* SUBSCRIBE refused */
	assert_int_equal(action.type, LK__ACQUIRE_DO_FAIL);
	assert_int_equal(action.code, LK_EDENIED);
}

static void test_unknown_is_taken_back_and_tried_under_a_new_number(void **state)
{
	struct lk__acquire acquire = begin(false, false, 0);
	(void)state;
	step(&acquire, LK__ACQUIRE_START, 0);
	struct lk__acquire_action action = step(&acquire, LK__ACQUIRE_UNKNOWN, 1);
	assert_int_equal(action.type, LK__ACQUIRE_DO_PAUSE);
	assert_true(action.take_back);
	assert_int_equal(lk__acquire_verdict(&acquire, false), LK_EMAYBEHELD);
	action = step(&acquire, LK__ACQUIRE_TIMER, 20 * MS);
	assert_int_equal(action.type, LK__ACQUIRE_DO_TRY);
	assert_true(action.new_number);
	assert_int_equal(step(&acquire, LK__ACQUIRE_GRANTED, 21 * MS).type, LK__ACQUIRE_DO_GRANT);
}

static void test_late_is_repeated_once(void **state)
{
	struct lk__acquire acquire = begin(false, false, 0);
	(void)state;
	step(&acquire, LK__ACQUIRE_START, 0);
	struct lk__acquire_action action = step(&acquire, LK__ACQUIRE_LATE, 1);
	assert_int_equal(action.type, LK__ACQUIRE_DO_TRY);
	assert_false(action.new_number);
	action = step(&acquire, LK__ACQUIRE_LATE, 2);
	assert_int_equal(action.type, LK__ACQUIRE_DO_PAUSE);
	assert_int_equal(lk__acquire_verdict(&acquire, false), LK_EUNAVAILABLE);
	acquire = begin(true, false, 0);
	step(&acquire, LK__ACQUIRE_START, 0);
	assert_int_equal(step(&acquire, LK__ACQUIRE_LATE, 1).type, LK__ACQUIRE_DO_TRY);
	action = step(&acquire, LK__ACQUIRE_LATE, 2);
	assert_int_equal(action.type, LK__ACQUIRE_DO_FAIL);
	assert_int_equal(action.code, LK_EUNAVAILABLE);
}

static void test_the_next_head_drives_on(void **state)
{
	struct lk__acquire acquire = begin(false, false, 0);
	(void)state;
	step(&acquire, LK__ACQUIRE_START, 0);
	/* In flight: a second try would be a second grant. */
	assert_int_equal(step(&acquire, LK__ACQUIRE_START, 1).type, LK__ACQUIRE_DO_AWAIT);
	assert_int_equal(step(&acquire, LK__ACQUIRE_WOKEN, 1).type, LK__ACQUIRE_DO_NOTHING);
	assert_int_equal(step(&acquire, LK__ACQUIRE_TIMER, 1).type, LK__ACQUIRE_DO_NOTHING);
	busy(&acquire, 30000, 2);
	step(&acquire, LK__ACQUIRE_LISTENING, 3);
	assert_int_equal(busy(&acquire, 30000, 4).type, LK__ACQUIRE_DO_WAIT);
	assert_int_equal(step(&acquire, LK__ACQUIRE_START, 5).type, LK__ACQUIRE_DO_TRY);
}

static void test_left_with_a_try_in_flight(void **state)
{
	static const struct {
		int event, action;
	} answers[] = {
		{LK__ACQUIRE_GRANTED, LK__ACQUIRE_DO_TAKE_BACK},
		{LK__ACQUIRE_UNKNOWN, LK__ACQUIRE_DO_TAKE_BACK},
		{LK__ACQUIRE_BUSY, LK__ACQUIRE_DO_NOTHING},
		{LK__ACQUIRE_LATE, LK__ACQUIRE_DO_NOTHING},
		{LK__ACQUIRE_FAILED, LK__ACQUIRE_DO_NOTHING},
	};
	static const int noise[] = {LK__ACQUIRE_WOKEN, LK__ACQUIRE_TIMER, LK__ACQUIRE_LISTENING,
				    LK__ACQUIRE_LEFT};
	(void)state;
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		struct lk__acquire acquire = begin(false, true, 0);
		step(&acquire, LK__ACQUIRE_START, 0);
		step(&acquire, LK__ACQUIRE_LEFT, 1);
		assert_int_equal(acquire.state, LK__ACQUIRE_ABANDONED);
		/* What is no answer must not make it forget the try. */
		for (size_t j = 0; j < sizeof(noise) / sizeof(noise[0]); j++) {
			assert_int_equal(step(&acquire, noise[j], 2).type, LK__ACQUIRE_DO_NOTHING);
			assert_int_equal(acquire.state, LK__ACQUIRE_ABANDONED);
		}
		assert_int_equal(step(&acquire, answers[i].event, 3).type, answers[i].action);
		assert_int_equal(acquire.state, LK__ACQUIRE_IDLE);
		assert_true(step(&acquire, LK__ACQUIRE_START, 4).new_number);
	}
}

static void test_somebody_comes_before_the_answer(void **state)
{
	struct lk__acquire acquire = begin(false, true, 0);
	(void)state;
	step(&acquire, LK__ACQUIRE_START, 0);
	step(&acquire, LK__ACQUIRE_LEFT, 1);
	assert_int_equal(step(&acquire, LK__ACQUIRE_START, 2).type, LK__ACQUIRE_DO_AWAIT);
	assert_int_equal(step(&acquire, LK__ACQUIRE_GRANTED, 3).type, LK__ACQUIRE_DO_GRANT);
}

static void test_hold_off(void **state)
{
	(void)state;
	struct lk__acquire acquire = begin(false, true, 50 * MS);
	struct lk__acquire_action action = step(&acquire, LK__ACQUIRE_START, 45 * MS);
	assert_int_equal(action.type, LK__ACQUIRE_DO_HOLD_OFF);
	assert_int_equal(action.until_ns, 50 * MS);
	assert_int_equal(step(&acquire, LK__ACQUIRE_TIMER, 50 * MS).type, LK__ACQUIRE_DO_TRY);
	acquire = begin(false, false, 50 * MS); /* not yet listening: it does that meanwhile */
	assert_int_equal(step(&acquire, LK__ACQUIRE_START, 45 * MS).type, LK__ACQUIRE_DO_LISTEN);
	action = step(&acquire, LK__ACQUIRE_LISTENING, 46 * MS);
	assert_int_equal(action.type, LK__ACQUIRE_DO_HOLD_OFF);
	assert_int_equal(step(&acquire, LK__ACQUIRE_WOKEN, 47 * MS).type, LK__ACQUIRE_DO_TRY);
	acquire = begin(false, true, 50 * MS);
	assert_int_equal(step(&acquire, LK__ACQUIRE_START, 50 * MS).type, LK__ACQUIRE_DO_TRY);
}

/* Driven at random: one try at a time, no grant is forgotten, nothing unknown is re-used. */
struct world {
	struct lk__acquire acquire;
	struct lk__acquire_action action;
	int64_t now_ns;
	bool in_flight, somebody, must_be_new;
};

static void obey(struct world *world, const struct lk__acquire_event *event)
{
	bool answer = event->type == LK__ACQUIRE_GRANTED || event->type == LK__ACQUIRE_BUSY ||
		      event->type == LK__ACQUIRE_LATE || event->type == LK__ACQUIRE_UNKNOWN ||
		      (event->type == LK__ACQUIRE_FAILED && world->in_flight);
	world->in_flight = world->in_flight && !answer;
	struct lk__acquire_action action = lk__acquire_step(&world->acquire, event, world->now_ns);
	if (event->type == LK__ACQUIRE_GRANTED)
		assert_int_equal(action.type,
				 world->somebody ? LK__ACQUIRE_DO_GRANT : LK__ACQUIRE_DO_TAKE_BACK);
	if (event->type == LK__ACQUIRE_UNKNOWN) {
		assert_true(action.take_back || action.type == LK__ACQUIRE_DO_TAKE_BACK);
		world->must_be_new = true;
	}
	if (action.type == LK__ACQUIRE_DO_TRY) {
		assert_false(world->in_flight);
		assert_true(action.new_number || !world->must_be_new);
		world->in_flight = true;
		world->must_be_new = false;
	}
	if (action.type == LK__ACQUIRE_DO_AWAIT)
		assert_true(world->in_flight);
	if (action.type == LK__ACQUIRE_DO_WAIT || action.type == LK__ACQUIRE_DO_PAUSE)
		assert_true(action.until_ns > world->now_ns);
	if (action.type == LK__ACQUIRE_DO_GRANT || action.type == LK__ACQUIRE_DO_FAIL)
		world->somebody = false;
	if (action.type != LK__ACQUIRE_DO_NOTHING)
		world->action = action;
}

static void test_a_spinner_pauses_and_never_listens(void **state)
{
	struct lk__acquire acquire = begin(false, false, 0);
	int64_t now_ns = 0, pauses_ns[6];
	(void)state;
	acquire.spins = true;
	acquire.spin_min_ns = MS;
	acquire.spin_max_ns = 10 * MS;
	acquire.spin_factor = 2;
	step(&acquire, LK__ACQUIRE_START, 0);
	for (int i = 0; i < 6; i++) {
		struct lk__acquire_action action = busy(&acquire, 30000, now_ns);
		assert_int_equal(action.type, LK__ACQUIRE_DO_PAUSE);
		pauses_ns[i] = action.until_ns - now_ns;
		now_ns = action.until_ns;
		assert_int_equal(lk__acquire_verdict(&acquire, false), LK_ETIMEDOUT);
		assert_int_equal(step(&acquire, LK__ACQUIRE_TIMER, now_ns).type,
				 LK__ACQUIRE_DO_TRY);
	}
	assert_int_equal(pauses_ns[0], MS);
	assert_int_equal(pauses_ns[1], 2 * MS);
	assert_int_equal(pauses_ns[3], 8 * MS);
	assert_int_equal(pauses_ns[4], 10 * MS);
	assert_int_equal(pauses_ns[5], 10 * MS);
}

static void test_who_polls_waits_no_longer_than_that(void **state)
{
	struct lk__acquire acquire = begin(false, true, 0);
	(void)state;
	acquire.poll_ns = 100 * MS;
	step(&acquire, LK__ACQUIRE_START, 0);
	assert_int_equal(busy(&acquire, 30000, MS).until_ns, 101 * MS);
	step(&acquire, LK__ACQUIRE_TIMER, 101 * MS);
	assert_true(busy(&acquire, 20, 101 * MS).until_ns < 125 * MS);
}

static void one_random_event(struct world *world)
{
	static const enum lk__acquire_event_type answers[] = {
		LK__ACQUIRE_GRANTED, LK__ACQUIRE_BUSY,    LK__ACQUIRE_LATE,
		LK__ACQUIRE_FAILED,  LK__ACQUIRE_UNKNOWN,
	};
	struct lk__acquire_event event = {
		.ttl_ms = rand() % 50 - 2, .code = LK_EUNAVAILABLE, .retryable = rand() % 4 != 0};
	world->now_ns += rand() % (5 * MS);
	if (!world->somebody) {
		if (!world->in_flight && rand() % 2)
			lk__acquire_begin(&world->acquire, rand() % 3 == 0, rand() % 2,
					  world->now_ns + rand() % (10 * MS));
		event.type = world->in_flight && rand() % 2 ? answers[rand() % 5]
							    : LK__ACQUIRE_START;
		world->somebody = event.type == LK__ACQUIRE_START;
	} else if (rand() % 5 == 0) {
		event.type = LK__ACQUIRE_LEFT;
		world->somebody = false;
	} else if (rand() % 8 == 0) {
		event.type = LK__ACQUIRE_START; /* another head */
	} else if (world->in_flight) {
		event.type = rand() % 4 ? answers[rand() % 5] : LK__ACQUIRE_WOKEN;
	} else if (world->action.type == LK__ACQUIRE_DO_LISTEN) {
		event.type = rand() % 4 ? LK__ACQUIRE_LISTENING : LK__ACQUIRE_FAILED;
	} else {
		event.type = rand() % 2 ? LK__ACQUIRE_WOKEN : LK__ACQUIRE_TIMER;
		if (event.type == LK__ACQUIRE_TIMER && world->action.until_ns > world->now_ns)
			world->now_ns = world->action.until_ns;
	}
	obey(world, &event);
}

static void test_random_events(void **state)
{
	struct world world = {.acquire = begin(false, false, 0)};
	(void)state;
	srand(1);
	for (int i = 0; i < 300000; i++)
		one_random_event(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_granted_at_once),
		cmocka_unit_test(test_granted_by_a_message),
		cmocka_unit_test(test_busy_listens_then_tries_then_waits),
		cmocka_unit_test(test_once_never_waits),
		cmocka_unit_test(test_waits_for_each_ttl),
		cmocka_unit_test(test_refusals_back_off_up_to_a_limit),
		cmocka_unit_test(test_fatal_refusals_end_it),
		cmocka_unit_test(test_unknown_is_taken_back_and_tried_under_a_new_number),
		cmocka_unit_test(test_late_is_repeated_once),
		cmocka_unit_test(test_the_next_head_drives_on),
		cmocka_unit_test(test_left_with_a_try_in_flight),
		cmocka_unit_test(test_somebody_comes_before_the_answer),
		cmocka_unit_test(test_hold_off),
		cmocka_unit_test(test_a_spinner_pauses_and_never_listens),
		cmocka_unit_test(test_who_polls_waits_no_longer_than_that),
		cmocka_unit_test(test_random_events),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
