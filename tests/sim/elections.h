/* Worlds with elections (elections.c). */
#ifndef SIM_ELECTIONS_H
#define SIM_ELECTIONS_H

#include <stdbool.h>
#include <stdint.h>

void sim_elections_run(uint64_t seed, bool verbose);

#endif
