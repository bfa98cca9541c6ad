/* SPDX-License-Identifier: MIT */
/*
 * An entry's place in the order in which those who wait for a lock have their turn
 * (sync/turns.lua). A try puts it there, a grant takes it out; who gives up says so, and its turn,
 * if it has come, is the next one's.
 */
#ifndef LK__DRIVE_LOCK_TURN_H
#define LK__DRIVE_LOCK_TURN_H

#include "drive/entry/entry.h"

/* How long a place is kept, at most, though its client does not look again before. */
#define LK__TURN_MOST_MS 3600000

/* For a new channel: the id in the order of turns, nobody else's; NULL: the kind has none. Each of
 * these needs the entry's mutex. */
const char *lk__turn_begin(struct lk__entry *entry);

/* For a try: the id; NULL: it would not hear that it has its turn. */
const char *lk__turn_take(struct lk__entry *entry);

/* For a try of a head that has waited since then: since when the place is its client's. It is kept
 * from one head to the next until there is a grant: others have been told to stand behind it. */
int64_t lk__turn_since_ns(struct lk__entry *entry, int64_t begun_ns);

/* The lock is granted, and the place with it. */
void lk__turn_is_over(struct lk__entry *entry);

/* Nobody waits any more: the place is given up behind the last try, without waiting for that. */
void lk__turn_leave(struct lk__entry *entry);

#endif
