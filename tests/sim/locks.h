/* Worlds with reentrant locks, and a crowd of them (locks.c). */
#ifndef SIM_LOCKS_H
#define SIM_LOCKS_H

#include <stdbool.h>
#include <stdint.h>

/* sim_failure() says how they ended. */
void sim_locks_run(uint64_t seed, bool verbose);
void sim_crowd_run(uint64_t seed, bool verbose);

#endif
