/* SPDX-License-Identifier: MIT */
/*
 * A completion queue: requests in flight, by id, and completions that wait to be taken.
 *
 * A request reserves its completion when it starts, and keeps it until it is delivered: that needs
 * no memory. Clients and queues know nothing of each other; a completion has references of the
 * client and the entry it belongs to, until it is taken.
 *
 * A request for notices (LK_OP_NOTICE) is in flight until its end is taken. It also stands among
 * the completions while its client has notices; a thread that finds it there takes one from the
 * client. So notices need no memory here, and one that its hold's release deletes is gone from here
 * too.
 *
 * The callback is owed from the moment that there is something to take. Who delivers completions
 * calls it at once. Notices come under mutexes, so there it is left to the client's loop.
 */
#ifndef LK__LOCK_COMPLETION_QUEUE_H
#define LK__LOCK_COMPLETION_QUEUE_H

#include <lockkeeper/queue.h>

#include "base/containers.h"
#include "lock/entry.h"

struct lk__async;
struct lk__multi_taken;
struct lk__permits_taken;

struct lk__completion {
	struct lk__completion *prev, *next; /* among those to be taken */
	UT_hash_handle hh;                  /* among those in flight */
	lk_queue *queue;                    /* NULL: it is told to `over` */
	/* Of a call from the inside, without a queue: it is over, and the callee's. The loop calls
	 * it, without a mutex. */
	void (*over)(struct lk__completion *completion);
	void *context;
	struct lk__async *async; /* while it is in flight; NULL for a close */
	lk_client *client;
	bool begun, listed; /* LK_OP_NOTICE: the client knows it; it is among those to be taken */
	_Atomic bool cancelled;        /* the same: it ends next */
	struct lk__entry *entry;       /* NULL for a close */
	struct lk__multi_taken *multi; /* of a multi lock, whose first part is `entry`; else NULL */
	struct lk__permits_taken *permits; /* of an acquire in their queue, `entry`; else NULL */
	uint64_t number;                   /* of the wire grant, if it was granted */
	lk_completion value;
	struct lk__owner owner;
	char owner_name[];
};

int lk__queue_new(lk_queue **queue_out, size_t capacity, lk_error *error);
int lk__queue_free(lk_queue *queue, lk_error *error);
int lk__queue_fd(const lk_queue *queue);
/* Before the first request, else LK_EINVAL. */
int lk__queue_on_ready(lk_queue *queue, lk_queue_callback callback, void *context, lk_error *error);
bool lk__queue_forked(const lk_queue *queue);

/* A completion for a request that is about to start, with an id: 0, LK_ELIMIT or LK_ENOMEM. The
 * owner's name is copied. */
int lk__queue_reserve(lk_queue *queue, struct lk__completion **completion_out, int operation,
		      const struct lk__owner *owner, lk_error *error);
/* It does not start after all. */
void lk__queue_unreserve(struct lk__completion *completion);

/* These requests are over: their completions, a list, can be taken. */
void lk__queue_deliver(lk_queue *queue, struct lk__completion *completions);

/* With the mutex of a client's notices held: puts its request for notices behind all that waits to
 * be taken, or (`any` is false, and it is not cancelled) takes it out; or ends it. True: the
 * callback is owed. */
bool lk__queue_notify(struct lk__completion *request, bool any);
void lk__queue_end_notices(struct lk__completion *request);

/* Keeps the queue until lk__queue_ring(), which calls the callback if it is owed. No mutex may be
 * held there. */
void lk__queue_pin(lk_queue *queue);
void lk__queue_ring(lk_queue *queue);

/* 1 when the acquire or request for notices is in flight, 0 when no such request is; LK_EINVAL for
 * another operation. An acquire is cancelled by `cancel`, under the queue's mutex. */
int lk__queue_cancel(lk_queue *queue, uint64_t id, void (*cancel)(struct lk__async *async),
		     lk_error *error);

/* Completions, at most so many; 0 at the end of the wait. `taken` makes each say what is true now,
 * and ends its references. */
int lk__queue_take(lk_queue *queue, lk_completion *completions_out, size_t most, int64_t until_ns,
		   void (*taken)(struct lk__completion *completion));

#endif
