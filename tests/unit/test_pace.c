/* How often a waiter looks again beside programs that ask at their own pace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "sync/attempt.h"

#define OTHERS 3
#define THEIRS_NS (10 * LK__MS)
#define RUNS 60
#define PASSES_MAX 100

/* How long a waiter pauses whose try was answered "busy". */
static int64_t pause_ns(struct lk__pace *pace, uint64_t holder, int64_t poll_ns)
{
	struct lk__attempt attempt = {.rules.spins = true,
				      .want.poll_ns = poll_ns,
				      .state = LK__ATTEMPT_TRYING,
				      .number = 1,
				      .pace = *pace};
	const struct lk__attempt_event busy = {.type = LK__ATTEMPT_BUSY, .holder = holder};
	struct lk__effects effects = lk__attempt_step(&attempt, &busy, 0);
	assert_int_equal(effects.action, LK__ATTEMPT_DO_PAUSE);
	*pace = attempt.pace;
	return effects.until_ns;
}

static int64_t next_ns(struct lk__pace *pace, const char *token, int64_t poll_ns)
{
	return pause_ns(pace, token ? lk__pace_holder(token, strlen(token)) : 0, poll_ns);
}

static void test_soon_at_first_then_seldom(void **state)
{
	struct lk__pace pace = {0};
	int64_t wanted_us[] = {6250, 12500, 25000, 50000, 100000, 100000};
	for (size_t i = 0; i < sizeof(wanted_us) / sizeof(wanted_us[0]); i++)
		assert_int_equal(next_ns(&pace, "a", 100 * LK__MS), wanted_us[i] * 1000);
	for (int i = 0; i < 1000; i++)
		next_ns(&pace, "a", 100 * LK__MS);
	assert_int_equal(next_ns(&pace, "a", 100 * LK__MS), 100 * LK__MS);
}

/* Each holder that was missed halves the slowest pace; a renewal, of the same token, does not. */
static void test_each_change_of_hands_makes_it_faster(void **state)
{
	struct lk__pace pace = {0};
	char token[8];
	int64_t slowest_ms[] = {100, 50, 25, 12, 6, 6, 6};
	for (size_t i = 0; i < sizeof(slowest_ms) / sizeof(slowest_ms[0]); i++) {
		snprintf(token, sizeof(token), "%zu", i);
		for (int look = 0; look < 20; look++)
			next_ns(&pace, token, 100 * LK__MS);
		assert_int_equal(next_ns(&pace, token, 100 * LK__MS) / LK__MS, slowest_ms[i]);
	}
}

static void test_within_bounds(void **state)
{
	int64_t polls_ms[] = {1, 5, 20, 100, 60000};
	for (size_t i = 0; i < sizeof(polls_ms) / sizeof(polls_ms[0]); i++) {
		int64_t poll_ns = polls_ms[i] * LK__MS, least_ns = poll_ns / 16;
		if (least_ns < 5 * LK__MS)
			least_ns = poll_ns < 5 * LK__MS ? poll_ns : 5 * LK__MS;
		for (unsigned missed = 0; missed < 40; missed++) {
			for (unsigned looks = 0; looks < 40; looks++) {
				struct lk__pace pace = {1, looks, missed};
				assert_in_range(pause_ns(&pace, 1, poll_ns), least_ns, poll_ns);
			}
		}
	}
}

static void test_who_does_not_say_who_holds_it(void **state)
{
	struct lk__pace pace = {0};
	assert_int_equal(next_ns(&pace, NULL, 100 * LK__MS), 100 * LK__MS);
	next_ns(&pace, "a", 100 * LK__MS);
	for (int i = 0; i < 20; i++)
		assert_int_equal(next_ns(&pace, NULL, 100 * LK__MS), 100 * LK__MS);
	next_ns(&pace, "b", 100 * LK__MS);
	assert_int_equal(pace.missed, 0);
}

/* ---- beside others ---- */

static uint32_t random_state;

static int64_t random_below(int64_t bound)
{
	random_state = random_state * 1664525 + 1013904223;
	return (int64_t)((uint64_t)random_state * (uint64_t)bound >> 32);
}

/*
 * Three programs ask every 10 ms, hold it, release, and ask again 10 ms later. How often the lock
 * has passed from one of them to the next before the waiter has it.
 */
static int passes_before_ours(int64_t hold_ns, int64_t poll_ns)
{
	struct lk__pace pace = {0};
	int64_t their_ns[OTHERS], our_ns = 0, free_ns = hold_ns;
	char holder[24] = "0";
	for (int i = 0; i < OTHERS; i++)
		their_ns[i] = random_below(THEIRS_NS);
	for (int passes = 0; passes < PASSES_MAX;) {
		int first = 0;
		for (int i = 1; i < OTHERS; i++)
			first = their_ns[i] < their_ns[first] ? i : first;
		if (our_ns < their_ns[first]) {
			if (our_ns >= free_ns)
				return passes;
			int64_t ours_ns = next_ns(&pace, holder, poll_ns);
			our_ns += ours_ns - random_below(ours_ns / 4);
		} else if (their_ns[first] >= free_ns) {
			snprintf(holder, sizeof(holder), "%d", ++passes);
			free_ns = their_ns[first] + hold_ns;
			their_ns[first] = free_ns + THEIRS_NS;
		} else {
			their_ns[first] += THEIRS_NS;
		}
	}
	return PASSES_MAX;
}

/* With three alike, a fourth would miss three of four; ours may miss some until it is as fast. */
static void test_three_that_ask_often_do_not_starve_it(void **state)
{
	int64_t holds_ms[] = {3, 20, 80, 300, 2000};
	random_state = 1;
	for (size_t i = 0; i < sizeof(holds_ms) / sizeof(holds_ms[0]); i++) {
		int sum = 0;
		for (int run = 0; run < RUNS; run++) {
			int passes = passes_before_ours(holds_ms[i] * LK__MS, 100 * LK__MS);
			assert_in_range(passes, 0, 30);
			sum += passes;
		}
		assert_in_range(sum / RUNS, 0, 8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_soon_at_first_then_seldom),
		cmocka_unit_test(test_each_change_of_hands_makes_it_faster),
		cmocka_unit_test(test_within_bounds),
		cmocka_unit_test(test_who_does_not_say_who_holds_it),
		cmocka_unit_test(test_three_that_ask_often_do_not_starve_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
