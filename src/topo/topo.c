/* SPDX-License-Identifier: MIT */
#include "topo/topo.h"

#include <stdlib.h>

#include "base/fail.h"
#include "conf/config.h"

/* ---- one server has every key ---- */

struct single {
	struct lk__topo topo;
	struct lk__node node;
};

static struct lk__node *single_node_of(struct lk__topo *topo, uint16_t slot)
{
	(void)slot;
	return &((struct single *)topo)->node;
}

static struct lk__node *single_node_at(struct lk__topo *topo, size_t index)
{
	return index == 0 ? &((struct single *)topo)->node : NULL;
}

static void single_close(struct lk__topo *topo)
{
	lk__node_close(&((struct single *)topo)->node);
}

static void single_free(struct lk__topo *topo)
{
	lk__node_destroy(&((struct single *)topo)->node);
	free(topo);
}

static const struct lk__topo_ops single_ops = {
	.node_of = single_node_of,
	.node_at = single_node_at,
	.keeper_at = single_node_at,
	.close = single_close,
	.free = single_free,
};

/* One server. */
static int topo_single_new(struct lk__topo **topo_out, const struct lk_config *config,
			   const struct lk__node_events *events, void *context, lk_error *error)
{
	struct single *single = calloc(1, sizeof(*single));
	if (!single)
		return lk__fail(error, LK_ENOMEM, "out of memory");
	single->topo.ops = &single_ops;
	int rc = lk__node_init(&single->node, config, events, context, error);
	if (rc < 0) {
		single_free(&single->topo);
		return rc;
	}
	*topo_out = &single->topo;
	return 0;
}

int lk__topo_new(struct lk__topo **topo_out, const struct lk_config *config,
		 const struct lk__node_events *events, void *context, lk_error *error)
{
	if (config->deployment == LK__REPLICAS)
		return lk__topo_replicas_new(topo_out, config, events, context, error);
	if (config->deployment == LK__SENTINEL)
		return lk__topo_sentinel_new(topo_out, config, events, context, error);
	if (config->deployment == LK__CLUSTER)
		return lk__topo_cluster_new(topo_out, config, events, context, error);
	switch (config->scheme) {
	case LK__SCHEME_TCP:
	case LK__SCHEME_TLS:
	case LK__SCHEME_UNIX:
		return topo_single_new(topo_out, config, events, context, error);
	case LK__SCHEME_NONE:
		break;
	}
	return lk__fail(error, LK_EINVAL,
			"no server is named: set the option url or LOCKKEEPER_URL");
}
