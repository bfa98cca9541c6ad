/* SPDX-License-Identifier: MIT */
/* What a restart leaves of the locks. */
#include <stdio.h>
#include <string.h>

#include "api/doctor/findings.h"

#define QUARANTINE_LEAST_S 30 /* others may have the lease that is usual */

/* What the node was told to do with its data, as a voter sees it. */
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

/* In a quorum a node that restarts has no vote until all that it may have forgotten is over. */
static void judge_vote(struct lk__findings *findings, const struct lk__facts *node, size_t index)
{
	int64_t voteless_s = lk__facts_voteless_s(node);
	char text[64];
	persistence_text(node, text, sizeof(text));
	if (voteless_s > 0)
		lk__find(findings, LK__FOUND_NO_VOTE, index,
			 "it started %lld s ago, and %s: no vote for %lld s more",
			 (long long)node->uptime_s, text, (long long)voteless_s);
	if (node->append == 0 || (node->append == 1 && *node->fsync && !is_durable(node)))
		lk__find(findings, LK__FOUND_RESTART_WAIT, index, "%s", text);
}

static void judge_append(struct lk__findings *findings, const struct lk__facts *node, size_t index)
{
	if (strcmp(node->fsync, "no") == 0)
		lk__find(findings, LK__FOUND_FSYNC_NO, index, "appendfsync is no");
	else if (strcmp(node->fsync, "everysec") == 0)
		lk__find(findings, LK__FOUND_FSYNC_SECOND, index, "appendfsync is everysec");
}

void lk__judge_disk(struct lk__findings *findings, const struct lk__facts *node, size_t index,
		    bool quorum)
{
	if (!lk__facts_serve(node))
		return;
	if (node->disk_errors)
		lk__find(findings, LK__FOUND_DISK, index,
			 "INFO reports that its last write failed");
	if (quorum)
		judge_vote(findings, node, index);
	else if (node->append == 1)
		judge_append(findings, node, index);
	else if (node->append == 0 && node->snapshots == 1)
		lk__find(findings, LK__FOUND_SNAPSHOTS, index, "appendonly is no, and save is set");
	else if (node->append == 0 && node->snapshots == 0)
		lk__find(findings, LK__FOUND_NO_PERSISTENCE, index,
			 "appendonly is no, and save is empty");
}
