/* SPDX-License-Identifier: MIT */
/* Counters as the user sees them. */
#include "api/check.h"
#include "api/stats.h"
#include "base/fail.h"
#include "lock/client.h"

static uint64_t get(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static void get_histogram(lk_histogram *histogram, const _Atomic uint64_t *buckets,
			  const _Atomic uint64_t *sum_us)
{
	for (int i = 0; i < LK_HISTOGRAM_SIZE; i++) {
		histogram->bucket[i] = get(&buckets[i]);
		histogram->count += histogram->bucket[i];
	}
	histogram->sum_us = get(sum_us);
}

static void get_nodes(lk_stats *stats, lk_client *client)
{
	struct lk__node *node;
	for (size_t i = 0; (node = client->topo->ops->node_at(client->topo, i)); i++) {
		stats->commands += get(&node->counters.commands);
		stats->resent += get(&node->counters.resent);
		stats->connects += get(&node->counters.connects);
		stats->disconnects += get(&node->counters.disconnects);
		stats->messages += get(&node->counters.messages);
		stats->unheard += get(&node->counters.unheard);
		stats->failovers += get(&node->counters.failovers);
	}
}

void lk__stats_get_counters(const struct lk__counters *counters, lk_stats *stats_out)
{
	*stats_out = (lk_stats){
		.acquires = get(&counters->acquires),
		.reentries = get(&counters->reentries),
		.handovers = get(&counters->handovers),
		.wire_grants = get(&counters->wire_grants),
		.releases = get(&counters->releases),
		.busy = get(&counters->busy),
		.timeouts = get(&counters->timeouts),
		.cancels = get(&counters->cancels),
		.failures = get(&counters->failures),
		.lost = get(&counters->lost),
		.renewals = get(&counters->renewals),
		.compensations = get(&counters->compensations),
		.held = get(&counters->held),
		.waiting = get(&counters->waiting),
		.refusals = get(&counters->refusals),
		.contended = get(&counters->contended),
		.at_risk = get(&counters->at_risk),
	};
	for (int i = 0; i < LK_LOSS_CAUSES; i++)
		stats_out->lost_by[i] = get(&counters->lost_by[i]);
	get_histogram(&stats_out->wait_us, counters->wait_us, &counters->wait_sum_us);
	get_histogram(&stats_out->hold_us, counters->hold_us, &counters->hold_sum_us);
	get_histogram(&stats_out->renewal_us, counters->renewal_us, &counters->renewal_sum_us);
	get_histogram(&stats_out->margin_us, counters->margin_us, &counters->margin_sum_us);
}

void lk__stats_get(lk_client *client, lk_stats *stats_out)
{
	lk__stats_get_counters(&client->counters, stats_out);
	get_nodes(stats_out, client);
}

int lk_client_stats(lk_client *client, lk_stats *stats_out, lk_error *error)
{
	if (!client || !stats_out)
		return lk__fail(error, LK_EINVAL, "lk_client_stats: an argument is NULL");
	int rc = lk__check_size("lk_client_stats", stats_out, sizeof(size_t), sizeof(lk_stats),
				error);
	if (rc == 0)
		rc = lk__check_forked(client, "lk_client_stats", error);
	if (rc < 0)
		return rc;
	lk_stats stats;
	lk__stats_get(client, &stats);
	lk__copy_sized(stats_out, stats_out->struct_size, &stats, sizeof(stats));
	return 0;
}
