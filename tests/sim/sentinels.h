/*
 * Sentinels, which watch a master and its replicas (replication.h). Each has an opinion of its own,
 * by what it has heard: it asks every server now and then, and cannot ask those that hang, are
 * down, or are cut off from it. They are servers, too (server.h): they hang, stop and start.
 *
 * They elect nobody. Whoever replaces the master (failovers.h) asks whether most of them call it
 * down, and tells them of the new one.
 */
#ifndef SIM_SENTINELS_H
#define SIM_SENTINELS_H

#include <stdbool.h>
#include <stdint.h>

/* So many, behind as many servers as they watch, of which the first is the master. */
void sim_sentinels_begin(unsigned watched, unsigned sentinels, int64_t down_after_ms);

/* Nobody asks any more. */
void sim_sentinels_rest(void);

/* Whether all of them say that it is the master; and whether most of them call it down. */
bool sim_sentinels_agree(unsigned master);
bool sim_is_called_down(unsigned server);

/* The replica that they would promote, by what the first who can tells; or `master`: none. */
unsigned sim_sentinels_pick(unsigned master);

/* One of them makes it the master, and knows; then the others hear of it, each after a time. */
void sim_sentinels_promote(unsigned server);
void sim_sentinels_switch(unsigned server, int64_t most_ms);

/* It hears nothing of that server until then. */
void sim_sentinel_cut(unsigned sentinel, unsigned server, int64_t until_ns);

#endif
