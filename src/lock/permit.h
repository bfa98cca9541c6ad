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

/* With room for so many; NULL when out of memory. NULL can be freed. */
struct lk__permits_taken *lk__permits_taken_new(size_t room);
void lk__permits_taken_free(struct lk__permits_taken *taken);

/* The permits of a grant become holds as `want` says, except for its owner; or they are given back,
 * with a code. Writes their ids and their entries; either may be NULL. */
int lk__permits_hold(struct lk__entry *queue, struct lk__thread *thread,
		     const struct lk__want *want, const struct lk__grant *grant,
		     lk_permit *permits_out, struct lk__permits_taken *taken, const char *operation,
		     lk_error *error);

/* Until when all of them are held; 0 when one is lost, or was given up. */
int64_t lk__permits_deadline_ns(const struct lk__permits_taken *taken);

/* Whatever is left of the permit goes back, with a release that nobody waits for. */
void lk__permit_give_up(struct lk__entry *entry);

/* A change of the lease of a permit, in parts. */
struct lk__permit_lease {
	const struct lk__entry *queue;
	const char *operation; /* a constant */
	char id[LK_PERMIT_ID_SIZE];
	int64_t lease_ms;
	struct lk__entry *entry; /* of the permit, with a reference; NULL: another's */
	int64_t begun_ns;
	bool was_watched; /* what a hold of ours was before */
	int64_t was_own_until_ns;
};

/* The server may let the permit end with the new lease from now on: so do we. The first four are
 * set, the rest is zero. Each begin of 0 has its end. */
int lk__permit_lease_begin(struct lk__permit_lease *lease, lk_error *error);
/* The change has ended with `rc` and, if that is 0, with this answer. Returns what its caller is
 * told. */
int lk__permit_lease_end(struct lk__permit_lease *lease, int rc, int64_t answer, lk_error *error);

#endif
