/* SPDX-License-Identifier: MIT */
#include "topo/topo.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "topo/master.h"
#include "topo/sentinel.h"

/* ---- one node has every key ---- */

struct lone {
	struct lk__topo topo; /* first */
	struct lk__node node;
	struct lk__master *master; /* finds its server; NULL: that does not move */
};

static struct lk__node *lone_node_of(struct lk__topo *topo, uint16_t slot)
{
	(void)slot;
	return &((struct lone *)topo)->node;
}

static struct lk__node *lone_node_at(struct lk__topo *topo, size_t index)
{
	return index == 0 ? &((struct lone *)topo)->node : NULL;
}

static int64_t lone_turn(struct lk__topo *topo, int set_fd)
{
	struct lk__master *master = ((struct lone *)topo)->master;
	return master ? lk__master_turn(master, set_fd) : LK__NEVER;
}

/* The master first: its scout breaks connections. */
static void lone_close(struct lk__topo *topo)
{
	struct lone *lone = (struct lone *)topo;
	if (lone->master)
		lk__master_stop(lone->master);
	lk__node_close(&lone->node);
}

static void lone_free(struct lk__topo *topo)
{
	struct lone *lone = (struct lone *)topo;
	struct lk__finder *finder = lone->node.finder;
	lk__node_destroy(&lone->node);
	if (finder)
		finder->ops->unref(finder);
	free(topo);
}

static const struct lk__topo_ops lone_ops = {
	.node_of = lone_node_of,
	.node_at = lone_node_at,
	.keeper_at = lone_node_at,
	.turn = lone_turn,
	.close = lone_close,
	.free = lone_free,
};

static int lone_find(struct lone *lone, const struct lk_config *config, lk_error *error)
{
	bool watched = config->deployment == LK__SENTINEL;
	struct lk_config *asking = watched ? lk__sentinel_config(config) : lk__config_copy(config);
	int rc = lk__master_new(&lone->master, watched ? &lk__sentinel_ops : &lk__replicas_ops,
				asking, &lone->node, error);
	if (rc == 0)
		lone->node.finder = lk__master_finder(lone->master);
	return rc;
}

static int lone_new(struct lk__topo **topo_out, const struct lk_config *config,
		    const struct lk__node_events *events, void *context, lk_error *error)
{
	struct lone *lone = calloc(1, sizeof(*lone));
	if (!lone)
		return lk__fail(error, LK_ENOMEM, "out of memory");
	lone->topo.ops = &lone_ops;
	int rc = lk__node_init(&lone->node, config, events, context, error);
	if (rc == 0 && config->deployment != LK__SINGLE)
		rc = lone_find(lone, config, error);
	if (rc < 0) {
		lone_free(&lone->topo);
		return rc;
	}
	*topo_out = &lone->topo;
	return 0;
}

int lk__topo_new(struct lk__topo **topo_out, const struct lk_config *config,
		 const struct lk__node_events *events, void *context, lk_error *error)
{
	if (config->scheme == LK__SCHEME_NONE)
		return lk__fail(error, LK_EINVAL,
				"no server is named: set the option url or LOCKKEEPER_URL");
	if (config->deployment == LK__CLUSTER)
		return lk__topo_cluster_new(topo_out, config, events, context, error);
	return lone_new(topo_out, config, events, context, error);
}
