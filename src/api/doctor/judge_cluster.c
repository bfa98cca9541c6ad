/* SPDX-License-Identifier: MIT */
/* Whether a cluster has every name, and how long a failover takes in it. */
#include "api/doctor/findings.h"
#include "api/doctor/pace.h"
#include "topo/slot.h"

void lk__judge_slots(struct lk__findings *findings, const struct lk__facts *node, size_t index)
{
	if (node->slots_missing > 0)
		lk__find(findings, LK__FOUND_SLOTS, index,
			 "no master has %lld of the %d slots, the first of them %lld",
			 (long long)node->slots_missing, LK__SLOTS, (long long)node->slot_missing);
}

void lk__judge_pace(struct lk__findings *findings, const struct lk__facts *node, size_t index)
{
	if (node->deployment == LK__CLUSTER)
		lk__find_slow(findings, LK__FOUND_CLUSTER_SLOW, index, "cluster-node-timeout",
			      node->node_timeout_ms, lk__pace_of_cluster_ms(node->node_timeout_ms),
			      node->lease_ms);
}
