/* SPDX-License-Identifier: MIT */
/* The handle of a lock of any kind, and the first and last words of its calls. */
#ifndef LK__API_LOCK_HANDLE_H
#define LK__API_LOCK_HANDLE_H

#include <lockkeeper/lock.h>

#include "drive/entry/entry.h"
#include "drive/many/multi.h"

struct lk_lock {
	lk_client *client;
	const struct lk__recipe *recipe;
	struct lk__settings *settings; /* behind the handle; NULL: none */
	struct lk__entry *entry;       /* NULL where each owner has one of its own */
	struct lk__multi *multi;       /* several locks, of which `entry` is the first; else NULL */
	/* Where each owner has an entry: that of the last call, most often the next one's too. */
	_Atomic(struct lk__entry *) last;
	size_t name_size; /* 0: `entry` has it; else it is behind handle and settings */
};

static inline struct lk__settings lk__lock_settings(const lk_lock *lock)
{
	return lock->settings ? *lock->settings : (struct lk__settings){.flags = 0};
}

static inline char *lk__lock_name(lk_lock *lock)
{
	return lock->settings ? (char *)(lock->settings + 1) : (char *)(lock + 1);
}

/* A public call under way. */
struct lk__call {
	struct lk__entry *entry;
	const struct lk__multi *multi; /* as in the handle */
	struct lk__thread *thread;
	struct lk__owner owner;
	lk_lock *keeper; /* of the entry, if it was looked up for this call; else NULL */
	int saved;
};

/* Checks name and client for `operation`: 0 or a code. LK_STRLEN becomes the string's length. */
int lk__name_check(lk_client *client, const void *name, size_t *name_size, const char *operation,
		   lk_error *error);

/* The same, and that keys derived from the name, as with the prefix `derives`, are in its slot. */
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

/* Checks what the options of a release, of an acquire say: 0 or LK_EINVAL. */
int lk__release_check(const char *operation, const lk_release_options *options, lk_error *error);
int lk__acquire_check(const char *operation, const lk_lock *lock, const lk_acquire_options *options,
		      lk_error *error);

#endif
