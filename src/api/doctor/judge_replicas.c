/* SPDX-License-Identifier: MIT */
/* What a failover leaves of the locks. */
#include <string.h>

#include "api/doctor/findings.h"

void lk__judge_replicas(struct lk__findings *findings, const struct lk__facts *node, size_t index,
			bool quorum)
{
	long long replicas = node->replicas, least = node->min_replicas, lag_s = node->lag_s;
	if (strcmp(node->role, "replica") == 0)
		lk__find(findings, LK__FOUND_REPLICA, index, "it is a replica of %s",
			 *node->master ? node->master : "another server");
	if (!lk__facts_serve(node))
		return;
	if (replicas == 0 && !quorum)
		lk__find(findings, LK__FOUND_NO_REPLICA, index, "no replica is connected");
	if (lk__facts_acked(node))
		return;
	if (replicas > 0 && (least == 0 || lag_s == 0))
		lk__find(findings, LK__FOUND_REPLICAS_UNGUARDED, index,
			 "replicas: %lld, min-replicas-to-write is %lld, min-replicas-max-lag is "
			 "%lld",
			 replicas, least, lag_s);
	if (replicas > 0 && least > 0 && lag_s > 0)
		lk__find(findings, LK__FOUND_REPLICAS_LAG, index,
			 "replicas: %lld, min-replicas-to-write is %lld, min-replicas-max-lag is "
			 "%lld",
			 replicas, least, lag_s);
}
