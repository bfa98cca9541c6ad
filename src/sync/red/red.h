/* SPDX-License-Identifier: MIT */
/*
 * What a node of a quorum says about itself, and whether its vote counts.
 *
 * A node that was restarted without its data may have forgotten grants that are still valid: it
 * has no vote until the longest of them is over. Known from INFO: `run_id` tells a new process,
 * `uptime_in_seconds` since when it runs, `aof_enabled` and CONFIG GET appendfsync that it writes
 * everything down before it answers.
 */
#ifndef LK__SYNC_RED_H
#define LK__SYNC_RED_H

#include "sync/recipe.h"

#define LK__RUN_ID_SIZE 48

/* No recipe of its own on the wire: each node is asked with that of the kind it stands for. */
extern const struct lk__recipe lk__red_recipe;

struct lk__identity {
	char run_id[LK__RUN_ID_SIZE];
	bool durable;       /* appendonly with appendfsync always */
	int64_t started_ns; /* CLOCK_BOOTTIME; not before it was */
};

#define LK__IDENTITY_QUESTIONS 3

/* The questions, in order; NULL when out of memory. */
struct lk__request *lk__identity_question(unsigned index);

/* Reads the answers. False when the server does not say who it is, or since when it runs. */
bool lk__identity_read(struct lk__request *const answers[LK__IDENTITY_QUESTIONS], int64_t now_ns,
		       struct lk__identity *identity);

#endif
