/* SPDX-License-Identifier: MIT */
/*
 * The fair lock's recipe. In Redis:
 *
 *   <name>                                     hash { <uuid>:<number> → 1 }, PEXPIRE lease
 *   redisson_lock_queue:{<name>}               list of fields that wait, the next one first
 *   redisson_lock_timeout:{<name>}             sorted set { field → alive until, ms }
 *   lockkeeper_fair:{<name>}                   hash { field of ours → "<lease> <wait> <nonce>
 *                                              …" }, PEXPIRE
 *   redisson_lock__channel:{<name>}:<field>    channel of one waiter
 *
 * One script keeps them, see queue.lua. A release hands the lock to the next in the queue if that
 * is one of ours, and the message says so: no try follows it. Whoever may publish could send such a
 * message: it counts only with the random number that the waiter's last try has named.
 */
#ifndef LK__SYNC_FAIR_FAIR_H
#define LK__SYNC_FAIR_FAIR_H

#include "sync/recipe.h"

#define LK__FAIR_QUEUE_PREFIX "redisson_lock_queue"

extern const struct lk__recipe lk__fair_recipe;

#endif
