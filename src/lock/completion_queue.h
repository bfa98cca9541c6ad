/* SPDX-License-Identifier: MIT */
/*
 * A completion queue: requests in flight, by id, and completions that wait to be taken.
 *
 * A request reserves its completion when it starts, and keeps it until it is delivered: that needs
 * no memory. Clients and queues know nothing of each other; a completion has references of the
 * client and the entry it belongs to, until it is taken.
 *
 * What the program does with a queue is in api/queue.c, what a client does with it in notice.c.
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
#include "base/descriptors.h"
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

struct lk_queue {
	const _Atomic int *alive; /* 0 in a forked child */
	pthread_mutex_t mutex;
	int fd; /* readable while there is something to take */
	size_t capacity;
	size_t count; /* in flight, or to be taken */
	uint64_t last_id;
	struct lk__completion *in_flight; /* by id */
	struct lk__completion *completed; /* oldest first */
	lk_queue_callback on_ready;       /* the same from the first request on */
	void *context;
	bool owed;     /* it is to be called */
	unsigned pins; /* calls of it, under way or about to be */
};

/* After a change, before which there was something to take or not; under the mutex. */
static inline void lk__queue_mark(lk_queue *queue, bool before)
{
	bool any = queue->completed != NULL;
	if (any == before)
		return;
	queue->owed = any && queue->on_ready;
	if (any)
		lk__wake_fd(queue->fd);
	else
		lk__wake_fd_clear(queue->fd);
}

/* These requests are over: their completions, a list, can be taken. */
void lk__queue_deliver(lk_queue *queue, struct lk__completion *completions);

#endif
