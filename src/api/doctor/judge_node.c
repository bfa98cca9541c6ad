/* SPDX-License-Identifier: MIT */
/* One server by itself: can it be reached, can locks be taken on it, what its memory, its disk and
 * its replicas leave of them, how it treats connections, and what the user may do there. */
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

struct lk__stand_in {
	const char *hello; /* its "server" in HELLO */
	enum lk__found what;
	const char *title, *follows;
};

static const struct lk__stand_in stand_ins[] = {
	{"envoy-redis-proxy", LK__FOUND_PROXY, "Envoy's redis_proxy",
	 "it has no SUBSCRIBE, and refuses several locks at once (docs/servers.md)"},
	{"fakeredis", LK__FOUND_TEST_SERVER, "fakeredis",
	 "up to version 2.40 it ends the connection behind each error, so that the code of a "
	 "refusal may be lost"},
	{"miniredis", LK__FOUND_TEST_SERVER, "miniredis",
	 "times to live stand still unless the test moves them on: a lock whose holder died never "
	 "ends"},
};

const struct lk__stand_in *lk__stand_in_of(const char *hello)
{
	for (size_t i = 0; i < sizeof(stand_ins) / sizeof(stand_ins[0]); i++)
		if (strcmp(hello, stand_ins[i].hello) == 0)
			return &stand_ins[i];
	return NULL;
}

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

static void judge_kind(const struct lk__case *it)
{
	const struct lk__facts *node = it->node;
	bool known = strcmp(node->server, "redis") == 0 || strcmp(node->server, "valkey") == 0;
	if (node->has_info && !known)
		lk__find(it, LK__FOUND_UNKNOWN_SERVER, "the server is %s %s",
			 *node->server ? node->server : "of a kind that INFO does not name",
			 node->version);
	if (node->has_info && known && node->compatible >= 0 && node->compatible < OLDEST)
		lk__find(it, LK__FOUND_OLD, "the server is %s %s", node->server, node->version);
	if (node->active == 1)
		lk__find(it, LK__FOUND_ACTIVE, "active-replica or multi-master is on");
}

/* What the server did not tell, though the promise depends on it. */
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

static void judge_server(const struct lk__case *it)
{
	const struct lk__facts *node = it->node;
	if (node->sentinel)
		lk__find(it, LK__FOUND_SENTINEL, "it says that it is a Sentinel");
	if (node->cluster)
		lk__find(it, LK__FOUND_CLUSTER, "cluster-enabled is yes%s",
			 node->slotless ? ", and its cluster has no slots" : "");
	if (node->loading)
		lk__find(it, LK__FOUND_LOADING, "it is loading its data");
	judge_kind(it);
	if (lk__facts_serve(node))
		judge_unknown(it);
}

/* ---- what its memory does ---- */

static void judge_memory(const struct lk__case *it)
{
	const char *policy = it->node->policy;
	long long limit = it->node->memory_limit, used = it->node->memory_used;
	bool evicts = *policy && strcmp(policy, "noeviction") != 0;
	if (evicts && limit == 0)
		lk__find(it, LK__FOUND_EVICTION_LATENT,
			 "maxmemory-policy is %s, and maxmemory is 0", policy);
	else if (evicts && limit > 0)
		lk__find(it, LK__FOUND_EVICTION,
			 "maxmemory-policy is %s, and maxmemory is %lld bytes", policy, limit);
	else if (evicts)
		lk__find(it, LK__FOUND_EVICTION,
			 "maxmemory-policy is %s, and maxmemory is not known", policy);
	else if (limit > 0 && used >= limit - limit / 10)
		lk__find(it, LK__FOUND_MEMORY, "%lld of %lld bytes are used", used, limit);
}

/* ---- what a restart leaves of the locks ---- */

/* What the node was told to do with its data, as a voter sees it. */
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

/* In a quorum a node that restarts has no vote until all that it may have forgotten is over. */
static void judge_vote(const struct lk__case *it)
{
	const struct lk__facts *node = it->node;
	long long voteless_s = lk__facts_voteless_s(node), uptime_s = node->uptime_s;
	char text[64];
	persistence_text(node, text, sizeof(text));
	if (voteless_s > 0)
		lk__find(it, LK__FOUND_NO_VOTE,
			 "it started %lld s ago, and %s: no vote for %lld s more", uptime_s, text,
			 voteless_s);
	if (node->append == 0 || (node->append == 1 && *node->fsync && !is_durable(node)))
		lk__find(it, LK__FOUND_RESTART_WAIT, "%s", text);
}

static void judge_disk(const struct lk__case *it)
{
	const struct lk__facts *node = it->node;
	if (!lk__facts_serve(node))
		return;
	if (node->disk_errors)
		lk__find(it, LK__FOUND_DISK, "INFO reports that its last write failed");
	if (it->examined->quorum)
		judge_vote(it);
	else if (node->append == 1 && strcmp(node->fsync, "no") == 0)
		lk__find(it, LK__FOUND_FSYNC_NO, "appendfsync is no");
	else if (node->append == 1 && strcmp(node->fsync, "everysec") == 0)
		lk__find(it, LK__FOUND_FSYNC_SECOND, "appendfsync is everysec");
	else if (node->append == 0 && node->snapshots == 1)
		lk__find(it, LK__FOUND_SNAPSHOTS, "appendonly is no, and save is set");
	else if (node->append == 0 && node->snapshots == 0)
		lk__find(it, LK__FOUND_NO_PERSISTENCE, "appendonly is no, and save is empty");
}

/* ---- what a failover leaves of them ---- */

static void judge_replicas(const struct lk__case *it)
{
	const struct lk__facts *node = it->node;
	long long replicas = node->replicas, least = node->min_replicas, lag_s = node->lag_s;
	if (strcmp(node->role, "replica") == 0)
		lk__find(it, LK__FOUND_REPLICA, "it is a replica of %s",
			 *node->master ? node->master : "another server");
	if (!lk__facts_serve(node))
		return;
	if (replicas == 0 && !it->examined->quorum)
		lk__find(it, LK__FOUND_NO_REPLICA, "no replica is connected");
	bool unguarded = least == 0 || lag_s == 0, lags = least > 0 && lag_s > 0;
	if (replicas > 0 && !lk__facts_acked(node) && (unguarded || lags))
		lk__find(it, unguarded ? LK__FOUND_REPLICAS_UNGUARDED : LK__FOUND_REPLICAS_LAG,
			 "replicas: %lld, min-replicas-to-write is %lld, min-replicas-max-lag is "
			 "%lld",
			 replicas, least, lag_s);
}

/* ---- the way to it: connections, round trips, its clock ---- */

static bool is_small(int64_t limit)
{
	return limit > 0 && limit < BUFFER_LEAST;
}

static void judge_trips(const struct lk__case *it)
{
	const struct lk__facts *node = it->node;
	long long ahead_ms = node->clock_ahead_us / 1000, worst_us = node->trip_worst_us;
	if (llabs(node->clock_ahead_us) > CLOCK_APART_US + node->clock_error_us)
		lk__find(it, LK__FOUND_CLOCK, "the server's clock is %lld.%03lld s %s ours",
			 llabs(ahead_ms) / 1000, llabs(ahead_ms) % 1000,
			 ahead_ms > 0 ? "ahead of" : "behind");
	if (node->lease_ms > 0 && worst_us > node->lease_ms * 100)
		lk__find(it, LK__FOUND_LEASE,
			 "watchdog_ms is %lld, and ten round trips are %lld ms",
			 (long long)node->lease_ms, worst_us / 100);
	lk__find(it, LK__FOUND_ROUND_TRIP,
		 "%.2f ms at best, %.2f ms at worst of a few; ten are %.2f ms",
		 (double)node->trip_best_us / 1000, (double)worst_us / 1000,
		 (double)worst_us / 100);
}

static void judge_links(const struct lk__case *it)
{
	const struct lk__facts *node = it->node;
	if (is_small(node->buffer_hard) || is_small(node->buffer_soft))
		lk__find(it, LK__FOUND_BUFFER,
			 "client-output-buffer-limit pubsub is %lld bytes hard, %lld soft",
			 (long long)node->buffer_hard, (long long)node->buffer_soft);
	if (node->timeout_s > 0)
		lk__find(it, LK__FOUND_TIMEOUT, "timeout is %lld seconds",
			 (long long)node->timeout_s);
	if (node->trip_best_us >= 0)
		judge_trips(it);
}

/* ---- what the user may do there ---- */

static void judge_rights(const struct lk__case *it)
{
	const struct lk__facts *node = it->node;
	if (*node->refused)
		lk__find(it, LK__FOUND_RIGHTS, "refused: %s", node->refused);
	if (*node->refused_messages)
		lk__find(it, LK__FOUND_MESSAGES_REFUSED, "refused: %s", node->refused_messages);
	if (*node->refused_partial)
		lk__find(it, LK__FOUND_RIGHTS_PARTIAL, "refused: %s", node->refused_partial);
	if (*node->deaf)
		lk__find(it, LK__FOUND_DEAF, "%s", node->deaf);
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
	judge_server(it);
	judge_memory(it);
	judge_disk(it);
	judge_replicas(it);
	judge_links(it);
	judge_rights(it);
	judge_pace(it);
}
