/* Worlds with red locks (red.c). */
#ifndef SIM_RED_H
#define SIM_RED_H

#include <stdbool.h>
#include <stdint.h>

/* sim_failure() says how it ended. */
void sim_red_run(uint64_t seed, bool verbose);
void sim_mixed_run(uint64_t seed, bool verbose); /* mixture.h */

#endif
