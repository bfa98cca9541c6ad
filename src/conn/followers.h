/* SPDX-License-Identifier: MIT */
/*
 * Replicas that a master has connected and that nobody has told of yet: who of them must have what
 * it has done. Somebody may promote them before sentinels or nodes have told us of them.
 *
 * One must as soon as it acknowledges anything, or connects, and for 5 s after it did so last,
 * connected or not: a replica that is being promoted leaves its master. One that is connected and
 * lets a whole WAIT pass without a word hangs, or is loading: it need not, until it speaks again.
 * So each of those delays one WAIT at most. What was known, and is not any more, begins anew: it is
 * most likely down.
 */
#ifndef LK__CONN_FOLLOWERS_H
#define LK__CONN_FOLLOWERS_H

#include <stdbool.h>
#include <stdint.h>

#include "conf/config.h"

#define LK__FOLLOWER_PLACE_SIZE 64
#define LK__FOLLOWER_MS 5000

struct lk__follower {
	char place[LK__FOLLOWER_PLACE_SIZE]; /* "": none */
	long long offset;                    /* which it had acknowledged when it was last seen */
	int64_t alive_ns; /* when it last spoke, while nobody knew it; 0: it need not */
	bool silent;      /* it let a WAIT pass */
};

struct lk__followers {
	struct lk__follower each[LK__ACKS_MAX];
	int64_t crowded_ns; /* when there were more; 0: never */
};

/* What the ROLEs around a WAIT show of one that is connected behind it. */
struct lk__sighting {
	const char *place;
	long long before, behind; /* the offsets; before is -1: it was not connected then */
	bool has;                 /* it has what is asked for */
	bool known;               /* it must have it anyway */
	bool returning;           /* the former master: it must from the first sight on */
	bool over;                /* the WAIT took all its time */
};

/* Takes note. Returns whether a WAIT must include it that has not: it had no time to answer. */
bool lk__followers_see(struct lk__followers *followers, const struct lk__sighting *seen,
		       int64_t now_ns);

/* How many must have it besides those that are known; LK__ACKS_MAX + 1: more than can. */
int lk__followers_due(const struct lk__followers *followers, int64_t now_ns);

#endif
