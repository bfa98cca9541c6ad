/* SPDX-License-Identifier: MIT */
/*
 * What a holder is told from outside: that others have touched its key, and that somebody asks it
 * to give the lock up.
 *
 * The server watches the keys of holds for us (conn/tracking.h): so a holder hears within a round
 * trip that its lock is gone, whoever ended it. A hold is looked at once it is older than
 * LK__TRACKED_AFTER_MS, and again behind each renewal, whose write ends the tracking. So a lock
 * that is held for less costs nothing. A message puts the holds of the key in doubt, which are
 * verified by owner id like any other doubt. A kind that several hold at once is not looked at:
 * each of them would hear of all the others' renewals. Nor are more than LK__TRACKED_MAX holds of a
 * client: the server pays 2 us for each look, a third of what the renewal before it costs both
 * sides.
 *
 * Who asks for a lock leaves a key beside it, and a message on a channel of the same name,
 * "lockkeeper_ask:{<name>}" (sync/ask/ask.lua). A hold that hears requests has an ear. A message
 * puts it in doubt, so it is verified at once; the key is read with each renewal and each such
 * look. So a request whose message was lost is found a third of the lease later at the latest. It
 * counts once, and only for the grant that it names.
 */
#ifndef LK__LOCK_TOLD_H
#define LK__LOCK_TOLD_H

#include "lock/entry.h"

#define LK__TRACKED_AFTER_MS 100

/* One look at several keys of a node, which are in one slot. */
struct lk__looks;

/* With the entry's mutex held: adds a look that is due. False: it needs another batch. */
bool lk__looks_add(struct lk__looks **looks, struct lk__entry *entry);
/* Without a mutex: sends it, and takes it. NULL is fine. */
void lk__looks_send(struct lk__looks *looks);

/* The loop's turn: takes what was heard. */
void lk__told_turn(lk_client *client);

/* ---- requests to give it up ---- */

/* All with the entry's mutex held. The entry's hold, which has an ear, begins; it ends, or never
 * began: frees the ear, which may be NULL. */
void lk__ear_open(struct lk__entry *entry);
void lk__ear_free(struct lk__ear *ear);

/* Asks the server for a request to the entry's hold, if that has an ear. */
void lk__ear_look(struct lk__entry *entry);

#endif
