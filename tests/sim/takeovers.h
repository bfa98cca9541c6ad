/*
 * The replicas of a cluster's masters (cluster.h), and how one takes its master's place: when the
 * master has not answered for a while, and most masters do; or as planned, while the master takes
 * no writes. The nodes leave out of their maps a replica that does not answer.
 *
 * A failover loses nothing that a client was told, if the replica was on the maps long enough for
 * clients to count it. Of a run in which another one takes over, nothing is promised from then on.
 */
#ifndef SIM_TAKEOVERS_H
#define SIM_TAKEOVERS_H

#include <stdbool.h>
#include <stdint.h>

/* The first so many of the servers are masters, and the others their replicas in turn. */
void sim_takeovers_begin(unsigned servers, unsigned masters);

/* Whether nothing is to be taken over, and all replicas have what their masters have. */
bool sim_takeovers_are_over(void);

/* A replica is on the maps; and ever since the latest time at which a hold until then can have been
 * granted or renewed. */
bool sim_is_listed(unsigned replica);
bool sim_was_listed(unsigned replica, int64_t deadline_ns);

/* It has what has moved to its master, or must have by now. */
bool sim_has_moved(unsigned replica, unsigned master);

/* A replica takes its master's place, as planned. */
void sim_take_over_as_planned(unsigned master);

/* Who hears that another has its slots is its replica. */
void sim_takeovers_heard(unsigned server, unsigned owner);

#endif
