/* Worlds where connections are forgotten (silence.c). */
#ifndef SIM_SILENCE_H
#define SIM_SILENCE_H

#include <stdbool.h>
#include <stdint.h>

/* sim_failure() says how it ended. */
void sim_silence_run(uint64_t seed, bool verbose);

#endif
