/* Worlds in which a red lock loses its majority while a part of it is being mended (majority.c). */
#ifndef SIM_MAJORITY_H
#define SIM_MAJORITY_H

#include <stdbool.h>
#include <stdint.h>

/* sim_failure() says how it ended. */
void sim_majority_run(uint64_t seed, bool verbose);

#endif
