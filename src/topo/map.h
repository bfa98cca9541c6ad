/* SPDX-License-Identifier: MIT */
/*
 * The map of a cluster, as one of its nodes tells it (CLUSTER SLOTS): which master has which slots,
 * and which replicas it has.
 *
 *   1) 1) 0  2) 5460                                slots
 *      3) 1) "10.0.0.1" 2) 6379 3) "07c37…"         master: where, and its id
 *      4) 1) "10.0.0.2" 2) 6380 3) "1a2b3…"         replicas
 *         4) 1) "ip" 2) "10.0.0.2"                  where the endpoint is a name (Redis 7)
 *
 * Only what is well formed is taken over. No I/O.
 */
#ifndef LK__TOPO_MAP_H
#define LK__TOPO_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include "conf/config.h"
#include "conf/url.h"
#include "conn/conn.h"
#include "topo/topo.h"

#define LK__MAP_MASTERS_MAX 255
#define LK__NODE_ID_SIZE 41 /* 40 digits and a NUL */

struct lk__map_node {
	char id[LK__NODE_ID_SIZE];
	char place[LK__PLACE_SIZE];
};

/* Its master knows it by its address, also where clients are told a name. */
struct lk__map_replica {
	char id[LK__NODE_ID_SIZE];
	char place[LK__CONN_PLACE_SIZE];
};

struct lk__map_master {
	struct lk__map_node node;
	size_t replica_count; /* above LK__ACKS_MAX: there are more than are told of here */
	struct lk__map_replica replica[LK__ACKS_MAX];
};

struct lk__map {
	uint64_t digest; /* the same in maps whose masters have the same slots */
	size_t count;
	struct lk__map_master *master;
	/* One more than the index of the master; 0: nobody has the slot; LK__MAP_OPEN. */
	uint16_t owner[LK__SLOTS];
};

#define LK__MAP_OPEN UINT16_MAX /* in a merged map: the others disagree about the slot */

/* A map, and how many say so. */
struct lk__map_vote {
	const struct lk__map *map;
	size_t votes;
};

/* Reads an answer of the node at `asked`, whose host stands for one that does not know its own.
 * NULL when out of memory; or NULL, and the constant `*fault_out` says why it is not a map. */
struct lk__map *lk__map_read(const redisReply *reply, const char *asked, const char **fault_out);
void lk__map_free(struct lk__map *map);

/* Adds the replicas that only the other knows: a node lists one when it has heard from it. */
void lk__map_add_replicas(struct lk__map *map, const struct lk__map *other);

/* The map of what more than half of `of` votes say of each slot, with the masters that have one
 * then. NULL: out of memory. */
struct lk__map *lk__map_merge(const struct lk__map_vote *votes, size_t count, size_t of);

/* Takes MOVED or ASK apart: slot and place, of LK__PLACE_SIZE bytes. False: it is malformed. */
bool lk__redirect_read(const char *words, const char *asked, uint16_t *slot_out, char *place_out);

#endif
