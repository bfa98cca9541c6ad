/* SPDX-License-Identifier: MIT */
/*
 * A request to a counter: a change of its count or of a permit's lease, a question, permits that go
 * back.
 *
 *   connects ──▶ asks ──▶ is over
 *                 ▲ │ it came late: made anew, once; permits that go back: giving.h
 *                 └─┘
 */
#ifndef LK__DRIVE_COUNT_COUNTING_H
#define LK__DRIVE_COUNT_COUNTING_H

#include "drive/count/giving.h"

enum lk__counting_way {
	LK__COUNTING_CHANGE, /* of a count */
	LK__COUNTING_LEASE,  /* the same, of a permit's lease */
	LK__COUNTING_LOOK,   /* a question: how much the count is */
	LK__COUNTING_GIVE,   /* permits go back: several, or one of another client */
};

struct lk__counting {
	struct lk__op op;
	enum lk__counting_way way;
	struct lk__counter *counter;
	const char *operation; /* a constant, for messages */
	bool begun, connects;
	int64_t until_ns; /* what is asked now has to be answered by then */
	/* By the way: */
	struct lk__changing changing;
	struct lk__permit_lease lease;
	struct lk__giving *giving;
	int64_t answer; /* of a change, or a question */
	lk_error *error;
};

/* Each begins one. The caller keeps counter, giving and error alive, to the end. */
void lk__counting_change(struct lk__counting *counting, struct lk__counter *counter,
			 struct lk__thread *thread, const struct lk__change *change,
			 const char *operation, lk_error *error);
void lk__counting_lease(struct lk__counting *counting, struct lk__counter *counter,
			struct lk__thread *thread, const char *id, int64_t lease_ms,
			const char *operation, lk_error *error);
void lk__counting_look(struct lk__counting *counting, struct lk__counter *counter,
		       struct lk__thread *thread, const char *operation, lk_error *error);
void lk__counting_give(struct lk__counting *counting, struct lk__counter *counter,
		       struct lk__thread *thread, struct lk__giving *giving, const char *operation,
		       lk_error *error);

#endif
