/* SPDX-License-Identifier: MIT */
/*
 * The order of turns: in which order the clients that wait for a lock have their turn
 * (sync/turns.lua), and what the one at its front is told.
 *
 * A try puts the entry's client into the order, a grant takes it out. A client that gives up says
 * so, and its turn, if it has come, is the next one's.
 *
 * The server tells the waiter at the front that the lock's key is gone or changed
 * (conn/tracking.h), whoever releases it, and whichever library. A head that has waited for
 * LK__TRACKED_AFTER_MS asks for its rank in the order, and again after each try that was refused.
 * The one at the front looks at the key. Others are not told, so that what ends a lock without a
 * message wakes one waiter, as a release does. What is told proves nothing: a renewal is told, too,
 * and each ends the tracking. So the front looks again, once a second at most, and has its head try
 * if the key is gone.
 *
 * While this works, heads sleep for twelve times look_again_ms, but a minute at most; and past the
 * end of the lease, which they leave to those before them:
 *
 *   the front         until the end of the lease that it has seen last
 *   the one behind    a second more, in case the front's client is dead
 *   the others        for the whole time, in case both are
 *
 * The front learns that it is, where the one before it was granted the lock, with its next try.
 *
 * The waiters of a fair lock stand in Redisson's queue. Its first may be Java's, which looks at
 * nothing: unless it is of the same client, the one behind it looks, too. The others sleep until
 * the end of the lease and a second more for each before them. When the first one leaves, the
 * queue's script tells the next to look.
 *
 * A place in the order is kept for longer than that, since each try puts it there again. A try asks
 * for so long if its head knew its rank. So the first sleep lasts for look_again_ms at most, and of
 * a lock for which nobody waits for long nothing stays longer than it has to.
 */
#ifndef LK__LOCK_TURNS_H
#define LK__LOCK_TURNS_H

#include "lock/entry.h"

/* All with the entry's mutex held, and while it has a part for those who wait. */

/* ---- a place in the order ---- */

/* For a new channel: an id in the order that nobody else has; NULL: the kind has no turns. */
const char *lk__turn_begin(struct lk__entry *entry);

/* For a try: that id; NULL: its client would not hear that it has its turn. */
const char *lk__turn_take(struct lk__entry *entry);

/* For a try of a head that has waited since begun_ns: since when the place is its client's, in
 * server time. It is kept from one head to the next until there is a grant, and is never told later
 * than it was, though the server's clock is known better by now: others have been told to stand
 * behind it, and two that stand behind each other would both wait for a lock that is free. */
int64_t lk__turn_since_us(struct lk__entry *entry, int64_t begun_ns);

/* For a try: how long the place is kept, unless the head tries again. */
int64_t lk__turn_place_ms(struct lk__entry *entry);

/* The lock is granted, and the place is over with it. */
void lk__turn_is_over(struct lk__entry *entry);

/* Nobody waits any more: gives the place up behind the last try, without waiting for that. Without
 * memory for it, or without the right, the place ends by itself. */
void lk__turn_leave(struct lk__entry *entry);

/* How long a waiter sleeps where nobody tells it anything: look_again_ms, less a random part. */
int64_t lk__turn_look_ns(const struct lk__entry *entry);

/* ---- at its front ---- */

/* A try was refused: another has the lock, for so long (-1: without an end). */
void lk__front_busy(struct lk__entry *entry, int64_t ttl_ms);

/* Asks who is at the front if that is due, for a head that has waited since begun_ns. Returns when
 * the head has to look at the answer, or to ask next; or LK__NEVER. */
int64_t lk__front_ask_when_due(struct lk__entry *entry, int64_t begun_ns);

/* Until when the head need not try, unless it hears something; 0: it is told nothing. */
int64_t lk__front_quiet_ns(const struct lk__entry *entry);

/* The head was told that something may have changed. Returns false if it has to try now, as one
 * that is not patient always has; else it listens on, until *until_ns, which may be sooner now. */
bool lk__front_hinted(struct lk__entry *entry, bool patient, int64_t *until_ns);

#endif
