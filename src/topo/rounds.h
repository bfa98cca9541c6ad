/* SPDX-License-Identifier: MIT */
/*
 * When a scout asks: a round begins about once a second, and earlier where somebody wants one.
 *
 * What happens to one client happens to many: each adds a random time of its own, so that they do
 * not ask at the same instant. No I/O; the scout's mutex guards it.
 */
#ifndef LK__TOPO_ROUNDS_H
#define LK__TOPO_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

/* Why a round is wanted. */
enum lk__want {
	LK__WANT_AWAITED,   /* a connector waits for its outcome */
	LK__WANT_SUSPECTED, /* a connection failed, or its server is not a master: one is missed */
	LK__WANT_HEARD,     /* a sentinel says that a master has changed: likewise */
	LK__WANT_NEWS,      /* a peer says another thing than before */
	LK__WANT_LATER,     /* nobody is missed, and nobody waits */
};

struct lk__rounds {
	uint64_t round;          /* the present one, from 1 */
	int64_t begun_ns;        /* when it began */
	int64_t watch_ns;        /* when the next one does that nobody wants */
	uint64_t wanted;         /* one as late as this is wanted, */
	int64_t wanted_ns;       /* to begin then */
	int64_t missed_until_ns; /* a master is missed: peers are asked between the rounds, */
	int64_t probe_ns;        /* but not before */
};

/* True: the next round begins earlier than it would have. */
bool lk__rounds_want(struct lk__rounds *rounds, enum lk__want why, int64_t now_ns);

/* When a round begins that is wanted; LK__NEVER: none is. */
int64_t lk__rounds_wanted_ns(const struct lk__rounds *rounds);

/* Tells whether what the present round made known will do for a caller that asks now: it is young,
 * nobody wants another, and no master is missed. */
bool lk__rounds_fresh(const struct lk__rounds *rounds, int64_t now_ns);

void lk__rounds_begin(struct lk__rounds *rounds, int64_t now_ns);

/* When a peer is to be asked between the rounds; LK__NEVER: no master is missed. */
int64_t lk__rounds_probe_ns(const struct lk__rounds *rounds, int64_t now_ns);
void lk__rounds_probed(struct lk__rounds *rounds, int64_t now_ns);

#endif
