/* SPDX-License-Identifier: MIT */
/*
 * One command about a lock from outside, as an operation: a question, or a forced release. It holds
 * nothing and waits in no queue.
 */
#ifndef LK__LOCK_QUESTION_H
#define LK__LOCK_QUESTION_H

#include "lock/operation.h"

/* A question, and how its answer is read. */
struct lk__questioned {
	struct lk__request *request; /* its own until it is sent */
	/* Reads the request, which is done. 0, or a code with `error` filled. */
	int (*read)(const struct lk__questioned *of, struct lk__entry *entry,
		    const struct lk__request *request, int64_t *answer_out, lk_error *error);
	uint64_t number;   /* of the grant that this client had before */
	const char *field; /* that it is about; NULL: none */
};

struct lk__question {
	struct lk__op op;
	struct lk__entry *entry;
	const char *operation; /* a constant, for messages */
	struct lk__questioned of;
	bool begun, connects;
	bool changes; /* something, so that its outcome may be unknown */
	int64_t until_ns;
	int64_t *answer_out;
	lk_error *error;
};

/* Takes over the request of `of`, which is there. */
void lk__question_init(struct lk__question *asking, struct lk__entry *entry,
		       struct lk__thread *thread, struct lk__questioned *of, const char *operation,
		       int64_t *answer_out, lk_error *error);

#endif
