/* SPDX-License-Identifier: MIT */
/* The handle of a lock of any kind, and the first and last words of its calls. */
#ifndef LK__API_LOCK_HANDLE_H
#define LK__API_LOCK_HANDLE_H

#include <lockkeeper/lock.h>

#include "api/check.h"
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

static inline struct lk__settings lk__lock_settings(const lk_lock *lock)
{
	return lock->settings ? *lock->settings : (struct lk__settings){.flags = 0};
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

/* A public call under way. */
struct lk__call {
	struct lk__entry *entry;
	const struct lk__multi *multi; /* NULL: a single lock */
	struct lk__thread *thread;
	struct lk__owner owner;
	struct lk__lookup *lookup; /* where the entry was looked up for this call; else NULL */
	int saved;
};

/* Checks name and client for `operation`: 0 or a code. LK_STRLEN becomes the string's length. */
int lk__name_check(lk_client *client, const void *name, size_t *name_size, const char *operation,
		   lk_error *error);

/* Checks a name, and that keys derived from it, as with the prefix `derives`, are in its slot. */
int lk__name_check_slot(lk_client *client, const void *name, size_t *name_size, const char *derives,
			const char *operation, lk_error *error);

/* Makes the handle of a lock of a kind; `settings` may be NULL. */
int lk__lock_make(lk_lock **lock_out, lk_client *client, const struct lk__recipe *recipe,
		  const void *name, size_t name_size, const struct lk__settings *settings,
		  const char *operation, lk_error *error);

/* Checks lock and owner (NULL: the calling thread) and begins a call that may wait for a server; or
 * one that never waits. */
int lk__lock_enter(struct lk__call *call, lk_lock *lock, const char *operation, const char *owner,
		   lk_error *error);
int lk__lock_enter_briefly(struct lk__call *call, lk_lock *lock, const char *operation,
			   const char *owner, lk_error *error);
void lk__lock_leave(struct lk__call *call);

/* A release, an extension of what is held under a wire field. */
int lk__lock_release_field(lk_lock *lock, const char *field, lk_error *error);
int lk__lock_extend_field(lk_lock *lock, const char *field, int64_t lease_ms, lk_error *error);

/* Adds to a lease what is left of the owner's hold for certain. */
int lk__lock_lease_added(lk_lock *lock, const char *operation, const char *owner, int64_t *lease_ms,
			 lk_error *error);

/* Starts a question about a lock, or a release by force. */
int lk__lock_question_start(const struct lk__start *start);

/* Checks a wire field. */
int lk__field_check(const char *operation, const char *field, lk_error *error);

#endif
