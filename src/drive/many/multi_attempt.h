/* SPDX-License-Identifier: MIT */
/*
 * An acquire of a multi lock: decides what is done next. Two files carry it out, and decide
 * nothing: multi.c sleeps in the calling thread, async_multi.c returns to the loop.
 *
 *   look ─▶ CONNECT each client ─▶ reserve, ASK ─▶ all granted: done
 *    ▲                                 │ one is busy, or a failure
 *    │                                 ▼
 *   AWAIT the busy part ◀─ PAUSE ◀─ GIVE_BACK ─▶ the wait is over: a code
 */
#ifndef LK__DRIVE_MANY_MULTI_ATTEMPT_H
#define LK__DRIVE_MANY_MULTI_ATTEMPT_H

#include "drive/many/multi_ask.h"

enum lk__multi_action {
	LK__MULTI_AWAIT,     /* acquire `part` alone, as its own lock would; ends in 0 or a code */
	LK__MULTI_CONNECT,   /* that part's client; ends as lk__conn_ready() */
	LK__MULTI_ASK,       /* wait for the answers */
	LK__MULTI_GIVE_BACK, /* the same */
	LK__MULTI_PAUSE,
};

struct lk__multi_attempt {
	struct lk__multi_ask *ask;
	enum lk__multi_action action;
	size_t part;
	int64_t until_ns; /* of all actions but the first: at most so long */
	unsigned round;
	size_t awaited; /* the part that was waited for in this round; the count: none */
	bool waits;     /* the next round begins with a wait */
	int outcome;    /* of the try, while it is given back */
};

/* The first action, and the next one when an action has ended so: 0; or 1, all are ours, or a code.
 * `why`: of a connection that failed. */
int lk__multi_start(struct lk__multi_attempt *attempt, struct lk__multi_ask *ask);
int lk__multi_next(struct lk__multi_attempt *attempt, int rc, const lk_error *why);

/* 0, or why nothing but releases can be waited for any more. */
int lk__multi_over(const struct lk__multi_ask *ask);

#endif
