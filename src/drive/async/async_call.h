/* SPDX-License-Identifier: MIT */
/*
 * One asynchronous call from the inside, for the files that drive it:
 *
 *   async.c           the loop's turn, and the life of a call from start to completion
 *   async_ask.c       one request at one node, and its answer
 *   async_acquire.c   what stands in a wait queue
 *   async_release.c   releases and extensions of what is held on one node
 *   async_red.c       the same on several nodes
 *   async_count.c     requests to a counter: changes of its count, questions, permits that go back
 *   async_multi.c     the calls of a multi lock
 *
 * Only the loop resumes a call. `starts`: for the first time.
 */
#ifndef LK__DRIVE_ASYNC_ASYNC_CALL_H
#define LK__DRIVE_ASYNC_ASYNC_CALL_H

#include "drive/async/async.h"
#include "drive/lock/head.h"
#include "drive/lock/release.h"

enum async_state {
	ASYNC_FREE,    /* waits for the next request */
	ASYNC_STARTED, /* not resumed yet */
	ASYNC_WAITING,
};

/* A request to a counter, on its way. */
struct lk__async_count {
	int64_t until_ns; /* what is asked now has to be answered by then */
	struct lk__changing changing;
	struct lk__permit_lease lease;
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
	struct lk__conn *connecting; /* that is waited for, as `standby`; NULL */
	struct lk__standby standby;
	struct lk__request *asked;            /* that is waited for; NULL */
	int64_t asked_until_ns;               /* either of them so long at most */
	_Atomic(struct lk__request *) answer; /* to what was asked */
	struct lk__async_multi *multi;        /* of a multi lock; else NULL */
	struct lk__nodes_call *call; /* or all nodes were; not an acquire's, see its head */
	union {                      /* by the way it is driven */
		struct {
			struct lk__caller caller;
			struct lk__head head;
			bool heads; /* the head is driven */
			struct lk__grant grant;
		};
		struct lk__release release;
		struct lk__extension extension;
		struct lk__async_count count;
	};
};

/* It is over, with 0 or a code. */
void lk__async_complete(struct lk__async *async, int rc);

/* Waits to be woken, or for that time. */
void lk__async_wait(struct lk__async *async, int64_t until_ns);

/* How long it waits for what may come until then: no longer than the close of its client. */
int64_t lk__async_until_ns(const struct lk__async *async, int64_t until_ns);

/* Whether nothing is waited for any more: that time has come, or the client has ended, and no loop
 * resumes the call. Else it waits. */
bool lk__async_is_over(struct lk__async *async, int64_t until_ns);

void lk__async_acquire(struct lk__async *async, bool starts);
void lk__async_multi(struct lk__async *async, bool starts);
void lk__async_release(struct lk__async *async, bool starts);
void lk__async_extend(struct lk__async *async, bool starts);
void lk__async_red_release(struct lk__async *async, bool starts);
void lk__async_red_extend(struct lk__async *async, bool starts);
void lk__async_count(struct lk__async *async, bool starts);

/* Waits in the queue of an entry. 1: it has the lock; 0: it waits; or a code. Returns with the
 * entry's mutex held. */
int lk__async_stand(struct lk__async *async, struct lk__entry *entry, const struct lk__want *want,
		    bool starts);

/* What a call of a multi lock needs, from its start to its completion. LK_ENOMEM. */
int lk__async_multi_new(struct lk__async *async);
void lk__async_multi_free(struct lk__async *async);

/* The same time, or the end of the close of another of its clients. */
int64_t lk__async_multi_until_ns(const struct lk__async_multi *multi, int64_t until_ns);

/*
 * What lk__ask() does in a thread. Begin: sends a request that may be sent twice, which the call is
 * then resumed for; an entry's mutex may be held. Look: false while it waits on; else `answer_out`
 * is the request, done and the caller's, or NULL: no answer has come in time.
 */
void lk__async_ask(struct lk__async *async, struct lk__conn *conn, struct lk__request *request,
		   int64_t until_ns);
bool lk__async_ask_look(struct lk__async *async, struct lk__request **answer_out);

/* What lk__conn_ready() does. Begin: false when the connection is up. Look: false while it waits
 * on; else `rc_out` is what lk__conn_ready() returns, with `why` filled as there. */
bool lk__async_connect(struct lk__async *async, struct lk__conn *conn, bool once, int64_t until_ns);
bool lk__async_connect_look(struct lk__async *async, int *rc_out, lk_error *why);

/* The completion of an acquire is taken: what it says is true now. */
void lk__async_acquired(struct lk__completion *completion);
void lk__async_multi_acquired(struct lk__completion *completion);
void lk__async_permits_acquired(struct lk__completion *completion);

#endif
