/* A waiter whose place is in a queue or among the turns: what keeps it, and what gives it up. */
#include "attempting.h"

static struct lk__attempt in_a_queue(void)
{
	struct lk__attempt attempt = begin(false, true, 0);
	attempt.rules.queues = attempt.rules.own_channel = true;
	step(&attempt, LK__ATTEMPT_ADOPTED, 0);
	attempt.listening = true;
	busy(&attempt, 30000, 1 * MS);
	assert_int_equal(step(&attempt, LK__ATTEMPT_TIMER, 2 * MS).action, LK__ATTEMPT_DO_SEND);
	return attempt;
}

static struct lk__effects untold(struct lk__attempt *attempt, int64_t now_ns)
{
	struct lk__attempt_event event = {
		.type = LK__ATTEMPT_UNKNOWN, .code = LK_EMAYBEHELD, .untold = true};
	return feed(attempt, &event, now_ns);
}

static void test_a_try_without_an_answer_keeps_its_place(void **state)
{
	struct lk__attempt attempt = in_a_queue();
	uint64_t number = attempt.number;
	struct lk__effects effects = untold(&attempt, 3100 * MS);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_PAUSE);
	assert_int_equal(effects.compensate, LK__COMPENSATE_NOT);
	assert_false(effects.unsubscribes);
	assert_int_equal(verdict(&attempt, false), LK_EMAYBEHELD);
	struct lk__attempt left = attempt;
	assert_int_equal(leave(&left, true, 3101 * MS).compensate, LK__COMPENSATE_RELEASE);
	left = attempt; /* by a clock that is ahead, a copy might still come */
	assert_int_equal(leave(&left, true, 3001 * MS).compensate, LK__COMPENSATE_COPIES);
	effects = step(&attempt, LK__ATTEMPT_TIMER, 3200 * MS);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_SEND);
	assert_false(effects.new_number);
	assert_int_equal(attempt.number, number);
	assert_int_equal(busy(&attempt, 30000, 3201 * MS).action, LK__ATTEMPT_DO_WAIT);
	assert_int_equal(verdict(&attempt, false), LK_ETIMEDOUT);
	step(&attempt, LK__ATTEMPT_WOKEN, 3300 * MS);
	untold(&attempt, 6400 * MS);
	step(&attempt, LK__ATTEMPT_TIMER, 6500 * MS);
	effects = step(&attempt, LK__ATTEMPT_GRANTED, 6501 * MS);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_GRANT);
	assert_int_equal(effects.repeated_until_ns, 6300 * MS);
}

/* What refuses the tries behind it says nothing about it. */
static void test_a_try_without_an_answer_stays_in_doubt(void **state)
{
	struct lk__attempt attempt = in_a_queue();
	untold(&attempt, 3100 * MS);
	step(&attempt, LK__ATTEMPT_TIMER, 3200 * MS);
	assert_int_equal(failed(&attempt, LK_EUNAVAILABLE, true, 3201 * MS).action,
			 LK__ATTEMPT_DO_PAUSE);
	assert_int_equal(verdict(&attempt, false), LK_EMAYBEHELD);
	step(&attempt, LK__ATTEMPT_TIMER, 3300 * MS);
	struct lk__effects effects = failed(&attempt, LK_EDENIED, false, 3301 * MS);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_FAIL);
	assert_int_equal(effects.code, LK_EMAYBEHELD);
	assert_int_equal(effects.compensate, LK__COMPENSATE_RELEASE);
}

/* The number has it on the master, and goes on until replicas have it too. */
static void test_a_try_that_too_few_have_keeps_its_turn(void **state)
{
	struct lk__attempt attempt = in_a_queue();
	struct lk__attempt_event event = {.type = LK__ATTEMPT_UNKNOWN, .code = LK_ENOTDURABLE};
	assert_int_equal(feed(&attempt, &event, 3 * MS).compensate, LK__COMPENSATE_NOT);
	assert_int_equal(verdict(&attempt, false), LK_ENOTDURABLE);
	struct lk__attempt left = attempt;
	assert_int_equal(leave(&left, true, 4 * MS).compensate, LK__COMPENSATE_RELEASE);
	assert_false(step(&attempt, LK__ATTEMPT_TIMER, 20 * MS).new_number);
	left = attempt;
	struct lk__effects effects = failed(&left, LK_EDENIED, false, 21 * MS);
	assert_int_equal(effects.code, LK_EMAYBEHELD);
	assert_int_equal(effects.compensate, LK__COMPENSATE_RELEASE);
	effects = step(&attempt, LK__ATTEMPT_GRANTED, 21 * MS);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_GRANT);
	assert_int_equal(effects.repeated_until_ns, 0);
}

/* An answer of the script that does not decide is another thing. */
static void test_a_place_is_given_up_with_a_void_grant(void **state)
{
	struct lk__attempt attempt = in_a_queue();
	struct lk__attempt_event event = {.type = LK__ATTEMPT_UNKNOWN, .code = LK_EMAYBEHELD};
	assert_int_equal(feed(&attempt, &event, 3 * MS).compensate, LK__COMPENSATE_COPIES);
	attempt = in_a_queue();
	attempt.rules.own_channel = false; /* a place without an order */
	assert_int_equal(untold(&attempt, 3100 * MS).compensate, LK__COMPENSATE_COPIES);
}

/* Who is told of its turn takes a place behind the others at once, and leaves them the lock. */
static void test_hold_off_with_turns(void **state)
{
	struct lk__attempt attempt = begin(false, true, 50 * MS);
	adopted.turns = true;
	assert_int_equal(step(&attempt, LK__ATTEMPT_ADOPTED, 45 * MS).action, LK__ATTEMPT_DO_SEND);
	assert_true(attempt.asks_place_only);
	struct lk__attempt other = attempt;
	struct lk__effects effects = busy(&attempt, 0, 46 * MS);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_HOLD_OFF);
	assert_int_equal(effects.until_ns, 50 * MS);
	assert_int_equal(step(&attempt, LK__ATTEMPT_TIMER, 50 * MS).action, LK__ATTEMPT_DO_SEND);
	assert_false(attempt.asks_place_only);
	effects = busy(&other, 1000, 46 * MS); /* one of them has it */
	assert_int_equal(effects.action, LK__ATTEMPT_DO_WAIT);
	assert_int_equal(effects.until_ns, 1047 * MS);
	attempt = begin(false, false, 50 * MS);
	step(&attempt, LK__ATTEMPT_ADOPTED, 45 * MS);
	struct lk__attempt_event listening = {.type = LK__ATTEMPT_LISTENING, .turns = true};
	assert_int_equal(feed(&attempt, &listening, 46 * MS).action, LK__ATTEMPT_DO_SEND);
	assert_true(attempt.asks_place_only);
}

/* The lock is free for another client: it has a moment for that, then we look. */
static void test_soon(void **state)
{
	struct lk__attempt attempt = begin(false, true, 0);
	step(&attempt, LK__ATTEMPT_ADOPTED, 0);
	struct lk__attempt_event refused = {.type = LK__ATTEMPT_BUSY, .ttl_ms = 1000};
	feed(&attempt, &refused, 11 * MS);
	struct lk__attempt_event message = {.type = LK__ATTEMPT_WOKEN, .soon = true};
	struct lk__effects effects = feed(&attempt, &message, 200 * MS);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_WAIT);
	assert_int_equal(effects.until_ns, 250 * MS);
	assert_int_equal(step(&attempt, LK__ATTEMPT_TIMER, 250 * MS).action, LK__ATTEMPT_DO_SEND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_try_without_an_answer_keeps_its_place),
		cmocka_unit_test(test_a_try_without_an_answer_stays_in_doubt),
		cmocka_unit_test(test_a_try_that_too_few_have_keeps_its_turn),
		cmocka_unit_test(test_a_place_is_given_up_with_a_void_grant),
		cmocka_unit_test(test_hold_off_with_turns),
		cmocka_unit_test(test_soon),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
