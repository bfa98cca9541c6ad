/* SPDX-License-Identifier: MIT */
/* When a scout begins its rounds: how soon, how often, and not all clients at the same instant. */
#include "unit.h"

#include <string.h>

#include "base/clock.h"
#include "topo/rounds.h"

#define START_NS (1000 * 1000 * LK__MS)
#define TRIES 200

/* A round has just begun that nobody wanted. */
static struct lk__rounds begun(void)
{
	struct lk__rounds rounds = {0};
	lk__rounds_begin(&rounds, START_NS);
	return rounds;
}

/* How long it is until a round begins that is wanted `after_ns` behind the beginning of the last,
 * in ms: the least and the most of many tries. */
static void wanted_within(enum lk__want why, int64_t after_ns, bool missing, int64_t least_ms,
			  int64_t most_ms)
{
	int64_t least_ns = LK__NEVER, most_ns = 0;
	for (int i = 0; i < TRIES; i++) {
		struct lk__rounds rounds = begun();
		if (missing)
			rounds.missed_until_ns = LK__NEVER;
		assert_true(lk__rounds_want(&rounds, why, START_NS + after_ns));
		int64_t in_ns = lk__rounds_wanted_ns(&rounds) - START_NS - after_ns;
		least_ns = lk__earlier(least_ns, in_ns);
		most_ns = lk__later(most_ns, in_ns);
	}
	assert_between(least_ns, least_ms * LK__MS, most_ms * LK__MS);
	assert_between(most_ns, least_ms * LK__MS, most_ms * LK__MS);
	if (most_ms > least_ms)
		assert_true(most_ns - least_ns > (most_ms - least_ms) * LK__MS / 2);
}

static void test_who_waits_is_served_at_once(void **state)
{
	wanted_within(LK__WANT_AWAITED, 100 * LK__MS, false, 0, 0);
	wanted_within(LK__WANT_AWAITED, 1 * LK__MS, false, 4, 4);
	wanted_within(LK__WANT_NEWS, 100 * LK__MS, true, 0, 0);
	wanted_within(LK__WANT_NEWS, 1 * LK__MS, true, 4, 4);
}

/* The connections of a new client need no round each; those after a loss do. */
static void test_a_round_serves_for_a_moment(void **state)
{
	struct lk__rounds rounds = begun();
	assert_true(lk__rounds_fresh(&rounds, START_NS + 99 * LK__MS));
	assert_false(lk__rounds_fresh(&rounds, START_NS + 100 * LK__MS));
	for (int why = LK__WANT_AWAITED; why <= LK__WANT_LATER; why++) {
		rounds = begun();
		assert_true(lk__rounds_want(&rounds, (enum lk__want)why, START_NS + LK__MS));
		assert_false(lk__rounds_fresh(&rounds, START_NS + 2 * LK__MS));
	}
	rounds = begun();
	lk__rounds_want(&rounds, LK__WANT_SUSPECTED, START_NS + LK__MS);
	lk__rounds_begin(&rounds, START_NS + 2 * LK__MS);
	assert_false(lk__rounds_fresh(&rounds, START_NS + 3 * LK__MS));
}

static void test_clients_that_lose_their_master_ask_one_after_the_other(void **state)
{
	wanted_within(LK__WANT_SUSPECTED, 100 * LK__MS, false, 0, 10);
	wanted_within(LK__WANT_HEARD, 100 * LK__MS, false, 0, 10);
	wanted_within(LK__WANT_AWAITED, 100 * LK__MS, true, 0, 10);
}

static void test_a_suspicion_has_its_time_behind_the_last_round(void **state)
{
	wanted_within(LK__WANT_SUSPECTED, 1 * LK__MS, false, 49, 49);
}

static void test_what_is_not_urgent_has_its_time(void **state)
{
	wanted_within(LK__WANT_LATER, 100 * LK__MS, false, 125, 250);
	wanted_within(LK__WANT_LATER, 100 * LK__MS, true, 125, 250);
	wanted_within(LK__WANT_NEWS, 100 * LK__MS, false, 125, 250);
}

/* Who wants one again joins it; who is in more of a hurry makes it earlier. */
static void test_one_round_for_all_who_want_it(void **state)
{
	struct lk__rounds rounds = begun();
	int64_t now_ns = START_NS + 100 * LK__MS;
	assert_int_equal(lk__rounds_wanted_ns(&rounds), LK__NEVER);
	assert_true(lk__rounds_want(&rounds, LK__WANT_LATER, now_ns));
	assert_false(lk__rounds_want(&rounds, LK__WANT_LATER, now_ns + 125 * LK__MS));
	assert_int_equal(lk__rounds_probe_ns(&rounds, now_ns), LK__NEVER);
	assert_true(lk__rounds_want(&rounds, LK__WANT_AWAITED, now_ns));
	assert_int_equal(lk__rounds_wanted_ns(&rounds), now_ns);
	assert_false(lk__rounds_want(&rounds, LK__WANT_SUSPECTED, now_ns + 1));
	assert_int_equal(rounds.wanted, 2);
	lk__rounds_begin(&rounds, now_ns);
	assert_int_equal(rounds.round, 2);
	assert_int_equal(lk__rounds_wanted_ns(&rounds), LK__NEVER);
	assert_true(lk__rounds_want(&rounds, LK__WANT_AWAITED, now_ns));
	assert_int_equal(rounds.wanted, 3);
}

/* For some seconds, and by each client at times of its own. */
static void test_probes_while_a_master_is_missed(void **state)
{
	struct lk__rounds rounds = begun();
	lk__rounds_want(&rounds, LK__WANT_SUSPECTED, START_NS);
	assert_int_equal(lk__rounds_probe_ns(&rounds, START_NS + 5999 * LK__MS), 0);
	assert_int_equal(lk__rounds_probe_ns(&rounds, START_NS + 6000 * LK__MS), LK__NEVER);
	int64_t first_ns = 0;
	bool differ = false;
	for (int i = 0; i < TRIES; i++) {
		lk__rounds_probed(&rounds, START_NS);
		int64_t next_ns = lk__rounds_probe_ns(&rounds, START_NS) - START_NS;
		assert_between(next_ns, 75 * LK__MS, 125 * LK__MS);
		differ |= i > 0 && next_ns != first_ns;
		first_ns = next_ns;
	}
	assert_true(differ);
}

static void test_the_watch_drifts(void **state)
{
	int64_t least_ns = LK__NEVER, most_ns = 0;
	for (int i = 0; i < TRIES; i++) {
		struct lk__rounds rounds = begun();
		least_ns = lk__earlier(least_ns, rounds.watch_ns - START_NS);
		most_ns = lk__later(most_ns, rounds.watch_ns - START_NS);
	}
	assert_between(least_ns, 750 * LK__MS, 1000 * LK__MS);
	assert_between(most_ns, least_ns + 100 * LK__MS, 1000 * LK__MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_who_waits_is_served_at_once),
		cmocka_unit_test(test_a_round_serves_for_a_moment),
		cmocka_unit_test(test_clients_that_lose_their_master_ask_one_after_the_other),
		cmocka_unit_test(test_a_suspicion_has_its_time_behind_the_last_round),
		cmocka_unit_test(test_what_is_not_urgent_has_its_time),
		cmocka_unit_test(test_one_round_for_all_who_want_it),
		cmocka_unit_test(test_probes_while_a_master_is_missed),
		cmocka_unit_test(test_the_watch_drifts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
