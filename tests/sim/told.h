/* Worlds in which holders and waiters are told (told.c). */
#ifndef SIM_TOLD_H
#define SIM_TOLD_H

#include <stdbool.h>
#include <stdint.h>

void sim_told_run(uint64_t seed, bool verbose);

#endif
