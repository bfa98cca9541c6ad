/* SPDX-License-Identifier: MIT */
/*
 * Several reentrant locks, of one client or many, taken all or none.
 *
 * Every part keeps its own entry, hold, watchdog and notices; what is here takes and frees them
 * together. Parts of one client are taken by one script, the clients' scripts are sent at once.
 * Whoever finds a part busy gives everything back, waits for that part alone, as any other caller
 * would, and then tries the rest: nothing is held while it waits, so opposite orders cannot
 * deadlock.
 */
#ifndef LK__DRIVE_MANY_MULTI_H
#define LK__DRIVE_MANY_MULTI_H

#include "drive/lock/acquire.h"

#define LK__MULTI_MAX 64

struct lk__multi {
	size_t count;
	struct lk__entry *part[LK__MULTI_MAX]; /* by node and client, then name */
};

/* What an owner has of all of them. */
struct lk__multi_hold {
	int64_t deadline_ns; /* the soonest */
	unsigned count;      /* the least */
};

/* The locks of a call whose handle may be gone, with references, and what was granted of each. */
struct lk__multi_taken {
	struct lk__multi multi;
	uint64_t number[LK__MULTI_MAX];
};

/* NULL when out of memory; and its end, of NULL too. */
struct lk__multi_taken *lk__multi_taken_new(const struct lk__multi *multi);
void lk__multi_taken_free(struct lk__multi_taken *taken);

/* Puts the parts in order. LK_EINVAL when one lock is named twice. */
int lk__multi_sort(struct lk__multi *multi, lk_error *error);

/* Takes references of all parts and of their clients; gives them back. */
void lk__multi_keep(const struct lk__multi *multi);
void lk__multi_let_go(const struct lk__multi *multi);

/* Below, `owner` without a name stands for the calling thread. */

/* Starts the loops of all its clients. 0 or a code. */
int lk__multi_start_loops(const struct lk__multi *multi, lk_error *error);

/* The owner as each client knows it. */
struct lk__owner lk__multi_owner(const struct lk__thread *thread, const struct lk__owner *owner);

/* 0, LK_ELOST (a part was lost; `hold` is filled), LK_ENOTOWNER, LK_ENOMEM. A memory read. */
int lk__multi_hold_of(const struct lk__multi *multi, const struct lk__owner *owner,
		      struct lk__multi_hold *hold);

#endif
