/* SPDX-License-Identifier: MIT */
/*
 * A count in Redis, and changes of it that count once however often they are sent.
 *
 * A change has a number, under which the server remembers its answer. So a request that was sent
 * again, or made anew because it came late, finds what the first copy has done. The record of a
 * change whose answer is known goes with the next change of the same counter.
 */
#ifndef LK__LOCK_COUNTER_H
#define LK__LOCK_COUNTER_H

#include "lock/permit.h"
#include "sync/recipes.h"

struct lk__counter {
	_Atomic size_t refs; /* of the handle, and of changes in flight */
	lk_client *client;
	struct lk__entry *entry;
	int64_t permits; /* what a missing count becomes; 0: it stays missing */
	int64_t ttl_ms;  /* how long the count lasts at least; 0: not said */
	bool no_loss;    /* its permits are meant to end: see struct lk__hold_extra */
	pthread_mutex_t mutex;
	uint64_t *settled; /* changes whose records can go: as many as were made at once */
	size_t settled_count, settled_room;
};

/* A counter over that entry, with references of entry and client; NULL when out of memory. */
struct lk__counter *lk__counter_new(struct lk__entry *entry);
void lk__counter_ref(struct lk__counter *counter);
void lk__counter_unref(struct lk__counter *counter);

/* When what is asked now has to be answered. */
int64_t lk__counter_until_ns(const struct lk__entry *entry);

/* Tells the caller of a semaphore or a latch how its wait ended, with `rc`; `count`: of permits. */
int lk__counter_waited(const struct lk__entry *entry, int64_t count, int rc, lk_error *error);

/*
 * Several permits that go back, all or none, except those of ours that are lost.
 *
 *   release ──▶ done
 *     ▲ │ one of them is not in use
 *     │ ▼
 *    look: which of ours are gone? These are lost, and the others are sent again
 */

struct lk__giving_part {
	lk_permit permit;
	struct lk__entry *entry; /* with a reference; NULL: another's */
	bool gone;               /* ours, and the server has it no more */
	bool sends;              /* it is not known to be lost */
};

struct lk__giving {
	const struct lk__entry *queue; /* the caller keeps it alive */
	const char *operation;         /* a constant */
	bool looking;                  /* what was asked last: which of ours are in use */
	bool repeated; /* sent twice: what is not in use the first copy may have freed */
	int looks;
	int64_t begun_ns;
	size_t sent, ours; /* of these, ours */
	unsigned char (*ids)[LK__PERMIT_ID_BYTES];
	struct lk__renewal *renewals;
	size_t count;
	struct lk__giving_part part[];
};

/* Has all memory that it needs, except for its requests. 0 or LK_ENOMEM. NULL can be freed. */
int lk__giving_new(struct lk__giving **giving_out, const struct lk__entry *queue,
		   const lk_permit *permits, size_t count, const char *operation, lk_error *error);
void lk__giving_free(struct lk__giving *giving);

/* A change of the lease of a permit. */
struct lk__permit_lease {
	const struct lk__entry *queue;
	const char *operation; /* a constant */
	char id[LK_PERMIT_ID_SIZE];
	int64_t lease_ms;
	struct lk__entry *entry; /* of the permit, with a reference; NULL: another's */
	int64_t begun_ns;
	bool was_watched; /* what a hold of ours was before */
	int64_t was_own_until_ns;
};

/* ---- the operation ---- */

/*
 * A request to a counter: a change of its count or of a permit's lease, a question, permits that go
 * back.
 *
 *   connects ──▶ asks ──▶ is over
 *                 ▲ │ it came late: made anew, once; permits that go back: see above
 *                 └─┘
 */

/* One change on its way. */
struct lk__changing {
	struct lk__counter *counter;
	const char *operation; /* lives on: a constant */
	struct lk__change change;
	uint64_t number;
	uint64_t settled;
	bool made_anew; /* once, because it came late */
	bool copied;    /* a copy of it may have run that nobody has heard of */
	int64_t answer;
};

/* Reads its reply: 1, `answer` is known; 0, another request is to be made; or a code. */
int lk__change_read(struct lk__changing *changing, const struct lk__request *request,
		    lk_error *error);

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
