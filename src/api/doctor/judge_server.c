/* SPDX-License-Identifier: MIT */
/* Can it be reached, and is it a server on which locks can be taken; what its memory does; what the
 * user may do there. */
#include <stdio.h>
#include <string.h>

#include "api/doctor/findings.h"

#define OLDEST 60200 /* docs/servers.md */

bool lk__facts_serve(const struct lk__facts *node)
{
	return node->code == 0 && !node->sentinel && !node->cluster && !node->loading &&
	       strcmp(node->role, "replica") != 0;
}

bool lk__facts_silent(const struct lk__facts *node)
{
	return node->code == LK_EUNREACHABLE;
}

static void judge_failed(struct lk__findings *findings, const struct lk__facts *node, size_t index)
{
	enum lk__found what = LK__FOUND_UNUSABLE;
	if (node->sentinel)
		what = LK__FOUND_SENTINEL;
	else if (node->code == LK_EAUTH)
		what = LK__FOUND_LOGIN;
	else if (node->code == LK_EDENIED)
		what = LK__FOUND_RIGHTS;
	else if (lk__facts_silent(node))
		what = LK__FOUND_UNREACHABLE;
	lk__find(findings, what, index, "%s", node->reason);
}

static void judge_kind(struct lk__findings *findings, const struct lk__facts *node, size_t index)
{
	bool known = strcmp(node->server, "redis") == 0 || strcmp(node->server, "valkey") == 0;
	if (node->has_info && !known)
		lk__find(findings, LK__FOUND_UNKNOWN_SERVER, index, "the server is %s %s",
			 *node->server ? node->server : "of a kind that INFO does not name",
			 node->version);
	if (node->has_info && known && node->compatible >= 0 && node->compatible < OLDEST)
		lk__find(findings, LK__FOUND_OLD, index, "the server is %s %s", node->server,
			 node->version);
	if (node->active == 1)
		lk__find(findings, LK__FOUND_ACTIVE, index, "active-replica or multi-master is on");
}

/* What the server did not tell, though the promise depends on it. */
static void judge_unknown(struct lk__findings *findings, const struct lk__facts *node, size_t index)
{
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
		lk__find(findings, LK__FOUND_NOT_LOOKED_AT, index, "could not be looked at: %s%s",
			 text,
			 node->any_setting  ? "; CONFIG GET answers whatever is asked"
			 : node->has_config ? ""
					    : "; CONFIG GET is refused");
}

void lk__judge_server(struct lk__findings *findings, const struct lk__facts *node, size_t index)
{
	if (node->code) {
		judge_failed(findings, node, index);
		return;
	}
	if (node->sentinel)
		lk__find(findings, LK__FOUND_SENTINEL, index, "it says that it is a Sentinel");
	if (node->cluster)
		lk__find(findings, LK__FOUND_CLUSTER, index, "cluster-enabled is yes%s",
			 node->slotless ? ", and its cluster has no slots" : "");
	if (node->loading)
		lk__find(findings, LK__FOUND_LOADING, index, "it is loading its data");
	judge_kind(findings, node, index);
	if (lk__facts_serve(node))
		judge_unknown(findings, node, index);
}

static void judge_eviction(struct lk__findings *findings, const struct lk__facts *node,
			   size_t index)
{
	if (node->memory_limit == 0)
		lk__find(findings, LK__FOUND_EVICTION_LATENT, index,
			 "maxmemory-policy is %s, and maxmemory is 0", node->policy);
	else if (node->memory_limit > 0)
		lk__find(findings, LK__FOUND_EVICTION, index,
			 "maxmemory-policy is %s, and maxmemory is %lld bytes", node->policy,
			 (long long)node->memory_limit);
	else
		lk__find(findings, LK__FOUND_EVICTION, index,
			 "maxmemory-policy is %s, and maxmemory is not known", node->policy);
}

void lk__judge_memory(struct lk__findings *findings, const struct lk__facts *node, size_t index)
{
	int64_t limit = node->memory_limit, used = node->memory_used;
	bool evicts = *node->policy && strcmp(node->policy, "noeviction") != 0;
	if (evicts)
		judge_eviction(findings, node, index);
	else if (limit > 0 && used >= limit - limit / 10)
		lk__find(findings, LK__FOUND_MEMORY, index, "%lld of %lld bytes are used",
			 (long long)used, (long long)limit);
}

void lk__judge_rights(struct lk__findings *findings, const struct lk__facts *node, size_t index)
{
	if (*node->refused)
		lk__find(findings, LK__FOUND_RIGHTS, index, "refused: %s", node->refused);
	if (*node->refused_messages)
		lk__find(findings, LK__FOUND_MESSAGES_REFUSED, index, "refused: %s",
			 node->refused_messages);
	if (*node->refused_partial)
		lk__find(findings, LK__FOUND_RIGHTS_PARTIAL, index, "refused: %s",
			 node->refused_partial);
	if (*node->deaf)
		lk__find(findings, LK__FOUND_DEAF, index, "%s", node->deaf);
}
