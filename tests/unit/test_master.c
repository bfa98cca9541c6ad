/* SPDX-License-Identifier: MIT */
/* How many replicas of a master count, when some of those who tell of them answer late. The rounds
 * are the test's own; nothing is asked. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include <lockkeeper/config.h>

#include "conf/config.h"
#include "conn/node.h"
#include "topo/master.h"
#include "topo/topo.h"
#include "topo/vote.h"

#define MASTER "one.test:6379"
#define REPLICA "two.test:6379"

static struct lk__topo *topo;
static lk_config *config;
static uint64_t round_now;

void *__wrap_lk__scout_kind(const struct lk__scout *scout);
uint64_t __wrap_lk__scout_round(const struct lk__scout *scout);
struct lk__vote __wrap_lk__vote_of(const struct lk__scout *scout);

void *__wrap_lk__scout_kind(const struct lk__scout *scout)
{
	return topo->node->finder;
}

uint64_t __wrap_lk__scout_round(const struct lk__scout *scout)
{
	return round_now;
}

/* All sentinels name it. */
struct lk__vote __wrap_lk__vote_of(const struct lk__scout *scout)
{
	static const char common[LK__PLACE_SIZE] = MASTER;
	return (struct lk__vote){.common = common, .most = 1, .votes = 1, .known = 1};
}

static void ignore(void *context)
{
}

static const struct lk__node_events events = {
	.attention = ignore, .lost = ignore, .up = ignore, .connecting = ignore};

static int set_up(void **state)
{
	lk_error error;
	round_now = 1;
	assert_int_equal(lk_config_new(&config, &error), 0);
	assert_int_equal(lk_config_set(config, "url", "redis-sentinel://nowhere.test/name", &error),
			 0);
	assert_int_equal(lk__topo_new(&topo, config, &events, NULL, &error), 0);
	return 0;
}

static int tear_down(void **state)
{
	topo->ops->close(topo);
	topo->ops->free(topo);
	config = lk_config_free(config);
	return 0;
}

/* A sentinel answers a question of that round. */
static void peer_says(uint64_t asked_round, bool alive)
{
	struct lk__peer peer = {.asked_round = asked_round, .says = MASTER};
	const struct lk__master_replica replica = {REPLICA, .alive = alive, .follows = alive};
	lk__master_hear(NULL, &peer, &replica);
}

static int counted(bool over)
{
	lk_error error;
	assert_true(lk__master_judge(NULL, over, &error));
	return atomic_load(&topo->node->replicas.count);
}

static void test_a_replica_counts_in_its_round_and_until_the_next_is_over(void **state)
{
	peer_says(1, true);
	assert_int_equal(counted(true), 1);
	round_now = 2;
	assert_int_equal(counted(false), 1);
	assert_int_equal(counted(true), 0);
}

static void test_a_late_answer_of_an_earlier_round_takes_no_replica_back(void **state)
{
	round_now = 5;
	peer_says(5, true);
	peer_says(3, true);
	assert_int_equal(counted(true), 1);
	peer_says(2, false);
	assert_int_equal(counted(true), 1);
}

static void test_a_replica_that_is_down_does_not_count(void **state)
{
	peer_says(1, false);
	assert_int_equal(counted(true), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_a_replica_counts_in_its_round_and_until_the_next_is_over, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			test_a_late_answer_of_an_earlier_round_takes_no_replica_back, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(test_a_replica_that_is_down_does_not_count, set_up,
						tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
