/* SPDX-License-Identifier: MIT */
/*
 * An acquire of a lock: how it gets what it asks for.
 *
 * It joins its lock's wait queue. The first in the queue, while nobody in the process has the lock,
 * is the head (lock/head.h), which asks the server. The others wait until they are handed the lock
 * or become the head.
 */
#ifndef LK__LOCK_ACQUIRE_H
#define LK__LOCK_ACQUIRE_H

#include "lock/head.h"
#include "lock/hold.h"

struct lk__acquire {
	struct lk__op op;
	struct lk__entry *entry;
	const struct lk__want *want;
	struct lk__caller caller;
	struct lk__head head; /* driven while it has an operation */
	bool begun;
	lk_error *error;
};

/* Begins one. `want` and `error`, which is not NULL, live on until its end. */
void lk__acquire_init(struct lk__acquire *acquire, struct lk__entry *entry,
		      struct lk__thread *thread, const struct lk__want *want, lk_error *error);

/* The whole of it, in the calling thread. 0 or a code; `error` may be NULL. */
int lk__acquire_run(struct lk__entry *entry, struct lk__thread *thread, const struct lk__want *want,
		    lk_error *error);

#endif
