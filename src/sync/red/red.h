/* SPDX-License-Identifier: MIT */
/*
 * The identity of a node of a quorum, by which its vote counts or does not.
 *
 * A node that was restarted without its data may have forgotten grants that are still valid: it
 * has no vote until the longest of them is over. Known from INFO: `run_id` tells a new process,
 * `uptime_in_seconds` since when it runs, `aof_enabled` and CONFIG GET appendfsync that it writes
 * everything down before it answers.
 *
 * A node may also be a master that its replicas replace. `master_replid` names the history of its
 * data, and `master_replid2` the one that a promoted replica has taken over. A master that goes on
 * with the history that we know has all grants, if all replicas acknowledge them before they count.
 * Any other change of master, or of its history, may have lost some.
 *
 * In a cluster the node is the master that has the name's slot. One of another shard that gets the
 * slot goes on with another history, and nobody acknowledged what was moved to it: it may have lost
 * some too. The client notices that (lk__topo_moved_ns()).
 */
#ifndef LK__SYNC_RED_H
#define LK__SYNC_RED_H

#include "sync/recipe.h"

#define LK__RUN_ID_SIZE 48

/* Who may take over from a node, and with what. */
enum lk__heirs {
	LK__NO_HEIRS,
	LK__HEIRS_WITH_ALL, /* every replica has acknowledged each grant */
	LK__HEIRS,
};

/* No recipe of its own on the wire: each node is asked with that of the kind it stands for. */
extern const struct lk__recipe lk__red_recipe;

struct lk__identity {
	char run_id[LK__RUN_ID_SIZE];
	char history[LK__RUN_ID_SIZE]; /* of its data, */
	char before[LK__RUN_ID_SIZE];  /* which goes on with that one; "" */
	char member[LK__RUN_ID_SIZE];  /* of a cluster, under this id; "": of none, or not asked */
	bool durable;                  /* appendonly with appendfsync always */
	int64_t started_ns;            /* CLOCK_BOOTTIME; not before it was */
	int64_t since_ns; /* since when it has forgotten nothing, and why not longer: */
	bool taken_over;  /* another master may have had what it has not */
};

#define LK__IDENTITY_QUESTIONS 4
#define LK__IDENTITY_QUESTIONS_MAX 5 /* where a node of the quorum is a cluster */

/* The questions, in order; NULL when out of memory. */
struct lk__request *lk__identity_question(unsigned index);

/* Reads `count` answers; `since_ns` is judged. False when the server does not say who it is, or
 * since when it runs. */
bool lk__identity_read(struct lk__request *const *answers, size_t count, int64_t now_ns,
		       struct lk__identity *identity);

/* Since when it has forgotten nothing. `before`: what the node said last; NULL for one that we did
 * not know. */
void lk__identity_judge(struct lk__identity *identity, const struct lk__identity *before,
			enum lk__heirs heirs, int64_t now_ns);

#endif
