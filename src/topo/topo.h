/* SPDX-License-Identifier: MIT */
/*
 * From a lock's key to the node that has it: one table of operations, one file a kind of
 * deployment.
 */
#ifndef LK__TOPO_TOPO_H
#define LK__TOPO_TOPO_H

#include <stddef.h>

#include "conn/node.h"

struct lk__topo;

struct lk__topo_ops {
	struct lk__node *(*node_of)(struct lk__topo *topo, const void *key, size_t size);
	struct lk__node *(*node_at)(struct lk__topo *topo, size_t index); /* NULL beyond the last */
	void (*close)(struct lk__topo *topo);
	void (*free)(struct lk__topo *topo);
};

/* The first member of every kind. */
struct lk__topo {
	const struct lk__topo_ops *ops;
};

/* The kind that the configuration names. No I/O. */
int lk__topo_new(struct lk__topo **topo_out, const struct lk_config *config,
		 const struct lk__node_events *events, void *context, lk_error *error);

/* One server. */
int lk__topo_single_new(struct lk__topo **topo_out, const struct lk_config *config,
			const struct lk__node_events *events, void *context, lk_error *error);

/* A master and its replicas, listed; and a master that sentinels name. */
int lk__topo_replicas_new(struct lk__topo **topo_out, const struct lk_config *config,
			  const struct lk__node_events *events, void *context, lk_error *error);
int lk__topo_sentinel_new(struct lk__topo **topo_out, const struct lk_config *config,
			  const struct lk__node_events *events, void *context, lk_error *error);

/* What both are: one node that a scout finds, asking as `asking` says, which it takes over (NULL:
 * there was no memory for it). */
struct lk__master_ops;
int lk__topo_moving_new(struct lk__topo **topo_out, const struct lk__master_ops *ops,
			struct lk_config *asking, const struct lk_config *config,
			const struct lk__node_events *events, void *context, lk_error *error);

static inline struct lk__node *lk__topo_node_of(struct lk__topo *topo, const void *key, size_t size)
{
	return topo->ops->node_of(topo, key, size);
}

#endif
