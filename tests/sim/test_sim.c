/*
 * The simulated worlds: each runs the library with virtual time, coroutines for threads, a network
 * and servers that a seed draws. The table below has a row for each; its module says what happens
 * in it, and what must hold.
 *
 * usage: test_sim [[WORLD] SEED [COUNT]]
 *        test_sim --shrink [WORLD] SEED
 *        test_sim --worlds
 *
 * One seed, and its history; or so many from it on, without. With --shrink, the faults and calls
 * are left out without which the seed still fails, and then its history. Without a world, `locks`.
 * --worlds names them, with how many seeds of each `make check` runs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "elections.h"
#include "failovers.h"
#include "kinds.h"
#include "locks.h"
#include "majority.h"
#include "multi.h"
#include "red.h"
#include "scripted.h"
#include "shrink.h"
#include "silence.h"
#include "switch.h"
#include "told.h"
#include "watches.h"
#include "world.h"

struct row {
	const char *name;
	sim_world *run;
	uint64_t seeds; /* from 1 on, in `make check` */
};

static const struct row rows[] = {
	{"locks", sim_locks_run, 2000},        {"crowd", sim_crowd_run, 300},
	{"throng", sim_throng_run, 150},       {"red", sim_red_run, 300},
	{"mixed", sim_mixed_run, 240},         {"multi", sim_multi_run, 400},
	{"kinds", sim_kinds_run, 4200},        {"silence", sim_silence_run, 500},
	{"replicas", sim_replicas_run, 800},   {"sentinels", sim_sentinels_run, 700},
	{"refusals", sim_refusals_run, 500},   {"cluster", sim_cluster_run, 400},
	{"elections", sim_elections_run, 300}, {"barriers", sim_barriers_run, 500},
	{"handovers", sim_handovers_run, 500}, {"told", sim_told_run, 500},
	{"watches", sim_watches_run, 100},     {"majority", sim_majority_run, 60},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* ---- the worlds ---- */

/* A failing seed runs again, and prints its history. */
static void run(const struct row *row, uint64_t seed)
{
	row->run(seed, false);
	if (!sim_failure())
		return;
	row->run(seed, true);
	fail_msg("%s: %s", row->name, sim_failure());
}

static void test_world(void **state)
{
	const struct row *row = *state;
	/* The sanitizers make a run 40 times, and 8 times, as long. */
	uint64_t part = SIM_THREAD_SANITIZER ? 20 : SIM_ADDRESS_SANITIZER ? 5 : 1;
	for (uint64_t seed = 1; seed <= row->seeds / part; seed++)
		run(row, seed);
}

/* ---- what all worlds need, and worlds without a choice ---- */

static void test_same_seed_same_course(void **state)
{
	sim_locks_run(7, false);
	uint64_t course = sim_course();
	sim_locks_run(7, false);
	assert_true(course == sim_course());
	sim_locks_run(8, false);
	assert_true(course != sim_course());
}

#define SCRIPTED_SEEDS 24

static void run_scripted(void (*world)(uint64_t seed))
{
	for (uint64_t seed = 1; seed <= SCRIPTED_SEEDS; seed++) {
		world(seed);
		if (sim_failure())
			fail_msg("%s", sim_failure());
	}
}

static void test_close_gives_back_what_was_lost(void **state)
{
	run_scripted(sim_close_gives_back_what_was_lost);
	assert_true(sim_closes_of_what_was_lost() >= SCRIPTED_SEEDS / 2);
}

static void test_a_multi_lock_connects_to_all_at_once(void **state)
{
	run_scripted(sim_multi_lock_connects_to_all_at_once);
}

static void test_a_waiter_behind_an_extension_that_comes_late(void **state)
{
	run_scripted(sim_waiter_behind_an_extension_that_comes_late);
}

static void throng_run(uint64_t seed)
{
	sim_throng_run(seed, false);
}

static void test_connections_come_and_go(void **state)
{
	run_scripted(throng_run);
	struct sim_ways ways = sim_connection_ways();
	assert_true(ways.opened >= SCRIPTED_SEEDS / 4);
	assert_true(ways.gathered >= SCRIPTED_SEEDS / 4);
	assert_true(ways.spread >= SCRIPTED_SEEDS / 4);
	assert_true(ways.closed >= SCRIPTED_SEEDS / 4);
}

static void test_a_silence_is_waited_for_once(void **state)
{
	run_scripted(sim_silence_is_waited_for_once);
}

/* ---- the command line ---- */

/* How much of what the runs did was judged. */
static void tell_failovers(void)
{
	if (sim_failover_count() > 0)
		printf("%u failovers; %u runs in which one may have lost something for which "
		       "nothing is promised\n",
		       sim_failover_count(), sim_unpromised_runs());
}

static const struct row *row_of(const char *name)
{
	for (size_t i = 0; i < ROWS; i++)
		if (strcmp(name, rows[i].name) == 0)
			return &rows[i];
	return NULL;
}

static int show(const struct row *row, uint64_t seed)
{
	row->run(seed, true);
	if (!sim_failure())
		return 0;
	printf("%s\n", sim_failure());
	return 1;
}

static int sweep(const struct row *row, uint64_t seed, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		row->run(seed + i, false);
		if (!sim_failure())
			continue;
		printf("%s\n", sim_failure());
		return 1;
	}
	tell_failovers();
	return 0;
}

static int list_worlds(void)
{
	for (size_t i = 0; i < ROWS; i++)
		printf("%s %llu\n", rows[i].name, (unsigned long long)rows[i].seeds);
	return 0;
}

static int run_all(void)
{
	static const struct CMUnitTest others[] = {
		cmocka_unit_test(test_same_seed_same_course),
		cmocka_unit_test(test_close_gives_back_what_was_lost),
		cmocka_unit_test(test_a_multi_lock_connects_to_all_at_once),
		cmocka_unit_test(test_a_waiter_behind_an_extension_that_comes_late),
		cmocka_unit_test(test_a_silence_is_waited_for_once),
		cmocka_unit_test(test_connections_come_and_go),
	};
	struct CMUnitTest worlds[ROWS];
	for (size_t i = 0; i < ROWS; i++)
		worlds[i] = (struct CMUnitTest){.name = rows[i].name,
						.test_func = test_world,
						.initial_state = (void *)&rows[i]};
	int failed = cmocka_run_group_tests(others, NULL, NULL);
	failed += cmocka_run_group_tests(worlds, NULL, NULL);
	tell_failovers();
	return failed;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return run_all();
	if (strcmp(argv[1], "--worlds") == 0)
		return list_worlds();
	bool shrinks = strcmp(argv[1], "--shrink") == 0;
	char **word = argv + 1 + shrinks;
	const struct row *row = *word ? row_of(*word) : NULL;
	word += row != NULL;
	row = row ? row : &rows[0];
	uint64_t seed = *word ? strtoull(*word, NULL, 10) : 1;
	if (shrinks)
		return sim_shrink(row->run, seed);
	return *word && word[1] ? sweep(row, seed, strtoull(word[1], NULL, 10)) : show(row, seed);
}
