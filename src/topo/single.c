/* SPDX-License-Identifier: MIT */
/* One server has every key. */
#include <stdlib.h>

#include "base/fail.h"
#include "topo/topo.h"

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

int lk__topo_single_new(struct lk__topo **topo_out, const struct lk_config *config,
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
