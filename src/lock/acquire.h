/* SPDX-License-Identifier: MIT */
/*
 * An acquire of a lock: how it gets what it asks for.
 *
 * It joins its lock's wait queue. The first in the queue, while nobody in the process has the lock,
 * is the head: it carries out the effects of each step of the lock's attempt (src/sync/attempt.h)
 * and feeds what came of them. The others wait until they are handed the lock or become the head.
 *
 * A try that the head leaves behind stays in flight: the next head waits on for it, and without one
 * the thread that reads its answer steps the detached attempt.
 */
#ifndef LK__LOCK_ACQUIRE_H
#define LK__LOCK_ACQUIRE_H

#include "lock/hold.h"
#include "lock/operation.h"

/* The event that a head waits for. */
enum lk__head_wait {
	LK__HEAD_NOTHING,
	LK__HEAD_CONNECTION,
	LK__HEAD_ANSWER,
	LK__HEAD_SUBSCRIPTION,
	LK__HEAD_MESSAGE,
	LK__HEAD_PAUSE,
};

struct lk__head {
	struct lk__op *op; /* of the call: what waits */
	struct lk__entry *entry;
	struct lk__caller *waiter;
	struct lk__attempt_event event; /* the next that the attempt is fed */
	uint64_t fence;                 /* of the grant */
	uint64_t epoch;                 /* of the node, before the try */
	bool first;                     /* no try of this head has been sent yet */
	bool moved;                     /* the node is another than the last time */
	struct lk__conn *pinned;        /* while a try is out; NULL */
	struct lk__nodes_call *call;    /* the try, where the lock is on several nodes */
	lk_error *error;
	enum lk__head_wait wait;
	int64_t pause_until_ns;
	int64_t hear_until_ns; /* unless it asks before who is at the front, */
	bool patient;          /* or longer, while it would be told: lock/front.h */
};

static inline bool lk__caller_cancelled(const struct lk__caller *waiter)
{
	return lk__cancelled(waiter->cancel) || (waiter->stop && atomic_load(waiter->stop));
}

/* Tells whether a wait has ended for a reason that its caller is told as it is. */
static inline bool lk__ends_wait(int code)
{
	return code == LK_ECANCELLED || code == LK_ECLOSED || code == LK_EDRAINING;
}

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

/* 0, or why the head has to leave at once, whatever it waits for. With the entry's mutex held. */
int lk__head_gone(const struct lk__head *head);

#endif
