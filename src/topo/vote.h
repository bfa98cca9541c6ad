/* SPDX-License-Identifier: MIT */
/*
 * The word of most of a scout's peers.
 *
 * It is believed as soon as more than half of all known peers say it. When not all answer, more
 * than half of those that do are enough: a client that sees a minority alone believes it, as it
 * could not work at all otherwise. One peer counts once, under however many addresses it was listed
 * or learned: its id tells.
 */
#ifndef LK__TOPO_VOTE_H
#define LK__TOPO_VOTE_H

#include "topo/scout.h"

struct lk__vote {
	const char *common; /* what most say in this round; "": none says anything */
	size_t most;        /* how many that are, */
	size_t votes;       /* of those who say something, */
	size_t known;       /* and of all */
};

struct lk__vote lk__vote_of(const struct lk__scout *scout);

/* How many say that in this round. */
size_t lk__vote_count(const struct lk__scout *scout, const char *saying);

/* Tells whether it is believed; `over`: nobody else will answer. */
bool lk__vote_decides(const struct lk__vote *vote, bool over);

#endif
