/* SPDX-License-Identifier: MIT */
/*
 * Several reentrant locks, of one client or many, taken all or none.
 *
 * Every part keeps its own entry, hold, watchdog and notices; what is here takes and frees them
 * together. Parts of one client are taken by one script, the clients' scripts are sent at once.
 * A caller that finds a part busy gives everything back, waits for that part alone, as any other
 * caller would, and then tries the rest: nothing is held while it waits, so opposite orders cannot
 * deadlock.
 */
#ifndef LK__LOCK_MULTI_H
#define LK__LOCK_MULTI_H

#include "lock/hold.h"
#include "lock/operation.h"

#define LK__MULTI_MAX 64

struct lk__multi {
	size_t count;
	struct lk__entry *part[LK__MULTI_MAX]; /* by node and client, then name */
};

/* An owner's hold of all of them. */
struct lk__multi_hold {
	int64_t deadline_ns; /* the soonest */
	unsigned count;      /* the least */
};

/* The locks of a call whose handle may be gone, with references, and what was granted of each. */
struct lk__multi_taken {
	struct lk__multi multi;
	uint64_t number[LK__MULTI_MAX];
};

/* Takes references of all parts and of their clients; gives them back. */
void lk__multi_keep(const struct lk__multi *multi);
void lk__multi_let_go(const struct lk__multi *multi);

/* Below, `owner` without a name stands for the calling thread. */

/* Starts the loops of all its clients. 0 or a code. */
int lk__multi_start_loops(const struct lk__multi *multi, lk_error *error);

/* 0, LK_ELOST (a part was lost; `hold` is filled), LK_ENOTOWNER, LK_ENOMEM. A memory read. */
int lk__multi_hold_of(const struct lk__multi *multi, const struct lk__owner *owner,
		      struct lk__multi_hold *hold);

/* ---- its calls, as operations: acquire, release, extend (multi_call.c) ---- */

enum lk__multi_way { LK__MULTI_ACQUIRE, LK__MULTI_RELEASE, LK__MULTI_EXTEND };

/* Makes one of 32 KB, too many for the stacks of small threads, which free() frees. `thread`: of an
 * asynchronous call; NULL: the calling thread's, in each client. `want` of release and extend: its
 * owner alone. `time_ms`: a lease that is extended; or a release keeps the parts so long. `multi`
 * and `error`, which may be NULL for these, live on. NULL when out of memory. */
struct lk__op *lk__multi_call_new(enum lk__multi_way way, const struct lk__multi *multi,
				  const struct lk__want *want, int64_t time_ms,
				  struct lk__thread *thread, lk_error *error);

/* The whole of one, in the calling thread. An owner without a name stands for that thread. */
int lk__multi_run(enum lk__multi_way way, const struct lk__multi *multi,
		  const struct lk__want *want, int64_t time_ms, lk_error *error);

#endif
