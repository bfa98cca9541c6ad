/* SPDX-License-Identifier: MIT */
/*
 * The semaphore: a number of permits that anyone may acquire and release. Redisson's RSemaphore, on
 * the same keys.
 *
 * In Redis, for the semaphore "pool":
 *
 *   pool                            string, the free permits       PX: A TIME TO LIVE
 *   redisson_sc:{pool}              channel, message: the free permits after a change
 *   lockkeeper_sc:{pool}:<field>    string, the result of one of our requests    PX a minute;
 *                                   of an acquire: one hour
 *
 * NOBODY OWNS A PERMIT. Anyone may release a permit, even one that another caller acquired. The
 * permits of a process that dies are gone until somebody adds them again. The permits of
 * <lockkeeper/permit_semaphore.h> have leases, and come back by themselves.
 *
 * COUNTED ONCE. A request that is sent again after a lost connection finds its own record, and
 * counts once. Without an answer within the command limit the call fails with LK_EMAYBEHELD. An
 * acquire is then undone in the background; any other change may have been made. The record of an
 * acquire lasts one hour on the server: after a longer outage the acquire is never undone. Each
 * acquire deletes the record of the one before it (about 200 bytes), so there is one for each
 * client and semaphore. The last one stays for its hour when the handle is freed: keep a handle
 * rather than make one for each acquire. The record of an acquire that was sent again stays for its
 * hour too: a copy may still be on its way. Of other changes there is one record for each thread
 * that uses the handle at once.
 *
 * A KEY that is not a whole number is refused (LK_EWRONGTYPE), however large it is. The key of a
 * latch or a permit semaphore looks like a semaphore's: the call would change it.
 *
 * A LOST NUMBER. FLUSHALL, a restart without data, an eviction or a time to live takes the number
 * of permits away, and a program that sets it once, at its start, would wait for ever. The option
 * `permits` of a handle says it for good: an acquire that finds no semaphore sets it, in the same
 * script, and so does a release; what was acquired before does not count any more. A waiter gets in
 * within a second. lk_semaphore_add() starts from it too. Other calls see what is there. Give the
 * same number everywhere: the first one is used. Holders from before may still be at work, beside
 * as many new ones, and what they release counts again: let `permits` be a number that can be
 * exceeded for a while, or use the permit semaphore, whose lost permits nobody can release.
 *
 * A TIME TO LIVE. Without one a semaphore stays for ever. The option `ttl_ms` of a handle gives one
 * to a semaphore that is made through it: by lk_semaphore_try_set(), lk_semaphore_release(),
 * lk_semaphore_add(), or an acquire with the option `permits`. A semaphore that has a time to live
 * lasts `ttl_ms` at least after each of these calls, and after lk_semaphore_drain(); an acquire
 * counts when it is granted. Nothing shortens it. A semaphore that has none keeps none: its maker
 * wanted it so. Through a handle without `ttl_ms`, all calls keep the time to live as it is; Java's
 * addPermits() and drainPermits() take it away.
 *
 * FAIRNESS. Callers of one client form one queue, first come, first served. The first waits until
 * all permits that it asked for are free. Processes are served in no particular order. A waiter
 * looks again at each message, and every second without one.
 */
#ifndef LOCKKEEPER_SEMAPHORE_H
#define LOCKKEEPER_SEMAPHORE_H

#include <stddef.h>
#include <stdint.h>

#include <lockkeeper/cancel.h>
#include <lockkeeper/client.h>
#include <lockkeeper/error.h>

#define LK_PERMITS_MAX INT64_C(2147483647) /* the greatest number: Java's int */

typedef struct lk_semaphore lk_semaphore;

typedef struct lk_semaphore_options {
	size_t struct_size;
	int64_t permits; /* set where the semaphore is missing: A LOST NUMBER; 0: nothing is */
	int64_t ttl_ms;  /* at most LK_LEASE_MAX_MS: A TIME TO LIVE; 0: none is given */
} lk_semaphore_options;

#define LK_SEMAPHORE_OPTIONS_INIT                                                                  \
	{                                                                                          \
		sizeof(lk_semaphore_options), 0, 0                                                 \
	}

typedef struct lk_semaphore_release_options {
	size_t struct_size;
	int if_exists; /* 1: releases only what exists */
} lk_semaphore_release_options;

#define LK_SEMAPHORE_RELEASE_OPTIONS_INIT                                                          \
	{                                                                                          \
		sizeof(lk_semaphore_release_options), 0                                            \
	}

LK_BEGIN_DECLS

/*
 * Makes a handle for a name, as lk_lock_new() does; `options` may be NULL. Names whose keys would
 * be in different slots of a cluster are refused ("a}b"). Does no I/O. Free it with
 * lk_semaphore_free(). Errors: LK_EINVAL (also `permits` beyond 0 … LK_PERMITS_MAX, `ttl_ms` beyond
 * 0 … LK_LEASE_MAX_MS), LK_ENOMEM, LK_ECLOSED, LK_EFORKED. Since 0.2.
 */
LK_API int lk_semaphore_new(lk_semaphore **semaphore_out, lk_client *client, const void *name,
			    size_t name_size, const lk_semaphore_options *options, lk_error *error);

/* Frees a handle. NULL is fine. Returns NULL. Since 0.2. */
LK_API lk_semaphore *lk_semaphore_free(lk_semaphore *semaphore);

/*
 * Sets the number of permits if there is no such semaphore yet (RSemaphore.trySetPermits): 0 …
 * LK_PERMITS_MAX. It lasts `ttl_ms` (at most LK_LEASE_MAX_MS) or, with 0, as the handle says (A
 * TIME TO LIVE). Returns 1 when it set the number, 0 when the semaphore exists. Blocks for one
 * round trip, at most for the command limit. Errors: LK_EINVAL, LK_EWRONGTYPE, LK_EMAYBEHELD (no
 * answer: it may have been set) and those of lk_client_ping(). Since 0.2.
 */
LK_API int lk_semaphore_try_set(lk_semaphore *semaphore, int64_t permits, int64_t ttl_ms,
				lk_error *error);

/*
 * Acquires `permits` (1 … LK_PERMITS_MAX), all or none, and waits at most `wait_ms` for them
 * (RSemaphore.tryAcquire(permits, wait)): -1 waits without limit (RSemaphore.acquire), 0 tries
 * once, and fails with LK_EBUSY also when others of this client wait. The semaphore need not exist
 * yet. Blocks, and treats trouble that may pass, as lk_lock_acquire(). `cancel` may be NULL. Errors
 * as there, but never LK_ELOST; LK_ETIMEDOUT and LK_EBUSY when too few are free. Since 0.2.
 */
LK_API int lk_semaphore_acquire(lk_semaphore *semaphore, int64_t permits, int64_t wait_ms,
				lk_cancel *cancel, lk_error *error);

/*
 * Releases `permits` (1 … LK_PERMITS_MAX), and makes the semaphore if there is none
 * (RSemaphore.release). If more than LK_PERMITS_MAX would be free, the call fails with LK_EINVAL
 * and changes nothing. `options` may be NULL. With `if_exists` it releases only if the semaphore
 * exists: returns 1, or 0 when it does not (RSemaphore.releaseIfExists). Blocks for one round trip,
 * at most for the command limit. Errors: LK_EINVAL, LK_EWRONGTYPE, LK_EMAYBEHELD (no answer: they
 * may have been released) and those of lk_client_ping(). Since 0.2.
 */
LK_API int lk_semaphore_release(lk_semaphore *semaphore, int64_t permits,
				const lk_semaphore_release_options *options, lk_error *error);

/*
 * Adds `change` to the number of permits (RSemaphore.addPermits, but the time to live stays). It
 * must not be 0; a negative `change` takes permits away, and may leave fewer than none free. Blocks
 * for one round trip, at most for the command limit. Errors: LK_EINVAL (also when the number would
 * leave an int's range), LK_EWRONGTYPE, LK_EMAYBEHELD (no answer: it may have been changed) and
 * those of lk_client_ping(). Since 0.2.
 */
LK_API int lk_semaphore_add(lk_semaphore *semaphore, int64_t change, lk_error *error);

/*
 * Acquires all free permits and writes how many there were (RSemaphore.drainPermits, but the time
 * to live stays). Writes a negative number as it was, and sets it to 0. Blocks for one round trip,
 * at most for the command limit. Errors: LK_EINVAL, LK_EWRONGTYPE, LK_EMAYBEHELD (no answer: they
 * may have been acquired) and those of lk_client_ping(). Since 0.2.
 */
LK_API int lk_semaphore_drain(lk_semaphore *semaphore, int64_t *permits_out, lk_error *error);

/*
 * Writes how many permits are free (RSemaphore.availablePermits): 0 without a semaphore, perhaps a
 * negative number. Blocks for one round trip, at most for the command limit. Errors: LK_EINVAL,
 * LK_EWRONGTYPE and those of lk_client_ping(). Since 0.2.
 */
LK_API int lk_semaphore_available(lk_semaphore *semaphore, int64_t *permits_out, lk_error *error);

/*
 * Deletes the semaphore: returns 1, or 0 when there was none (RSemaphore.delete). DEL deletes the
 * key, whatever its type. Waiters are not told. Blocks for one round trip, at most for the command
 * limit. Errors: LK_EINVAL, LK_EMAYBEHELD (no answer: it may be gone), LK_ENOTDURABLE (it is gone,
 * and a failover may undo that) and those of lk_client_ping(). Since 0.2.
 */
LK_API int lk_semaphore_delete(lk_semaphore *semaphore, lk_error *error);

LK_END_DECLS

#endif
