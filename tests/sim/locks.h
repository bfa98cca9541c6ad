/* Worlds with reentrant locks, a crowd for one of them, and a throng for many (locks.c). */
#ifndef SIM_LOCKS_H
#define SIM_LOCKS_H

#include <stdbool.h>
#include <stdint.h>

/* sim_failure() says how they ended. */
void sim_locks_run(uint64_t seed, bool verbose);
void sim_crowd_run(uint64_t seed, bool verbose);
void sim_throng_run(uint64_t seed, bool verbose);

/* How often, in all throngs so far, a client's callers began to share one connection, and to have
 * several again; in how many it had opened some, and closed those when nobody called. */
struct sim_ways {
	unsigned gathered, spread, opened, closed;
};

struct sim_ways sim_connection_ways(void);

#endif
