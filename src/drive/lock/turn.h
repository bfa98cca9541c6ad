/* SPDX-License-Identifier: MIT */
/*
 * An entry's place in the order in which those who wait for a lock have their turn
 * (sync/turns.lua). A try puts it there, a grant takes it out; who gives up says so.
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

/* Nobody waits any more: the place is given up behind the last try, without waiting for that. */
void lk__turn_leave(struct lk__entry *entry);

#endif
