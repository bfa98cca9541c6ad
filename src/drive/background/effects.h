/* SPDX-License-Identifier: MIT */
/*
 * The changes of an entry's hold, with what follows from them beyond the entry: notices,
 * compensation, the watchdog. All with the entry's mutex held, except lk__hold_free() for a hold
 * that was never granted.
 */
#ifndef LK__DRIVE_BACKGROUND_EFFECTS_H
#define LK__DRIVE_BACKGROUND_EFFECTS_H

#include "drive/entry/entry.h"

void lk__hold_free(struct lk__hold *hold);

/* The hold is over without a release: told, and kept until its owner has released it. */
void lk__entry_lose(struct lk__entry *entry, int64_t now_ns);

/* Ends the current hold: counted, out of the entry, freed. */
void lk__entry_drop_hold(struct lk__entry *entry, int64_t now_ns);

/* A wire grant for `number`, sent at `sent_ns`, goes to the waiter, who leaves the queue. */
void lk__entry_grant(struct lk__entry *entry, struct lk__caller *waiter, uint64_t number,
		     int64_t sent_ns, int64_t lease_ms);

/* What the server granted in another entry's queue goes to a hold of this one, which has none. */
void lk__entry_move_grant(struct lk__entry *entry, struct lk__hold *hold,
			  const struct lk__grant *grant);

/* The grant as it stands goes to the waiter, who leaves the queue. */
void lk__entry_hand(struct lk__entry *entry, struct lk__caller *waiter, int64_t now_ns);

/* Sends the release of a number that nobody waits for. */
void lk__entry_release_unasked(struct lk__entry *entry, uint64_t number);

/* The server has the number for another lease. Where it was taken for lost meanwhile, it goes back:
 * else nobody had the lock, and everybody waited for it. */
void lk__entry_release_unheld(struct lk__entry *entry, uint64_t number);

#endif
