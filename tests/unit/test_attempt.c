/* The attempt, driven by a fake clock and scripted answers. */
#include "attempting.h"

#include <stdlib.h>
#include <string.h>

/* What ends a lock without a message is noticed all the same. */
static void test_looks_again_long_before_the_ttl(void **state)
{
	struct lk__attempt attempt = begin(false, true, 0);
	adopted.want.look_ns = 5000 * MS;
	step(&attempt, LK__ATTEMPT_ADOPTED, 0);
	assert_int_equal(busy(&attempt, 3600000, 1 * MS).until_ns, 5001 * MS);
	step(&attempt, LK__ATTEMPT_TIMER, 5001 * MS);
	assert_int_equal(busy(&attempt, 200, 6000 * MS).until_ns, 6201 * MS);
	step(&attempt, LK__ATTEMPT_TIMER, 6201 * MS);
	assert_int_equal(busy(&attempt, -1, 7000 * MS).until_ns, 8000 * MS);
}

static void test_granted_at_once(void **state)
{
	struct lk__attempt attempt = begin(false, false, 0);
	struct lk__effects effects = step(&attempt, LK__ATTEMPT_ADOPTED, 5);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_SEND);
	assert_true(effects.new_number);
	effects = step(&attempt, LK__ATTEMPT_GRANTED, 6);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_GRANT);
	assert_int_equal(attempt.state, LK__ATTEMPT_IDLE);
}

/* Subscribe, then try again, then wait: a release in between cannot be missed. */
static void test_busy_listens_then_tries_then_waits(void **state)
{
	struct lk__attempt attempt = begin(false, false, 0);
	step(&attempt, LK__ATTEMPT_ADOPTED, 0);
	assert_int_equal(busy(&attempt, 30000, 1).action, LK__ATTEMPT_DO_LISTEN);
	struct lk__effects effects = step(&attempt, LK__ATTEMPT_LISTENING, 2);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_SEND);
	assert_false(effects.new_number);
	effects = busy(&attempt, 200, 10 * MS);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_WAIT);
	assert_between(effects.until_ns, 210 * MS, 212 * MS);
	assert_int_equal(verdict(&attempt, false), LK_ETIMEDOUT);
	assert_int_equal(step(&attempt, LK__ATTEMPT_WOKEN, 20 * MS).action, LK__ATTEMPT_DO_SEND);
	assert_int_equal(busy(&attempt, 100, 30 * MS).action, LK__ATTEMPT_DO_WAIT);
	assert_int_equal(step(&attempt, LK__ATTEMPT_TIMER, 131 * MS).action, LK__ATTEMPT_DO_SEND);
	assert_int_equal(step(&attempt, LK__ATTEMPT_GRANTED, 132 * MS).action,
			 LK__ATTEMPT_DO_GRANT);
}

static void test_once_never_waits(void **state)
{
	struct lk__attempt attempt = begin(true, false, 1000 * MS);
	assert_int_equal(step(&attempt, LK__ATTEMPT_ADOPTED, 0).action, LK__ATTEMPT_DO_SEND);
	struct lk__effects effects = busy(&attempt, 30000, 1);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_FAIL);
	assert_int_equal(effects.code, LK_EBUSY);
	attempt = begin(true, false, 0);
	step(&attempt, LK__ATTEMPT_ADOPTED, 0);
	effects = failed(&attempt, LK_EUNAVAILABLE, true, 1);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_FAIL);
	assert_int_equal(effects.code, LK_EUNAVAILABLE);
	attempt = begin(true, false, 0);
	step(&attempt, LK__ATTEMPT_ADOPTED, 0);
	effects = step(&attempt, LK__ATTEMPT_UNKNOWN, 1);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_FAIL);
	assert_int_equal(effects.code, LK_EMAYBEHELD);
	assert_int_equal(effects.compensate, LK__COMPENSATE_COPIES);
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
	for (size_t i = 0; i < sizeof(ttls) / sizeof(ttls[0]); i++) {
		struct lk__attempt attempt = begin(false, true, 0);
		int64_t now_ns = 1000 * MS;
		step(&attempt, LK__ATTEMPT_ADOPTED, now_ns);
		struct lk__effects effects = busy(&attempt, ttls[i].ttl_ms, now_ns);
		assert_int_equal(effects.action, LK__ATTEMPT_DO_WAIT);
		assert_true(effects.until_ns / MS - 1000 >= ttls[i].least_ms);
		assert_true(effects.until_ns / MS - 1000 <= ttls[i].most_ms);
	}
}

static void test_refusals_back_off_up_to_a_limit(void **state)
{
	struct lk__attempt attempt = begin(false, true, 0);
	int64_t now_ns = 0, last_ns = 0;
	step(&attempt, LK__ATTEMPT_ADOPTED, now_ns);
	for (int i = 0; i < 100; i++) {
		struct lk__effects effects = failed(&attempt, LK_EUNAVAILABLE, true, now_ns);
		int64_t pause_ns = effects.until_ns - now_ns;
		assert_int_equal(effects.action, LK__ATTEMPT_DO_PAUSE);
		assert_int_equal(effects.compensate, LK__COMPENSATE_NOT);
		assert_true(pause_ns >= 10 * MS && pause_ns <= 2000 * MS && pause_ns >= last_ns);
		last_ns = pause_ns;
		assert_int_equal(verdict(&attempt, false), LK_EUNAVAILABLE);
		now_ns = effects.until_ns;
		effects = step(&attempt, LK__ATTEMPT_TIMER, now_ns);
		assert_int_equal(effects.action, LK__ATTEMPT_DO_SEND);
		assert_false(effects.new_number);
	}
	assert_int_equal(last_ns, 2000 * MS);
	assert_int_equal(attempt.failing_since_ns, 0);
	busy(&attempt, 10, now_ns); /* an answer: the next failure begins anew */
	assert_int_equal(verdict(&attempt, false), LK_ETIMEDOUT);
	step(&attempt, LK__ATTEMPT_TIMER, now_ns);
	assert_int_equal(failed(&attempt, LK_EUNAVAILABLE, true, now_ns).until_ns,
			 now_ns + 10 * MS);
	assert_int_equal(attempt.failing_since_ns, now_ns);
}

static void test_fatal_refusals_end_it(void **state)
{
	struct lk__attempt attempt = begin(false, false, 0);
	step(&attempt, LK__ATTEMPT_ADOPTED, 0);
	struct lk__effects effects = failed(&attempt, LK_EWRONGTYPE, false, 1);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_FAIL);
	assert_int_equal(effects.code, LK_EWRONGTYPE);
	assert_int_equal(attempt.state, LK__ATTEMPT_IDLE);
	step(&attempt, LK__ATTEMPT_ADOPTED, 2);
	assert_int_equal(busy(&attempt, 10, 2).action, LK__ATTEMPT_DO_LISTEN);
	effects = failed(&attempt, LK_EAUTH, false, 3); /* on the way to SUBSCRIBE */
	assert_int_equal(effects.action, LK__ATTEMPT_DO_FAIL);
	assert_int_equal(effects.code, LK_EAUTH);
}

/* Of each kind: without messages it asks again after a pause, and does not subscribe again. */
static void test_who_may_not_listen_asks_again(void **state)
{
	struct lk__attempt attempt = begin(false, false, 0);
	adopted.want.spin_min_ns = adopted.want.spin_max_ns = 100 * MS;
	adopted.want.spin_factor = 1;
	step(&attempt, LK__ATTEMPT_ADOPTED, 0);
	assert_int_equal(busy(&attempt, 30000, 0).action, LK__ATTEMPT_DO_LISTEN);
	struct lk__effects effects = failed(&attempt, LK_EDENIED, false, 1 * MS);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_SEND);
	assert_true(effects.unsubscribes && !effects.new_number);
	for (int64_t now_ns = 2 * MS; now_ns < 1000 * MS; now_ns += 100 * MS) {
		effects = busy(&attempt, 30000, now_ns);
		assert_int_equal(effects.action, LK__ATTEMPT_DO_PAUSE);
		assert_int_equal(effects.until_ns, now_ns + 100 * MS);
		assert_int_equal(verdict(&attempt, false), LK_ETIMEDOUT);
		step(&attempt, LK__ATTEMPT_TIMER, effects.until_ns);
	}
	assert_int_equal(step(&attempt, LK__ATTEMPT_GRANTED, 1100 * MS).action,
			 LK__ATTEMPT_DO_GRANT);
}

static void test_unknown_is_compensated_and_tried_under_a_new_number(void **state)
{
	struct lk__attempt attempt = begin(false, false, 0);
	step(&attempt, LK__ATTEMPT_ADOPTED, 0);
	struct lk__effects effects = step(&attempt, LK__ATTEMPT_UNKNOWN, 1);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_PAUSE);
	assert_int_equal(effects.compensate, LK__COMPENSATE_COPIES);
	assert_int_equal(verdict(&attempt, false), LK_EMAYBEHELD);
	effects = step(&attempt, LK__ATTEMPT_TIMER, 20 * MS);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_SEND);
	assert_true(effects.new_number);
	assert_int_equal(step(&attempt, LK__ATTEMPT_GRANTED, 21 * MS).action, LK__ATTEMPT_DO_GRANT);
}

/* Who waits with a limit rides it out, on the way to a connection, in a try, and in a subscription;
 * who waits without one, or tries once, is told. */
static void test_what_passes_is_ridden_out_within_a_limit(void **state)
{
	static const enum lk__attempt_state states[] = {LK__ATTEMPT_CONNECTING, LK__ATTEMPT_TRYING,
							LK__ATTEMPT_SUBSCRIBING};
	struct lk__attempt_event event = {
		.type = LK__ATTEMPT_FAILED, .code = LK_EUNREACHABLE, .passing = true};
	for (size_t i = 0; i < COUNT(states); i++) {
		struct lk__attempt attempt = begin(false, false, 0);
		lk__attempt_step(&attempt, &adopted, 0);
		if (states[i] != LK__ATTEMPT_CONNECTING)
			step(&attempt, LK__ATTEMPT_CONNECTED, 0);
		if (states[i] == LK__ATTEMPT_SUBSCRIBING)
			busy(&attempt, 30000, 1);
		assert_int_equal(attempt.state, states[i]);
		struct lk__attempt unlimited = attempt, once = attempt;
		assert_int_equal(feed(&attempt, &event, 2).action, LK__ATTEMPT_DO_PAUSE);
		assert_int_equal(verdict(&attempt, false), LK_EUNREACHABLE);
		unlimited.want.unlimited = once.want.once = true;
		struct lk__effects effects = feed(&unlimited, &event, 2);
		assert_int_equal(effects.action, LK__ATTEMPT_DO_FAIL);
		assert_int_equal(effects.code, LK_EUNREACHABLE);
		assert_int_equal(feed(&once, &event, 2).action, LK__ATTEMPT_DO_FAIL);
	}
}

/* The master has answered: a copy can come only of a try that was sent twice. */
static void test_not_durable_is_compensated_at_once(void **state)
{
	for (int copied = 0; copied <= 1; copied++) {
		struct lk__attempt attempt = begin(false, false, 0);
		struct lk__attempt_event event = {
			.type = LK__ATTEMPT_UNKNOWN, .code = LK_ENOTDURABLE, .copied = copied == 1};
		step(&attempt, LK__ATTEMPT_ADOPTED, 0);
		int64_t until_ns = attempt.try_until_ns;
		struct lk__effects effects = feed(&attempt, &event, 2 * MS);
		assert_int_equal(effects.action, LK__ATTEMPT_DO_PAUSE);
		assert_int_equal(effects.compensate, LK__COMPENSATE_COPIES);
		assert_int_equal(effects.copies_until_ns, copied ? until_ns : 2 * MS);
		assert_int_equal(verdict(&attempt, true), LK_ENOTDURABLE);
		assert_int_equal(verdict(&attempt, false), LK_ENOTDURABLE);
	}
}

static void test_unknown_that_lasts_ends_the_wait(void **state)
{
	struct lk__attempt attempt = begin(false, false, 0);
	struct lk__attempt_event event = {
		.type = LK__ATTEMPT_UNKNOWN, .code = LK_EMAYBEHELD, .lasting = true};
	step(&attempt, LK__ATTEMPT_ADOPTED, 0);
	struct lk__effects effects = feed(&attempt, &event, 1);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_FAIL);
	assert_int_equal(effects.code, LK_EMAYBEHELD);
	assert_int_equal(effects.compensate, LK__COMPENSATE_COPIES);
}

/* A script that has run into an error runs no more: what it has done is given back at once. */
static void test_the_only_copy_has_run(void **state)
{
	for (int twice = 0; twice < 2; twice++) {
		struct lk__attempt attempt = begin(false, false, 0);
		struct lk__attempt_event event = {.type = LK__ATTEMPT_UNKNOWN,
						  .code = LK_EMAYBEHELD,
						  .lasting = true,
						  .untold = true,
						  .ran = !twice};
		step(&attempt, LK__ATTEMPT_ADOPTED, 0);
		int64_t until_ns = attempt.try_until_ns;
		struct lk__effects effects = feed(&attempt, &event, 2 * MS);
		assert_int_equal(effects.compensate, LK__COMPENSATE_COPIES);
		assert_int_equal(effects.copies_until_ns, twice ? until_ns : 2 * MS);
	}
}

static void test_try_in_flight_may_hold(void **state)
{
	struct lk__attempt attempt = begin(false, true, 0);
	step(&attempt, LK__ATTEMPT_ADOPTED, 0);
	busy(&attempt, 200, 1 * MS);
	assert_int_equal(verdict(&attempt, false), LK_ETIMEDOUT);
	assert_int_equal(step(&attempt, LK__ATTEMPT_WOKEN, 2 * MS).action, LK__ATTEMPT_DO_SEND);
	assert_int_equal(verdict(&attempt, false), LK_EMAYBEHELD);
	attempt.rules.takes = false;
	assert_int_equal(verdict(&attempt, false), LK_ETIMEDOUT);
}

static void test_late_is_repeated_once(void **state)
{
	struct lk__attempt attempt = begin(false, false, 0);
	step(&attempt, LK__ATTEMPT_ADOPTED, 0);
	struct lk__effects effects = step(&attempt, LK__ATTEMPT_LATE, 1);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_SEND);
	assert_false(effects.new_number);
	effects = step(&attempt, LK__ATTEMPT_LATE, 2);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_PAUSE);
	assert_int_equal(verdict(&attempt, false), LK_EUNAVAILABLE);
	attempt = begin(true, false, 0);
	step(&attempt, LK__ATTEMPT_ADOPTED, 0);
	assert_int_equal(step(&attempt, LK__ATTEMPT_LATE, 1).action, LK__ATTEMPT_DO_SEND);
	effects = step(&attempt, LK__ATTEMPT_LATE, 2);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_FAIL);
	assert_int_equal(effects.code, LK_EUNAVAILABLE);
}

/* Clocks are learned at each node. */
static void test_late_is_repeated_at_each_node(void **state)
{
	struct lk__attempt_event late = {.type = LK__ATTEMPT_LATE};
	struct lk__attempt_event connected = {.type = LK__ATTEMPT_CONNECTED, .moved = true};
	struct lk__attempt attempt = begin(true, false, 0);
	step(&attempt, LK__ATTEMPT_ADOPTED, 0);
	int nodes = 0;
	while (lk__attempt_step(&attempt, &late, 1).action == LK__ATTEMPT_DO_CONNECT) {
		nodes++;
		lk__attempt_step(&attempt, &connected, 1);
	}
	assert_between(nodes, 3, 20); /* and not for ever */
	assert_int_equal(attempt.state, LK__ATTEMPT_IDLE);
}

static void test_the_next_head_continues(void **state)
{
	struct lk__attempt attempt = begin(false, false, 0);
	step(&attempt, LK__ATTEMPT_ADOPTED, 0);
	/* In flight: a second try would be a second grant. */
	assert_int_equal(step(&attempt, LK__ATTEMPT_ADOPTED, 1).action, LK__ATTEMPT_DO_AWAIT);
	assert_int_equal(step(&attempt, LK__ATTEMPT_WOKEN, 1).action, LK__ATTEMPT_DO_NOTHING);
	assert_int_equal(step(&attempt, LK__ATTEMPT_TIMER, 1).action, LK__ATTEMPT_DO_NOTHING);
	/* Busy: that was the answer to another. */
	assert_int_equal(busy(&attempt, 30000, 2).action, LK__ATTEMPT_DO_SEND);
	assert_int_equal(busy(&attempt, 30000, 2).action, LK__ATTEMPT_DO_LISTEN);
	step(&attempt, LK__ATTEMPT_LISTENING, 3);
	assert_int_equal(busy(&attempt, 30000, 4).action, LK__ATTEMPT_DO_WAIT);
	assert_int_equal(step(&attempt, LK__ATTEMPT_ADOPTED, 5).action, LK__ATTEMPT_DO_SEND);
}

static void test_left_with_a_try_in_flight(void **state)
{
	static const struct {
		int event, compensate;
	} answers[] = {
		{LK__ATTEMPT_GRANTED, LK__COMPENSATE_RELEASE},
		{LK__ATTEMPT_UNKNOWN, LK__COMPENSATE_COPIES},
		{LK__ATTEMPT_BUSY, LK__COMPENSATE_NOT},
		{LK__ATTEMPT_LATE, LK__COMPENSATE_NOT},
		{LK__ATTEMPT_FAILED, LK__COMPENSATE_NOT},
	};
	static const int noise[] = {LK__ATTEMPT_WOKEN, LK__ATTEMPT_TIMER, LK__ATTEMPT_LISTENING,
				    LK__ATTEMPT_LEFT};
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		struct lk__attempt attempt = begin(false, true, 0);
		step(&attempt, LK__ATTEMPT_ADOPTED, 0);
		leave(&attempt, true, 1);
		assert_int_equal(attempt.state, LK__ATTEMPT_DETACHED);
		/* What is not an answer must not make it forget the try. */
		for (size_t j = 0; j < sizeof(noise) / sizeof(noise[0]); j++) {
			assert_int_equal(step(&attempt, noise[j], 2).action,
					 LK__ATTEMPT_DO_NOTHING);
			assert_int_equal(attempt.state, LK__ATTEMPT_DETACHED);
		}
		assert_int_equal(step(&attempt, answers[i].event, 3).compensate,
				 answers[i].compensate);
		assert_int_equal(attempt.state, LK__ATTEMPT_IDLE);
		assert_true(step(&attempt, LK__ATTEMPT_ADOPTED, 4).new_number);
	}
}

static void test_the_next_caller_comes_before_the_answer(void **state)
{
	struct lk__attempt attempt = begin(false, true, 0);
	step(&attempt, LK__ATTEMPT_ADOPTED, 0);
	leave(&attempt, true, 1);
	assert_int_equal(step(&attempt, LK__ATTEMPT_ADOPTED, 2).action, LK__ATTEMPT_DO_AWAIT);
	assert_int_equal(step(&attempt, LK__ATTEMPT_GRANTED, 3).action, LK__ATTEMPT_DO_GRANT);
}

static void test_hold_off(void **state)
{
	struct lk__attempt attempt = begin(false, true, 50 * MS);
	struct lk__effects effects = step(&attempt, LK__ATTEMPT_ADOPTED, 45 * MS);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_HOLD_OFF);
	assert_int_equal(effects.until_ns, 50 * MS);
	assert_int_equal(step(&attempt, LK__ATTEMPT_TIMER, 50 * MS).action, LK__ATTEMPT_DO_SEND);
	attempt = begin(false, false, 50 * MS); /* not yet listening: it does that meanwhile */
	assert_int_equal(step(&attempt, LK__ATTEMPT_ADOPTED, 45 * MS).action,
			 LK__ATTEMPT_DO_LISTEN);
	effects = step(&attempt, LK__ATTEMPT_LISTENING, 46 * MS);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_HOLD_OFF);
	assert_int_equal(step(&attempt, LK__ATTEMPT_WOKEN, 47 * MS).action, LK__ATTEMPT_DO_SEND);
	attempt = begin(false, true, 50 * MS);
	assert_int_equal(step(&attempt, LK__ATTEMPT_ADOPTED, 50 * MS).action, LK__ATTEMPT_DO_SEND);
}

static void test_a_spinner_pauses_and_never_listens(void **state)
{
	struct lk__attempt attempt = begin(false, false, 0);
	int64_t now_ns = 0, pauses_ns[6];
	attempt.rules.spins = true;
	adopted.want.spin_min_ns = MS;
	adopted.want.spin_max_ns = 10 * MS;
	adopted.want.spin_factor = 2;
	step(&attempt, LK__ATTEMPT_ADOPTED, 0);
	for (int i = 0; i < 6; i++) {
		struct lk__effects effects = busy(&attempt, 30000, now_ns);
		assert_int_equal(effects.action, LK__ATTEMPT_DO_PAUSE);
		pauses_ns[i] = effects.until_ns - now_ns;
		now_ns = effects.until_ns;
		assert_int_equal(verdict(&attempt, false), LK_ETIMEDOUT);
		assert_int_equal(step(&attempt, LK__ATTEMPT_TIMER, now_ns).action,
				 LK__ATTEMPT_DO_SEND);
	}
	assert_int_equal(pauses_ns[0], MS);
	assert_int_equal(pauses_ns[1], 2 * MS);
	assert_int_equal(pauses_ns[3], 8 * MS);
	assert_int_equal(pauses_ns[4], 10 * MS);
	assert_int_equal(pauses_ns[5], 10 * MS);
}

static void test_a_poll_limits_the_pause(void **state)
{
	struct lk__attempt attempt = begin(false, true, 0);
	adopted.want.poll_ns = 100 * MS;
	step(&attempt, LK__ATTEMPT_ADOPTED, 0);
	assert_int_equal(busy(&attempt, 30000, MS).until_ns, 101 * MS);
	step(&attempt, LK__ATTEMPT_TIMER, 101 * MS);
	assert_true(busy(&attempt, 20, 101 * MS).until_ns < 125 * MS);
}

/* Where an answer tells who has it, soon at first, and sooner when it has passed to another. */
static void test_a_poll_follows_the_holder(void **state)
{
	struct lk__attempt attempt = begin(false, true, 0);
	int64_t paused_ns[8], now_ns = 0;
	adopted.want.poll_ns = 80 * MS;
	step(&attempt, LK__ATTEMPT_ADOPTED, 0);
	for (size_t i = 0; i < 8; i++) {
		struct lk__attempt_event seen = {
			.type = LK__ATTEMPT_BUSY, .ttl_ms = 30000, .holder = i < 5 ? 1 : 2};
		paused_ns[i] = feed(&attempt, &seen, now_ns).until_ns - now_ns;
		now_ns += paused_ns[i];
		step(&attempt, LK__ATTEMPT_TIMER, now_ns);
	}
	int64_t wanted_ms[] = {5, 10, 20, 40, 80, 5, 10, 20};
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(paused_ns[i], wanted_ms[i] * MS);
}

/* An attempt that another head adopts: the grant is its own only if it asked for the same. */
static void test_a_grant_of_something_else_goes_back(void **state)
{
	struct lk__attempt attempt = begin(false, true, 0);
	step(&attempt, LK__ATTEMPT_ADOPTED, 0);
	uint64_t number = attempt.number;
	leave(&attempt, false, 1);
	adopted.want.lease_ms = 5000;
	assert_int_equal(step(&attempt, LK__ATTEMPT_ADOPTED, 2).action, LK__ATTEMPT_DO_AWAIT);
	struct lk__effects effects = step(&attempt, LK__ATTEMPT_GRANTED, 3);
	assert_int_equal(effects.compensate, LK__COMPENSATE_RELEASE);
	assert_int_equal(effects.gives_up, number);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_SEND);
	assert_true(effects.new_number && attempt.number != number);
}

/* What its head has named is the number of all its tries, and of no other head's. */
static void test_a_named_number_is_kept(void **state)
{
	struct lk__attempt attempt = begin(false, true, 0);
	attempt.rules.queues = true;
	adopted.want.number = 77;
	step(&attempt, LK__ATTEMPT_ADOPTED, 0);
	struct lk__effects effects = step(&attempt, LK__ATTEMPT_UNKNOWN, 1);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_PAUSE);
	assert_int_equal(effects.compensate, LK__COMPENSATE_NOT);
	step(&attempt, LK__ATTEMPT_TIMER, 20 * MS);
	assert_int_equal(attempt.number, 77);
	leave(&attempt, true, 21 * MS);
	adopted.want.number = 78;
	assert_int_equal(step(&attempt, LK__ATTEMPT_ADOPTED, 22 * MS).action, LK__ATTEMPT_DO_AWAIT);
	effects = step(&attempt, LK__ATTEMPT_GRANTED, 23 * MS);
	assert_int_equal(effects.gives_up, 77);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_SEND);
	assert_int_equal(attempt.number, 78);
}

/* A connection that is lost before the try was written: at once again, but not for ever. */
static void test_an_unsent_try_is_sent_again(void **state)
{
	struct lk__attempt attempt = begin(true, true, 0);
	struct lk__attempt_event unsent = {
		.type = LK__ATTEMPT_FAILED, .code = LK_EUNREACHABLE, .unsent = true};
	step(&attempt, LK__ATTEMPT_ADOPTED, 0);
	assert_int_equal(feed(&attempt, &unsent, 1).action, LK__ATTEMPT_DO_SEND);
	assert_int_equal(feed(&attempt, &unsent, 2).action, LK__ATTEMPT_DO_SEND);
	struct lk__effects effects = feed(&attempt, &unsent, 3);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_FAIL);
	assert_int_equal(effects.code, LK_EUNREACHABLE);
}

static void test_a_wait_without_limit_ends_after_failures(void **state)
{
	struct lk__attempt attempt = begin(false, true, 0);
	adopted.want.unlimited = true;
	struct lk__effects effects;
	step(&attempt, LK__ATTEMPT_ADOPTED, 0);
	int64_t now_ns = 0;
	while (now_ns <= 30000 * MS) {
		effects = failed(&attempt, LK_EUNAVAILABLE, true, now_ns);
		assert_int_equal(effects.action, LK__ATTEMPT_DO_PAUSE);
		now_ns = effects.until_ns;
		step(&attempt, LK__ATTEMPT_TIMER, now_ns);
	}
	effects = failed(&attempt, LK_EUNAVAILABLE, true, now_ns);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_FAIL);
	assert_int_equal(effects.code, LK_EUNAVAILABLE);
}

static void test_a_grant_while_closing_goes_back(void **state)
{
	struct lk__attempt attempt = begin(false, true, 0);
	step(&attempt, LK__ATTEMPT_ADOPTED, 0);
	struct lk__attempt_event granted = {.type = LK__ATTEMPT_GRANTED, .closing = true};
	struct lk__effects effects = feed(&attempt, &granted, 1);
	assert_int_equal(effects.compensate, LK__COMPENSATE_RELEASE);
	assert_int_equal(effects.code, LK_EMAYBEHELD);
}

/* Its client is closed: what a try may have is not "not held". */
static void test_closed_with_a_try_in_flight(void **state)
{
	struct lk__attempt attempt = begin(false, true, 0);
	struct lk__attempt_event closed = {.type = LK__ATTEMPT_LEFT, .code = LK_ECLOSED};
	step(&attempt, LK__ATTEMPT_ADOPTED, 0);
	struct lk__attempt trying = attempt, unsent = attempt, unsure = attempt, latch = attempt;
	assert_int_equal(feed(&trying, &closed, 1).code, LK_EMAYBEHELD);
	step(&unsure, LK__ATTEMPT_UNKNOWN, 1);
	struct lk__attempt given_back = unsure;
	assert_int_equal(feed(&given_back, &closed, 2).code, LK_ECLOSED);
	closed.compensating = true;
	assert_int_equal(feed(&unsure, &closed, 2).code, LK_EMAYBEHELD);
	closed.compensating = false;
	latch.rules.takes = false;
	assert_int_equal(feed(&latch, &closed, 1).code, LK_ECLOSED);
	closed.unsent = true;
	assert_int_equal(feed(&unsent, &closed, 1).code, LK_ECLOSED);
}

/* On several nodes the try has ended before: what they may have is being given back by then. */
static void test_closed_with_several_nodes(void **state)
{
	struct lk__attempt attempt = begin(false, true, 0);
	struct lk__attempt_event closed = {.type = LK__ATTEMPT_LEFT, .code = LK_ECLOSED};
	attempt.rules.fans_out = true;
	step(&attempt, LK__ATTEMPT_ADOPTED, 0);
	struct lk__attempt other = attempt;
	assert_int_equal(feed(&attempt, &closed, 1).code, LK_ECLOSED);
	closed.compensating = true;
	assert_int_equal(feed(&other, &closed, 1).code, LK_EMAYBEHELD);
}

/* The hand-over counts from the server's time between the last refusal and the message. */
static void test_the_lease_of_a_message_counts_from_the_hand_over(void **state)
{
	struct lk__attempt attempt = begin(false, true, 0);
	step(&attempt, LK__ATTEMPT_ADOPTED, 0);
	struct lk__attempt_event refused = {
		.type = LK__ATTEMPT_BUSY, .ttl_ms = 1000, .sent_ns = 10 * MS, .server_us = 5000000};
	feed(&attempt, &refused, 11 * MS);
	struct lk__attempt other = attempt;
	struct lk__attempt_event message = {.type = LK__ATTEMPT_WOKEN, .handed_us = 5100000};
	struct lk__effects effects = feed(&attempt, &message, 200 * MS);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_GRANT);
	assert_true(effects.handed);
	assert_between(effects.sent_ns, 108 * MS, 110 * MS);
	message.handed_us = 4999999; /* from before the refusal */
	assert_int_equal(feed(&other, &message, 200 * MS).action, LK__ATTEMPT_DO_SEND);
}

/*
 * Driven at random: one try at a time; a number whose grant, place or copies nobody goes on with is
 * compensated when it is given up, and never used again.
 */
struct world {
	struct lk__attempt attempt;
	enum lk__attempt_action action;
	int64_t now_ns, until_ns;
	int64_t copies_until_ns; /* of the present number */
	bool placed;             /* it may have a place in the server's queue */
	bool in_flight, somebody;
};

static bool world_owes(const struct world *world)
{
	return world->placed || world->copies_until_ns;
}

static bool is_answer(const struct lk__attempt_event *event)
{
	return event->type >= LK__ATTEMPT_GRANTED && event->type <= LK__ATTEMPT_UNKNOWN;
}

static void check_compensation(const struct world *world, const struct lk__attempt_event *event,
			       const struct lk__effects *effects, uint64_t number, bool owed)
{
	bool granted = effects->action == LK__ATTEMPT_DO_GRANT;
	bool answered = world->in_flight && is_answer(event);
	bool given_up = effects->new_number ||
			(world->attempt.state == LK__ATTEMPT_IDLE && !granted);
	if (effects->compensate)
		assert_int_equal(effects->gives_up, number);
	if (given_up && (owed || (answered && event->copied)))
		assert_int_not_equal(effects->compensate, LK__COMPENSATE_NOT);
	if (answered && event->type == LK__ATTEMPT_GRANTED && !granted)
		assert_int_not_equal(effects->compensate, LK__COMPENSATE_NOT);
	bool keeps = event->untold && world->placed && !world->attempt.want.once && world->somebody;
	if (answered && event->type == LK__ATTEMPT_UNKNOWN && !keeps)
		assert_int_equal(effects->compensate, LK__COMPENSATE_COPIES);
	if (answered && event->type == LK__ATTEMPT_UNKNOWN && keeps && !given_up)
		assert_int_equal(effects->compensate, LK__COMPENSATE_NOT);
	if (granted && answered && event->copied)
		assert_int_equal(effects->repeated_until_ns, world->attempt.try_until_ns);
}

static void check_action(struct world *world, const struct lk__attempt_event *event,
			 const struct lk__effects *effects)
{
	world->in_flight = world->in_flight && !is_answer(event);
	if (effects->action == LK__ATTEMPT_DO_SEND) {
		assert_false(world->in_flight);
		assert_true(world->somebody);
		world->in_flight = true;
		world->placed |= world->attempt.rules.queues && !world->attempt.want.once;
	}
	if (effects->action == LK__ATTEMPT_DO_AWAIT)
		assert_true(world->in_flight);
	if (effects->action == LK__ATTEMPT_DO_WAIT || effects->action == LK__ATTEMPT_DO_PAUSE)
		assert_true(effects->until_ns > world->now_ns);
	if (effects->action == LK__ATTEMPT_DO_GRANT || effects->action == LK__ATTEMPT_DO_FAIL)
		world->somebody = false;
	if (effects->action != LK__ATTEMPT_DO_NOTHING)
		world->action = effects->action;
	world->until_ns = effects->until_ns;
}

static void obey(struct world *world, const struct lk__attempt_event *event)
{
	uint64_t number = world->attempt.number;
	if (world->in_flight && event->type == LK__ATTEMPT_BUSY && !event->copied &&
	    event->sent_ns > world->copies_until_ns)
		world->copies_until_ns = 0;
	bool owed = world_owes(world);
	world->somebody |= event->type == LK__ATTEMPT_ADOPTED;
	struct lk__effects effects = feed(&world->attempt, event, world->now_ns);
	check_compensation(world, event, &effects, number, owed);
	bool unanswered = event->type == LK__ATTEMPT_UNKNOWN && event->untold;
	if (world->in_flight && is_answer(event) && (event->copied || unanswered))
		world->copies_until_ns = world->attempt.try_until_ns;
	if (effects.compensate || effects.new_number || effects.action == LK__ATTEMPT_DO_GRANT) {
		world->placed = false;
		world->copies_until_ns = 0;
	}
	if (effects.new_number)
		assert_int_not_equal(world->attempt.number, number);
	if (event->type == LK__ATTEMPT_LEFT)
		world->somebody = false;
	else
		check_action(world, event, &effects);
}

static struct lk__attempt_event random_adoption(void)
{
	bool subscribed = rand() % 2;
	return (struct lk__attempt_event){.type = LK__ATTEMPT_ADOPTED,
					  .want = {.once = rand() % 3 == 0,
						   .unlimited = rand() % 2,
						   .undone = rand() % 9 == 0,
						   .lease_ms = rand() % 4 ? 30000 : 5000,
						   .count = rand() % 4 ? 1 : 2,
						   .spin_min_ns = MS,
						   .spin_max_ns = MS,
						   .spin_factor = 1},
					  .subscribed = subscribed,
					  .listens = subscribed && rand() % 2,
					  .hold_off_until_ns = rand() % 2 ? INT64_C(1) << 40 : 0};
}

static struct lk__attempt_event random_answer(const struct world *world)
{
	return (struct lk__attempt_event){.type = LK__ATTEMPT_GRANTED + (unsigned)rand() % 6,
					  .sent_ns = world->now_ns,
					  .ttl_ms = rand() % 50 - 2,
					  .server_us = rand() % 2 ? 1000 : 0,
					  .copied = rand() % 4 == 0,
					  .retryable = rand() % 4 != 0,
					  .code = LK_EUNAVAILABLE,
					  .untold = rand() % 2,
					  .closing = rand() % 9 == 0};
}

static void one_random_event(struct world *world)
{
	struct lk__attempt_event event = {.compensating = rand() % 2};
	world->now_ns += rand() % (5 * MS);
	if (!world->somebody) {
		event = world->in_flight && rand() % 2 ? random_answer(world) : random_adoption();
	} else if (rand() % 5 == 0) {
		event.type = LK__ATTEMPT_LEFT;
		event.code = rand() % 2 ? LK_ETIMEDOUT : LK_ECANCELLED;
		event.last = rand() % 2;
		event.unsent = world->action == LK__ATTEMPT_DO_SEND && rand() % 2;
		world->in_flight = world->in_flight && !event.unsent;
	} else if (world->in_flight) {
		event.type = LK__ATTEMPT_WOKEN;
		if (rand() % 4)
			event = random_answer(world);
	} else if (world->action == LK__ATTEMPT_DO_LISTEN) {
		event.type = rand() % 4 ? LK__ATTEMPT_LISTENING : LK__ATTEMPT_FAILED;
		event.code = rand() % 2 ? LK_EDENIED : LK_EUNAVAILABLE;
	} else {
		event.type = rand() % 2 ? LK__ATTEMPT_WOKEN : LK__ATTEMPT_TIMER;
		event.handed_us = rand() % 4 ? 0 : 2000;
		if (event.type == LK__ATTEMPT_TIMER && world->until_ns > world->now_ns)
			world->now_ns = world->until_ns;
	}
	obey(world, &event);
	if (event.type == LK__ATTEMPT_LEFT && !event.last) {
		event = random_adoption();
		obey(world, &event);
	}
}

static void test_random_events(void **state)
{
	srand(1);
	for (int queues = 0; queues < 2; queues++) {
		struct world world = {.attempt = begin(false, false, 0)};
		world.attempt.rules.queues = queues;
		world.attempt.rules.own_channel = queues;
		for (int i = 0; i < 300000; i++) {
			if (i % 100 == 0) /* who was refused to listen may again */
				world.attempt.rules.spins = false;
			one_random_event(&world);
		}
	}
}

static void test_a_lease_ends_early_by_what_clocks_may_drift(void **state)
{
	assert_true(lk__lease_end_ns(7, 30000) == 7 + (30000 - 300 - 2) * LK__MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_lease_ends_early_by_what_clocks_may_drift),
		cmocka_unit_test(test_looks_again_long_before_the_ttl),
		cmocka_unit_test(test_who_may_not_listen_asks_again),
		cmocka_unit_test(test_what_passes_is_ridden_out_within_a_limit),
		cmocka_unit_test(test_not_durable_is_compensated_at_once),
		cmocka_unit_test(test_unknown_that_lasts_ends_the_wait),
		cmocka_unit_test(test_granted_at_once),
		cmocka_unit_test(test_busy_listens_then_tries_then_waits),
		cmocka_unit_test(test_once_never_waits),
		cmocka_unit_test(test_waits_for_each_ttl),
		cmocka_unit_test(test_refusals_back_off_up_to_a_limit),
		cmocka_unit_test(test_fatal_refusals_end_it),
		cmocka_unit_test(test_unknown_is_compensated_and_tried_under_a_new_number),
		cmocka_unit_test(test_the_only_copy_has_run),
		cmocka_unit_test(test_try_in_flight_may_hold),
		cmocka_unit_test(test_late_is_repeated_once),
		cmocka_unit_test(test_late_is_repeated_at_each_node),
		cmocka_unit_test(test_the_next_head_continues),
		cmocka_unit_test(test_left_with_a_try_in_flight),
		cmocka_unit_test(test_the_next_caller_comes_before_the_answer),
		cmocka_unit_test(test_hold_off),
		cmocka_unit_test(test_a_spinner_pauses_and_never_listens),
		cmocka_unit_test(test_a_poll_limits_the_pause),
		cmocka_unit_test(test_a_poll_follows_the_holder),
		cmocka_unit_test(test_a_grant_of_something_else_goes_back),
		cmocka_unit_test(test_a_named_number_is_kept),
		cmocka_unit_test(test_an_unsent_try_is_sent_again),
		cmocka_unit_test(test_a_wait_without_limit_ends_after_failures),
		cmocka_unit_test(test_a_grant_while_closing_goes_back),
		cmocka_unit_test(test_closed_with_a_try_in_flight),
		cmocka_unit_test(test_closed_with_several_nodes),
		cmocka_unit_test(test_the_lease_of_a_message_counts_from_the_hand_over),
		cmocka_unit_test(test_random_events),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
