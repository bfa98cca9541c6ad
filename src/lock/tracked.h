/* SPDX-License-Identifier: MIT */
/*
 * Holds whose keys the server watches for us (conn/tracking.h): a holder hears within a round trip
 * that its lock is gone, whoever ended it.
 *
 * A hold is looked at once it is older than LK__TRACKED_AFTER_MS, and again behind each renewal,
 * whose write ends the tracking. So a lock that is held for less costs nothing. A message puts the
 * holds of the key in doubt, which are verified by owner id like any other doubt. A kind that
 * several hold at once is not looked at: each of them would hear of all the others' renewals. Nor
 * are more than LK__TRACKED_MAX holds of a client: the server pays 2 us for each look, a third of
 * what the renewal before it costs both sides.
 */
#ifndef LK__LOCK_TRACKED_H
#define LK__LOCK_TRACKED_H

#include "lock/entry.h"

#define LK__TRACKED_AFTER_MS 100
#define LK__LOOKS_MAX 100

/* One look at several keys of a node, which are in one slot. */
struct lk__looks {
	struct lk__node *node;
	uint32_t generation;
	uint16_t slot;
	size_t count;
	struct lk__entry *of[LK__LOOKS_MAX]; /* with a reference each */
};

/* With the entry's mutex held. When its hold is to be looked at; LK__NEVER. */
int64_t lk__tracked_due_ns(const struct lk__entry *entry);
/* Tells whether it is one of those that may be looked at. */
bool lk__tracked_has_room(const struct lk__entry *entry);
/* Tells whether tracking had a gap since its last look. */
bool lk__tracked_has_gap(const struct lk__entry *entry);
/* Adds a look that is due. False: it needs another batch. */
bool lk__looks_add(struct lk__looks **looks, struct lk__entry *entry);
/* Without a mutex: sends it, and takes it. NULL is fine. */
void lk__looks_send(struct lk__looks *looks);

/* The loop's turn: takes what was heard. */
void lk__tracked_turn(lk_client *client);

#endif
