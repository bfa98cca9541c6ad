/* SPDX-License-Identifier: MIT */
/*
 * The waiter at the front of the order of turns, whom the server tells that the lock's key is gone
 * or changed (conn/tracking.h): whoever releases it, and whichever library.
 *
 * A head that has waited for LK__TRACKED_AFTER_MS asks who is at the front. If it is itself, the
 * key is looked at. Others are not told, so that what ends a lock without a message wakes one
 * waiter, as a release does. A message has the head try; polls and looks stay.
 */
#ifndef LK__LOCK_FRONT_H
#define LK__LOCK_FRONT_H

#include "lock/entry.h"

/* With the entry's mutex held. When its head, which has waited since then, is to ask; LK__NEVER. */
int64_t lk__front_due_ns(const struct lk__entry *entry, int64_t begun_ns);

/* Asks, unless that is under way. */
void lk__front_ask(struct lk__entry *entry);

#endif
