/* SPDX-License-Identifier: MIT */
/*
 * A candidate of an election.
 *
 *   idle ── stand ──▶ standing ── granted ──▶ leads ── resign, transfer ──▶ idle
 *                        │  ▲                                                │
 *                        │  └─ again, if its grant came too late             │
 *                        └── refused, withdrawn, its limit ──────────────────┘
 *
 * Standing is an asynchronous acquire, whose end the loop tells. A campaign waits for that; a join
 * leaves it to notices. Whether it leads, its hold says. An election and its acquire each have a
 * reference of it.
 */
#ifndef LK__LOCK_ELECTION_H
#define LK__LOCK_ELECTION_H

#include <lockkeeper/election.h>

#include "lock/async.h"
#include "lock/notice.h"
#include "sync/recipes.h"

#define LK__CANDIDATE_SIZE 40 /* the name under which it is an owner, with its NUL */

/* A call that waits until the election does not stand any more: its campaign, or a resign. */
struct lk__awaiting {
	struct lk__thread *thread;
	bool over;
	struct lk__awaiting *prev, *next;
};

struct lk_election {
	struct lk__stand stand;
	struct lk__teller teller;
	lk_client *client;
	struct lk__entry *entry;
	char owner[LK__CANDIDATE_SIZE];
	int64_t margin_ms;
	uint64_t tag;
	int on_drain;
	_Atomic unsigned refs;

	pthread_mutex_t mutex;   /* also around the starts of its acquires */
	struct lk__async *async; /* the acquire in flight; NULL: it does not stand */
	int64_t stood_ns;        /* when that began */
	bool joins;              /* it stands again where that can help, and is told by notices */
	bool withdrawn;          /* it is not to stand any more */
	bool left;    /* nobody waits for the end of that: what it is granted goes back */
	bool rejoins; /* the same, and it is to join again behind it */
	struct lk__awaiting *awaiting; /* the calls that wait for its end */
	lk_error result;               /* of the last acquire */
	lk_leader seen;                /* by its observer, */
	bool has_seen;                 /* if there was a look */
};

static inline struct lk__owner lk__election_owner(const lk_election *election)
{
	return (struct lk__owner){.name = election->owner, .name_size = strlen(election->owner)};
}

void lk__election_unref(lk_election *election);

/* Begins to stand: 0 or a code. The election's mutex is held. */
int lk__election_stand(lk_election *election, int64_t wait_ms, bool joins, lk_error *error);

/* Waits in the calling thread until it does not stand any more: true; or until that time, or the
 * token is set. */
bool lk__election_await(lk_election *election, struct lk__thread *thread, int64_t until_ns,
			lk_cancel *cancel);

/* It does not want to stand any more: the acquire ends soon. */
void lk__election_withdraw(lk_election *election);

/* The same, and its caller does not wait for that end: it has left (true), unless it was there. */
bool lk__election_leave(lk_election *election);

/* It has left, and its last try has no answer yet. With its mutex held. */
bool lk__election_has_left(const lk_election *election);

/* Waits for that answer, within the limit, of which the rest is left. */
int lk__election_await_left(lk_election *election, struct lk__thread *thread, int64_t *wait_ms,
			    lk_cancel *cancel, lk_error *error);

/* The server has said that it does not lead any more with that term: it is told so at once. */
void lk__election_lose(const lk_election *election, uint64_t term);

/* Ends its hold in memory, and the server's without waiting for it if `release` is set. */
void lk__election_drop(lk_election *election, bool release);

#endif
