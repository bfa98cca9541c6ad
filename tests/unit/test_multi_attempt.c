/* SPDX-License-Identifier: MIT */
/* The attempt of a multi lock: what is done next, by the book and at random. */
#include "unit.h"

#include <stdlib.h>

#include <lockkeeper/error.h>

#include "base/clock.h"
#include "sync/multi/attempt.h"

#define PARTS 3
#define LIMIT_NS (1000 * LK__MS)

static struct lk__multi_attempt attempt;
static int64_t now_ns;

static struct lk__multi_event event_of(enum lk__multi_event_type type)
{
	return (struct lk__multi_event){.type = type, .busy = PARTS, .compensating = PARTS};
}

static struct lk__multi_effects step(struct lk__multi_event event)
{
	return lk__multi_step(&attempt, &event, now_ns);
}

static struct lk__multi_effects happened(enum lk__multi_event_type type)
{
	return step(event_of(type));
}

static struct lk__multi_effects busy(enum lk__multi_event_type type, size_t part, int code)
{
	struct lk__multi_event event = event_of(type);
	event.busy = part;
	event.busy_code = code;
	return step(event);
}

static struct lk__multi_effects start(bool once, int64_t until_ns)
{
	now_ns = LK__MS;
	attempt = (struct lk__multi_attempt){
		.count = PARTS, .once = once, .until_ns = until_ns, .command_ns = LIMIT_NS};
	return happened(LK__MULTI_STARTED);
}

static void start_and_connect(bool once, int64_t until_ns)
{
	assert_int_equal(start(once, until_ns).action, LK__MULTI_DO_LOOK);
	assert_int_equal(happened(LK__MULTI_LOOKED).action, LK__MULTI_DO_CONNECT);
	assert_int_equal(happened(LK__MULTI_CONNECTED).action, LK__MULTI_DO_CONNECT);
	assert_int_equal(happened(LK__MULTI_READY).action, LK__MULTI_DO_TRY);
}

static void test_all_are_granted(void **state)
{
	struct lk__multi_event event = event_of(LK__MULTI_TRIED);
	start_and_connect(false, LK__NEVER);
	event.stands = true;
	assert_int_equal(step(event).action, LK__MULTI_DO_GRANT);
}

/* Nothing is held while it waits for the part, and alone for that. */
static void test_a_busy_part_is_awaited(void **state)
{
	start_and_connect(false, LK__NEVER);
	struct lk__multi_effects effects = busy(LK__MULTI_TRIED, 1, LK_EBUSY);
	assert_int_equal(effects.action, LK__MULTI_DO_GIVE_BACK);
	assert_int_equal(effects.until_ns, now_ns + LIMIT_NS);
	effects = happened(LK__MULTI_GIVEN_BACK);
	assert_int_equal(effects.action, LK__MULTI_DO_AWAIT);
	assert_int_equal(effects.part, 1);
	assert_int_equal(happened(LK__MULTI_AWAITED).action, LK__MULTI_DO_LOOK);
}

/* Found at the look, it is awaited without a try; the third lost race is followed by a pause. */
static void test_lost_races_end_in_pauses(void **state)
{
	start(false, LK__NEVER);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(busy(LK__MULTI_LOOKED, 2, LK_EBUSY).action,
				 LK__MULTI_DO_GIVE_BACK);
		assert_int_equal(happened(LK__MULTI_GIVEN_BACK).action, LK__MULTI_DO_AWAIT);
		assert_int_equal(happened(LK__MULTI_AWAITED).action, LK__MULTI_DO_LOOK);
	}
	busy(LK__MULTI_LOOKED, 2, LK_EBUSY);
	struct lk__multi_effects effects = happened(LK__MULTI_GIVEN_BACK);
	assert_int_equal(effects.action, LK__MULTI_DO_PAUSE);
	assert_between(effects.until_ns, now_ns + 1, now_ns + 100 * LK__MS);
	assert_int_equal(happened(LK__MULTI_TIMER).action, LK__MULTI_DO_AWAIT);
}

static void test_a_mere_try_asks_once(void **state)
{
	start_and_connect(true, LK__NEVER);
	busy(LK__MULTI_TRIED, 0, LK_EBUSY);
	struct lk__multi_effects effects = happened(LK__MULTI_GIVEN_BACK);
	assert_int_equal(effects.action, LK__MULTI_DO_FAIL);
	assert_int_equal(effects.code, LK_EBUSY);
}

/* What was not sent, or came late for the first time, is asked again; and not for ever. */
static void test_a_mere_try_that_was_not_asked(void **state)
{
	int tries = 0;
	struct lk__multi_effects effects = start(true, LK__NEVER);
	while (effects.action == LK__MULTI_DO_LOOK && ++tries < 10) {
		struct lk__multi_event event = event_of(LK__MULTI_LOOKED);
		event.busy = 1;
		event.busy_code = LK_EUNREACHABLE;
		event.again = true;
		step(event);
		effects = happened(LK__MULTI_GIVEN_BACK);
	}
	assert_int_equal(tries, 3);
	assert_int_equal(effects.code, LK_EUNREACHABLE);
}

static void test_the_end_of_the_wait(void **state)
{
	static const struct {
		int busy_code, code;
	} cases[] = {{LK_EBUSY, LK_ETIMEDOUT}, {LK_EUNREACHABLE, LK_EUNREACHABLE}};
	for (size_t i = 0; i < COUNT(cases); i++) {
		start_and_connect(false, LIMIT_NS);
		busy(LK__MULTI_TRIED, 1, cases[i].busy_code);
		now_ns = LIMIT_NS;
		struct lk__multi_effects effects = happened(LK__MULTI_GIVEN_BACK);
		assert_int_equal(effects.action, LK__MULTI_DO_FAIL);
		assert_int_equal(effects.code, cases[i].code);
		assert_int_equal(effects.part, 1);
	}
}

/* They came later than a lease: what may be held is said, as long as it is so. */
static void test_grants_that_were_late(void **state)
{
	for (int gone = 0; gone < 2; gone++) {
		start_and_connect(true, LK__NEVER);
		assert_int_equal(happened(LK__MULTI_TRIED).action, LK__MULTI_DO_GIVE_BACK);
		struct lk__multi_event event = event_of(LK__MULTI_GIVEN_BACK);
		event.compensating = gone ? PARTS : 2;
		struct lk__multi_effects effects = step(event);
		assert_int_equal(effects.action, LK__MULTI_DO_FAIL);
		assert_int_equal(effects.code, LK_EMAYBEHELD);
		assert_int_equal(effects.part, gone ? 0 : 2);
	}
}

static void test_what_may_be_held_is_said(void **state)
{
	static const struct {
		int code, told;
	} cases[] = {{LK_EREFUSED, LK_EMAYBEHELD},
		     {LK_ENOTDURABLE, LK_ENOTDURABLE},
		     {LK_ECANCELLED, LK_ECANCELLED}};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct lk__multi_event event = event_of(LK__MULTI_TRIED);
		start_and_connect(false, LK__NEVER);
		event.code = cases[i].code;
		event.unknown = true;
		assert_int_equal(step(event).action, LK__MULTI_DO_GIVE_BACK);
		event = event_of(LK__MULTI_GIVEN_BACK);
		event.compensating = 1;
		assert_int_equal(step(event).code, cases[i].told);
	}
}

static void test_cancelled_while_it_connects(void **state)
{
	start(false, LK__NEVER);
	happened(LK__MULTI_LOOKED);
	struct lk__multi_event event = event_of(LK__MULTI_READY);
	event.cancelled = true;
	assert_int_equal(step(event).action, LK__MULTI_DO_GIVE_BACK);
	event.type = LK__MULTI_GIVEN_BACK;
	assert_int_equal(step(event).code, LK_ECANCELLED);
}

static void test_a_client_is_closed(void **state)
{
	start_and_connect(false, LK__NEVER);
	busy(LK__MULTI_TRIED, 1, LK_EBUSY);
	struct lk__multi_event event = event_of(LK__MULTI_GIVEN_BACK);
	event.ends = LK_ECLOSED;
	assert_int_equal(step(event).code, LK_ECLOSED);
	start_and_connect(false, LK__NEVER);
	event = event_of(LK__MULTI_TRIED);
	event.busy = 1;
	event.busy_code = LK_EMAYBEHELD;
	event.unknown = true;
	event.ends = LK_ECLOSED;
	step(event);
	event.type = LK__MULTI_GIVEN_BACK;
	event.compensating = 1;
	assert_int_equal(step(event).code, LK_EMAYBEHELD);
}

/* ---- at random ---- */

/* What came of an action. */
static struct lk__multi_event random_event(enum lk__multi_action action)
{
	static const enum lk__multi_event_type types[] = {
		[LK__MULTI_DO_AWAIT] = LK__MULTI_AWAITED,
		[LK__MULTI_DO_LOOK] = LK__MULTI_LOOKED,
		[LK__MULTI_DO_CONNECT] = LK__MULTI_CONNECTED,
		[LK__MULTI_DO_TRY] = LK__MULTI_TRIED,
		[LK__MULTI_DO_GIVE_BACK] = LK__MULTI_GIVEN_BACK,
		[LK__MULTI_DO_PAUSE] = LK__MULTI_TIMER,
	};
	static const int reasons[] = {LK_EBUSY, LK_EUNREACHABLE, LK_EUNAVAILABLE, LK_EMAYBEHELD};
	struct lk__multi_event event = event_of(types[action]);
	if (event.type == LK__MULTI_CONNECTED && rand() % 2)
		event.type = LK__MULTI_READY;
	if (event.type != LK__MULTI_GIVEN_BACK && rand() % 40 == 0)
		event.code = rand() % 2 ? LK_EREFUSED : LK_ENOTDURABLE;
	if (rand() % 3 == 0)
		event.busy = (size_t)rand() % PARTS;
	event.busy_code = reasons[rand() % 4];
	event.stands = event.code == 0 && event.busy == PARTS && rand() % 4;
	event.again = rand() % 2;
	event.unknown = rand() % 8 == 0;
	event.ends = rand() % 200 ? 0 : rand() % 2 ? LK_ECLOSED : LK_EDRAINING;
	event.cancelled = rand() % 100 == 0;
	event.compensating = rand() % 4 ? PARTS : (size_t)rand() % PARTS;
	return event;
}

/* Nothing is held in a wait, or at a failure; a grant is of all; every attempt has an end. */
static void random_attempt(bool once)
{
	bool held = false; /* perhaps */
	int tries = 0, steps = 0;
	struct lk__multi_effects effects = start(once, once ? LK__NEVER : LIMIT_NS);
	struct lk__multi_event event = {0};
	while (effects.action < LK__MULTI_DO_GRANT) {
		assert_true(++steps < 100000);
		if (effects.action == LK__MULTI_DO_AWAIT || effects.action == LK__MULTI_DO_PAUSE)
			assert_true(!held && !once);
		if (effects.action == LK__MULTI_DO_TRY || effects.action == LK__MULTI_DO_LOOK)
			held = true;
		if (effects.action == LK__MULTI_DO_GIVE_BACK)
			held = false;
		tries += effects.action == LK__MULTI_DO_TRY;
		now_ns += rand() % (10 * LK__MS);
		event = random_event(effects.action);
		effects = step(event);
	}
	if (effects.action == LK__MULTI_DO_GRANT) {
		assert_int_equal(event.type, LK__MULTI_TRIED);
		assert_true(event.stands);
		return;
	}
	assert_true(effects.code < 0 && effects.part < PARTS && !held);
	assert_true(!once || tries <= 3);
}

static void test_at_random(void **state)
{
	for (unsigned seed = 0; seed < 20000; seed++) {
		srand(seed);
		random_attempt(seed % 4 == 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_are_granted),
		cmocka_unit_test(test_a_busy_part_is_awaited),
		cmocka_unit_test(test_lost_races_end_in_pauses),
		cmocka_unit_test(test_a_mere_try_asks_once),
		cmocka_unit_test(test_a_mere_try_that_was_not_asked),
		cmocka_unit_test(test_the_end_of_the_wait),
		cmocka_unit_test(test_grants_that_were_late),
		cmocka_unit_test(test_what_may_be_held_is_said),
		cmocka_unit_test(test_cancelled_while_it_connects),
		cmocka_unit_test(test_a_client_is_closed),
		cmocka_unit_test(test_at_random),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
