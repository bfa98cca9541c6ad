/* SPDX-License-Identifier: MIT */
/*
 * Asynchronous calls, driven by the client's loop.
 *
 *   start (any thread) ──▶ ready list ──▶ the loop's turn: resume ──▶ completion
 *                              ▲                   │ waits
 *                              └──── woken ◀───────┘ or its time has come
 *
 * A call stands in the library as a thread would: it has a place to be woken at, which puts it into
 * the list of those that are ready, and the loop resumes it until it has to wait again. Only the
 * loop resumes, so a call needs no mutex of its own. Its memory stays with the client for the next
 * call: a waker may come a moment too late.
 */
#ifndef LK__LOCK_ASYNC_H
#define LK__LOCK_ASYNC_H

#include "lock/acquire.h"
#include "lock/completion_queue.h"

struct lk__multi;

/* How a request is driven. */
enum lk__async_way {
	LK__ASYNC_ACQUIRE, /* in the entry's wait queue */
	LK__ASYNC_RELEASE,
	LK__ASYNC_EXTEND,
	LK__ASYNC_ASK,   /* a question about a lock, or its forced release */
	LK__ASYNC_DRIVE, /* an operation that the caller has */
};

/* An operation of another's, which the loop begins and drives; `end`: it is over, and its owner may
 * go. Of a request without an entry. */
struct lk__driven {
	lk_client *client;
	void *of;
	struct lk__op *(*begin)(void *of, struct lk__thread *thread, const _Atomic bool *stop,
				lk_error *error);
	void (*end)(void *of);
	const int64_t *answer; /* of its completion, at its end; NULL: none */
};

/* The arguments of a request; its owner is the completion's. */
struct lk__async_want {
	enum lk__async_way way;
	const char *operation;         /* a constant, for messages */
	const struct lk__multi *multi; /* the first three: of a multi lock; else NULL. Is copied */
	union {
		struct lk__want acquire;
		int64_t lease_ms;            /* EXTEND */
		int64_t keep_ms;             /* RELEASE */
		struct lk__questioned asked; /* ASK. Its request is the call's if it starts */
		struct lk__driven driven;    /* DRIVE */
	};
};

/* Starts the request of that completion, which is delivered at its end, and of that entry, of which
 * it takes a reference; NULL for DRIVE. 0, or a code: then there is no request, and the completion
 * is the caller's.
 */
int lk__async_start(struct lk__completion *completion, struct lk__entry *entry,
		    const struct lk__async_want *want, lk_error *error);

/* From any thread, while the request is in flight. */
void lk__async_cancel(struct lk__async *async);

/* A completion is taken: what it says is true now. Its references end. */
void lk__async_taken(struct lk__completion *completion);

/* ---- for the loop, and the end of a client ---- */

/* Resumes what is ready or due, and says whether anything was. Returns when more is. */
int64_t lk__async_turn(lk_client *client, bool *any_out);

/* The loop has ended, and the connections are closed: every request is completed. */
void lk__async_end(lk_client *client);
void lk__async_free(lk_client *client);

#endif
