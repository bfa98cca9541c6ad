/*
 * A master with replicas, and who replaces it: as planned, or when it hangs, stops or vanishes. One
 * that was replaced may go on as a master for a while. Replicas hang, stop, and are cut off from
 * their master or get nothing from it for a while.
 *
 * docs/guarantees.md says when a failover loses nothing: planned, or to a replica that was alive as
 * a lock was granted, for who sees all of that. Of a run in which a replica takes over that lacks
 * something, and need not have it, nothing is promised from then on.
 */
#ifndef SIM_FAILOVERS_H
#define SIM_FAILOVERS_H

#include <stdbool.h>
#include <stdint.h>

/* One server: it has no replicas, and outages (outages.h). Failovers begin with SIM_OUTAGES. With
 * sentinels (sentinels.h), which are servers behind those, they replace the master. */
void sim_failovers_begin(unsigned servers, unsigned sentinels);

/* All troubles cease; behind it there is one master, which all others follow and have copied. */
void sim_failovers_end(void);

/* Nothing happens any more by itself. */
void sim_failovers_rest(void);

unsigned sim_servers(void);
unsigned sim_master(void); /* the one that is meant to be */

/* The server that has the key, or would: the master, or that of its slot. */
unsigned sim_keeper(const char *key);
bool sim_has_copy(unsigned server, const char *key); /* that, or a replica of it */

/* Whether a client has counted the server among the replicas, or it is the master, ever since the
 * latest time at which a hold until then can have been granted or renewed. */
bool sim_must_have(unsigned server, int64_t deadline_ns);

bool sim_is_promised(void);

/* A failover; nothing is promised from then on unless it is firm. */
void sim_count_failover(bool firm);

/* In how many runs of this process it was not in the end, and how many failovers there were. */
unsigned sim_unpromised_runs(void);
unsigned sim_failover_count(void);

#endif
