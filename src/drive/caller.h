/* SPDX-License-Identifier: MIT */
/*
 * Blocking calls, driven by the calling thread.
 *
 * An acquire joins its lock's wait queue. The first in the queue, while nobody in the process
 * has the lock, is the head: it drives the lock's attempt (head.c). The others park until they are
 * handed the lock or become the head.
 */
#ifndef LK__DRIVE_CALLER_H
#define LK__DRIVE_CALLER_H

#include "drive/entry.h"

/* What an acquire asks for. */
struct lk__want {
	struct lk__owner owner;
	int64_t lease_ms, max_hold_ms, margin_ms;
	int64_t wait_ms; /* -1: no limit; 0: once */
	int64_t count;   /* permits */
	struct lk__settings settings;
	uint64_t tag;
	lk_cancel *cancel;
	struct lk__grant *grant_out; /* NULL, or where what the server granted is written, also for
				      * a re-entry */
};

/* A hold that is ready for what is wanted; NULL when out of memory. */
struct lk__hold *lk__caller_hold(struct lk__thread *thread, const struct lk__want *want);

int lk__caller_acquire(struct lk__entry *entry, struct lk__thread *thread,
		       const struct lk__want *want, lk_error *error);

/* With the entry's mutex held: 1, the owner holds it, counted without a command; 0, it does not;
 * or a code. */
int lk__caller_reenter(struct lk__entry *entry, const struct lk__want *want, lk_error *error);

int lk__caller_release(struct lk__entry *entry, struct lk__thread *thread,
		       const struct lk__owner *owner, bool no_wait, lk_error *error);

int lk__caller_extend(struct lk__entry *entry, struct lk__thread *thread,
		      const struct lk__owner *owner, int64_t lease_ms, lk_error *error);

/*
 * Sends a request on a connection and waits for it: LK__WAIT_READY, else a code with `error`
 * filled and the request gone. For commands that may be sent twice.
 */
int lk__ask(lk_client *client, struct lk__conn *conn, struct lk__thread *thread,
	    struct lk__request *request, const char *what, int64_t until_ns, lk_error *error);

/* The same on the entry's connection. */
int lk__caller_ask(struct lk__entry *entry, struct lk__thread *thread, struct lk__request *request,
		   const char *operation, int64_t until_ns, lk_error *error);

#endif
