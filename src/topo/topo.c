/* SPDX-License-Identifier: MIT */
#include "topo/topo.h"

#include "base/fail.h"
#include "conf/config.h"

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
		return lk__topo_single_new(topo_out, config, events, context, error);
	case LK__SCHEME_NONE:
		break;
	}
	return lk__fail(error, LK_EINVAL,
			"no server is named: set the option url or LOCKKEEPER_URL");
}
