/* SPDX-License-Identifier: MIT */
/*
 * The plain lock's recipe. In Redis:
 *
 *   <name>                             string <uuid>:<number>, PX lease
 *   redisson_lock__channel:{<name>}    channel, "0" at each release of ours
 *
 * A release may tell another library's waiters as well (notify.h). Ours then listen to its channel.
 *
 * The holder may be any program that does SET name token NX PX ms. Such programs publish nothing,
 * so a waiter looks again and again, at the pace of sync/pace.h.
 */
#ifndef LK__SYNC_PLAIN_PLAIN_H
#define LK__SYNC_PLAIN_PLAIN_H

#include "sync/recipe.h"

#define LK__PLAIN_POLL_MS 100

extern const struct lk__recipe lk__plain_recipe;

#endif
