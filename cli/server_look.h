/* SPDX-License-Identifier: MIT */
/*
 * A look at a server: its locks, and what the doctor finds. One look for all who ask within
 * LOOK_KEPT_MS: however often somebody asks, the server is not asked more often.
 *
 * A look is bounded by the clock and in its rows, and walks in steps of SCAN. The doctor examines
 * the server once in EXAMINATION_KEPT_MS at most. One thread at a time.
 */
#ifndef CLI_SERVER_LOOK_H
#define CLI_SERVER_LOOK_H

#include <lockkeeper.h>

#include "lock_rows.h"

#define LOOK_KEPT_MS 5000
#define LOOK_LIMIT_MS 5000
#define EXAMINATION_KEPT_MS 60000
#define ROWS_DEFAULT 10000
#define ROWS_LIMIT 1000000
#define SEVERITIES 3

struct server_look {
	lk_client *client;
	struct look wanted;
	struct lock_rows rows;
	lk_doctor *doctor;              /* what it found last; NULL: nothing yet */
	lk_error error;                 /* why the server could not be asked; code 0: it was */
	int64_t looked_ns, examined_ns; /* 0: never */
	int64_t took_ms;                /* the look at the locks */
};

/* Looks anew unless that was done a moment ago. 0, or what `error` says. */
int server_look(struct server_look *look);

void server_look_free(struct server_look *look);

/* The sums of the locks. */
struct server_sums {
	int64_t foreign, contended, waiting, without_lease, permits_used, permits_free;
	int64_t oldest_ns;            /* the hold that was seen for longest since then; 0: none */
	int64_t findings[SEVERITIES]; /* by LK_SEVERITY_… */
};

void server_sum(const struct server_look *look, struct server_sums *sums_out);

#endif
