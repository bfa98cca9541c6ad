/* Worlds in which locks are watched from outside (watches.c). */
#ifndef SIM_WATCHES_H
#define SIM_WATCHES_H

#include <stdbool.h>
#include <stdint.h>

void sim_watches_run(uint64_t seed, bool verbose);

#endif
