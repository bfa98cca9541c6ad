/* SPDX-License-Identifier: MIT */
/*
 * An acquire of a lock: of what it asks for, and how it gets it.
 *
 * It joins its lock's wait queue. The first in the queue, while nobody in the process has the lock,
 * is the head: it drives the lock's attempt (head.h). The others wait until they are handed the
 * lock or become the head.
 */
#ifndef LK__LOCK_ACQUIRE_H
#define LK__LOCK_ACQUIRE_H

#include "lock/entry.h"
#include "lock/head.h"

/* What an acquire asks for. */
struct lk__want {
	struct lk__owner owner;
	int64_t lease_ms, max_hold_ms, margin_ms;
	int64_t wait_ms; /* -1: no limit; 0: once, */
	int64_t once_ms; /* which may take so long; 0: the connect and the command limit */
	int64_t count;   /* permits */
	struct lk__settings settings;
	uint64_t tag;
	bool no_loss; /* its end is meant: see struct lk__hold_extra */
	lk_cancel *cancel;
	const _Atomic bool *stop;    /* set to cancel an asynchronous call; else NULL */
	struct lk__grant *grant_out; /* NULL, or where what the server granted is written, also for
				      * a re-entry */
};

struct lk__acquire {
	struct lk__op op;
	struct lk__entry *entry;
	const struct lk__want *want;
	struct lk__caller caller;
	struct lk__head head;
	bool begun;
	bool heads; /* the head is driven */
	lk_error *error;
};

/* Begins one. `want` and `error`, which is not NULL, live on until its end. */
void lk__acquire_init(struct lk__acquire *acquire, struct lk__entry *entry,
		      struct lk__thread *thread, const struct lk__want *want, lk_error *error);

/* The whole of it, in the calling thread. 0 or a code; `error` may be NULL. */
int lk__acquire_run(struct lk__entry *entry, struct lk__thread *thread, const struct lk__want *want,
		    lk_error *error);

/* A hold that is ready for what is wanted; NULL when out of memory. */
struct lk__hold *lk__acquire_hold(struct lk__thread *thread, const struct lk__recipe *recipe,
				  const struct lk__want *want);

/* With the entry's mutex held: 1, the owner holds it, counted without a command; 0, it does not;
 * or a code. */
int lk__acquire_reenter(struct lk__entry *entry, const struct lk__want *want, lk_error *error);

/* ---- turns ---- */

/*
 * An entry's place in the order in which those who wait for a lock have their turn
 * (sync/turns.lua). A try puts it there, a grant takes it out. A waiter that gives up says so, and
 * its turn, if it has come, is the next one's.
 */

/* How long a place is kept, at most, though its client does not look again before. */
#define LK__TURN_MOST_MS 3600000

/* For a new channel: the id in the order of turns, nobody else's; NULL: the kind has none. Each of
 * these needs the entry's mutex. */
const char *lk__turn_begin(struct lk__entry *entry);

/* For a try: the id; NULL: it would not hear that it has its turn. */
const char *lk__turn_take(struct lk__entry *entry);

/* For a try of a head that has waited since then: since when the place is its client's, in server
 * time. It is kept from one head to the next until there is a grant, and is never told later than
 * it was, though the server's clock is known better by now: others have been told to stand behind
 * it, and two that stand behind each other would both wait for a lock that is free. */
int64_t lk__turn_since_us(struct lk__entry *entry, int64_t begun_ns);

/* The lock is granted, and the place with it. */
void lk__turn_is_over(struct lk__entry *entry);

/* Nobody waits any more: the place is given up behind the last try, without waiting for that. */
void lk__turn_leave(struct lk__entry *entry);

#endif
