/* SPDX-License-Identifier: MIT */
/* Whether a cluster has every name, and how soon a failover begins in it. */
#include "api/doctor/findings.h"
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
	if (node->deployment == LK__CLUSTER &&
	    lk__pace_is_slow(node->node_timeout_ms, node->lease_ms))
		lk__find(findings, LK__FOUND_CLUSTER_SLOW, index,
			 "cluster-node-timeout is %lld, and watchdog_ms is %lld",
			 (long long)node->node_timeout_ms, (long long)node->lease_ms);
}
