/* SPDX-License-Identifier: MIT */
/* Servers beside one another: what becomes of the locks when a replica takes its master's place,
 * whether one does and how soon, and whether the nodes of a quorum are independent. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper/red_lock.h>

#include "api/doctor/findings.h"

#define SENTINELS_LEAST 3
#define DOWN_AFTER_LEAST_MS 2000 /* a sentinel pings once a second, and may be late */
#define CLOCKS_APART_US INT64_C(1000000)

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
	lk__judge_node(&alone);
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

void lk__judge_replica(const struct lk__case *it)
{
	const struct lk__facts *replica = it->node, *master = &it->examined->nodes[replica->of];
	if (replica->code) {
		lk__find(it,
			 lk__facts_silent(replica) ? LK__FOUND_REPLICA_UNREACHABLE
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

void lk__judge_sentinel(const struct lk__case *it)
{
	const struct lk__facts *node = it->node;
	if (lk__facts_silent(node))
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

/* The next sentinel of that master: true, with the case of it. It begins with one of index 0. */
static bool sentinel_next(const struct lk__case *own, struct lk__case *it)
{
	for (size_t i = it->index + 1; i < own->examined->count; i++) {
		*it = lk__case_of(own, i);
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
		slow = slow ||
		       lk__find_slow(&it, LK__FOUND_SENTINEL_SLOW, "down-after-milliseconds",
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
		const struct lk__case it = lk__case_of(own, i);
		const struct lk__facts *other = it.node->of == own->index ? neighbour_of(&it)
									  : NULL;
		if (other)
			lk__find(&it, LK__FOUND_FAILOVER_SAME_HOST, "its host is that of %s",
				 other->url);
	}
}

void lk__judge_failover(const struct lk__case *own)
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
	if (apart_us > CLOCKS_APART_US + first->clock_error_us + last->clock_error_us)
		lk__find(all, LK__FOUND_CLOCKS_DIFFER,
			 "the clock of %s is %lld ms ahead of that of %s", last->url,
			 (long long)apart_us / 1000, first->url);
}

/* Each node is compared with those before it, and told of once. */
void lk__judge_quorum(const struct lk__case *all)
{
	size_t count = all->examined->own;
	for (size_t i = 0; i < count; i++) {
		const struct lk__case it = lk__case_of(all, i);
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
		lk__judge_slots(it);
		lk__judge_node(it);
		if (it->node->deployment != LK__SINGLE)
			lk__judge_failover(it);
		break;
	case LK__PART_REPLICA:
		lk__judge_replica(it);
		break;
	case LK__PART_SENTINEL:
		lk__judge_sentinel(it);
		break;
	}
}

void lk__judge(struct lk__findings *findings, const struct lk__examined *examined)
{
	const struct lk__case all = {findings, examined, NULL, LK__TOGETHER};
	for (size_t i = 0; i < examined->count; i++) {
		const struct lk__case it = lk__case_of(&all, i);
		judge_one(&it);
	}
	if (examined->quorum)
		lk__judge_quorum(&all);
	if (findings->count)
		qsort(findings->list, findings->count, sizeof(*findings->list), found_compare);
}
