/* SPDX-License-Identifier: MIT */
#include "api/doctor/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* A detail is one sentence, whose full stop is whose it is that prints it. */
static void stop_drop(char *text)
{
	for (size_t size = strlen(text); size > 0 && strchr(". ", text[size - 1]); size--)
		text[size - 1] = '\0';
}

void lk__find(struct lk__findings *findings, enum lk__found what, size_t node, const char *format,
	      ...)
{
	size_t size = (findings->count + 1) * sizeof(*findings->list);
	struct lk__found_at *list = realloc(findings->list, size);
	if (!list) {
		findings->incomplete = true;
		return;
	}
	findings->list = list;
	struct lk__found_at *found = &list[findings->count++];
	found->what = what;
	found->node = node;
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(found->detail, sizeof(found->detail), format, arguments);
	va_end(arguments);
	stop_drop(found->detail);
}

static int found_compare(const void *left, const void *right)
{
	const struct lk__found_at *a = left, *b = right;
	int severity_a = table[a->what].severity, severity_b = table[b->what].severity;
	if (severity_a != severity_b)
		return severity_a < severity_b ? 1 : -1;
	if (a->what != b->what)
		return a->what < b->what ? -1 : 1;
	return (a->node > b->node) - (a->node < b->node);
}

void lk__judge_own(struct lk__findings *findings, const struct lk__facts *node, size_t index,
		   bool quorum)
{
	if (lk__judge_stand_in(findings, node, index))
		return;
	lk__judge_server(findings, node, index);
	if (node->code)
		return;
	lk__judge_memory(findings, node, index);
	lk__judge_disk(findings, node, index, quorum);
	lk__judge_replicas(findings, node, index, quorum);
	lk__judge_links(findings, node, index);
	lk__judge_rights(findings, node, index);
	lk__judge_pace(findings, node, index);
}

static void judge_one(struct lk__findings *findings, const struct lk__examined *examined,
		      size_t index)
{
	const struct lk__facts *node = &examined->nodes[index];
	switch (node->part) {
	case LK__PART_OWN:
		lk__judge_slots(findings, node, index);
		lk__judge_own(findings, node, index, examined->quorum);
		if (node->deployment != LK__SINGLE)
			lk__judge_failover(findings, examined, index);
		break;
	case LK__PART_REPLICA:
		lk__judge_replica(findings, examined, index);
		break;
	case LK__PART_SENTINEL:
		lk__judge_sentinel(findings, examined, index);
		break;
	}
}

void lk__judge(struct lk__findings *findings, const struct lk__examined *examined)
{
	for (size_t i = 0; i < examined->count; i++)
		judge_one(findings, examined, i);
	if (examined->quorum)
		lk__judge_quorum(findings, examined->nodes, examined->own);
	if (findings->count)
		qsort(findings->list, findings->count, sizeof(*findings->list), found_compare);
}
