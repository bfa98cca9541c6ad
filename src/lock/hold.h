/* SPDX-License-Identifier: MIT */
/*
 * The changes of an entry's hold, with what follows from them beyond the entry: notices,
 * compensation, the watchdog. All with the entry's mutex held, except lk__hold_free() for a hold
 * that was never granted.
 */
#ifndef LK__LOCK_HOLD_H
#define LK__LOCK_HOLD_H

#include "lock/entry.h"

void lk__hold_free(struct lk__hold *hold);

struct lk__owner lk__hold_owner(const struct lk__hold *hold);
bool lk__owner_is(const struct lk__hold *hold, const struct lk__owner *owner);

/* The hold of an owner, current or lost; NULL when it has none. */
struct lk__hold *lk__entry_hold_of(struct lk__entry *entry, const struct lk__owner *owner);

/* The hold is over without a release: told, and kept until its owner has released it. */
void lk__entry_lose(struct lk__entry *entry, int64_t now_ns);

/* A renewal for so long got no answer. It may have been done, or a copy of it may still run: then
 * the server has the lock for a lease longer than is known here. */
void lk__entry_note_unanswered(struct lk__entry *entry, int64_t lease_ms);

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
void lk__entry_release_unasked(struct lk__entry *entry, uint64_t number);

/* The server has the number for another lease. Where it was taken for lost meanwhile, it goes back:
 * else nobody had the lock, and everybody waited for it. */
void lk__entry_release_unheld(struct lk__entry *entry, uint64_t number);

/* ---- when it needs attention ---- */

/* When a hold needs the watchdog's attention. All with the entry's mutex held. */

/* Notes when the entry's hold next needs attention. */
void lk__watch_hold(struct lk__entry *entry, int64_t now_ns);

/* How long before the end of the hold its owner is warned. */
int64_t lk__hold_margin_ns(const struct lk__hold *hold);

/* Tells whether the watchdog renews it. */
bool lk__hold_is_renewed(const struct lk__hold *hold, int64_t now_ns);

/* When to ask the server next, for more time or whether it still has it. */
int64_t lk__question_due_ns(const struct lk__hold *hold, int64_t now_ns);

/* ---- why it is not renewed, or is over ---- */

/*
 * Why a hold is not renewed, or is over: noted with each renewal that did not come off, and told
 * with the notices of its end. The entry's mutex is held, unless it says otherwise.
 */

struct lk__request;

/* Reads why a request, which is done, was no renewal. Without a mutex. */
void lk__trouble_read(struct lk__trouble *trouble, const struct lk__request *request);

/* The connection for the node's background work is waited for, or an answer on it. Without a mutex,
 * or with an entry's. */
void lk__trouble_of_node(struct lk__trouble *trouble, struct lk__node *node);

/* A renewal of the hold did not come off; or one did. */
void lk__trouble_note(struct lk__hold *hold, const struct lk__trouble *trouble);
void lk__trouble_over(struct lk__hold *hold);

/* The current hold is about to end, or ends: what its notice says. */
void lk__trouble_explain(struct lk__entry *entry, int64_t now_ns, bool ends);

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

/*
 * Lost permits. Their owners have to learn of the loss, but often nobody asks for a permit again:
 * another process gives it back, or it ends with its lease. So a client remembers the last
 * LK__LOST_MAX losses, and none of the permits whose end is not a loss.
 */
#define LK__LOST_MAX 1000 /* as <lockkeeper/permit_semaphore.h> says */

#endif
