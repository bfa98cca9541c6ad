/* SPDX-License-Identifier: MIT */
/* What a restart leaves of the locks. */
#include <string.h>

#include "api/doctor/findings.h"

/* In a quorum a node that restarts has no vote until all that it may have forgotten is over. */
static void judge_vote(struct lk__findings *findings, const struct lk__facts *node, size_t index)
{
	if (node->append == 0 ||
	    (node->append == 1 && *node->fsync && strcmp(node->fsync, "always") != 0))
		lk__find(findings, LK__FOUND_RESTART_WAIT, index, "appendonly is %s%s%s",
			 node->append ? "yes" : "no", node->append ? ", appendfsync is " : "",
			 node->append ? node->fsync : "");
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
