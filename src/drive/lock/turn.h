/* SPDX-License-Identifier: MIT */
/*
 * Our client's place in the order in which the clients that wait for a lock have their turn
 * (sync/turns.lua). A try puts it there, a grant takes it out; who gives up says so.
 */
#ifndef LK__DRIVE_LOCK_TURN_H
#define LK__DRIVE_LOCK_TURN_H

#include "drive/entry/entry.h"

/* For a try: by which id the client is known there; NULL: it would not hear that it has its turn.
 * The entry's mutex is held. */
const char *lk__turn_take(struct lk__entry *entry);

/* Nobody waits any more: the place is given up behind the last try, without waiting for that. The
 * entry's mutex is held. */
void lk__turn_leave(struct lk__entry *entry);

#endif
