/* SPDX-License-Identifier: MIT */
/*
 * The head of a lock's wait queue: the caller who asks the server.
 *
 * It carries out the effects of each step of the lock's attempt (src/sync/attempt.h) and feeds what
 * came of them. What is next is decided there; the head decides whether its caller still wants it.
 *
 * A try that the head leaves behind stays in flight: the next head waits on for it, and without one
 * the thread that reads its answer steps the detached attempt.
 */
#ifndef LK__LOCK_HEAD_H
#define LK__LOCK_HEAD_H

#include "lock/hold.h"
#include "lock/operation.h"

struct lk__head {
	struct lk__op *op; /* of the call: what waits; NULL: it is not driven */
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
	int (*look)(struct lk__head *head); /* ends what it waits for; NULL: it waits for nothing */
	int64_t pause_until_ns;
	int64_t hear_until_ns; /* unless it asks before who is at the front, */
	bool patient;          /* or longer, while it would be told */
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

/* All with the entry's mutex held. */

/* Leads on as far as it can, as long as the waiter is the head: LK__OP_WAITS; else 1, granted to
 * the waiter; or a code, and the waiter is still in the queue. */
int lk__head_lead(struct lk__head *head, struct lk__op *op, struct lk__entry *entry,
		  struct lk__caller *waiter, lk_error *error);

/* 0, or why the head has to leave at once, whatever it waits for: the end of its limit is no such
 * reason. */
int lk__head_end_untimed(const struct lk__head *head);

#endif
