/* SPDX-License-Identifier: MIT */
/* The handle of a lock of any kind. */
#ifndef LK__API_LOCK_H
#define LK__API_LOCK_H

#include <lockkeeper/lock.h>

#include "lock/entry.h"
#include "lock/multi.h"

/* How to find the entry of an owner, where each has one. */
struct lk__lookup {
	lk_client *client;
	const struct lk__recipe *recipe;
	_Atomic(struct lk__entry *) last; /* that of the last call, most often the next one's too */
	const char *name;                 /* behind the handle */
	size_t name_size;
};

/* A program may have one for each of many locks: what the entry knows is not in it. */
struct lk_lock {
	struct lk__entry *entry; /* NULL where each owner has one of its own */
	union {
		struct lk__multi *multi; /* several locks, of which `entry` is the first; or NULL */
		struct lk__lookup *lookup; /* without `entry`; behind the handle */
	};
	const struct lk__settings *settings; /* behind the handle; NULL: none */
};

static inline lk_client *lk__lock_client(const lk_lock *lock)
{
	return lock->entry ? lock->entry->client : lock->lookup->client;
}

static inline const struct lk__recipe *lk__lock_recipe_of(const lk_lock *lock)
{
	return lock->entry ? lock->entry->target.recipe : lock->lookup->recipe;
}

/* NULL for a single lock. */
static inline struct lk__multi *lk__lock_multi(const lk_lock *lock)
{
	return lock->entry ? lock->multi : NULL;
}

/* Makes the arguments of such an acquire, but for its owner and what waits in the calling
 * thread. */
static inline struct lk__want lk__want_of(const lk_acquire_options *options, int64_t wait_ms,
					  struct lk__settings settings)
{
	return (struct lk__want){.lease_ms = options->lease_ms,
				 .max_hold_ms = options->max_hold_ms,
				 .margin_ms = options->margin_ms,
				 .tag = options->tag,
				 .renews = options->renew,
				 .hears = options->hears_asks,
				 .note = options->note && *options->note ? options->note : NULL,
				 .adopts = options->field,
				 .wait_ms = wait_ms,
				 .settings = settings};
}

/* Makes the handle of a lock of a kind; `settings` may be NULL. */
int lk__lock_make(lk_lock **lock_out, lk_client *client, const struct lk__recipe *recipe,
		  const void *name, size_t name_size, const struct lk__settings *settings,
		  const char *operation, lk_error *error);

#endif
