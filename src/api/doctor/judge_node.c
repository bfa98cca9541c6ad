/* SPDX-License-Identifier: MIT */
/*
 * One server by itself: can it be reached, can locks be taken on it, what its memory, its disk and
 * its replicas leave of them, how it treats connections, and what the user may do there. Most of
 * that is a row of rules.def.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/doctor/findings.h"
#include "topo/topo.h"

#define OLDEST 60200                    /* docs/servers.md */
#define QUARANTINE_LEAST_S 30           /* others may have the lease that is usual */
#define BUFFER_LEAST (INT64_C(1) << 20) /* room for some 10,000 messages */
#define CLOCK_APART_US INT64_C(1000000) /* more than NTP ever leaves */

bool lk__facts_serve(const struct lk__facts *node)
{
	return node->code == 0 && !node->sentinel && !node->cluster && !node->loading &&
	       strcmp(node->role, "replica") != 0;
}

bool lk__facts_silent(const struct lk__facts *node)
{
	return node->code == LK_EUNREACHABLE;
}

/* ---- stand-ins ---- */

/* True: what else seems wrong there follows from that. */
static bool judge_stand_in(const struct lk__case *it)
{
	const struct lk__stand_in *stand_in = it->node->stand_in;
	if (!stand_in)
		return false;
	lk__find(it, stand_in->what, "it is %s: %s", stand_in->title, stand_in->follows);
	return stand_in->what == LK__FOUND_TEST_SERVER;
}

/* ---- what it is ---- */

static void judge_failed(const struct lk__case *it)
{
	const struct lk__facts *node = it->node;
	enum lk__found what = node->sentinel             ? LK__FOUND_SENTINEL
			      : node->code == LK_EAUTH   ? LK__FOUND_LOGIN
			      : node->code == LK_EDENIED ? LK__FOUND_RIGHTS
			      : lk__facts_silent(node)   ? LK__FOUND_UNREACHABLE
							 : LK__FOUND_UNUSABLE;
	lk__find(it, what, "%s", node->reason);
}

/* Finds what the server did not tell, though the promise depends on it. */
static void judge_unknown(const struct lk__case *it)
{
	const struct lk__facts *node = it->node;
	bool disk = node->append < 0 || (node->append == 0 && node->snapshots < 0) ||
		    (node->append == 1 && !*node->fsync);
	const struct {
		bool missing;
		const char *what;
	} parts[] = {
		{!node->has_info, "what server it is (INFO is refused)"},
		{!*node->policy, "eviction"},
		{disk, "persistence"},
		{node->replicas < 0, "replicas"},
		{node->replicas > 0 && node->min_replicas < 0, "min-replicas-to-write"},
		{node->timeout_s < 0 || node->buffer_hard < 0, "time-outs and buffers"},
		{!node->has_rights, "some rights of this user"},
	};
	char text[256] = "";
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		size_t used = strlen(text);
		if (parts[i].missing)
			snprintf(text + used, sizeof(text) - used, "%s%s", used ? ", " : "",
				 parts[i].what);
	}
	if (*text)
		lk__find(it, LK__FOUND_NOT_LOOKED_AT, "could not be looked at: %s%s", text,
			 node->any_setting  ? "; CONFIG GET answers whatever is asked"
			 : node->has_config ? ""
					    : "; CONFIG GET is refused");
}

/* ---- what a restart leaves of the locks ---- */

/* Says what the node was told to do with its data, as a voter sees it. */
static void persistence_text(const struct lk__facts *node, char *text_out, size_t size)
{
	if (node->append == 0)
		snprintf(text_out, size, "appendonly is no");
	else if (node->append == 1)
		snprintf(text_out, size, "appendonly is yes, appendfsync is %s",
			 *node->fsync ? node->fsync : "not known");
	else
		snprintf(text_out, size, "appendonly is not known");
}

static bool is_durable(const struct lk__facts *node)
{
	return node->append == 1 && strcmp(node->fsync, "always") == 0;
}

/* As src/sync/red/red.c: both ends of the uptime are cut to whole seconds. */
int64_t lk__facts_voteless_s(const struct lk__facts *node)
{
	int64_t lease_s = (node->lease_ms + 999) / 1000;
	int64_t quarantine_s = lease_s > QUARANTINE_LEAST_S ? lease_s : QUARANTINE_LEAST_S;
	int64_t runs_s = node->uptime_s > 0 ? node->uptime_s - 1 : 0;
	if (node->uptime_s < 0 || is_durable(node) || runs_s >= quarantine_s)
		return 0;
	return quarantine_s - runs_s;
}

/* ---- by the rules ---- */

#define REPLICAS_TEXT "replicas: %lld, min-replicas-to-write is %lld, min-replicas-max-lag is %lld"

static bool is_small(int64_t limit)
{
	return limit > 0 && limit < BUFFER_LEAST;
}

static void judge_rules(const struct lk__case *it)
{
	const struct lk__facts *n = it->node;
	bool is_known = strcmp(n->server, "redis") == 0 || strcmp(n->server, "valkey") == 0;
	bool evicts = *n->policy && strcmp(n->policy, "noeviction") != 0;
	bool serves = lk__facts_serve(n), timed = n->trip_best_us >= 0;
	bool votes = serves && it->examined->quorum, alone = serves && !it->examined->quorum;
	bool unacked = serves && n->replicas > 0 && !lk__facts_acked(n);
	long long limit = n->memory_limit, used = n->memory_used;
	long long replicas = n->replicas, least = n->min_replicas, lag_s = n->lag_s;
	long long voteless_s = lk__facts_voteless_s(n), worst_us = n->trip_worst_us;
	long long ahead_ms = n->clock_ahead_us / 1000;
	char persistence[64];
	persistence_text(n, persistence, sizeof(persistence));
#define LK__RULE(finding, condition, ...)                                                          \
	if (condition)                                                                             \
		lk__find(it, LK__FOUND_##finding, __VA_ARGS__);
#include "api/doctor/rules.def"
#undef LK__RULE
}

/* ---- of a node of a cluster ---- */

void lk__judge_slots(const struct lk__case *it)
{
	if (it->node->slots_missing > 0)
		lk__find(it, LK__FOUND_SLOTS,
			 "no master has %lld of the %d slots, the first of them %lld",
			 (long long)it->node->slots_missing, LK__SLOTS,
			 (long long)it->node->slot_missing);
}

static void judge_pace(const struct lk__case *it)
{
	int64_t timeout_ms = it->node->node_timeout_ms;
	if (it->node->deployment == LK__CLUSTER)
		lk__find_slow(it, LK__FOUND_CLUSTER_SLOW, "cluster-node-timeout", timeout_ms,
			      lk__pace_of_cluster_ms(timeout_ms));
}

void lk__judge_node(const struct lk__case *it)
{
	if (judge_stand_in(it))
		return;
	if (it->node->code) {
		judge_failed(it);
		return;
	}
	judge_rules(it);
	if (lk__facts_serve(it->node))
		judge_unknown(it);
	judge_pace(it);
}
