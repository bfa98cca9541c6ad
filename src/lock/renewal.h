/* SPDX-License-Identifier: MIT */
/*
 * The watchdog: renews leases in time, warns before the end, and ends what is over, by the local
 * clock.
 *
 * One heap of deadlines, one timer. A release does not touch the heap: an entry that comes up
 * with nothing held is passed over, so a lock taken and released costs no timer.
 */
#ifndef LK__LOCK_RENEWAL_H
#define LK__LOCK_RENEWAL_H

#include "lock/hold.h"
#include "sync/recipe.h"

#define LK__BATCH_MAX 100 /* locks in one renewal script: about 1 ms of the server */

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
	bool looks;              /* its key may be looked at behind it */
	char field[LK__FIELD_SIZE];
};

/* The renewals of one script, or one of several nodes alone. */
struct lk__batch {
	lk_client *client;
	uint16_t slot; /* of all of them */
	struct lk__node *node;
	int64_t needed_ns; /* when the first of them is needed */
	size_t count;
	struct lk__renewed of[LK__BATCH_MAX];
};

/* Its answer: 1 renewed, 0 not ours any more, -1 none: the old deadline stands, and `trouble` says
 * why. Told with the entry's mutex held; renewed: without, and the reference goes. */
void lk__watch_told(const struct lk__renewed *renewed, int answer, int64_t sent_ns,
		    const struct lk__trouble *trouble);
void lk__watch_renewed(const struct lk__renewed *renewed, int answer, int64_t sent_ns,
		       const struct lk__trouble *trouble);

/* Makes every grant of the client come up at once: a connection was lost or made. */
void lk__watch_all(lk_client *client);

#endif
