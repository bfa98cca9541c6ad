/* SPDX-License-Identifier: MIT */
/*
 * The waiter at the front of the order of turns, whom the server tells that the lock's key is gone
 * or changed (conn/tracking.h): whoever releases it, and whichever library.
 *
 * A head that has waited for LK__TRACKED_AFTER_MS asks for its rank in the order, and again after
 * each try that was refused. The one at the front looks at the key. Others are not told, so that
 * what ends a lock without a message wakes one waiter, as a release does. What is told proves
 * nothing: a renewal is told, too, and each ends the tracking. So the front looks again, and has
 * its head try if the key is gone; once in AGAIN_NS at most, else the head tries at once.
 *
 * While this works, heads sleep for longer than look_again_ms, up to QUIET_TIMES as long and at
 * most QUIET_MOST_MS; and past the end of the lease, which they leave to those before them:
 *
 *   the front         until the end of the lease that it has seen last
 *   the one behind    BEHIND_NS more, in case the front's client is dead
 *   the others        for the whole time, in case both are
 *
 * The front learns that it is, where the one before it was granted the lock, with its next try.
 *
 * The waiters of a fair lock stand in Redisson's queue. Its first may be Java's, which looks at
 * nothing: unless it is of the same client, the one behind it looks, too. The others sleep until
 * the end of the lease and BEHIND_NS more for each before them. When the first one leaves, the
 * queue's script tells the next to look.
 *
 * A place in the order is kept for longer than that, since each try puts it there again. A try asks
 * for so long if its head knew its rank. So the first sleep lasts for look_again_ms at most, and of
 * a lock for which nobody waits for long nothing stays longer than it has to.
 */
#ifndef LK__LOCK_FRONT_H
#define LK__LOCK_FRONT_H

#include "lock/entry.h"

/* All with the entry's mutex held. When its head, which has waited since then, is to ask; or
 * LK__NEVER. */
int64_t lk__front_due_ns(const struct lk__entry *entry, int64_t begun_ns);

/* Asks, unless that is under way. */
void lk__front_ask(struct lk__entry *entry);

/* A try was refused: another has the lock, for so long (-1: without an end). */
void lk__front_busy(struct lk__entry *entry, int64_t ttl_ms);

/* Its head was told that something may have changed. False: it is to try now, as one that is not
 * patient always is; else it listens on, perhaps not as long as until then. */
bool lk__front_hinted(struct lk__entry *entry, bool patient, int64_t *until_ns);

/* Until when its head need not try, unless it hears something; 0. */
int64_t lk__front_quiet_ns(const struct lk__entry *entry);

/* The longest time until a head tries again where nobody tells, less a part at random. */
int64_t lk__front_look_ns(const struct lk__entry *entry);

/* For a try: how long a place in the order of turns is kept, unless its head tries again. */
int64_t lk__front_place_ms(struct lk__entry *entry);

#endif
