/* The handle of a lock, and the first words of its calls. */
#ifndef LK__API_LOCK_HANDLE_H
#define LK__API_LOCK_HANDLE_H

#include <lockkeeper/lock.h>

#include "drive/entry.h"

struct lk_lock {
	struct lk__entry *entry;
};

/* A public call under way. */
struct lk__call {
	struct lk__entry *entry;
	struct lk__thread *thread;
	struct lk__owner owner;
	int saved;
};

/* Checks lock and owner (NULL: the calling thread) and begins the call; lk__leave() ends it. */
int lk__lock_enter(struct lk__call *call, lk_lock *lock, const char *operation, const char *owner,
		   lk_error *error);

#endif
