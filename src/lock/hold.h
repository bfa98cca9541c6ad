/* SPDX-License-Identifier: MIT */
/*
 * A hold, from its grant to its end: its changes, with what follows from them beyond the entry
 * (notices, compensation), and the watchdog, which renews leases in time, warns before the end, and
 * ends what is over, by the local clock. All with the entry's mutex held, unless it says otherwise.
 *
 * One heap of deadlines, one timer. A release does not touch the heap: an entry that comes up
 * with nothing held is passed over, so a lock taken and released costs no timer.
 */
#ifndef LK__LOCK_HOLD_H
#define LK__LOCK_HOLD_H

#include "lock/entry.h"

/* Without the mutex, too, where it was never granted. */
void lk__hold_free(struct lk__hold *hold);

struct lk__owner lk__hold_owner(const struct lk__hold *hold);
bool lk__owner_is(const struct lk__hold *hold, const struct lk__owner *owner);

/* The hold of an owner, current or lost; NULL when it has none. */
struct lk__hold *lk__entry_hold_of(struct lk__entry *entry, const struct lk__owner *owner);

/* The hold is over without a release: told, and kept until its owner has released it. */
void lk__entry_lose(struct lk__entry *entry, int64_t now_ns);

/* Ends the current hold: counted, out of the entry, freed. */
void lk__entry_drop_hold(struct lk__entry *entry, int64_t now_ns);

/* A wire grant for `number`, sent at `sent_ns`, goes to the waiter, who leaves the queue. */
void lk__entry_grant(struct lk__entry *entry, struct lk__caller *waiter, uint64_t number,
		     int64_t sent_ns, int64_t lease_ms);

/* Gives a hold of this entry, which has none, what the server granted in another entry's queue. */
void lk__entry_move_grant(struct lk__entry *entry, struct lk__hold *hold,
			  const struct lk__grant *grant);

/* The grant as it stands goes to the waiter, who leaves the queue. */
void lk__entry_hand(struct lk__entry *entry, struct lk__caller *waiter, int64_t now_ns);

/* A hold that ended, or whose client was closed, before its owner could know of it does not count:
 * the waiter goes back to the front of the wait queue. */
void lk__entry_undo_grant(struct lk__entry *entry, struct lk__caller *waiter);

/* Sends the release of a number that nobody waits for. */
void lk__entry_release_in_background(struct lk__entry *entry, uint64_t number);

/* The server has the number for another lease. Where it was taken for lost meanwhile, it goes back:
 * else nobody had the lock, and everybody waited for it. */
void lk__entry_release_unheld(struct lk__entry *entry, uint64_t number);

/* ---- what keeps it alive ---- */

/* Notes when the entry's hold next needs attention. */
void lk__watch_hold(struct lk__entry *entry, int64_t now_ns);

/* When its key is to be looked at (lock/told.h); LK__NEVER. */
int64_t lk__tracked_due_ns(const struct lk__entry *entry);

/* The loop's turn, without a mutex: everything that is due. `verify`: every grant is, since a
 * connection was lost or made. Returns when the next is; LK__NEVER for none. */
int64_t lk__watch_turn(lk_client *client, bool verify);

/* A renewal on its way; it has a reference of the entry. */
struct lk__sent_renewal {
	struct lk__entry *entry;
	uint64_t number;
	struct lk__node *node; /* that is asked, */
	uint64_t epoch;        /* and its epoch before that */
	int64_t lease_ms;
	int64_t wanted_until_ns; /* what a re-entry had asked for by then; 0: nothing */
	char field[LK__FIELD_SIZE];
};

/* Its answer: 1 renewed, 0 not ours any more, -1 none: the old deadline stands, and `trouble` says
 * why. */
void lk__renewal_answered(const struct lk__sent_renewal *renewal, int answer, int64_t sent_ns,
			  const struct lk__trouble *trouble);

/* Reads why a request to the node, which is done, was no renewal. Without one: what stands in the
 * way of the node's background work. With or without a mutex. */
struct lk__request;
void lk__trouble_read(struct lk__trouble *trouble, struct lk__node *node,
		      const struct lk__request *request);

/* ---- an acquire and the holds that there are ---- */

/* The arguments of an acquire. */
struct lk__want {
	struct lk__owner owner;
	int64_t lease_ms, max_hold_ms, margin_ms;
	int64_t wait_ms; /* -1: no limit; 0: once, */
	int64_t once_ms; /* which may take so long; 0: the connect and the command limit */
	int64_t count;   /* permits */
	uint64_t number; /* of all its tries; 0: those that the attempt gives them */
	struct lk__settings settings;
	uint64_t tag;
	bool no_loss;     /* its end is meant: see struct lk__hold_extra */
	bool renews;      /* a named lease, too, is renewed */
	bool hears;       /* of requests to give the lock up */
	const char *note; /* why it is held; NULL: nothing is said */
	const char
		*adopts; /* the wire field that it takes over (lock/adopt.h); NULL: it acquires */
	lk_cancel *cancel;
	const _Atomic bool *stop;    /* set to cancel an asynchronous call; else NULL */
	struct lk__grant *grant_out; /* NULL, or where what the server granted is written, also for
				      * a re-entry */
};

/* A hold that is ready for what is wanted; NULL when out of memory. */
struct lk__hold *lk__hold_wanted(struct lk__thread *thread, const struct lk__recipe *recipe,
				 const struct lk__want *want);

/* With the entry's mutex held: 1, the owner holds it, counted without a command; 0, it does not;
 * or a code. */
int lk__hold_reenter(struct lk__entry *entry, const struct lk__want *want, lk_error *error);

#endif
