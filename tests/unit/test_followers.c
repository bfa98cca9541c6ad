/* Who must acknowledge besides the replicas that are known, with the time as an argument. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "conn/node.h"

#define PLACE "127.0.0.1:7000"
#define SECOND (1000 * LK__MS)

static struct lk__followers followers;

static int setup(void **state)
{
	memset(&followers, 0, sizeof(followers));
	return 0;
}

/* One that has not what is asked for. */
static struct lk__sighting lags(long long before, long long behind)
{
	return (struct lk__sighting){.place = PLACE, .before = before, .behind = behind};
}

static struct lk__sighting has(long long offset)
{
	struct lk__sighting seen = lags(offset, offset);
	seen.has = true;
	return seen;
}

/* The same when the WAIT took all its time. */
static struct lk__sighting over(struct lk__sighting seen)
{
	seen.over = true;
	return seen;
}

static struct lk__sighting known(struct lk__sighting seen)
{
	seen.known = true;
	return seen;
}

static bool see(struct lk__sighting seen, int64_t at_ns)
{
	return lk__followers_see(&followers, &seen, at_ns);
}

static int due(int64_t at_ns)
{
	return lk__followers_due(&followers, at_ns);
}

static void test_who_has_it_must(void **state)
{
	assert_false(see(has(10), SECOND));
	assert_int_equal(due(SECOND), 1);
	assert_int_equal(due(SECOND + LK__FOLLOWER_MS * LK__MS - 1), 1);
	assert_int_equal(due(SECOND + LK__FOLLOWER_MS * LK__MS), 0);
}

static void test_who_had_no_time_is_waited_for(void **state)
{
	assert_true(see(lags(10, 10), SECOND));
	assert_int_equal(due(SECOND), 0);
	assert_false(see(has(20), SECOND));
	assert_int_equal(due(SECOND), 1);
}

static void test_who_hangs_need_not(void **state)
{
	assert_true(see(lags(10, 10), SECOND));
	assert_false(see(over(lags(10, 10)), 2 * SECOND));
	assert_int_equal(due(2 * SECOND), 0);
	assert_false(see(lags(10, 10), 3 * SECOND)); /* and delays nothing any more */
	assert_int_equal(due(3 * SECOND), 0);
	assert_true(see(lags(11, 11), 4 * SECOND)); /* until it speaks, between two looks too */
	assert_int_equal(due(4 * SECOND), 1);
}

static void test_who_lags_must(void **state)
{
	assert_false(see(over(lags(10, 11)), SECOND));
	assert_int_equal(due(SECOND), 1);
	assert_false(see(over(lags(11, 12)), 4 * SECOND));
	assert_int_equal(due(8 * SECOND), 1);
}

static void test_who_connects_must(void **state)
{
	assert_true(see(lags(-1, 0), SECOND));
	assert_int_equal(due(SECOND), 1);
}

static void test_five_seconds_of_silence(void **state)
{
	see(has(10), SECOND);
	for (int i = 2; i < 6; i++) {
		assert_false(see(over(lags(10, 10)), i * SECOND));
		assert_int_equal(due(i * SECOND), 1);
	}
	assert_false(see(over(lags(10, 10)), 6 * SECOND));
	assert_int_equal(due(6 * SECOND), 0);
}

static void test_who_was_known_begins_anew(void **state)
{
	see(known(has(10)), SECOND);
	assert_int_equal(due(SECOND), 0);
	see(known(over(lags(20, 20))), 2 * SECOND); /* it has gone on, and then hung */
	assert_int_equal(due(2 * SECOND), 0);
	assert_false(see(lags(20, 20), 3 * SECOND)); /* it is not known any more */
	assert_int_equal(due(3 * SECOND), 0);
	see(has(30), 4 * SECOND);
	assert_int_equal(due(4 * SECOND), 1);
	see(known(has(30)), 5 * SECOND);
	assert_int_equal(due(5 * SECOND), 0);
}

static void test_what_it_said_before_it_was_forgotten(void **state)
{
	see(known(has(10)), SECOND);
	assert_true(see(lags(20, 20), 60 * SECOND)); /* asked once, since it may have hung since */
	assert_int_equal(due(60 * SECOND), 0);
	assert_false(see(over(lags(20, 20)), 61 * SECOND));
	assert_int_equal(due(61 * SECOND), 0);
}

static void test_a_former_master(void **state)
{
	struct lk__sighting seen = over(lags(10, 10));
	seen.returning = true;
	see(seen, SECOND);
	assert_int_equal(due(SECOND), 1); /* at first sight */
	see(seen, 6 * SECOND);
	assert_int_equal(due(6 * SECOND), 0); /* and not for ever */
}

static void test_more_than_can_be_kept(void **state)
{
	char place[32];
	for (int i = 0; i <= LK__ACKS_MAX; i++) {
		snprintf(place, sizeof(place), "host:%d", i);
		struct lk__sighting seen = has(10);
		seen.place = place;
		see(seen, SECOND);
	}
	assert_int_equal(due(SECOND), LK__ACKS_MAX + 1);
	assert_int_equal(due(6 * SECOND), 0);
	see(has(10), 7 * SECOND);
	assert_int_equal(due(7 * SECOND), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_who_has_it_must, setup),
		cmocka_unit_test_setup(test_who_had_no_time_is_waited_for, setup),
		cmocka_unit_test_setup(test_who_hangs_need_not, setup),
		cmocka_unit_test_setup(test_who_lags_must, setup),
		cmocka_unit_test_setup(test_who_connects_must, setup),
		cmocka_unit_test_setup(test_five_seconds_of_silence, setup),
		cmocka_unit_test_setup(test_who_was_known_begins_anew, setup),
		cmocka_unit_test_setup(test_what_it_said_before_it_was_forgotten, setup),
		cmocka_unit_test_setup(test_a_former_master, setup),
		cmocka_unit_test_setup(test_more_than_can_be_kept, setup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
