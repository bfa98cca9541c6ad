/*
 * Looking at locks from outside: which there are, of which kind, who holds them, for how long, and
 * who waits.
 *
 * What is read here is a picture of a moment and never a reason to believe that one holds a lock.
 *
 * A KIND IS KNOWN BY ITS DATA (each header draws it); what shares its data cannot be told apart:
 *
 *   "lock"                a reentrant lock, a spin lock, a part of a multi lock, or a fair lock
 *                         that nobody waits for
 *   "fair lock"           one with a queue
 *   "fenced lock"         a lock with a fence token beside it
 *   "read/write lock"
 *   "plain lock"          a string that looks like a token (ours, redis-py's, redsync's or
 *                         node-redlock's); for lk_scan_show() any string with a time to live
 *   "permit semaphore"    a counter with permits in use beside it
 *   "semaphore", "latch"  a counter for whose channel somebody listens
 *   "semaphore or latch"  any other key that is a whole number; it may also be a permit semaphore
 *                         none of whose permits is in use, or a number that is no lock at all
 *   "none"                there is nothing of that name (lk_scan_show() alone)
 */
#ifndef LOCKKEEPER_INSPECT_H
#define LOCKKEEPER_INSPECT_H

#include <stddef.h>
#include <stdint.h>

#include <lockkeeper/client.h>
#include <lockkeeper/error.h>

#define LK_INSPECT_MAX 1000 /* of holders and waiters about so many are read */

typedef struct lk_scan lk_scan;

enum lk_holder_role {
	LK_HOLDER_OWNER = 0,  /* of the whole lock */
	LK_HOLDER_READER = 1, /* of a read/write lock */
	LK_HOLDER_WRITER = 2,
	LK_HOLDER_PERMIT = 3, /* one permit of a permit semaphore */
};

typedef struct lk_holder {
	const char *field; /* the owner's wire field, the token, or the permit's id; with a NUL */
	size_t field_size;
	int64_t hold_count;
	int64_t ttl_ms; /* what this holder has left; -1: it has no end */
	int role;       /* LK_HOLDER_… */
} lk_holder;

typedef struct lk_waiter {
	const char *field; /* the wire field, with a NUL after its bytes */
	size_t field_size;
} lk_waiter;

typedef struct lk_lock_info {
	const char *type; /* see above */
	const char *name; /* with a NUL after its bytes; without the configured prefix */
	size_t name_size;
	int64_t ttl_ms;      /* -1: it has none */
	size_t holder_count; /* 0: not locked */
	const lk_holder *holders;
	size_t waiter_count; /* of a fair lock, the next one first; writers that are preferred */
	const lk_waiter *waiters;
	int64_t waiting_clients; /* subscribers of the lock's channel, a hint */
	int is_counter;          /* 1: a semaphore or a latch, and `count` is told */
	int64_t count;           /* free permits, or what is left of a latch's count */
	uint64_t fence;          /* the newest token of a fenced lock; else 0 */
} lk_lock_info;

LK_BEGIN_DECLS

/*
 * Begins to walk over the locks whose name matches a glob pattern (NULL: all), by SCAN, never
 * KEYS; keys that are no locks are passed over, as are those that stand beside a lock. The pattern
 * is copied. No I/O. To be freed with lk_scan_free(), before the client or after. Errors:
 * LK_ENOMEM, LK_EINVAL, LK_ECLOSED, LK_EFORKED. Since 0.1.
 */
LK_API int lk_scan_new(lk_scan **scan_out, lk_client *client, const char *pattern, lk_error *error);

/*
 * Writes the next lock and returns 1, or returns 0 at the end. A lock may come twice when the
 * key space changes meanwhile (SCAN's promise). What `info_out` points to lives until the next call
 * on `scan`. Blocks for round trips: one for about 200 keys of the database, one or two for each
 * that may be a lock, each at most for the command limit. One thread at a time. Errors:
 * LK_EINVAL and those of lk_client_ping(); it may then be called again, and goes on behind the key
 * at which it failed. Since 0.1.
 */
LK_API int lk_scan_next(lk_scan *scan, lk_lock_info *info_out, lk_error *error);

/*
 * Writes the state of one lock (holder_count 0 when it is free) and returns 0. What `info_out`
 * points to lives until the next call on `scan`; a walk that is under way goes on afterwards.
 * Blocks for two or three round trips, each at most for the command limit. One thread at a time.
 * Errors: LK_EWRONGTYPE when the key is no lock, LK_EINVAL and those of lk_client_ping().
 * Since 0.1.
 */
LK_API int lk_scan_show(lk_scan *scan, const void *name, size_t name_size, lk_lock_info *info_out,
			lk_error *error);

/* Ends the walk and frees what it has told of; NULL is fine. Returns NULL. Since 0.1. */
LK_API lk_scan *lk_scan_free(lk_scan *scan);

LK_END_DECLS

#endif
