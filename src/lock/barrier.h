/* SPDX-License-Identifier: MIT */
/*
 * A party of a barrier, and its calls.
 *
 *   await   acquire ──▶ let through: what it holds is dropped, and its record told to go
 *   enter   acquire ──▶ inside: the watchdog renews it
 *   leave   release ──▶ acquire, until the others of the generation have left
 *
 * A wait has one number for all its tries. One that ends in another way than by being let through
 * gives the place up, and asks in the same step whether it was counted before: what its caller is
 * told is true. A party and each of its calls have a reference of it.
 */
#ifndef LK__LOCK_BARRIER_H
#define LK__LOCK_BARRIER_H

#include <lockkeeper/barrier.h>

#include "lock/acquire.h"
#include "lock/release.h"

#define LK__PARTY_SIZE 32 /* the name under which it is an owner, with its NUL */

struct lk_barrier {
	struct lk__entry *entry;
	int64_t parties;
	char owner[LK__PARTY_SIZE];
	uint64_t tag;
	int64_t margin_ms;
	_Atomic unsigned refs;
	_Atomic bool busy;       /* a call of it is under way, which alone uses the rest */
	uint64_t generation;     /* that it is inside, or is leaving; 0 */
	uint64_t number;         /* under which it has entered, */
	int64_t copies_until_ns; /* and until when a copy of that may run; 0 */
};

enum lk__meeting_way { LK__MEETING_AWAIT, LK__MEETING_ENTER, LK__MEETING_LEAVE };

enum lk__meeting_step {
	LK__MEETING_BEGINS,
	LK__MEETING_GIVES_UP,
	LK__MEETING_WAITS,
	LK__MEETING_SETTLES
};

struct lk__meeting {
	struct lk__op op;
	lk_barrier *barrier;
	enum lk__meeting_way way;
	enum lk__meeting_step at;
	struct lk__want want;
	struct lk__grant grant;
	uint64_t number; /* of the wait */
	int64_t until_ns;
	uint64_t generation; /* what it ended with */
	int code;            /* while it settles: why it was not let through */
	lk_error *error;
	union {
		struct lk__acquire acquire;
		struct lk__releasing releasing;
	};
};

static inline struct lk__owner lk__barrier_owner(const lk_barrier *barrier)
{
	return (struct lk__owner){.name = barrier->owner, .name_size = strlen(barrier->owner)};
}

/* Begins a call of a party that is marked busy, and has a reference for it; both end, behind it,
 * with lk__barrier_give_back(). `wait_ms` as in the public calls; of `cancel` and `stop` one is
 * NULL at least. `error` is kept. */
void lk__meeting_init(struct lk__meeting *meeting, lk_barrier *barrier, enum lk__meeting_way way,
		      struct lk__thread *thread, int64_t wait_ms, lk_cancel *cancel,
		      const _Atomic bool *stop, lk_error *error);

void lk__barrier_give_back(lk_barrier *barrier);

/* One that is inside is not any more; its release is sent, and not waited for, if `release`. */
void lk__barrier_drop(lk_barrier *barrier, bool release);

void lk__barrier_unref(lk_barrier *barrier);

#endif
