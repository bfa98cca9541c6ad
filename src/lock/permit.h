/* SPDX-License-Identifier: MIT */
/*
 * Permits as holds: what is granted in the wait queue of a permit semaphore moves to an entry for
 * each permit, under its id, and is renewed, reported and released there like any lock.
 */
#ifndef LK__LOCK_PERMIT_H
#define LK__LOCK_PERMIT_H

#include <lockkeeper/permit_semaphore.h>

#include "lock/acquire.h"

/* All without a mutex held. `queue` is the entry of the wait queue. */

/* The entry of a permit that this client knows, with a reference, or NULL for another's: 0 or
 * LK_ENOMEM. */
int lk__permit_entry(struct lk__entry **entry_out, const struct lk__entry *queue, const char *id);

/* The permits of one acquire that were granted and are not taken yet. */
struct lk__permits_taken {
	size_t count;              /* 0 before the grant */
	struct lk__entry *entry[]; /* of each permit, with a reference */
};

/* The permits of a grant become holds as `want` says, except for its owner; or they are given back,
 * with a code. Writes their ids and their entries; either may be NULL. */
int lk__permits_hold(struct lk__entry *queue, struct lk__thread *thread,
		     const struct lk__want *want, const struct lk__grant *grant,
		     lk_permit *permits_out, struct lk__permits_taken *taken, const char *operation,
		     lk_error *error);

/* Whatever is left of the permit goes back, with a release that nobody waits for. */
void lk__permit_give_up(struct lk__entry *entry);

/* The hold of a permit, if there is one, goes without a word to the server, to which that was said
 * at `begun_ns`, or later: a copy of its acquire may have run behind it. `compensate`: it may be
 * held there still. `entry` may be NULL. */
void lk__permit_drop(struct lk__entry *entry, bool compensate, int64_t begun_ns);

#endif
