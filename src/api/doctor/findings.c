/* SPDX-License-Identifier: MIT */
#include "api/doctor/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

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

void lk__judge(struct lk__findings *findings, const struct lk__facts *nodes, size_t count,
	       bool quorum)
{
	for (size_t i = 0; i < count; i++) {
		lk__judge_server(findings, &nodes[i], i);
		if (nodes[i].code)
			continue;
		lk__judge_memory(findings, &nodes[i], i);
		lk__judge_disk(findings, &nodes[i], i, quorum);
		lk__judge_replicas(findings, &nodes[i], i, quorum);
		lk__judge_links(findings, &nodes[i], i);
		lk__judge_rights(findings, &nodes[i], i);
	}
	if (quorum)
		lk__judge_quorum(findings, nodes, count);
	if (findings->count)
		qsort(findings->list, findings->count, sizeof(*findings->list), found_compare);
}
