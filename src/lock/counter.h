/* SPDX-License-Identifier: MIT */
/*
 * A count in Redis, what is asked of it, and its permits.
 *
 * A change has a number, under which the server remembers its answer. So a request that was sent
 * again, or made anew because it came late, finds what the first copy has done. The record of a
 * change whose answer is known goes with the next change of the same counter.
 *
 * What is granted in the wait queue of a permit semaphore moves to an entry for each permit, under
 * its id, and is renewed, reported and released there like any lock.
 */
#ifndef LK__LOCK_COUNTER_H
#define LK__LOCK_COUNTER_H

#include <lockkeeper/permit_semaphore.h>

#include "lock/acquire.h"

struct lk__counter {
	_Atomic size_t refs; /* of the handle, and of calls in a queue */
	lk_client *client;
	struct lk__entry *entry;
	int64_t permits; /* what a missing count becomes; 0: it stays missing */
	int64_t ttl_ms;  /* how long the count lasts at least; 0: not said */
	bool no_loss;    /* its permits are meant to end: see struct lk__hold_extra */
	pthread_mutex_t mutex;
	uint64_t *settled; /* changes whose records can go: as many as were made at once */
	size_t settled_count, settled_room;
};

/* Tells the caller of a semaphore or a latch how its wait ended, with `rc`; `count`: of permits. */
int lk__counter_waited(const struct lk__entry *entry, int64_t count, int rc, lk_error *error);

/* ---- the operation ---- */

/*
 * A request to a counter: a change of its count or of a permit's lease, a question, permits that go
 * back.
 *
 *   connects ──▶ asks ──▶ is over
 *                 ▲ │ it came late: made anew, once; permits that go back: see below
 *                 └─┘
 */

enum lk__counting_way {
	LK__COUNTING_CHANGE, /* of a count */
	LK__COUNTING_LEASE,  /* the same, of the lease of a permit */
	LK__COUNTING_LOOK,   /* a question: how much the count is, of a latch at least 0; */
	LK__COUNTING_AWAIT,  /* and whether it is 0 */
	LK__COUNTING_GIVE,   /* permits go back: several, or one of another client */
};

/*
 * Several permits that go back, all or none, except those of ours that are lost.
 *
 *   release ──▶ done
 *     ▲ │ one of them is not in use
 *     │ ▼
 *    look: which of ours are gone? These are lost, and the others are sent again
 */
struct lk__giving {
	bool looking;  /* what was asked last: which of ours are in use */
	bool repeated; /* sent twice: what is not in use the first copy may have freed */
	int looks;
	size_t sent, ours; /* of these, ours */
	unsigned char (*ids)[LK__PERMIT_ID_BYTES];
	struct lk__renewal *renewals;
	size_t count;
	struct lk__giving_part {
		lk_permit permit;
		struct lk__entry *entry; /* with a reference; NULL: another's */
		bool gone;               /* ours, and the server has it no more */
		bool sends;              /* it is not known to be lost */
	} part[];
};

struct lk__counting {
	struct lk__op op;
	/* Of the caller, who keeps them alive to the end: */
	enum lk__counting_way way;
	struct lk__counter *counter;
	const char *operation;     /* a constant, for messages */
	struct lk__change change;  /* CHANGE; of LEASE, the id and the lease */
	struct lk__giving *giving; /* GIVE; else NULL. It has the memory that is needed */

	bool begun, connects;
	int64_t begun_ns;
	int64_t until_ns; /* what is asked now has to be answered by then */
	uint64_t number;  /* of a change, */
	uint64_t settled; /* and of one whose record goes with it; 0: none is known */
	bool made_anew;   /* once, because it came late */
	bool copied;      /* a copy of it may have run that nobody has heard of */
	int64_t answer;   /* of a change, or a question */
	/* Of LEASE: */
	struct lk__entry *permit; /* with a reference; NULL: another's */
	bool was_watched;         /* what a hold of ours was before */
	int64_t was_own_until_ns;
	lk_error *error;
};

/* Begins one, of which the rest is zero. */
struct lk__op *lk__counting_begin(struct lk__counting *counting, struct lk__thread *thread,
				  lk_error *error);

/* Reads the reply to a change: 0, `answer` is known; 1, another request is to be made; or a
 * code. */
int lk__change_read(struct lk__counting *counting, const struct lk__request *request);

/* ---- permits as holds: all without a mutex held; `queue` is the entry of the wait queue ---- */

/* The entry of a permit that this client knows, with a reference, or NULL for another's: 0 or
 * LK_ENOMEM. */
int lk__permit_entry(struct lk__entry **entry_out, const struct lk__entry *queue, const char *id);

/* The permits of one acquire that were granted and are not taken yet. */
struct lk__permits_taken {
	size_t count;              /* 0 before the grant */
	struct lk__entry *entry[]; /* of each permit, with a reference */
};

/* With room for so many; NULL when out of memory. NULL can be freed. */
struct lk__permits_taken *lk__permits_taken_new(int64_t room);
void lk__permits_taken_free(struct lk__permits_taken *taken);

/* The permits of a grant become holds as `want` says, except for its owner, and their entries are
 * noted; or they are given back, with a code. */
int lk__permits_hold(struct lk__entry *queue, struct lk__thread *thread,
		     const struct lk__want *want, const struct lk__grant *grant,
		     struct lk__permits_taken *taken, const char *operation, lk_error *error);

/* Whatever is left of the permit goes back, with a release that nobody waits for. */
void lk__permit_give_up(struct lk__entry *entry);

#endif
