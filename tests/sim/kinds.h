/* Worlds with one lock or count of any kind (kinds.c), on one server, on one of several that
 * copy one another (failovers.h), or on several that share the slots (cluster.h). */
#ifndef SIM_KINDS_H
#define SIM_KINDS_H

#include <stdbool.h>
#include <stdint.h>

/* sim_failure() says how it ended. */
void sim_barriers_run(uint64_t seed, bool verbose);
void sim_handovers_run(uint64_t seed, bool verbose);
void sim_kinds_run(uint64_t seed, bool verbose);
void sim_refusals_run(uint64_t seed, bool verbose); /* refusals.h */
void sim_replicas_run(uint64_t seed, bool verbose);
void sim_sentinels_run(uint64_t seed, bool verbose);
void sim_cluster_run(uint64_t seed, bool verbose);

#endif
