/* SPDX-License-Identifier: MIT */
/* What becomes of the locks when this replica takes its master's place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/doctor/findings.h"

static bool has(const struct lk__findings *findings, enum lk__found what)
{
	for (size_t i = 0; i < findings->count; i++)
		if (findings->list[i].what == what)
			return true;
	return false;
}

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

/* What its master has as well is told there. */
static void judge_heir(struct lk__findings *findings, const struct lk__examined *examined,
		       size_t index)
{
	const struct lk__facts *replica = &examined->nodes[index];
	const struct lk__facts *master = &examined->nodes[replica->of];
	struct lk__facts as_master = heir(replica, master);
	struct lk__findings now = {0}, then = {0};
	char text[LK__REFUSED_SIZE] = "";
	lk__judge_own(&now, master, 0, examined->quorum);
	lk__judge_own(&then, &as_master, 0, examined->quorum);
	for (size_t i = 0; i < then.count; i++) {
		const struct lk__found_at *found = &then.list[i];
		size_t used = strlen(text);
		if (lk_finding_at(found->what)->severity > LK_SEVERITY_NOTE &&
		    !has(&now, found->what))
			snprintf(text + used, sizeof(text) - used, "%s%s (%.100s)",
				 used ? "; " : "", lk_finding_at(found->what)->id, found->detail);
	}
	findings->incomplete |= now.incomplete || then.incomplete;
	free(now.list);
	free(then.list);
	if (*text)
		lk__find(findings, LK__FOUND_REPLICA_DIFFERS, index, "unlike its master: %s", text);
}

static bool are_apart(const struct lk__facts *replica, const struct lk__facts *master)
{
	return *replica->data_id && *master->data_id &&
	       strcmp(replica->data_id, master->data_id) != 0;
}

/* Whether it has the locks that its master has. */
static void judge_step(struct lk__findings *findings, const struct lk__facts *replica,
		       const struct lk__facts *master, size_t index)
{
	if (strcmp(replica->role, "master") == 0)
		lk__find(findings, LK__FOUND_REPLICA_ASTRAY, index, "it says that it is a master");
	else if (replica->in_step == 0 || replica->loading)
		lk__find(findings, LK__FOUND_REPLICA_BEHIND, index,
			 replica->loading ? "it is loading its data" : "its link to %s is down",
			 replica->master);
	else if (master->code == 0 && are_apart(replica, master))
		lk__find(findings, LK__FOUND_REPLICA_ASTRAY, index, "it follows %s",
			 replica->master);
}

void lk__judge_replica(struct lk__findings *findings, const struct lk__examined *examined,
		       size_t index)
{
	const struct lk__facts *replica = &examined->nodes[index];
	const struct lk__facts *master = &examined->nodes[replica->of];
	if (replica->code) {
		bool silent = lk__facts_silent(replica);
		lk__find(findings,
			 silent ? LK__FOUND_REPLICA_UNREACHABLE : LK__FOUND_REPLICA_UNUSABLE, index,
			 "%s", replica->reason);
		return;
	}
	judge_step(findings, replica, master, index);
	if (replica->priority == 0 && replica->deployment == LK__SENTINEL)
		lk__find(findings, LK__FOUND_REPLICA_NEVER, index, "replica-priority is 0");
	if (replica->read_only == 0)
		lk__find(findings, LK__FOUND_REPLICA_WRITABLE, index, "replica-read-only is no");
	if (master->code == 0)
		judge_heir(findings, examined, index);
}
