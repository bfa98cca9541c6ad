/*
 * Whole sorts of troubles are left out first. Then what happens by its number in the run
 * (sim_happens()): halves of it, quarters, and so on to single ones (Zeller, delta debugging). To
 * leave one out changes what comes behind it, so a smaller set may fail in another way.
 */
#include "shrink.h"

#include <stdio.h>

#include "happens.h"
#include "world.h"

#define RUNS_MAX 3000

static sim_world *run;
static uint64_t seed;
static unsigned runs;

static bool fails(void)
{
	runs++;
	run(seed, false);
	return sim_failure() != NULL;
}

static void shrink_troubles(void)
{
	unsigned left_out = 0;
	for (unsigned trouble = 1; trouble <= SIM_ALL_TROUBLES; trouble <<= 1) {
		left_out |= trouble;
		sim_leave_out_troubles(left_out);
		if (!fails())
			left_out &= ~trouble;
	}
	sim_leave_out_troubles(left_out);
}

/* The last run that failed had `count` of them: the new count. */
static unsigned shrink_by(unsigned size, unsigned count)
{
	for (unsigned first = 0; first < count && runs < RUNS_MAX; first += size) {
		if (!sim_leave_out(first, size))
			continue;
		if (fails())
			count = sim_happened();
		else
			sim_put_back();
	}
	return count;
}

int sim_shrink(sim_world *world, uint64_t failing_seed)
{
	run = world;
	seed = failing_seed;
	runs = 0;
	if (!fails()) {
		printf("seed %llu does not fail\n", (unsigned long long)seed);
		return 0;
	}
	unsigned before = sim_happened();
	shrink_troubles();
	fails();
	unsigned count = sim_happened();
	for (unsigned size = (count + 1) / 2; size > 0 && runs < RUNS_MAX; size /= 2)
		count = shrink_by(size, count);
	run(seed, true);
	printf("%s\n%u of %u faults and calls are left, after %u runs\n", sim_failure(),
	       sim_happened() - sim_left_out(), before, runs);
	return 1;
}
