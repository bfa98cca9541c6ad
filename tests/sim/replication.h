/*
 * Servers that copy a master. What a command or a script of the master has changed leaves for each
 * of its replicas in order, and arrives some time later as one piece: the keys as they were then.
 * A replica refuses writes. Its link to its master is made anew whenever it is lost, and begins
 * with a copy of everything. It tells the master how far it is when WAIT asks, and once a second.
 *
 * Who is a master is what these functions have made of each, whatever others believe. A server
 * that hangs, or is down (server.h), neither sends nor takes anything.
 */
#ifndef SIM_REPLICATION_H
#define SIM_REPLICATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first so many are masters. The others are their replicas in turn, which have all that they
 * have. All have one clock. */
void sim_replication_begin(unsigned servers, unsigned masters);

/* Nobody tells anything once a second any more. */
void sim_replication_rest(void);
void sim_replication_end(void);

/* It is a master, or a replica of another server: at once, without the consent of either. */
void sim_promote(unsigned number);
void sim_follow(unsigned number, unsigned master);

bool sim_is_replicated(void); /* the world has such servers */
bool sim_is_replica(unsigned number);
bool sim_is_linked(unsigned number);                    /* and it has got its copy */
bool sim_was_linked(unsigned number, int64_t since_ns); /* at any time since then */
unsigned sim_master_of(unsigned number);
int64_t sim_offset(unsigned number); /* how far it is */

/* Whether it lacks something that the other has, though that may be on its way. */
bool sim_lacks(unsigned number, unsigned other);

/* Nothing passes between it and its master until then; or its link is lost as well. */
void sim_replication_stall(unsigned number, int64_t until_ns);
void sim_replication_cut(unsigned number, int64_t until_ns);

/* ---- for server.c ---- */

/* What has been changed since the last call leaves. Returns how far the server is, or 0: nothing
 * was. */
int64_t sim_replication_ship(unsigned number);

/* Its replicas are to tell how far they are; and how many have told of that, or of more. */
void sim_replication_ask(unsigned number);
int sim_replication_count(unsigned number, int64_t offset);

/* It is down; it has started. */
void sim_replication_stopped(unsigned number);
void sim_replication_started(unsigned number);

#endif
