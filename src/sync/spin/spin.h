/* SPDX-License-Identifier: MIT */
/*
 * The spin lock's recipe: the reentrant lock without messages. In Redis:
 *
 *   <name>                             hash { <uuid>:<number> → 1 }, PEXPIRE lease
 *
 * Nobody is told of a release; waiters ask again after pauses that grow.
 */
#ifndef LK__SYNC_SPIN_SPIN_H
#define LK__SYNC_SPIN_SPIN_H

#include "sync/recipe.h"

extern const struct lk__recipe lk__spin_recipe;

#endif
