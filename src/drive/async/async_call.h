/* SPDX-License-Identifier: MIT */
/*
 * One asynchronous call from the inside: an operation, and what its completion says of it.
 *
 *   async.c           the loop's turn, and the life of a call from start to completion
 *   async_acquire.c   what was granted
 *   async_multi.c     the calls of a multi lock
 *
 * Only the loop resumes a call.
 */
#ifndef LK__DRIVE_ASYNC_ASYNC_CALL_H
#define LK__DRIVE_ASYNC_ASYNC_CALL_H

#include "drive/async/async.h"
#include "drive/lock/extend.h"
#include "drive/lock/release.h"

enum async_state {
	ASYNC_FREE,    /* waits for the next request */
	ASYNC_STARTED, /* not resumed yet */
	ASYNC_WAITING,
};

struct lk__async {
	struct lk__thread thread;      /* first: it is found by that */
	struct lk__ready place;        /* in the list of those that are ready, */
	_Atomic bool ready;            /* where it is */
	struct lk__async *prev, *next; /* among those in flight, the loop's; or the free ones */
	struct lk__heap_node timer;
	_Atomic int state;
	lk_client *client;
	struct lk__completion *completion;
	struct lk__async_want want;
	_Atomic bool cancelled;
	struct lk__async_multi *multi; /* of a multi lock; else NULL */
	struct lk__op *op;             /* one of these, or that of `multi` */
	union {
		struct {
			struct lk__acquire acquire;
			struct lk__grant grant;
		};
		struct lk__releasing releasing;
		struct lk__extending extending;
		struct lk__counting counting;
	};
};

/* An acquire has ended with `rc`: what the completion says of it. Returns what its caller hears. */
int lk__async_acquire_end(struct lk__async *async, int rc);

/* What a call of a multi lock needs, from its start to its completion. LK_ENOMEM. */
int lk__async_multi_new(struct lk__async *async);
void lk__async_multi_free(struct lk__async *async);

/* The loop begins to resume it. */
struct lk__op *lk__async_multi_op(struct lk__async *async);
/* All are its owner's. */
void lk__async_multi_granted(struct lk__completion *completion);

/* The same time, or the end of the close of another of its clients. */
int64_t lk__async_multi_until_ns(const struct lk__async_multi *multi, int64_t until_ns);

/* The completion of an acquire is taken: what it says is true now. */
void lk__async_acquired(struct lk__completion *completion);
void lk__async_multi_acquired(struct lk__completion *completion);
void lk__async_permits_acquired(struct lk__completion *completion);

#endif
