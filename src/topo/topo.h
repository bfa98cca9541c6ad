/* SPDX-License-Identifier: MIT */
/*
 * From a lock's key to the node that has it: one table of operations, one file a kind of
 * deployment.
 */
#ifndef LK__TOPO_TOPO_H
#define LK__TOPO_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "conf/config.h"
#include "conn/node.h"

/* ---- slots ---- */

/* Which of a cluster's slots a key is in: "Keys distribution model" of the Redis Cluster
 * specification. */

#define LK__SLOTS 16384

/* A key's hash tag decides, which stands between its first "{" and the next "}", unless that is
 * empty; else the whole key. */
uint16_t lk__slot_of(const void *key, size_t size);

/* ---- the table of operations ---- */

struct lk__topo;

struct lk__topo_ops {
	/* Without I/O: the one that had the slot when that was last heard. NULL: see
	 * struct lk__topo. */
	struct lk__node *(*node_of)(struct lk__topo *topo, uint16_t slot);
	struct lk__node *(*node_at)(struct lk__topo *topo, size_t index); /* NULL beyond the last */
	/* The same of the nodes that have keys, once a connection was made. */
	struct lk__node *(*keeper_at)(struct lk__topo *topo, size_t index);
	/* Whether a server with that id is one of the cluster's, as far as that was heard of. NULL:
	 * there is no cluster. */
	bool (*has)(struct lk__topo *topo, const char *id);
	/* When it was noticed that another shard than before has the slot; 0: never. NULL: all keys
	 * are on one node. */
	int64_t (*moved_ns)(struct lk__topo *topo, uint16_t slot);
	/* Of a threadless client: looks for masters as far as that goes without waiting, and has
	 * the set tell when it goes on. Returns when to call again without that; 0: at once, since
	 * connections may go on; LK__NEVER: nobody looks. */
	int64_t (*turn)(struct lk__topo *topo, int set_fd);
	void (*close)(struct lk__topo *topo);
	void (*free)(struct lk__topo *topo);
};

/* The first member of every kind. */
struct lk__topo {
	const struct lk__topo_ops *ops;
	bool slotted;          /* keys are on different nodes; else all are in slot 0, */
	struct lk__node *node; /* and on this one */
};

/* One node, which has every key (master.c). */
int lk__topo_lone_new(struct lk__topo **topo_out, const struct lk_config *config,
		      const struct lk__node_events *events, void *context, lk_error *error);

/* Several masters, each with some of the slots (cluster.c). */
int lk__topo_cluster_new(struct lk__topo **topo_out, const struct lk_config *config,
			 const struct lk__node_events *events, void *context, lk_error *error);

/* The kind that the configuration names. No I/O. */
static inline int lk__topo_new(struct lk__topo **topo_out, const struct lk_config *config,
			       const struct lk__node_events *events, void *context, lk_error *error)
{
	return (config->deployment == LK__CLUSTER ? lk__topo_cluster_new : lk__topo_lone_new)(
		topo_out, config, events, context, error);
}

static inline int64_t lk__topo_turn(struct lk__topo *topo, int set_fd)
{
	return topo->ops->turn(topo, set_fd);
}

static inline bool lk__topo_has(struct lk__topo *topo, const char *id)
{
	return topo->ops->has && topo->ops->has(topo, id);
}

static inline int64_t lk__topo_moved_ns(struct lk__topo *topo, uint16_t slot)
{
	return topo->ops->moved_ns ? topo->ops->moved_ns(topo, slot) : 0;
}

static inline uint16_t lk__topo_slot(const struct lk__topo *topo, const void *key, size_t size)
{
	return topo->slotted ? lk__slot_of(key, size) : 0;
}

static inline struct lk__node *lk__topo_at_slot(struct lk__topo *topo, uint16_t slot)
{
	return topo->slotted ? topo->ops->node_of(topo, slot) : topo->node;
}

static inline struct lk__node *lk__topo_node_of(struct lk__topo *topo, const void *key, size_t size)
{
	return lk__topo_at_slot(topo, lk__topo_slot(topo, key, size));
}

#endif
