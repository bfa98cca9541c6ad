/* Worlds with one lock or count of any kind (kinds.c). */
#ifndef SIM_KINDS_H
#define SIM_KINDS_H

#include <stdbool.h>
#include <stdint.h>

/* sim_failure() says how it ended. */
void sim_kinds_run(uint64_t seed, bool verbose);

#endif
