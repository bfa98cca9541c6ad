/* SPDX-License-Identifier: MIT */
/*
 * The reentrant lock's recipe. In Redis:
 *
 *   <name>                             hash { <uuid>:<number> → 1 }, PEXPIRE lease
 *   redisson_lock__channel:{<name>}    channel, "0" at each release
 *
 * Kinds with the same hash share what is below; a target without a channel is told to nobody.
 */
#ifndef LK__SYNC_LOCK_LOCK_H
#define LK__SYNC_LOCK_LOCK_H

#include "sync/recipe.h"

extern const struct lk__recipe lk__lock_recipe;

#define LK__LOCK_CHANNEL_PREFIX "redisson_lock__channel"

struct lk__request *lk__lock_acquire(const struct lk__try *wanted);
struct lk__request *lk__lock_release(const struct lk__target *target, const char *field);
struct lk__request *lk__lock_keep(const struct lk__target *target, const char *field,
				  int64_t keep_ms);
struct lk__request *lk__lock_exchange(const struct lk__try *wanted, const char *from);
struct lk__request *lk__lock_force(const struct lk__target *target);
struct lk__request *lk__lock_renew(const struct lk__renewal *renewals, size_t count);
struct lk__request *lk__lock_is_locked(const struct lk__target *target);
struct lk__request *lk__lock_is_held_by(const struct lk__target *target, const char *field);
enum lk__exchanged lk__lock_read_exchange(const struct lk__request *request,
					  struct lk__answer *answer);

#endif
