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

/* ---- stand-ins ---- */

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
