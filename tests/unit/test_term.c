/* Terms: how long a lock passes along the wait queue of one client before others get a chance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "sync/term.h"

#define MS LK__MS

static struct lk__term begin(int64_t now_ns)
{
	struct lk__term term = {.handovers = 77};
	lk__term_begin(&term, now_ns);
	return term;
}

/* A full lease of 30 s, somebody waits, nothing in doubt. */
static struct lk__passing passing(int64_t now_ns)
{
	return (struct lk__passing){.now_ns = now_ns,
				    .term_ns = 10 * MS,
				    .valid_until_ns = now_ns + 30000 * MS,
				    .lease_ms = 30000,
				    .waiting = true};
}

static void test_nobody_waits(void **state)
{
	struct lk__term term = begin(0);
	struct lk__passing now = passing(1);
	now.waiting = false;
	assert_int_equal(lk__term_pass(&term, &now), LK__PASS_WIRE);
	assert_int_equal(term.handovers, 0);
}

static void test_a_term_ends_after_its_time(void **state)
{
	struct lk__term term = begin(100 * MS);
	struct lk__passing now = passing(100 * MS);
	assert_int_equal(lk__term_pass(&term, &now), LK__PASS_MEMORY);
	now.now_ns = 109 * MS - 1;
	assert_int_equal(lk__term_pass(&term, &now), LK__PASS_MEMORY);
	now.now_ns = 109 * MS; /* nine tenths: the last hold ends within the term */
	assert_int_equal(lk__term_pass(&term, &now), LK__PASS_WIRE);
	lk__term_begin(&term, now.now_ns);
	assert_int_equal(lk__term_pass(&term, &now), LK__PASS_MEMORY);
}

static void test_a_term_ends_after_its_handovers(void **state)
{
	struct lk__term term = begin(0);
	struct lk__passing now = passing(0);
	for (int i = 0; i < LK__TERM_HANDOVERS_MAX; i++) {
		now.needs_server = i % 2; /* exchanges count as well */
		assert_int_equal(lk__term_pass(&term, &now),
				 i % 2 ? LK__PASS_EXCHANGE : LK__PASS_MEMORY);
	}
	assert_int_equal(lk__term_pass(&term, &now), LK__PASS_WIRE);
	now.needs_server = true;
	assert_int_equal(lk__term_pass(&term, &now), LK__PASS_WIRE);
}

static void test_a_term_of_zero_hands_nothing_over(void **state)
{
	struct lk__term term = begin(0);
	struct lk__passing now = passing(0);
	now.term_ns = 0;
	assert_int_equal(lk__term_pass(&term, &now), LK__PASS_WIRE);
}

static void test_a_third_of_the_lease_must_be_left(void **state)
{
	struct lk__term term = begin(0);
	struct lk__passing now = passing(0);
	now.valid_until_ns = 10000 * MS;
	assert_int_equal(lk__term_pass(&term, &now), LK__PASS_MEMORY);
	now.valid_until_ns = 10000 * MS - 1;
	assert_int_equal(lk__term_pass(&term, &now), LK__PASS_WIRE);
	now.valid_until_ns = -1;
	assert_int_equal(lk__term_pass(&term, &now), LK__PASS_WIRE);
	now.lease_ms = INT64_C(31536000000); /* the longest lease does not overflow */
	now.valid_until_ns = now.lease_ms * MS;
	assert_int_equal(lk__term_pass(&term, &now), LK__PASS_MEMORY);
}

static void test_a_hold_in_doubt_goes_to_the_server(void **state)
{
	struct lk__term term = begin(0);
	struct lk__passing now = passing(0);
	now.doubt = true;
	assert_int_equal(lk__term_pass(&term, &now), LK__PASS_WIRE);
	now.needs_server = true;
	assert_int_equal(lk__term_pass(&term, &now), LK__PASS_WIRE);
}

static void test_hold_off_only_for_others(void **state)
{
	assert_int_equal(lk__term_hold_off(5 * MS, 7, 1), 5 * MS + 7);
	assert_int_equal(lk__term_hold_off(5 * MS, 7, 1000), 5 * MS + 7);
	assert_int_equal(lk__term_hold_off(5 * MS, 7, 0), 0);
	assert_int_equal(lk__term_hold_off(5 * MS, 7, -1), 0);
	assert_int_equal(lk__term_hold_off(0, 7, 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nobody_waits),
		cmocka_unit_test(test_a_term_ends_after_its_time),
		cmocka_unit_test(test_a_term_ends_after_its_handovers),
		cmocka_unit_test(test_a_term_of_zero_hands_nothing_over),
		cmocka_unit_test(test_a_third_of_the_lease_must_be_left),
		cmocka_unit_test(test_a_hold_in_doubt_goes_to_the_server),
		cmocka_unit_test(test_hold_off_only_for_others),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
