/* Worlds with multi locks (multi.c). */
#ifndef SIM_MULTI_H
#define SIM_MULTI_H

#include <stdbool.h>
#include <stdint.h>

/* sim_failure() says how it ended. */
void sim_multi_run(uint64_t seed, bool verbose);

#endif
