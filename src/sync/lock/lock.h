/*
 * The reentrant lock's recipe. In Redis:
 *
 *   <name>                             hash { <uuid>:<number> → 1 }, PEXPIRE lease
 *   redisson_lock__channel:{<name>}    channel, "0" at each release
 */
#ifndef LK__SYNC_LOCK_LOCK_H
#define LK__SYNC_LOCK_LOCK_H

#include "sync/recipe.h"

extern const struct lk__recipe lk__lock_recipe;

#define LK__LOCK_CHANNEL_PREFIX "redisson_lock__channel"

#endif
