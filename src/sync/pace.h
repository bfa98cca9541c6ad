/* SPDX-License-Identifier: MIT */
/*
 * How often a waiter looks again where other programs release without a word. Pure decisions.
 *
 * It looks soon at first, then half as often each time, down to once in `poll`. Who asks more often
 * than others gets a lock that is free only for a moment: so each time the lock has passed from one
 * of the others to the next, and the waiter has come too late, it looks twice as often from then
 * on, up to once in a sixteenth of `poll`, or 5 ms if that is longer. Where an answer does not say
 * who holds it, it looks once in `poll`.
 */
#ifndef LK__SYNC_PACE_H
#define LK__SYNC_PACE_H

#include <stddef.h>
#include <stdint.h>

struct lk__pace {
	uint64_t holder; /* the last one seen; 0: not known */
	unsigned looks;  /* at that one, in a row */
	unsigned missed; /* how often the lock has passed to another */
};

/* Which holder it is, by its token; never 0. */
uint64_t lk__pace_holder(const char *token, size_t size);

/* The holder was seen; 0: the answer does not say which it is. */
void lk__pace_see(struct lk__pace *pace, uint64_t holder);

/* Until the next look. */
int64_t lk__pace_ns(const struct lk__pace *pace, int64_t poll_ns);

#endif
