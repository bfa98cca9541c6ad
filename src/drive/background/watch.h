/* SPDX-License-Identifier: MIT */
/*
 * The watchdog: renews leases in time, warns before the end, and ends what is over, by the local
 * clock.
 *
 * One heap of deadlines, one timer. A release does not touch the heap: an entry that comes up
 * with nothing held is passed over, so a lock taken and released costs no timer.
 */
#ifndef LK__DRIVE_BACKGROUND_WATCH_H
#define LK__DRIVE_BACKGROUND_WATCH_H

#include "drive/background/due.h"
#include "drive/entry/watch_heap.h"
#include "sync/recipe.h"

/* The loop's turn: everything that is due. Returns when the next is; LK__NEVER for none. */
int64_t lk__watch_turn(lk_client *client);

/* A renewal on its way; it has a reference of the entry. */
struct lk__renewed {
	struct lk__entry *entry;
	uint64_t number;
	struct lk__node *node; /* that is asked, */
	uint64_t epoch;        /* and its epoch before that */
	int64_t lease_ms;
	int64_t wanted_until_ns; /* what a re-entry had asked for by then; 0: nothing */
	char field[LK__FIELD_SIZE];
};

/* Its answer: 1 renewed, 0 not ours any more, -1 none: the old deadline stands. */
void lk__watch_renewed(const struct lk__renewed *renewed, int answer, int64_t sent_ns);

/* Makes every grant of the client come up at once: a connection was lost or made. */
void lk__watch_all(lk_client *client);

#endif
