/* SPDX-License-Identifier: MIT */
/* What the calls of semaphores and latches share: first and last words, questions, changes, and
 * waits, in the calling thread. */
#ifndef LK__API_COUNTER_H
#define LK__API_COUNTER_H

#include "drive/count/counter.h"

/* The handles. */
struct lk_semaphore {
	struct lk__counter *counter;
	int64_t permits; /* a missing count becomes that; 0: it does not */
};

struct lk_latch {
	struct lk__counter *counter;
};

struct lk_permit_semaphore {
	struct lk__counter *counter; /* with the entry of the wait queue */
	int64_t permits;             /* a missing count becomes that; 0: it does not */
};

struct lk__counter_call {
	struct lk__counter *counter;
	const char *operation;
	struct lk__thread *thread;
	int saved;
	lk_error *error;
};

/* Checks the name, and makes the handle's inside. Free it with lk__counter_unref(). */
int lk__counter_open(struct lk__counter **counter_out, lk_client *client,
		     const struct lk__recipe *recipe, const void *name, size_t name_size,
		     const char *operation, lk_error *error);

/* The first words of a call that may wait for a server, or of one that never waits, and the last;
 * `counter` may be NULL. */
int lk__counter_enter(struct lk__counter_call *call, struct lk__counter *counter,
		      const char *operation, lk_error *error);
int lk__counter_enter_briefly(struct lk__counter_call *call, struct lk__counter *counter,
			      const char *operation, lk_error *error);
int lk__counter_leave(struct lk__counter_call *call, int rc);

/* Asks, and gives the reply, to be freed with its request. For requests that may be sent twice. */
int lk__counter_ask(struct lk__counter_call *call, struct lk__request *request,
		    struct lk__request **answer_out);

/* The changes of a semaphore, which may be NULL; their numbers were checked. */
struct lk__change lk__semaphore_set(int64_t permits, int64_t ttl_ms);
struct lk__change lk__semaphore_give(const struct lk_semaphore *semaphore, int64_t permits,
				     bool if_exists);
struct lk__change lk__semaphore_add(const struct lk_semaphore *semaphore, int64_t change);

/* Makes a change, and gives the integer that the script answers. */
int lk__counter_change(struct lk__counter_call *call, const struct lk__change *change,
		       int64_t *answer_out);

/* The count as it is, 0 without one. */
int lk__counter_get(struct lk__counter_call *call, int64_t *count_out);

/* Waits for the entry's grant: `want` without owner. */
int lk__counter_acquire(struct lk__counter_call *call, struct lk__want *want);

#endif
