/* SPDX-License-Identifier: MIT */
/* The calls of a multi lock, as operations: acquire, release, extend. */
#ifndef LK__DRIVE_MANY_MULTI_CALL_H
#define LK__DRIVE_MANY_MULTI_CALL_H

#include "drive/many/multi_head.h"

enum lk__multi_way { LK__MULTI_ACQUIRE, LK__MULTI_RELEASE, LK__MULTI_EXTEND };

struct lk__multi_call {
	struct lk__op op;
	enum lk__multi_way way;
	struct lk__multi_ask *ask;
	int64_t time_ms; /* a lease that is extended; or a release keeps the parts so long */
	bool begun;
	/* Of an acquire: */
	struct lk__multi_head head;
	struct lk__acquire part; /* the part that is waited for alone, */
	struct lk__want want;    /* what is asked of it, */
	_Atomic bool stop;       /* and that it is to end */
};

/* Begins one. `thread`: of an asynchronous call; NULL: the calling thread. `want` of release and
 * extend: its owner alone. `multi` and `error`, which may be NULL for these, live on. LK_ENOMEM. */
int lk__multi_call_init(struct lk__multi_call *call, enum lk__multi_way way,
			const struct lk__multi *multi, const struct lk__want *want, int64_t time_ms,
			struct lk__thread *thread, lk_error *error);
void lk__multi_call_free(struct lk__multi_call *call);

/* The whole of each, in the calling thread. `owner` without a name stands for that thread. */
int lk__multi_acquire(const struct lk__multi *multi, const struct lk__want *want, lk_error *error);
int lk__multi_release(const struct lk__multi *multi, const struct lk__owner *owner, int64_t keep_ms,
		      lk_error *error);
int lk__multi_extend(const struct lk__multi *multi, const struct lk__owner *owner, int64_t lease_ms,
		     lk_error *error);

#endif
