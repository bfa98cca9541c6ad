/* SPDX-License-Identifier: MIT */
/* Whether another server takes the place of one that fails, and how soon. */
#include <string.h>

#include "api/doctor/findings.h"
#include "api/doctor/pace.h"

#define SENTINELS_LEAST 3
#define DOWN_AFTER_LEAST_MS 2000 /* a sentinel pings once a second, and may be late */

void lk__judge_sentinel(struct lk__findings *findings, const struct lk__examined *examined,
			size_t index)
{
	const struct lk__facts *node = &examined->nodes[index];
	if (lk__facts_silent(node))
		lk__find(findings, LK__FOUND_SENTINEL_UNREACHABLE, index, "%s", node->reason);
	else if (node->code)
		lk__find(findings, LK__FOUND_SENTINEL_UNUSABLE, index, "%s", node->reason);
	else if (!node->has_rights)
		lk__find(findings, LK__FOUND_NOT_LOOKED_AT, index, "%s", node->reason);
	else if (!*node->master)
		lk__find(findings, LK__FOUND_SENTINEL_ASTRAY, index, "%s", node->reason);
	if (*node->no_failover)
		lk__find(findings, LK__FOUND_NO_FAILOVER, index, "%s", node->no_failover);
}

/* The first sentinel of that master at or behind `from`. NULL: none. */
static const struct lk__facts *sentinel_at(const struct lk__examined *examined, size_t own,
					   size_t *from)
{
	for (; *from < examined->count; ++*from) {
		const struct lk__facts *node = &examined->nodes[*from];
		if (node->part == LK__PART_SENTINEL && node->of == own)
			return &examined->nodes[(*from)++];
	}
	return NULL;
}

/* Of sentinels that name different masters all are told of: nobody knows here who is right. */
static void judge_names(struct lk__findings *findings, const struct lk__examined *examined,
			size_t own)
{
	const struct lk__facts *sentinel, *first = NULL;
	for (size_t i = 0; (sentinel = sentinel_at(examined, own, &i));) {
		if (!*sentinel->master)
			continue;
		if (!first)
			first = sentinel;
		if (strcmp(sentinel->master, first->master) != 0)
			lk__find(findings, LK__FOUND_SENTINEL_ASTRAY, i - 1,
				 "it names %s as the master, and %s names %s", sentinel->master,
				 first->url, first->master);
	}
}

bool lk__find_slow(struct lk__findings *findings, enum lk__found what, size_t index,
		   const char *setting, int64_t value_ms, int64_t failover_ms, int64_t lease_ms)
{
	if (lease_ms <= 0 || failover_ms <= lk__pace_left_ms(lease_ms))
		return false;
	lk__find(findings, what, index,
		 "%s is %lld, so a failover may take %lld ms; watchdog_ms is %lld, which leaves "
		 "%lld ms for it, and %lld is safe",
		 setting, (long long)value_ms, (long long)failover_ms, (long long)lease_ms,
		 (long long)lk__pace_left_ms(lease_ms), (long long)lk__pace_least_ms(failover_ms));
	return true;
}

/* The first that waits too long, and the first that does not wait long enough. */
static void judge_pace(struct lk__findings *findings, const struct lk__examined *examined,
		       size_t own)
{
	const struct lk__facts *sentinel;
	int64_t acks = examined->nodes[own].acks;
	bool slow = false, hasty = false;
	for (size_t i = 0; (sentinel = sentinel_at(examined, own, &i));) {
		long long down_after_ms = sentinel->down_after_ms;
		slow = slow || lk__find_slow(findings, LK__FOUND_SENTINEL_SLOW, i - 1,
					     "down-after-milliseconds", down_after_ms,
					     lk__pace_of_sentinels_ms(down_after_ms, acks),
					     sentinel->lease_ms);
		if (!hasty && down_after_ms > 0 && down_after_ms < DOWN_AFTER_LEAST_MS) {
			hasty = true;
			lk__find(findings, LK__FOUND_SENTINEL_HASTY, i - 1,
				 "down-after-milliseconds is %lld", down_after_ms);
		}
	}
}

static void judge_count(struct lk__findings *findings, const struct lk__examined *examined,
			size_t own)
{
	size_t count = 0;
	for (size_t i = 0; sentinel_at(examined, own, &i);)
		count++;
	if (count < SENTINELS_LEAST)
		lk__find(findings, LK__FOUND_SENTINELS_FEW, own, "sentinels: %zu", count);
}

/* One before it that is on the same machine: another sentinel; or the master, or another replica.
 * NULL: none. */
static const struct lk__facts *neighbour_of(const struct lk__examined *examined, size_t index)
{
	const struct lk__facts *node = &examined->nodes[index];
	for (size_t i = 0; *node->machine && i < index; i++) {
		const struct lk__facts *other = &examined->nodes[i];
		bool watches = other->part == LK__PART_SENTINEL;
		if (other->of == node->of && watches == (node->part == LK__PART_SENTINEL) &&
		    strcmp(other->machine, node->machine) == 0)
			return other;
	}
	return NULL;
}

static void judge_machines(struct lk__findings *findings, const struct lk__examined *examined,
			   size_t own)
{
	for (size_t i = examined->own; i < examined->count; i++) {
		const struct lk__facts *other = NULL;
		if (examined->nodes[i].of == own)
			other = neighbour_of(examined, i);
		if (other)
			lk__find(findings, LK__FOUND_FAILOVER_SAME_HOST, i,
				 "its host is that of %s", other->url);
	}
}

void lk__judge_failover(struct lk__findings *findings, const struct lk__examined *examined,
			size_t own)
{
	judge_machines(findings, examined, own);
	if (examined->nodes[own].deployment != LK__SENTINEL)
		return;
	judge_count(findings, examined, own);
	judge_names(findings, examined, own);
	judge_pace(findings, examined, own);
}
