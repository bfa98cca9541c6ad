/* SPDX-License-Identifier: MIT */
/*
 * One attempt to get several locks, all or none. No I/O, no clock, no randomness: a step takes an
 * event and the time, and returns what is done next, as that of a single lock does
 * (sync/attempt.h). Nothing else changes an attempt.
 *
 *   LOOK ─▶ CONNECT each client ─▶ TRY ─▶ all are ours: GRANT
 *    ▲                              │ one is busy, or a failure
 *    │                              ▼
 *   AWAIT the busy part ◀─ PAUSE ◀─ GIVE_BACK ─▶ the wait is over: FAIL
 *
 * Nothing is held while it waits for a part, so opposite orders cannot deadlock.
 */
#ifndef LK__SYNC_MULTI_ATTEMPT_H
#define LK__SYNC_MULTI_ATTEMPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lk__multi_action {
	LK__MULTI_DO_AWAIT,     /* acquire `part` alone, as its own lock would, then AWAITED */
	LK__MULTI_DO_LOOK,      /* at what is held already, and who else waits: LOOKED */
	LK__MULTI_DO_CONNECT,   /* the next client: CONNECTED; READY when there is none */
	LK__MULTI_DO_TRY,       /* ask for all that are not held yet, then TRIED */
	LK__MULTI_DO_GIVE_BACK, /* whatever was taken, until `until_ns` at most, then GIVEN_BACK */
	LK__MULTI_DO_PAUSE,     /* for a random part of the time until `until_ns`, then TIMER */
	LK__MULTI_DO_GRANT,     /* the caller has all of them */
	LK__MULTI_DO_FAIL,      /* the caller has none of them, because of `part`: `code` */
};

enum lk__multi_event_type {
	LK__MULTI_STARTED,
	LK__MULTI_AWAITED,
	LK__MULTI_LOOKED,
	LK__MULTI_CONNECTED,
	LK__MULTI_READY,
	LK__MULTI_TRIED,
	LK__MULTI_GIVEN_BACK,
	LK__MULTI_TIMER,
};

struct lk__multi_event {
	enum lk__multi_event_type type;
	int code; /* why the caller is not to wait for it; 0 */

	/* LOOKED, CONNECTED, TRIED */
	size_t busy;   /* the first part that is not to be had now; the count of all: none */
	int busy_code; /* LK_EBUSY; what stands in the way; or 0: the server has not said yet */

	/* TRIED */
	bool stands; /* all are ours, and were so at the end of the look at them */
	bool again; /* nothing was asked: requests were not sent, or came late for the first time */
	bool unknown; /* parts may have been granted for all we know */

	/* Every event. */
	int ends;            /* a client is being closed or drained: LK_ECLOSED, LK_EDRAINING; 0 */
	bool cancelled;      /* the caller wants it no more */
	size_t compensating; /* a part that may be held and nobody wants; the count of all: none */
};

struct lk__multi_effects {
	enum lk__multi_action action;
	size_t part;
	int64_t until_ns;
	int code;
};

struct lk__multi_attempt {
	size_t count;       /* of the parts */
	bool once;          /* asks once, and does not wait */
	int64_t until_ns;   /* the end of the wait */
	int64_t command_ns; /* to give back what was taken */

	enum lk__multi_action action; /* the last that was returned */
	unsigned round;
	unsigned asked; /* rounds that only wait for what the server says of a part */
	size_t awaited; /* the part that was waited for in this round; the count: none */
	bool waits;     /* the next round begins with a wait */
	bool unknown;   /* in some round parts may have been granted */
	/* What ended the last try. */
	int code;      /* that, or 0 */
	bool late;     /* all were granted, and no lease was left of one */
	size_t busy;   /* the part to wait for, */
	int busy_code; /* and why it was not to be had */
	bool again;
};

struct lk__multi_effects lk__multi_step(struct lk__multi_attempt *attempt,
					const struct lk__multi_event *event, int64_t now_ns);

#endif
