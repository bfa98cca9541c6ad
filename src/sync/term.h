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

#include <stdbool.h>
#include <stdint.h>

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
void lk__term_begin(struct lk__term *term, int64_t now_ns);

/* How the lock is passed on; counts the hand-over. */
enum lk__pass lk__term_pass(struct lk__term *term, const struct lk__passing *passing);

/* The end of the hold-off after a release on the wire that `others` heard; 0 for none. */
int64_t lk__term_hold_off(int64_t hold_off_ns, int64_t now_ns, int64_t others);

#endif
