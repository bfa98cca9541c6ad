/* SPDX-License-Identifier: MIT */
/*
 * Blocking calls, driven by the calling thread.
 *
 * An acquire joins its lock's wait queue. The first in the queue, while nobody in the process
 * has the lock, is the head: it drives the lock's attempt (head.c). The others park until they are
 * handed the lock or become the head.
 */
#ifndef LK__DRIVE_LOCK_CALLER_H
#define LK__DRIVE_LOCK_CALLER_H

#include "drive/background/effects.h"

/* What an acquire asks for. */
struct lk__want {
	struct lk__owner owner;
	int64_t lease_ms, max_hold_ms, margin_ms;
	int64_t wait_ms; /* -1: no limit; 0: once */
	int64_t count;   /* permits */
	struct lk__settings settings;
	uint64_t tag;
	bool no_loss; /* its end is meant: see struct lk__hold */
	lk_cancel *cancel;
	const _Atomic bool *stop;    /* set to cancel an asynchronous call; else NULL */
	struct lk__grant *grant_out; /* NULL, or where what the server granted is written, also for
				      * a re-entry */
};

/* A hold that is ready for what is wanted; NULL when out of memory. */
struct lk__hold *lk__caller_hold(struct lk__thread *thread, const struct lk__want *want);

static inline bool lk__caller_cancelled(const struct lk__caller *waiter)
{
	return lk__cancelled(waiter->cancel) || (waiter->stop && atomic_load(waiter->stop));
}

/*
 * An acquire in parts. Begin: 1, the owner re-entered; 0, `waiter` is in the wait queue; or a code.
 * Look, while it is not the head: 1, it has the lock; 0, it waits on, and looks again `until_ns`
 * unless it is woken before; or why it leaves. End, after a begin of 0: `rc` is 1 or a code. Begin
 * returns with the entry's mutex held, the others run under it.
 */
int lk__caller_begin(struct lk__entry *entry, struct lk__thread *thread,
		     const struct lk__want *want, struct lk__caller *waiter, lk_error *error);
int lk__caller_look(struct lk__entry *entry, struct lk__caller *waiter, int64_t *until_ns,
		    lk_error *error);
void lk__caller_end(struct lk__entry *entry, const struct lk__want *want, struct lk__caller *waiter,
		    int rc);

/* The same as a whole, in the calling thread. */
int lk__caller_acquire(struct lk__entry *entry, struct lk__thread *thread,
		       const struct lk__want *want, lk_error *error);

/* With the entry's mutex held: 1, the owner holds it, counted without a command; 0, it does not;
 * or a code. */
int lk__caller_reenter(struct lk__entry *entry, const struct lk__want *want, lk_error *error);

int lk__caller_release(struct lk__entry *entry, struct lk__thread *thread,
		       const struct lk__owner *owner, int64_t keep_ms, bool no_wait,
		       lk_error *error);

int lk__caller_extend(struct lk__entry *entry, struct lk__thread *thread,
		      const struct lk__owner *owner, int64_t lease_ms, lk_error *error);

/* An extension in parts, without the entry's mutex; `sent_ns` is noted from its answer. */
struct lk__extension {
	uint64_t number;
	char field[LK__FIELD_SIZE];
	int64_t lease_ms;
	int64_t until_ns; /* of the hold, when it began */
	int64_t sent_ns;
};

int lk__extend_begin(struct lk__entry *entry, const struct lk__owner *owner, int64_t lease_ms,
		     struct lk__extension *extension, lk_error *error);
struct lk__request *lk__extend_request(const struct lk__entry *entry,
				       const struct lk__extension *extension);
/* 1 extended, 0 not ours any more, or a code. */
int lk__extend_read(const struct lk__entry *entry, struct lk__extension *extension,
		    const struct lk__request *request, lk_error *error);
/* Sends and reads it, at one node (see struct lk__policy). */
int lk__extend_ask(struct lk__entry *entry, struct lk__thread *thread,
		   struct lk__extension *extension, lk_error *error);
int lk__extend_end(struct lk__entry *entry, const struct lk__owner *owner,
		   const struct lk__extension *extension, bool renewed, lk_error *error);

/* What a request that is done says: LK__WAIT_READY, or its code with `error` filled. NULL: it had
 * no answer in time, LK_EMAYBEHELD. */
int lk__ask_read(const lk_client *client, const struct lk__request *request, const char *what,
		 lk_error *error);

/*
 * Sends a request on a connection and waits for it: LK__WAIT_READY, else a code with `error`
 * filled and the request gone. For commands that may be sent twice.
 */
int lk__ask(lk_client *client, struct lk__conn *conn, struct lk__thread *thread,
	    struct lk__request *request, const char *what, int64_t until_ns, lk_error *error);

/* Marks a command that changes nothing, for lk__ask(): its outcome is never unknown. Takes NULL. */
struct lk__request *lk__question(struct lk__request *request);

/* Waits until a cluster's client knows who has the name, and so the replicas that must acknowledge;
 * for one failed attempt at most. */
void lk__ask_route(const struct lk__entry *entry, struct lk__thread *thread, int64_t until_ns);

/* The same as lk__ask() on the entry's connection. */
int lk__caller_ask(struct lk__entry *entry, struct lk__thread *thread, struct lk__request *request,
		   const char *operation, int64_t until_ns, lk_error *error);

#endif
