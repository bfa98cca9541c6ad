/*
 * Masters that share the slots, each with a map of its own. A slot moves from one to another at
 * once, or key by key, while SIM_MOVES lasts; the others hear of it some time later, over a bus
 * that also carries what is published. A node refuses what it does not have (MOVED, ASK), and what
 * it may have in part (TRYAGAIN); with SIM_OUTAGES it says for a while that the cluster is down.
 *
 * A move loses no key and changes no lease: all have one clock. Who has a slot is what these
 * functions have made of it, whatever nodes believe.
 */
#ifndef SIM_CLUSTER_H
#define SIM_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

/* The first so many of the servers have the slots, and the others are their replicas. The names are
 * those of the keys whose slots move. */
void sim_cluster_begin(unsigned servers, unsigned masters, const char *const *names,
		       unsigned name_count);

/* Behind the end of all troubles: no slot is on its way any more, all nodes know who has it, and
 * replicas have all. */
void sim_cluster_settle(void);

bool sim_is_cluster(void); /* the world is one */
unsigned sim_cluster_size(void);

/* The server that has the key, or would if it was made now. */
unsigned sim_cluster_keeper(const char *name);

/* Whether it has the key for certain of whoever was told of a hold until then. */
bool sim_cluster_must_have(unsigned server, int64_t deadline_ns);

void sim_cluster_end(void);

/* ---- for takeovers.c ---- */

bool sim_cluster_owns(unsigned server); /* any slot */

/* When the last key has moved to it: no replica of it need have that. INT64_MIN: none has. */
int64_t sim_cluster_moved_ns(unsigned server);

/* A slot is on its way from it, or to it. */
bool sim_cluster_is_moving(unsigned server);

/* All slots of the one are the other's, which knows at once; `told`: so does the one. */
void sim_cluster_give(unsigned from, unsigned to, bool told);

/* It is a replica of that one. */
void sim_cluster_follow(unsigned server, unsigned master);

/* In how many runs of this process slots have moved, and how often that was. */
unsigned sim_move_count(void);

#endif
