/* SPDX-License-Identifier: MIT */
/*
 * Giving up a hold: to the next waiter in memory, by one exchange on the wire, or by a release.
 */
#ifndef LK__LOCK_RELEASE_H
#define LK__LOCK_RELEASE_H

#include "lock/operation.h"

/* One on its way: what is noted when it is sent. */
struct lk__release {
	struct lk__entry *entry;
	uint64_t number;
	int64_t valid_until_ns; /* of the grant that is given up */
	int64_t repeated_until_ns;
	int64_t keep_ms; /* it keeps the lock from others for so long; 0: it frees it */
	int64_t begun_ns;
	bool echo;    /* our own message is expected on our own subscription */
	bool lingers; /* the server may still count a subscription that we have given up */
	bool passes;  /* it has set entry->passing: its end clears it, and no other's */
	lk_error *error;
};

struct lk__releasing;

/* A release and the acquire of the next waiter in one. */
struct lk__exchange {
	struct lk__releasing *giver;
	struct lk__request *fallback; /* the release alone */
	struct lk__caller *waiter;
	uint64_t number; /* the taker's */
	int64_t lease_ms;
	int64_t deadline_ns;
};

/* Makes the request that hands the lock from the field `from` to the owner with that number. It is
 * safe to send again. NULL without memory. */
struct lk__request *lk__exchange_request(const struct lk__entry *entry, const char *from,
					 uint64_t number, int64_t lease_ms, unsigned flags);

/* The call: a count off, and the last one frees the lock. */
struct lk__releasing {
	struct lk__op op;
	struct lk__entry *entry;
	struct lk__owner owner;
	int64_t keep_ms;
	int64_t until_ns; /* no longer waited for; LK__NEVER: until the end of the lease */
	bool no_wait;     /* for the answer */
	/* At what it waits for, with the entry's mutex held: its end, or LK__OP_WAITS. NULL: it has
	 * not begun. */
	int (*look)(struct lk__releasing *releasing);
	struct lk__release release;
	struct lk__exchange exchange;
	struct lk__nodes_call *call; /* where the lock is on several nodes */
	lk_error *error;
};

/* Begins one. `error` is kept; it is NULL in a calling thread alone. */
void lk__release_init(struct lk__releasing *releasing, struct lk__entry *entry,
		      struct lk__thread *thread, const struct lk__owner *owner, int64_t keep_ms,
		      bool no_wait, lk_error *error);

/* The whole of it, in the calling thread. 0 or a code. */
int lk__release_run(struct lk__entry *entry, struct lk__thread *thread,
		    const struct lk__owner *owner, int64_t keep_ms, bool no_wait, lk_error *error);

/* All below with the entry's mutex held. */

/* Takes one count off the owner's hold: 0, it has more; 1, that was the last one, and the hold is
 * to be dropped and the lock freed, or kept from others; or a code (a lost hold is gone with its
 * last count). */
int lk__release_count(struct lk__entry *entry, const struct lk__owner *owner, lk_error *error);

/* As that, and drops the hold with its last count. The server is told if it `sends`, and not waited
 * for. */
int lk__release_drop(struct lk__entry *entry, const struct lk__owner *owner, bool sends,
		     lk_error *error);

/* The request of it. NULL when out of memory. */
struct lk__request *lk__release_request(const struct lk__target *target, const char *field,
					int64_t keep_ms);

/* Tells whether a request of it that finds nothing to release says that the lock was lost; else an
 * earlier copy of it may have done it: `begun_ns`, not before that. */
bool lk__release_is_lost(const struct lk__request *request, int64_t keep_ms, int64_t begun_ns);

void lk__release_begin(struct lk__release *release, struct lk__entry *entry, int64_t keep_ms,
		       lk_error *error);

/* What became of it: 0 or a code. `request` is NULL when it was not answered in time, which is the
 * end of the lease, or of its client: LK_EMAYBEHELD. */
int lk__release_read(const struct lk__release *release, const struct lk__request *request,
		     enum lk__released released, int64_t listeners);

#endif
