/* SPDX-License-Identifier: MIT */
/* What most of a scout's peers say: when it decides, and that no server counts twice. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "topo/vote.h"

#define ROUND 7

static struct lk__peer peers[LK__PEERS_MAX];
static size_t count;

size_t __wrap_lk__scout_count(const struct lk__scout *scout);
const struct lk__peer *__wrap_lk__scout_peer(const struct lk__scout *scout, size_t index);
bool __wrap_lk__scout_has_answered(const struct lk__scout *scout, const struct lk__peer *peer);

size_t __wrap_lk__scout_count(const struct lk__scout *scout)
{
	return count;
}

const struct lk__peer *__wrap_lk__scout_peer(const struct lk__scout *scout, size_t index)
{
	return &peers[index];
}

bool __wrap_lk__scout_has_answered(const struct lk__scout *scout, const struct lk__peer *peer)
{
	return peer->answered_round == ROUND;
}

/* `says` is NULL for one that does not answer; what it said before is of no use. */
static void add(const char *id, const char *says)
{
	struct lk__peer *peer = &peers[count++];
	*peer = (struct lk__peer){.answered_round = says ? ROUND : ROUND - 1};
	snprintf(peer->id, sizeof(peer->id), "%s", id);
	snprintf(peer->says, sizeof(peer->says), "%s", says ? says : "old");
}

static int nobody(void **state)
{
	count = 0;
	return 0;
}

static void is_vote(const char *common, size_t most, size_t votes, size_t known)
{
	struct lk__vote vote = lk__vote_of(NULL);
	assert_string_equal(vote.common, common);
	assert_int_equal(vote.most, most);
	assert_int_equal(vote.votes, votes);
	assert_int_equal(vote.known, known);
}

static bool decides(bool over)
{
	struct lk__vote vote = lk__vote_of(NULL);
	return lk__vote_decides(&vote, over);
}

static void test_nobody_says_anything(void **state)
{
	is_vote("", 0, 0, 0);
	add("a", NULL);
	add("b", "");
	is_vote("", 0, 0, 2);
	assert_false(decides(true));
}

static void test_more_than_half_of_all_decide_at_once(void **state)
{
	add("a", "x");
	add("b", "x");
	add("c", NULL);
	add("d", NULL);
	is_vote("x", 2, 2, 4);
	assert_false(decides(false));
	add("e", "x");
	is_vote("x", 3, 3, 5);
	assert_true(decides(false));
}

static void test_more_than_half_of_those_that_answer_decide_in_the_end(void **state)
{
	add("a", "y");
	add("b", "x");
	add("c", "x");
	add("d", NULL);
	add("e", NULL);
	is_vote("x", 2, 3, 5);
	assert_false(decides(false));
	assert_true(decides(true));
}

static void test_half_decides_nothing(void **state)
{
	add("a", "x");
	add("b", "y");
	assert_false(decides(true));
	add("c", "z");
	is_vote("x", 1, 3, 3);
	assert_false(decides(true));
}

static void test_one_server_has_one_vote(void **state)
{
	add("same", "y");
	add("same", "y");
	add("same", "y");
	add("b", "x");
	add("c", "x");
	is_vote("x", 2, 3, 3);
	assert_true(decides(false));
}

/* Its old address stands before the one at which it answers, or behind it. */
static void test_the_address_that_answers_has_the_vote(void **state)
{
	add("moved", NULL);
	add("moved", "x");
	add("other", "x");
	add("other", NULL);
	is_vote("x", 2, 2, 2);
	assert_true(decides(false));
}

static void test_who_has_no_id_counts_each(void **state)
{
	add("", "x");
	add("", "x");
	add("", NULL);
	is_vote("x", 2, 2, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_nobody_says_anything, nobody),
		cmocka_unit_test_setup(test_more_than_half_of_all_decide_at_once, nobody),
		cmocka_unit_test_setup(test_more_than_half_of_those_that_answer_decide_in_the_end,
				       nobody),
		cmocka_unit_test_setup(test_half_decides_nothing, nobody),
		cmocka_unit_test_setup(test_one_server_has_one_vote, nobody),
		cmocka_unit_test_setup(test_the_address_that_answers_has_the_vote, nobody),
		cmocka_unit_test_setup(test_who_has_no_id_counts_each, nobody),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
