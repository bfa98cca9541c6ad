/* SPDX-License-Identifier: MIT */
/*
 * Turns facts into findings, without I/O.
 *
 * One server by itself: can it be reached, can locks be taken on it, what its memory, its disk and
 * its replicas leave of them, how it treats connections, and what the user may do there. Most of
 * that is a row of rules.def.
 *
 * Servers beside one another: what becomes of the locks when a replica takes its master's place,
 * whether one does and how soon, and whether the nodes of a quorum are independent.
 */
#include <lockkeeper/red_lock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/doctor/findings.h"
#include "topo/topo.h"

#define OLDEST 60200                    /* docs/servers.md */
#define QUARANTINE_LEAST_S 30           /* others may have the lease that is usual */
#define BUFFER_LEAST (INT64_C(1) << 20) /* room for some 10,000 messages */
#define CLOCK_APART_US INT64_C(1000000) /* more than NTP ever leaves */
#define SENTINELS_LEAST 3
#define DOWN_AFTER_LEAST_MS 2000 /* a sentinel pings once a second, and may be late */

bool lk__facts_serve(const struct lk__facts *node)
{
	return node->code == 0 && !node->sentinel && !node->cluster && !node->loading &&
	       strcmp(node->role, "replica") != 0;
}

/* Tells whether it could not be asked because it does not answer. */
static bool facts_silent(const struct lk__facts *node)
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
			      : facts_silent(node)       ? LK__FOUND_UNREACHABLE
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

/* Looks for slots of the cluster that no master has. */
static void judge_slots(const struct lk__case *it)
{
	if (it->node->slots_missing > 0)
		lk__find(it, LK__FOUND_SLOTS,
			 "no master has %lld of the %d slots, the first of them %lld",
			 (long long)it->node->slots_missing, LK__SLOTS,
			 (long long)it->node->slot_missing);
}

/* Finds `what` where a failover, which takes so long because a setting has that value, may outlast
 * a lease; true then. */
static bool find_slow(const struct lk__case *it, enum lk__found what, const char *setting,
		      int64_t value_ms, int64_t failover_ms)
{
	long long lease_ms = it->node->lease_ms, left_ms = lk__pace_left_ms(lease_ms);
	if (lease_ms <= 0 || failover_ms <= left_ms)
		return false;
	lk__find(it, what,
		 "%s is %lld, so a failover may take %lld ms; watchdog_ms is %lld, which leaves "
		 "%lld ms for it, and %lld is safe",
		 setting, (long long)value_ms, (long long)failover_ms, lease_ms, left_ms,
		 (long long)lk__pace_least_ms(failover_ms));
	return true;
}

static void judge_cluster_pace(const struct lk__case *it)
{
	int64_t timeout_ms = it->node->node_timeout_ms;
	if (it->node->deployment == LK__CLUSTER)
		find_slow(it, LK__FOUND_CLUSTER_SLOW, "cluster-node-timeout", timeout_ms,
			  lk__pace_of_cluster_ms(timeout_ms));
}

/* Judges a server that has locks. */
static void judge_node(const struct lk__case *it)
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
	judge_cluster_pace(it);
}

static bool are_same(const char *one, const char *other)
{
	return *one && strcmp(one, other) == 0;
}

/* ---- a replica ---- */

/* As the master that it may become. */
static struct lk__facts heir(const struct lk__facts *replica, const struct lk__facts *master)
{
	struct lk__facts facts = *replica;
	strcpy(facts.role, "master");
	facts.replicas = master->replicas;
	facts.acks = master->acks;
	facts.uptime_s = master->uptime_s; /* whose vote it takes over */
	facts.loading = false;             /* until then it has loaded */
	return facts;
}

/* Finds what there is about a node alone. */
static struct lk__findings findings_of(const struct lk__case *it, const struct lk__facts *node)
{
	struct lk__findings findings = {0};
	const struct lk__case alone = {
		.findings = &findings, .examined = it->examined, .node = node};
	judge_node(&alone);
	return findings;
}

/* Finds what the replica would have as a master, less what is told of its master. */
static void judge_heir(const struct lk__case *it, const struct lk__facts *master)
{
	struct lk__facts as_master = heir(it->node, master);
	struct lk__findings now = findings_of(it, master), then = findings_of(it, &as_master);
	char text[LK__REFUSED_SIZE] = "";
	for (size_t i = 0; i < then.count; i++) {
		const struct lk__found_at *found = &then.list[i];
		const lk_finding_info *info = lk_finding_at(found->what);
		size_t used = strlen(text);
		if (info->severity > LK_SEVERITY_NOTE && !lk__found(&now, found->what))
			snprintf(text + used, sizeof(text) - used, "%s%s (%.100s)",
				 used ? "; " : "", info->id, found->detail);
	}
	it->findings->incomplete |= now.incomplete || then.incomplete;
	free(now.list);
	free(then.list);
	if (*text)
		lk__find(it, LK__FOUND_REPLICA_DIFFERS, "unlike its master: %s", text);
}

/* Finds out whether it has the locks that its master has. */
static void judge_step(const struct lk__case *it, const struct lk__facts *master)
{
	const struct lk__facts *replica = it->node;
	if (strcmp(replica->role, "master") == 0)
		lk__find(it, LK__FOUND_REPLICA_ASTRAY, "it says that it is a master");
	else if (replica->in_step == 0 || replica->loading)
		lk__find(it, LK__FOUND_REPLICA_BEHIND,
			 replica->loading ? "it is loading its data" : "its link to %s is down",
			 replica->master);
	else if (master->code == 0 && *replica->data_id && *master->data_id &&
		 strcmp(replica->data_id, master->data_id) != 0)
		lk__find(it, LK__FOUND_REPLICA_ASTRAY, "it follows %s", replica->master);
}

static void judge_replica(const struct lk__case *it)
{
	const struct lk__facts *replica = it->node, *master = &it->examined->nodes[replica->of];
	if (replica->code) {
		lk__find(it,
			 facts_silent(replica) ? LK__FOUND_REPLICA_UNREACHABLE
					       : LK__FOUND_REPLICA_UNUSABLE,
			 "%s", replica->reason);
		return;
	}
	judge_step(it, master);
	if (replica->priority == 0 && replica->deployment == LK__SENTINEL)
		lk__find(it, LK__FOUND_REPLICA_NEVER, "replica-priority is 0");
	if (replica->read_only == 0)
		lk__find(it, LK__FOUND_REPLICA_WRITABLE, "replica-read-only is no");
	if (master->code == 0)
		judge_heir(it, master);
}

/* ---- sentinels ---- */

static void judge_sentinel(const struct lk__case *it)
{
	const struct lk__facts *node = it->node;
	if (facts_silent(node))
		lk__find(it, LK__FOUND_SENTINEL_UNREACHABLE, "%s", node->reason);
	else if (node->code)
		lk__find(it, LK__FOUND_SENTINEL_UNUSABLE, "%s", node->reason);
	else if (!node->has_rights)
		lk__find(it, LK__FOUND_NOT_LOOKED_AT, "%s", node->reason);
	else if (!*node->master)
		lk__find(it, LK__FOUND_SENTINEL_ASTRAY, "%s", node->reason);
	if (node->code == 0 && node->unverified)
		lk__find(it, LK__FOUND_UNVERIFIED, "%s", node->unverified);
	if (*node->no_failover)
		lk__find(it, LK__FOUND_NO_FAILOVER, "%s", node->no_failover);
}

/* The case of another node, of the same examination. */
static struct lk__case case_of(const struct lk__case *beside, size_t index)
{
	struct lk__case it = *beside;
	it.node = &it.examined->nodes[index];
	it.index = index;
	return it;
}

/* The next sentinel of that master: true, with the case of it. It begins with one of index 0. */
static bool sentinel_next(const struct lk__case *own, struct lk__case *it)
{
	for (size_t i = it->index + 1; i < own->examined->count; i++) {
		*it = case_of(own, i);
		if (it->node->part == LK__PART_SENTINEL && it->node->of == own->index)
			return true;
	}
	return false;
}

/* Finds sentinels that name different masters. All are told of: nobody knows here who is right. */
static void judge_names(const struct lk__case *own)
{
	const struct lk__facts *first = NULL;
	for (struct lk__case it = {0}; sentinel_next(own, &it);) {
		if (!*it.node->master)
			continue;
		if (!first)
			first = it.node;
		if (strcmp(it.node->master, first->master) != 0)
			lk__find(&it, LK__FOUND_SENTINEL_ASTRAY,
				 "it names %s as the master, and %s names %s", it.node->master,
				 first->url, first->master);
	}
}

/* The first that waits too long, and the first that does not wait long enough. */
static void judge_pace(const struct lk__case *own)
{
	bool slow = false, hasty = false;
	for (struct lk__case it = {0}; sentinel_next(own, &it);) {
		long long down_after_ms = it.node->down_after_ms;
		slow = slow || find_slow(&it, LK__FOUND_SENTINEL_SLOW, "down-after-milliseconds",
					 down_after_ms,
					 lk__pace_of_sentinels_ms(down_after_ms, own->node->acks));
		if (!hasty && down_after_ms > 0 && down_after_ms < DOWN_AFTER_LEAST_MS) {
			hasty = true;
			lk__find(&it, LK__FOUND_SENTINEL_HASTY, "down-after-milliseconds is %lld",
				 down_after_ms);
		}
	}
}

static void judge_count(const struct lk__case *own)
{
	size_t count = 0;
	for (struct lk__case it = {0}; sentinel_next(own, &it);)
		count++;
	if (count < SENTINELS_LEAST)
		lk__find(own, LK__FOUND_SENTINELS_FEW, "sentinels: %zu", count);
}

/* ---- a deployment ---- */

/* One before it that is on the same machine: another sentinel; or the master, or another replica.
 * NULL: none. */
static const struct lk__facts *neighbour_of(const struct lk__case *it)
{
	bool watches = it->node->part == LK__PART_SENTINEL;
	for (size_t i = 0; i < it->index; i++) {
		const struct lk__facts *other = &it->examined->nodes[i];
		if (other->of == it->node->of && watches == (other->part == LK__PART_SENTINEL) &&
		    are_same(it->node->machine, other->machine))
			return other;
	}
	return NULL;
}

static void judge_machines(const struct lk__case *own)
{
	for (size_t i = own->examined->own; i < own->examined->count; i++) {
		const struct lk__case it = case_of(own, i);
		const struct lk__facts *other = it.node->of == own->index ? neighbour_of(&it)
									  : NULL;
		if (other)
			lk__find(&it, LK__FOUND_FAILOVER_SAME_HOST, "its host is that of %s",
				 other->url);
	}
}

/* Judges the replicas and sentinels of a server that has locks, together. */
static void judge_failover(const struct lk__case *own)
{
	judge_machines(own);
	if (own->node->deployment != LK__SENTINEL)
		return;
	judge_count(own);
	judge_names(own);
	judge_pace(own);
}

/* ---- a quorum ---- */

/* The nearest relation between two nodes is told, and no other. */
static bool judge_pair(const struct lk__case *it, const struct lk__facts *other)
{
	const struct lk__facts *node = it->node;
	if (are_same(other->url, node->url) || are_same(other->run_id, node->run_id))
		lk__find(it, LK__FOUND_SAME_SERVER, "it is the server of %s", other->url);
	else if (are_same(other->data_id, node->data_id))
		lk__find(it, LK__FOUND_SAME_DATA, "it has the data of %s", other->url);
	else if (are_same(other->machine, node->machine))
		lk__find(it, LK__FOUND_SAME_HOST, "its host is that of %s", other->url);
	else
		return false;
	return true;
}

static void judge_clocks(const struct lk__case *all)
{
	const struct lk__facts *first = NULL, *last = NULL;
	for (size_t i = 0; i < all->examined->own; i++) {
		const struct lk__facts *node = &all->examined->nodes[i];
		if (node->code || node->trip_best_us < 0)
			continue;
		if (!first || node->clock_ahead_us < first->clock_ahead_us)
			first = node;
		if (!last || node->clock_ahead_us > last->clock_ahead_us)
			last = node;
	}
	if (!first)
		return;
	int64_t apart_us = last->clock_ahead_us - first->clock_ahead_us;
	if (apart_us > CLOCK_APART_US + first->clock_error_us + last->clock_error_us)
		lk__find(all, LK__FOUND_CLOCKS_DIFFER,
			 "the clock of %s is %lld ms ahead of that of %s", last->url,
			 (long long)apart_us / 1000, first->url);
}

/* Each node is compared with those before it, and told of once. */
static void judge_quorum(const struct lk__case *all)
{
	size_t count = all->examined->own;
	for (size_t i = 0; i < count; i++) {
		const struct lk__case it = case_of(all, i);
		for (size_t j = 0; j < i && !judge_pair(&it, &it.examined->nodes[j]);)
			j++;
		if (lk__facts_serve(it.node) && !*it.node->run_id)
			lk__find(&it, LK__FOUND_NO_IDENTITY, "INFO tells no run_id");
	}
	judge_clocks(all);
	if (count < LK_RED_NODES_MIN)
		lk__find(all, LK__FOUND_TOO_FEW, "%zu servers", count);
	else if (count % 2 == 0)
		lk__find(all, LK__FOUND_EVEN, "%zu servers", count);
}

/* ---- all servers of an examination ---- */

static int found_compare(const void *left, const void *right)
{
	const struct lk__found_at *a = left, *b = right;
	int severity_a = lk_finding_at(a->what)->severity,
	    severity_b = lk_finding_at(b->what)->severity;
	if (severity_a != severity_b)
		return severity_a < severity_b ? 1 : -1;
	if (a->what != b->what)
		return a->what < b->what ? -1 : 1;
	return (a->node > b->node) - (a->node < b->node);
}

static void judge_one(const struct lk__case *it)
{
	switch (it->node->part) {
	case LK__PART_OWN:
		judge_slots(it);
		judge_node(it);
		if (it->node->deployment != LK__SINGLE)
			judge_failover(it);
		break;
	case LK__PART_REPLICA:
		judge_replica(it);
		break;
	case LK__PART_SENTINEL:
		judge_sentinel(it);
		break;
	}
}

void lk__judge(struct lk__findings *findings, const struct lk__examined *examined)
{
	const struct lk__case all = {findings, examined, NULL, LK__TOGETHER};
	for (size_t i = 0; i < examined->count; i++) {
		const struct lk__case it = case_of(&all, i);
		judge_one(&it);
	}
	if (examined->quorum)
		judge_quorum(&all);
	if (findings->count)
		qsort(findings->list, findings->count, sizeof(*findings->list), found_compare);
}
