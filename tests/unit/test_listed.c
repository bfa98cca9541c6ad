/* SPDX-License-Identifier: MIT */
/* Which of the replicas that a master has connected are the listed ones. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "conn/node.h"

#define ONE "one.test:6379"
#define TWO "two.test:6379"
#define ADDRESS "192.0.2.2:6379" /* of the second */
#define STRANGER "192.0.2.9:6379"

static struct lk__listed listed;
static const char *absent; /* at the last count */

static void knows(const char *place, const char *address)
{
	struct lk__listed_replica *replica = lk__listed_of(&listed, place);
	snprintf(replica->address, sizeof(replica->address), "%s", address);
	replica->alive = replica->follows = true;
}

static int set_up(void **state)
{
	memset(&listed, 0, sizeof(listed));
	knows(ONE, "");
	knows(TWO, ADDRESS);
	return 0;
}

static int come(const char *first, const char *second)
{
	if (first)
		lk__listed_see(&listed, first, true);
	if (second)
		lk__listed_see(&listed, second, true);
	return lk__listed_come(&listed, &absent);
}

static void test_each_is_known_by_its_name_or_its_address(void **state)
{
	assert_int_equal(come(ONE, ADDRESS), 2);
	assert_int_equal(come(ONE, TWO), 2);
	assert_null(absent);
}

static void test_a_stranger_does_not_stand_for_one_that_was_met(void **state)
{
	assert_int_equal(come(ONE, TWO), 2);
	assert_int_equal(come(ONE, STRANGER), 1);
	assert_string_equal(absent, TWO);
}

static void test_a_stranger_may_be_one_that_was_never_met(void **state)
{
	assert_int_equal(come(ONE, STRANGER), 2);
	assert_int_equal(come(STRANGER, "192.0.2.8:6379"), 1);
}

static void test_a_stranger_is_none_that_follows_nobody(void **state)
{
	lk__listed_of(&listed, TWO)->follows = false;
	assert_int_equal(come(ONE, STRANGER), 1);
}

static void test_one_that_is_down_counts_for_none(void **state)
{
	lk__listed_of(&listed, TWO)->alive = false;
	assert_int_equal(come(ONE, ADDRESS), 1);
	assert_int_equal(come(ADDRESS, NULL), 0);
}

static void test_one_that_lags_does_not_count(void **state)
{
	lk__listed_see(&listed, ONE, false);
	lk__listed_see(&listed, TWO, true);
	lk__listed_see(&listed, STRANGER, true);
	assert_int_equal(lk__listed_come(&listed, &absent), 1);
}

static void test_another_master_has_met_none(void **state)
{
	assert_int_equal(come(ONE, TWO), 2);
	lk__listed_forget(&listed);
	assert_int_equal(come(ONE, STRANGER), 2);
}

static void test_a_full_list_takes_no_more(void **state)
{
	char place[LK__CONN_PLACE_SIZE];
	for (int i = listed.count; i < LK__ACKS_MAX; i++) {
		snprintf(place, sizeof(place), "%d.test:6379", i);
		assert_non_null(lk__listed_of(&listed, place));
	}
	assert_null(lk__listed_of(&listed, STRANGER));
	assert_non_null(lk__listed_of(&listed, place));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_each_is_known_by_its_name_or_its_address, set_up),
		cmocka_unit_test_setup(test_a_stranger_does_not_stand_for_one_that_was_met, set_up),
		cmocka_unit_test_setup(test_a_stranger_may_be_one_that_was_never_met, set_up),
		cmocka_unit_test_setup(test_a_stranger_is_none_that_follows_nobody, set_up),
		cmocka_unit_test_setup(test_one_that_is_down_counts_for_none, set_up),
		cmocka_unit_test_setup(test_one_that_lags_does_not_count, set_up),
		cmocka_unit_test_setup(test_another_master_has_met_none, set_up),
		cmocka_unit_test_setup(test_a_full_list_takes_no_more, set_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
