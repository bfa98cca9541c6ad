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

/* What a vote means for the node's part of the lock. */
struct lk__vote_means {
	bool unsure;   /* it may have granted the lock without our knowing */
	bool may_stay; /* it may have it once a release was sent: it has to be given back again when
			  * no copy of the try can run any more */
	bool wants_more; /* it has not granted it, and may do so when it is asked again */
};

struct lk__vote_means lk__vote_means(const struct lk__vote *vote);

/* What the votes come to. */
struct lk__verdict {
	size_t granted; /* nodes */
	/* The answers that are there decide it: that it is granted; or that it is not, and whether
	 * others have it, which "no quorum" must not hide. */
	bool decided;
	/* For the attempt. Only with LK_EMAYBEHELD may the try be held by a majority when it was
	 * not granted. */
	struct lk__attempt_event event;
};

/* `worth`: a grant would have enough of its lease left. */
struct lk__verdict lk__votes_judge(const struct lk__vote *votes, size_t nodes, size_t majority,
				   bool worth);

#endif
