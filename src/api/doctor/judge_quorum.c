/* SPDX-License-Identifier: MIT */
/* Whether the nodes of a quorum are independent of one another. */
#include <stdlib.h>
#include <string.h>

#include <lockkeeper/red_lock.h>

#include "api/doctor/findings.h"

#define CLOCKS_APART_US INT64_C(1000000)

static bool are_same(const char *one, const char *other)
{
	return *one && strcmp(one, other) == 0;
}

/* The nearest relation between two nodes is told, and no other. */
static void judge_pair(struct lk__findings *findings, const struct lk__facts *nodes, size_t one,
		       size_t other)
{
	const struct lk__facts *a = &nodes[one], *b = &nodes[other];
	if (are_same(a->url, b->url) || are_same(a->run_id, b->run_id))
		lk__find(findings, LK__FOUND_SAME_SERVER, other, "it is the server of %s", a->url);
	else if (are_same(a->data_id, b->data_id))
		lk__find(findings, LK__FOUND_SAME_DATA, other, "it has the data of %s", a->url);
	else if (are_same(a->machine, b->machine))
		lk__find(findings, LK__FOUND_SAME_HOST, other, "its host is that of %s", a->url);
}

/* Each node is compared with those before it, and told of once. */
static void judge_pairs(struct lk__findings *findings, const struct lk__facts *nodes, size_t count)
{
	for (size_t other = 1; other < count; other++) {
		size_t before = findings->count;
		for (size_t one = 0; one < other && findings->count == before; one++)
			judge_pair(findings, nodes, one, other);
	}
}

static void judge_clocks(struct lk__findings *findings, const struct lk__facts *nodes, size_t count)
{
	const struct lk__facts *first = NULL, *last = NULL;
	for (size_t i = 0; i < count; i++) {
		const struct lk__facts *node = &nodes[i];
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
		lk__find(findings, LK__FOUND_CLOCKS_DIFFER, LK__TOGETHER,
			 "the clock of %s is %lld ms ahead of that of %s", last->url,
			 (long long)apart_us / 1000, first->url);
}

void lk__judge_quorum(struct lk__findings *findings, const struct lk__facts *nodes, size_t count)
{
	judge_pairs(findings, nodes, count);
	judge_clocks(findings, nodes, count);
	for (size_t i = 0; i < count; i++)
		if (lk__facts_serve(&nodes[i]) && !*nodes[i].run_id)
			lk__find(findings, LK__FOUND_NO_IDENTITY, i, "INFO tells no run_id");
	if (count < LK_RED_NODES_MIN)
		lk__find(findings, LK__FOUND_TOO_FEW, LK__TOGETHER, "%zu servers", count);
	else if (count % 2 == 0)
		lk__find(findings, LK__FOUND_EVEN, LK__TOGETHER, "%zu servers", count);
}
