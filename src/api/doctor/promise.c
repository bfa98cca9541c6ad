/* SPDX-License-Identifier: MIT */
/* One sentence on what the nodes promise together. It promises nothing that was not looked at. */
#include <stdio.h>
#include <string.h>

#include "api/doctor/findings.h"

/* The findings that make a deployment promise nothing, whatever else is true of it. */
static const struct {
	enum lk__found what;
	const char *promise;
} nothing[] = {
	{LK__FOUND_TEST_SERVER, "none: it is no server, but imitates one"},
	{LK__FOUND_OLD, "none: the server is too old"},
	{LK__FOUND_ACTIVE, "none: two servers can grant one lock"},
	{LK__FOUND_RIGHTS, "none: the user lacks rights that every lock needs"},
	{LK__FOUND_EVICTION, "none: a full memory deletes locks that are held"},
	{LK__FOUND_SAME_SERVER, "none: this is no quorum, because one server votes twice"},
	{LK__FOUND_SAME_DATA, "none: this is no quorum, because servers copy one another"},
	{LK__FOUND_TOO_FEW, "none: two servers are no quorum"},
};

static const char *no_promise(const struct lk__findings *findings)
{
	for (size_t i = 0; i < sizeof(nothing) / sizeof(nothing[0]); i++)
		if (lk__found(findings, nothing[i].what))
			return nothing[i].promise;
	return NULL;
}

static const char *after_restart(const struct lk__facts *node)
{
	if (node->append == 0 && node->snapshots == 0)
		return "each restart loses every lock";
	if (node->append == 0 && node->snapshots == 1)
		return "a crash loses the locks since the last snapshot";
	if (node->append == 1 && strcmp(node->fsync, "always") == 0)
		return "a crash loses no lock";
	if (node->append == 1 && strcmp(node->fsync, "everysec") == 0)
		return "a crash of its machine loses the locks of about the last second";
	if (node->append == 1 && strcmp(node->fsync, "no") == 0)
		return "a crash of its machine loses the locks of the last seconds";
	return "what a crash loses could not be looked at";
}

static const char *after_failover(const struct lk__facts *node)
{
	if (lk__facts_acked(node))
		return "a failover to a replica that is connected loses no lock";
	if (node->replicas > 0 && node->min_replicas > 0 && node->lag_s > 0)
		return "a failover loses at most the locks that replicas had not yet received";
	if (node->replicas > 0 && node->min_replicas >= 0)
		return "a failover loses the newest locks, without a limit";
	if (node->replicas == 0)
		return "while it is down no lock can be taken";
	return "what a failover loses could not be looked at";
}

static size_t count_of(const struct lk__examined *examined, enum lk__part part)
{
	size_t count = 0;
	for (size_t i = 0; i < examined->count; i++)
		count += examined->nodes[i].part == part && examined->nodes[i].code == 0;
	return count;
}

/* "one server", "a master with 2 replicas and 3 sentinels". */
static void name_one(const struct lk__examined *examined, char *text_out, size_t size)
{
	size_t replicas = count_of(examined, LK__PART_REPLICA);
	size_t sentinels = count_of(examined, LK__PART_SENTINEL);
	const char *few = replicas == 1 ? "" : "s", *less = sentinels == 1 ? "" : "s";
	enum lk__deployment deployment = examined->nodes[0].deployment;
	if (deployment == LK__SENTINEL)
		snprintf(text_out, size, "a master with %zu replica%s and %zu sentinel%s", replicas,
			 few, sentinels, less);
	else if (deployment == LK__REPLICAS)
		snprintf(text_out, size, "a master with %zu replica%s", replicas, few);
	else
		snprintf(text_out, size, "one server");
}

static void promise_one(const struct lk__findings *findings, const struct lk__examined *examined,
			char *text_out, size_t size)
{
	const struct lk__facts *node = &examined->nodes[0];
	const char *but = lk__found(findings, LK__FOUND_NO_FAILOVER)
				  ? "; there would be no failover now"
				  : "";
	char what[100];
	name_one(examined, what, sizeof(what));
	if (lk__facts_serve(node))
		snprintf(text_out, size, "%s: %s; %s%s", what, after_restart(node),
			 after_failover(node), but);
	else
		snprintf(text_out, size, "%s: no lock can be taken on it", what);
}

/* Counts the nodes that have a vote `after_s` seconds from now. */
static size_t votes(const struct lk__facts *nodes, size_t count, int64_t after_s)
{
	size_t voting = 0;
	for (size_t i = 0; i < count; i++)
		voting += lk__facts_serve(&nodes[i]) && *nodes[i].run_id &&
			  lk__facts_voteless_s(&nodes[i]) <= after_s;
	return voting;
}

/* When the last vote that makes a majority is there. */
static int64_t majority_after_s(const struct lk__facts *nodes, size_t count)
{
	int64_t soonest_s = INT64_MAX;
	for (size_t i = 0; i < count; i++) {
		int64_t after_s = lk__facts_voteless_s(&nodes[i]);
		if (after_s < soonest_s && votes(nodes, count, after_s) > count / 2)
			soonest_s = after_s;
	}
	return soonest_s;
}

static void promise_quorum(const struct lk__findings *findings, const struct lk__facts *nodes,
			   size_t count, char *text_out, size_t size)
{
	size_t serving = votes(nodes, count, 0), all = votes(nodes, count, INT64_MAX);
	size_t majority = count / 2 + 1;
	const char *but = lk__found(findings, LK__FOUND_SAME_HOST) ? "; but some share a machine"
								   : "";
	if (all < majority)
		snprintf(text_out, size,
			 "a quorum of %zu servers: no lock can be taken, because only %zu serve",
			 count, all);
	else if (serving < majority)
		snprintf(text_out, size,
			 "a quorum of %zu servers: no lock can be taken for %lld s, because only "
			 "%zu of them have a vote yet",
			 count, (long long)majority_after_s(nodes, count), serving);
	else
		snprintf(text_out, size,
			 "a quorum of %zu servers, of which %zu serve: no lock is lost while a "
			 "majority of %zu serves; %zu more may fail%s",
			 count, serving, majority, serving - majority, but);
}

/* Says what all promise that serve; or, where they differ, that. */
static const char *promise_common(const struct lk__facts *nodes, size_t count,
				  const char *(*tell)(const struct lk__facts *node),
				  const char *differ)
{
	const char *common = NULL;
	for (size_t i = 0; i < count; i++) {
		if (!lk__facts_serve(&nodes[i]))
			continue;
		const char *told = tell(&nodes[i]);
		if (common && strcmp(common, told) != 0)
			return differ;
		common = told;
	}
	return common ? common : "no lock can be taken in it";
}

static void promise_cluster(const struct lk__facts *nodes, size_t count, char *text_out,
			    size_t size)
{
	size_t serving = 0;
	const char *but = nodes[0].slots_missing > 0 ? "; but some slots have no master" : "";
	for (size_t i = 0; i < count; i++)
		serving += lk__facts_serve(&nodes[i]);
	int used = snprintf(text_out, size, "a cluster of %zu masters, of which %zu serve: %s",
			    count, serving,
			    promise_common(nodes, count, after_restart,
					   "what a crash loses differs from master to master"));
	if (serving > 0)
		snprintf(text_out + used, size - (size_t)used, "; %s%s",
			 promise_common(nodes, count, after_failover,
					"what a failover loses differs from master to master"),
			 but);
}

void lk__promise(const struct lk__findings *findings, const struct lk__examined *examined,
		 char *text_out, size_t size)
{
	const char *none = no_promise(findings);
	if (none)
		snprintf(text_out, size, "%s", none);
	else if (examined->quorum)
		promise_quorum(findings, examined->nodes, examined->own, text_out, size);
	else if (examined->own == 1)
		promise_one(findings, examined, text_out, size);
	else
		promise_cluster(examined->nodes, examined->own, text_out, size);
}
