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

void lk__find(const struct lk__case *it, enum lk__found what, const char *format, ...)
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

bool lk__found(const struct lk__findings *findings, enum lk__found what)
{
	for (size_t i = 0; i < findings->count; i++)
		if (findings->list[i].what == what)
			return true;
	return false;
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

struct lk__case lk__case_of(const struct lk__case *beside, size_t index)
{
	struct lk__case it = *beside;
	it.node = &it.examined->nodes[index];
	it.index = index;
	return it;
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
