/* SPDX-License-Identifier: MIT */
/* One node, whose server changes: a scout finds it. */
#include <stdlib.h>

#include "base/fail.h"
#include "conf/config.h"
#include "topo/master.h"
#include "topo/topo.h"

struct moving {
	struct lk__topo topo;
	struct lk__node node;
	struct lk__master *master;
};

static struct lk__node *moving_node_of(struct lk__topo *topo, uint16_t slot)
{
	(void)slot;
	return &((struct moving *)topo)->node;
}

static struct lk__node *moving_node_at(struct lk__topo *topo, size_t index)
{
	return index == 0 ? &((struct moving *)topo)->node : NULL;
}

/* The master first: its scout breaks connections. */
static void moving_close(struct lk__topo *topo)
{
	struct moving *moving = (struct moving *)topo;
	if (moving->master)
		lk__master_stop(moving->master);
	lk__node_close(&moving->node);
}

static void moving_free(struct lk__topo *topo)
{
	struct moving *moving = (struct moving *)topo;
	struct lk__finder *finder = moving->node.finder;
	lk__node_destroy(&moving->node);
	if (finder)
		finder->ops->unref(finder);
	free(topo);
}

static int64_t moving_turn(struct lk__topo *topo, int set_fd)
{
	return lk__master_turn(((struct moving *)topo)->master, set_fd);
}

static const struct lk__topo_ops moving_ops = {
	.node_of = moving_node_of,
	.node_at = moving_node_at,
	.keeper_at = moving_node_at,
	.turn = moving_turn,
	.close = moving_close,
	.free = moving_free,
};

int lk__topo_moving_new(struct lk__topo **topo_out, const struct lk__master_ops *ops,
			struct lk_config *asking, const struct lk_config *config,
			const struct lk__node_events *events, void *context, lk_error *error)
{
	struct moving *moving = calloc(1, sizeof(*moving));
	if (!moving) {
		lk_config_free(asking);
		return lk__fail(error, LK_ENOMEM, "out of memory");
	}
	moving->topo.ops = &moving_ops;
	int rc = lk__node_init(&moving->node, config, events, context, error);
	if (rc < 0)
		lk_config_free(asking);
	else
		rc = lk__master_new(&moving->master, ops, asking, &moving->node, error);
	if (rc < 0) {
		moving_free(&moving->topo);
		return rc;
	}
	moving->node.finder = lk__master_finder(moving->master);
	*topo_out = &moving->topo;
	return 0;
}
