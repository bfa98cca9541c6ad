/* SPDX-License-Identifier: MIT */
/*
 * The votes of a quorum's nodes on one try, and what they come to. No I/O, no clock: what each node
 * has said goes in, and what the attempt is told comes out.
 */
#ifndef LK__SYNC_RED_VOTES_H
#define LK__SYNC_RED_VOTES_H

#include <stddef.h>

#include "sync/attempt.h"

enum lk__vote_type {
	LK__VOTE_NONE,    /* no answer yet */
	LK__VOTE_UNASKED, /* it has not answered earlier tries */
	LK__VOTE_GRANTED,
	LK__VOTE_NO_VOTE, /* granted, but it may have forgotten others; or it was not even tried */
	LK__VOTE_BUSY,
	LK__VOTE_LATE,
	LK__VOTE_REFUSED, /* or not reached: not done */
	LK__VOTE_UNKNOWN,
};

/* The vote of one node, as far as it is known. */
struct lk__vote {
	enum lk__vote_type type;
	bool tried;     /* it was asked for the lock */
	bool granted;   /* whether it counts or not */
	bool copies;    /* sent twice: whatever was answered, a copy may still run */
	bool cut_off;   /* a release may not come behind the grant: on another connection or node */
	bool lasting;   /* REFUSED, UNKNOWN: the next try would end in the same way */
	bool ran;       /* UNKNOWN: what it may have, a release behind the try gives back */
	int code;       /* why it does not count */
	int64_t ttl_ms; /* BUSY */
};

/* Tells whether it may have granted the lock without our knowing; and whether it may have it at all
 * once a release was sent: what has to be given back again when no copy of the try can run any
 * more. */
bool lk__vote_is_unsure(const struct lk__vote *vote);
bool lk__vote_may_stay(const struct lk__vote *vote);

/* Tells whether a node that has not granted it may do so when it is asked again. */
bool lk__vote_wants_more(const struct lk__vote *vote);

struct lk__votes {
	size_t nodes, majority;
	size_t open; /* no answer yet */
	size_t granted, busy, late;
	size_t wrong;    /* there is something else under the name */
	size_t lasting;  /* would answer the next try in the same way */
	size_t may_have; /* granted it, or may have it for all we know, until that has gone back */
	size_t awaited;  /* of those: only for want of an answer, which may clear it up */
	int64_t ttl_ms;  /* the longest of those who are busy */
};

void lk__votes_add(struct lk__votes *votes, const struct lk__vote *vote);

/* Tells whether the answers that are there decide it: that it is granted; or that it is not, and
 * whether others have it, which "no quorum" must not hide. */
bool lk__votes_decided(const struct lk__votes *votes);

/* The event for the attempt. `worth`: a grant would have enough of its lease left. Only with
 * LK_EMAYBEHELD may the try be held by a majority when it was not granted. */
struct lk__attempt_event lk__votes_event(const struct lk__votes *votes, bool worth);

#endif
