/* A failing seed with fewer faults and calls. */
#ifndef SIM_SHRINK_H
#define SIM_SHRINK_H

#include <stdbool.h>
#include <stdint.h>

/* A world; sim_failure() says how it ended. */
typedef void sim_world(uint64_t seed, bool verbose);

/*
 * Leaves out faults and calls while the seed still fails, in whatever way, and prints the history
 * of what remains. A bounded number of runs. Status 1: it fails; 0: it does not.
 */
int sim_shrink(sim_world *run, uint64_t seed);

#endif
