/* SPDX-License-Identifier: MIT */
/*
 * How a lock passes along the wait queue of one client: in terms. Pure decisions; the queue itself
 * is in the lock's entry.
 *
 * One wire grant may serve many threads of a client, each handed the lock in memory (lock
 * cohorting: Dice, Marathe, Shavit 2012). A term ends after some ms or hand-overs; then the lock is
 * released on the wire, and if others listen the client holds off until it hears one of them
 * release, or a few ms have passed: without that, our next try would always come first.
 */
#ifndef LK__SYNC_TERM_H
#define LK__SYNC_TERM_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define LK__TERM_HANDOVERS_MAX 1000

/* Aligned so that it takes no more than its members. */
struct lk__term {
	union {
		int64_t begun_ns;          /* while the lock is held */
		int64_t hold_off_until_ns; /* else: others come first until then */
	};
	unsigned handovers;
} __attribute__((packed, aligned(4)));

/* The state of a grant at the moment of a release. */
struct lk__passing {
	int64_t now_ns;
	int64_t term_ns; /* the length of a term */
	int64_t valid_until_ns;
	int64_t lease_ms;
	bool waiting;      /* somebody waits */
	bool doubt;        /* a connection was lost or a message heard, not yet verified */
	bool needs_server; /* the next waiter has named a lease of its own */
};

enum lk__pass { LK__PASS_MEMORY, LK__PASS_EXCHANGE, LK__PASS_WIRE };

/* A wire grant begins a term. */
static inline void lk__term_begin(struct lk__term *term, int64_t now_ns)
{
	term->begun_ns = now_ns;
	term->handovers = 0;
}

/* How the lock is passed on; counts the hand-over. */
static inline enum lk__pass lk__term_pass(struct lk__term *term, const struct lk__passing *passing)
{
	/* Not to the last moment: the hold that is begun now belongs to the term as well. */
	bool over = passing->now_ns - term->begun_ns >= passing->term_ns / 10 * 9 ||
		    term->handovers >= LK__TERM_HANDOVERS_MAX;
	int64_t third_ns = passing->lease_ms * LK__MS / 3;
	bool short_lease = passing->valid_until_ns - passing->now_ns < third_ns;
	assert(term->handovers <= LK__TERM_HANDOVERS_MAX);
	if (!passing->waiting || passing->doubt || over)
		return LK__PASS_WIRE;
	if (passing->needs_server) {
		term->handovers++;
		return LK__PASS_EXCHANGE;
	}
	if (short_lease)
		return LK__PASS_WIRE;
	term->handovers++;
	return LK__PASS_MEMORY;
}

/* The end of the hold-off after a release on the wire that `others` heard; 0 for none. */
static inline int64_t lk__term_hold_off(int64_t hold_off_ns, int64_t now_ns, int64_t others)
{
	return others > 0 && hold_off_ns > 0 ? now_ns + hold_off_ns : 0;
}

#endif
