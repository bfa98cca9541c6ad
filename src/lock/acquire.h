/* SPDX-License-Identifier: MIT */
/*
 * An acquire of a lock: of what it asks for, and how it gets it.
 *
 * It joins its lock's wait queue. The first in the queue, while nobody in the process has the lock,
 * is the head: it drives the lock's attempt (head.h). The others wait until they are handed the
 * lock or become the head.
 */
#ifndef LK__LOCK_ACQUIRE_H
#define LK__LOCK_ACQUIRE_H

#include "lock/entry.h"
#include "lock/head.h"

/* What an acquire asks for. */
struct lk__want {
	struct lk__owner owner;
	int64_t lease_ms, max_hold_ms, margin_ms;
	int64_t wait_ms; /* -1: no limit; 0: once, */
	int64_t once_ms; /* which may take so long; 0: the connect and the command limit */
	int64_t count;   /* permits */
	struct lk__settings settings;
	uint64_t tag;
	bool no_loss; /* its end is meant: see struct lk__hold_extra */
	lk_cancel *cancel;
	const _Atomic bool *stop;    /* set to cancel an asynchronous call; else NULL */
	struct lk__grant *grant_out; /* NULL, or where what the server granted is written, also for
				      * a re-entry */
};

struct lk__acquire {
	struct lk__op op;
	struct lk__entry *entry;
	const struct lk__want *want;
	struct lk__caller caller;
	struct lk__head head;
	bool begun;
	bool heads; /* the head is driven */
	lk_error *error;
};

/* Begins one. `want` and `error`, which is not NULL, live on until its end. */
void lk__acquire_init(struct lk__acquire *acquire, struct lk__entry *entry,
		      struct lk__thread *thread, const struct lk__want *want, lk_error *error);

/* The whole of it, in the calling thread. 0 or a code; `error` may be NULL. */
int lk__acquire_run(struct lk__entry *entry, struct lk__thread *thread, const struct lk__want *want,
		    lk_error *error);

/* A hold that is ready for what is wanted; NULL when out of memory. */
struct lk__hold *lk__acquire_hold(struct lk__thread *thread, const struct lk__recipe *recipe,
				  const struct lk__want *want);

/* With the entry's mutex held: 1, the owner holds it, counted without a command; 0, it does not;
 * or a code. */
int lk__acquire_reenter(struct lk__entry *entry, const struct lk__want *want, lk_error *error);

#endif
