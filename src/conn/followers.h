/* SPDX-License-Identifier: MIT */
/*
 * Unreported replicas: a master has them connected, and neither sentinels nor nodes have told us
 * of them. Somebody may promote one of them before we hear of it. This decides which of them must
 * acknowledge a change, besides the replicas that are known.
 *
 * One must from its connect or its first acknowledgement on, until 5 s after its last one,
 * connected or not: a replica that is being promoted leaves its master. A connected replica that
 * acknowledges nothing during a whole WAIT hangs, or is loading: it need not, until it acknowledges
 * again. So each of those delays one WAIT at most. A replica that was known, and is not any more,
 * starts again as a new one: it is most likely down.
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
	int64_t alive_ns; /* of its last acknowledgement while it was unreported; 0: it need not */
	bool silent;      /* it has acknowledged nothing during a WAIT */
};

struct lk__followers {
	struct lk__follower each[LK__ACKS_MAX];
	int64_t crowded_ns; /* when there were more; 0: never */
};

/* What the ROLEs around a WAIT show of a replica that is connected after it. */
struct lk__sighting {
	const char *place;
	long long before, behind; /* the offsets; before is -1: it was not connected then */
	bool has;                 /* it has what is asked for */
	bool known;               /* it must have it anyway */
	bool returning;           /* the former master: it must from when it is first seen */
	bool over;                /* the WAIT took all its time */
};

/* Notes what was seen. True when one more WAIT must include it: it had no time to answer. */
bool lk__followers_see(struct lk__followers *followers, const struct lk__sighting *seen,
		       int64_t now_ns);

/* How many must acknowledge besides those that are known; LK__ACKS_MAX + 1: more than can. */
int lk__followers_due(const struct lk__followers *followers, int64_t now_ns);

#endif
