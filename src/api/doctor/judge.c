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
 *
 * At the end one sentence says what all promise together. It promises nothing that was not looked
 * at.
 */
#include <lockkeeper/red_lock.h>

#include <stdarg.h>
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

/* ---- the findings ---- */

#define LK__FINDING(name, id, severity, meaning, remedy)                                           \
	{id, LK_SEVERITY_##severity, meaning, remedy},
static const lk_finding_info table[] = {
#include "api/doctor/findings.def"
};
#undef LK__FINDING

const lk_finding_info *lk_finding_at(size_t index)
{
	return index < LK__FOUND_COUNT ? &table[index] : NULL;
}

/* One node that is judged, or all of them together. */
struct judged {
	struct lk__findings *findings; /* where it is told */
	const struct lk__examined *examined;
	const struct lk__facts *node; /* NULL: all */
	size_t index;                 /* of the node; LK__TOGETHER */
};

/* A detail is one sentence, whose full stop is whose it is that prints it. */
static void stop_drop(char *text)
{
	for (size_t size = strlen(text); size > 0 && strchr(". ", text[size - 1]); size--)
		text[size - 1] = '\0';
}

/* Adds a finding. */
__attribute__((format(printf, 3, 4))) static void find(const struct judged *it, enum lk__found what,
						       const char *format, ...)
{
	struct lk__findings *findings = it->findings;
	size_t size = (findings->count + 1) * sizeof(*findings->list);
	struct lk__found_at *list = realloc(findings->list, size);
	if (!list) {
		findings->incomplete = true;
		return;
	}
	findings->list = list;
	struct lk__found_at *found = &list[findings->count++];
	found->what = what;
	found->node = it->index;
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(found->detail, sizeof(found->detail), format, arguments);
	va_end(arguments);
	stop_drop(found->detail);
}

static bool is_found(const struct lk__findings *findings, enum lk__found what)
{
	for (size_t i = 0; i < findings->count; i++)
		if (findings->list[i].what == what)
			return true;
	return false;
}

/* Tells whether locks can be taken there, as far as is known. */
static bool facts_serve(const struct lk__facts *node)
{
	return node->code == 0 && !node->sentinel && !node->cluster && !node->loading &&
	       strcmp(node->role, "replica") != 0;
}

/* ---- stand-ins ---- */

/* A proxy, or a program for tests, that answers in place of a server. */
static const struct stand_in {
	const char *hello; /* its "server" in HELLO */
	enum lk__found what;
	const char *title, *follows;
} stand_ins[] = {
	{"envoy-redis-proxy", LK__FOUND_PROXY, "Envoy's redis_proxy",
	 "it has no SUBSCRIBE, and refuses several locks at once (docs/servers.md)"},
	{"fakeredis", LK__FOUND_TEST_SERVER, "fakeredis",
	 "up to version 2.40 it ends the connection behind each error, so that the code of a "
	 "refusal may be lost"},
	{"miniredis", LK__FOUND_TEST_SERVER, "miniredis",
	 "times to live stand still unless the test moves them on: a lock whose holder died never "
	 "ends"},
};

/* True: what else seems wrong there follows from that. */
static bool judge_stand_in(const struct judged *it)
{
	for (size_t i = 0; i < sizeof(stand_ins) / sizeof(stand_ins[0]); i++) {
		const struct stand_in *known = &stand_ins[i];
		if (strcmp(it->node->hello, known->hello) != 0)
			continue;
		find(it, known->what, "it is %s: %s", known->title, known->follows);
		return known->what == LK__FOUND_TEST_SERVER;
	}
	return false;
}

/* ---- what was not told ---- */

/* Finds what the server did not tell, though the promise depends on it. */
static void judge_unknown(const struct judged *it)
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
		find(it, LK__FOUND_NOT_LOOKED_AT, "could not be looked at: %s%s", text,
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

/* How long a node of a quorum has no vote yet, because it may have forgotten locks; 0: it has. As
 * src/sync/red/red.c: both ends of the uptime are cut to whole seconds. */
static int64_t facts_voteless_s(const struct lk__facts *node)
{
	int64_t lease_s = (node->lease_ms + 999) / 1000;
	int64_t quarantine_s = lease_s > QUARANTINE_LEAST_S ? lease_s : QUARANTINE_LEAST_S;
	int64_t runs_s = node->uptime_s > 0 ? node->uptime_s - 1 : 0;
	if (node->uptime_s < 0 || is_durable(node) || runs_s >= quarantine_s)
		return 0;
	return quarantine_s - runs_s;
}

/* ---- by the rules ---- */

static bool are_same(const char *one, const char *other)
{
	return *one && strcmp(one, other) == 0;
}

static bool are_different(const char *one, const char *other)
{
	return *one && *other && strcmp(one, other) != 0;
}

#define REPLICAS_TEXT "replicas: %lld, min-replicas-to-write is %lld, min-replicas-max-lag is %lld"

static bool is_small(int64_t limit)
{
	return limit > 0 && limit < BUFFER_LEAST;
}

/* The server that a row of rules.def is about. */
enum rule_of {
	RULE_OWN,      /* it has locks, or is judged as if it had, */
	RULE_FAILED,   /* or could not be asked whether it can have them */
	RULE_REPLICA,  /* it may take its place, */
	RULE_SENTINEL, /* or sees to that */
};

static void judge_rules(const struct judged *it, enum rule_of of)
{
	const struct lk__facts *n = it->node, *master = &it->examined->nodes[n->of];
	bool is_known = strcmp(n->server, "redis") == 0 || strcmp(n->server, "valkey") == 0;
	bool asked = n->code == 0, silent = n->code == LK_EUNREACHABLE;
	bool evicts = *n->policy && strcmp(n->policy, "noeviction") != 0;
	bool serves = facts_serve(n), timed = n->trip_best_us >= 0;
	bool votes = serves && it->examined->quorum, alone = serves && !it->examined->quorum;
	bool unacked = serves && n->replicas > 0 && !lk__facts_acked(n);
	bool follows = asked && strcmp(n->role, "master") != 0;
	bool behind = n->loading || n->in_step == 0;
	long long limit = n->memory_limit, used = n->memory_used;
	long long replicas = n->replicas, least = n->min_replicas, lag_s = n->lag_s;
	long long voteless_s = facts_voteless_s(n), worst_us = n->trip_worst_us;
	long long ahead_ms = n->clock_ahead_us / 1000;
	char persistence[64];
	persistence_text(n, persistence, sizeof(persistence));
#define LK__RULE(whose, finding, condition, ...)                                                   \
	if (of == RULE_##whose && (condition))                                                     \
		find(it, LK__FOUND_##finding, __VA_ARGS__);
#include "api/doctor/rules.def"
#undef LK__RULE
}

/* ---- of a node of a cluster ---- */

/* Looks for slots of the cluster that no master has. */
static void judge_slots(const struct judged *it)
{
	if (it->node->slots_missing > 0)
		find(it, LK__FOUND_SLOTS,
		     "no master has %lld of the %d slots, the first of them %lld",
		     (long long)it->node->slots_missing, LK__SLOTS,
		     (long long)it->node->slot_missing);
}

/* Finds `what` where a failover, which takes so long because a setting has that value, may outlast
 * a lease; true then. */
static bool find_slow(const struct judged *it, enum lk__found what, const char *setting,
		      int64_t value_ms, int64_t failover_ms)
{
	long long lease_ms = it->node->lease_ms, left_ms = lk__pace_left_ms(lease_ms);
	if (lease_ms <= 0 || failover_ms <= left_ms)
		return false;
	find(it, what,
	     "%s is %lld, so a failover may take %lld ms; watchdog_ms is %lld, which leaves "
	     "%lld ms for it, and %lld is safe",
	     setting, (long long)value_ms, (long long)failover_ms, lease_ms, left_ms,
	     (long long)lk__pace_least_ms(failover_ms));
	return true;
}

static void judge_cluster_pace(const struct judged *it)
{
	int64_t timeout_ms = it->node->node_timeout_ms;
	if (it->node->deployment == LK__CLUSTER)
		find_slow(it, LK__FOUND_CLUSTER_SLOW, "cluster-node-timeout", timeout_ms,
			  lk__pace_of_cluster_ms(timeout_ms));
}

/* Judges a server that has locks. */
static void judge_node(const struct judged *it)
{
	if (judge_stand_in(it))
		return;
	if (it->node->code) {
		judge_rules(it, RULE_FAILED);
		return;
	}
	judge_rules(it, RULE_OWN);
	if (facts_serve(it->node))
		judge_unknown(it);
	judge_cluster_pace(it);
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
static struct lk__findings findings_of(const struct judged *it, const struct lk__facts *node)
{
	struct lk__findings findings = {0};
	const struct judged alone = {.findings = &findings, .examined = it->examined, .node = node};
	judge_node(&alone);
	return findings;
}

/* Finds what the replica would have as a master, less what is told of its master. */
static void judge_heir(const struct judged *it)
{
	const struct lk__facts *master = &it->examined->nodes[it->node->of];
	if (it->node->code || master->code)
		return;
	struct lk__facts as_master = heir(it->node, master);
	struct lk__findings now = findings_of(it, master), then = findings_of(it, &as_master);
	char text[LK__REFUSED_SIZE] = "";
	for (size_t i = 0; i < then.count; i++) {
		const struct lk__found_at *found = &then.list[i];
		const lk_finding_info *info = lk_finding_at(found->what);
		size_t used = strlen(text);
		if (info->severity > LK_SEVERITY_NOTE && !is_found(&now, found->what))
			snprintf(text + used, sizeof(text) - used, "%s%s (%.100s)",
				 used ? "; " : "", info->id, found->detail);
	}
	it->findings->incomplete |= now.incomplete || then.incomplete;
	free(now.list);
	free(then.list);
	if (*text)
		find(it, LK__FOUND_REPLICA_DIFFERS, "unlike its master: %s", text);
}

/* ---- sentinels ---- */

/* Another node of the same examination. */
static struct judged case_of(const struct judged *beside, size_t index)
{
	struct judged it = *beside;
	it.node = &it.examined->nodes[index];
	it.index = index;
	return it;
}

/* The next sentinel of that master: true, with the case of it. It begins with one of index 0. */
static bool sentinel_next(const struct judged *own, struct judged *it)
{
	for (size_t i = it->index + 1; i < own->examined->count; i++) {
		*it = case_of(own, i);
		if (it->node->part == LK__PART_SENTINEL && it->node->of == own->index)
			return true;
	}
	return false;
}

/* Finds sentinels that name different masters. All are told of: nobody knows here who is right. */
static void judge_names(const struct judged *own)
{
	const struct lk__facts *first = NULL;
	for (struct judged it = {0}; sentinel_next(own, &it);) {
		if (!*it.node->master)
			continue;
		if (!first)
			first = it.node;
		if (strcmp(it.node->master, first->master) != 0)
			find(&it, LK__FOUND_SENTINEL_ASTRAY,
			     "it names %s as the master, and %s names %s", it.node->master,
			     first->url, first->master);
	}
}

/* The first that waits too long, and the first that does not wait long enough. */
static void judge_pace(const struct judged *own)
{
	bool slow = false, hasty = false;
	for (struct judged it = {0}; sentinel_next(own, &it);) {
		long long down_after_ms = it.node->down_after_ms;
		slow = slow || find_slow(&it, LK__FOUND_SENTINEL_SLOW, "down-after-milliseconds",
					 down_after_ms,
					 lk__pace_of_sentinels_ms(down_after_ms, own->node->acks));
		if (!hasty && down_after_ms > 0 && down_after_ms < DOWN_AFTER_LEAST_MS) {
			hasty = true;
			find(&it, LK__FOUND_SENTINEL_HASTY, "down-after-milliseconds is %lld",
			     down_after_ms);
		}
	}
}

static void judge_count(const struct judged *own)
{
	size_t count = 0;
	for (struct judged it = {0}; sentinel_next(own, &it);)
		count++;
	if (count < SENTINELS_LEAST)
		find(own, LK__FOUND_SENTINELS_FEW, "sentinels: %zu", count);
}

/* ---- a deployment ---- */

/* One before it that is on the same machine: another sentinel; or the master, or another replica.
 * NULL: none. */
static const struct lk__facts *neighbour_of(const struct judged *it)
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

static void judge_machines(const struct judged *own)
{
	for (size_t i = own->examined->own; i < own->examined->count; i++) {
		const struct judged it = case_of(own, i);
		const struct lk__facts *other = it.node->of == own->index ? neighbour_of(&it)
									  : NULL;
		if (other)
			find(&it, LK__FOUND_FAILOVER_SAME_HOST, "its host is that of %s",
			     other->url);
	}
}

/* Judges the replicas and sentinels of a server that has locks, together. */
static void judge_failover(const struct judged *own)
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
static bool judge_pair(const struct judged *it, const struct lk__facts *other)
{
	const struct lk__facts *node = it->node;
	if (are_same(other->url, node->url) || are_same(other->run_id, node->run_id))
		find(it, LK__FOUND_SAME_SERVER, "it is the server of %s", other->url);
	else if (are_same(other->data_id, node->data_id))
		find(it, LK__FOUND_SAME_DATA, "it has the data of %s", other->url);
	else if (are_same(other->machine, node->machine))
		find(it, LK__FOUND_SAME_HOST, "its host is that of %s", other->url);
	else
		return false;
	return true;
}

static void judge_clocks(const struct judged *all)
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
		find(all, LK__FOUND_CLOCKS_DIFFER, "the clock of %s is %lld ms ahead of that of %s",
		     last->url, (long long)apart_us / 1000, first->url);
}

/* Each node is compared with those before it, and told of once. */
static void judge_quorum(const struct judged *all)
{
	size_t count = all->examined->own;
	for (size_t i = 0; i < count; i++) {
		const struct judged it = case_of(all, i);
		for (size_t j = 0; j < i && !judge_pair(&it, &it.examined->nodes[j]);)
			j++;
		if (facts_serve(it.node) && !*it.node->run_id)
			find(&it, LK__FOUND_NO_IDENTITY, "INFO tells no run_id");
	}
	judge_clocks(all);
	if (count < LK_RED_NODES_MIN)
		find(all, LK__FOUND_TOO_FEW, "%zu servers", count);
	else if (count % 2 == 0)
		find(all, LK__FOUND_EVEN, "%zu servers", count);
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

static void judge_one(const struct judged *it)
{
	switch (it->node->part) {
	case LK__PART_OWN:
		judge_slots(it);
		judge_node(it);
		if (it->node->deployment != LK__SINGLE)
			judge_failover(it);
		break;
	case LK__PART_REPLICA:
		judge_rules(it, RULE_REPLICA);
		judge_heir(it);
		break;
	case LK__PART_SENTINEL:
		judge_rules(it, RULE_SENTINEL);
		break;
	}
}

void lk__judge(struct lk__findings *findings, const struct lk__examined *examined)
{
	const struct judged all = {findings, examined, NULL, LK__TOGETHER};
	for (size_t i = 0; i < examined->count; i++) {
		const struct judged it = case_of(&all, i);
		judge_one(&it);
	}
	if (examined->quorum)
		judge_quorum(&all);
	if (findings->count)
		qsort(findings->list, findings->count, sizeof(*findings->list), found_compare);
}

/* ---- what they promise ---- */

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
		if (is_found(findings, nothing[i].what))
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
	const char *but = is_found(findings, LK__FOUND_NO_FAILOVER)
				  ? "; there would be no failover now"
				  : "";
	char what[100];
	name_one(examined, what, sizeof(what));
	if (facts_serve(node))
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
		voting += facts_serve(&nodes[i]) && *nodes[i].run_id &&
			  facts_voteless_s(&nodes[i]) <= after_s;
	return voting;
}

/* When the last vote that makes a majority is there. */
static int64_t majority_after_s(const struct lk__facts *nodes, size_t count)
{
	int64_t soonest_s = INT64_MAX;
	for (size_t i = 0; i < count; i++) {
		int64_t after_s = facts_voteless_s(&nodes[i]);
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
	const char *but = is_found(findings, LK__FOUND_SAME_HOST) ? "; but some share a machine"
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
		if (!facts_serve(&nodes[i]))
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
		serving += facts_serve(&nodes[i]);
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
