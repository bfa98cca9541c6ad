/* SPDX-License-Identifier: MIT */
/*
 * The permit semaphore: a number of permits, each with an id and a lease of its own, so that the
 * permits of a dead process come back by themselves. Redisson's RPermitExpirableSemaphore, on the
 * same keys.
 *
 * A lease is not a mutex. A holder that is paused past the deadline of its permit has lost the
 * permit, and nothing here can stop its next write: see <lockkeeper.h>.
 *
 * In Redis, for the semaphore "pool":
 *
 *   pool                            string, the free permits        PX: A TIME TO LIVE
 *   {pool}:timeout                  sorted set { permit id, 16 bytes → its end, ms since 1970 }
 *                                   PX: the same
 *   redisson_sc:{pool}              channel, message: the free permits after a change
 *   lockkeeper_sc:{pool}:<field>    string, the result of one of our requests    PX about a minute
 *
 * Ends are in the server's time. A Java permit without an end has 922337203685477. One script
 * changes free and used permits together.
 *
 * WHO HAS A PERMIT. A permit belongs to every caller that knows its id, 32 hexadecimal digits: any
 * thread, any process, Java. A permit that this client acquired is renewed by its watchdog, unless
 * the caller named a lease. Its notices are LK_EVENT_AT_RISK and LK_EVENT_LOST, with the id as the
 * event's `field`.
 *
 * LOST PERMITS (LK_ELOST). The client remembers each until it is released, but only the last 1,000
 * of a client. It forgets older ones and their events (LK_ENOTOWNER). The option `no_loss` of a
 * handle is for permits that are meant to end with their lease, or that another caller releases:
 * the end of one acquired through it makes no event, does not count as lost, and the client keeps
 * no record of it (LK_ENOTOWNER).
 *
 * A KEY that is not a whole number is refused (LK_EWRONGTYPE), however large it is. The key of a
 * semaphore or a latch looks like a permit semaphore's: the call would change it.
 *
 * A LOST NUMBER. FLUSHALL, a restart without data or an eviction takes the number of permits away,
 * and a program that sets it once, at its start, would wait for ever. The option `permits` of a
 * handle says it for good: an acquire that finds no semaphore sets it, in the same script, less the
 * permits that are still in use. A waiter gets in within a second. Other calls see what is there.
 * Give the same number everywhere: the first one is used. Permits that went with the data are lost
 * (LK_EVENT_LOST); their holders may be at work until they learn it.
 *
 * A TIME TO LIVE. Without one a semaphore stays for ever. The option `ttl_ms` of a handle gives one
 * to a semaphore that is made through it: by lk_permit_semaphore_try_set(),
 * lk_permit_semaphore_set(), lk_permit_semaphore_add(), or an acquire with the option `permits`. A
 * semaphore that has a time to live lasts `ttl_ms` at least after each of these calls; an acquire
 * counts when it is granted. It also lasts as long as a permit that is in use, also when that is
 * renewed or gets another lease. A semaphore that has none keeps none, and no call shortens one,
 * except that lk_permit_semaphore_set() gives it `ttl_ms` in any case: the caller that says how
 * many there are says how long. All other calls keep it as it is, and so does every call through a
 * handle without `ttl_ms`. Java's setPermits() and addPermits() take it away.
 *
 * FAIRNESS. Callers of one client form one queue, first come, first served. The first waits until
 * all permits that it asked for are free. Processes are served in no particular order. A waiter
 * looks again at each message, when the next permit ends, and every second.
 */
#ifndef LOCKKEEPER_PERMIT_SEMAPHORE_H
#define LOCKKEEPER_PERMIT_SEMAPHORE_H

#include <stddef.h>
#include <stdint.h>

#include <lockkeeper/client.h>
#include <lockkeeper/error.h>
#include <lockkeeper/lock.h>
#include <lockkeeper/semaphore.h>

#define LK_PERMIT_ID_SIZE 33        /* an id with its NUL */
#define LK_PERMITS_AT_ONCE_MAX 1000 /* the most permits in one acquire or release */

typedef struct lk_permit_semaphore lk_permit_semaphore;

typedef struct lk_permit_semaphore_options {
	size_t struct_size;
	int64_t permits; /* set where the semaphore is missing: A LOST NUMBER; 0: nothing is */
	int64_t ttl_ms;  /* at most LK_LEASE_MAX_MS: A TIME TO LIVE; 0: none is given */
	int no_loss;     /* 1: its permits are meant to end with their lease: LOST PERMITS */
} lk_permit_semaphore_options;

#define LK_PERMIT_SEMAPHORE_OPTIONS_INIT                                                           \
	{                                                                                          \
		sizeof(lk_permit_semaphore_options), 0, 0, 0                                       \
	}

typedef struct lk_permit {
	char id[LK_PERMIT_ID_SIZE];
} lk_permit;

LK_BEGIN_DECLS

/*
 * Makes a handle for a name, as lk_lock_new() does; `options` may be NULL. Names whose keys would
 * be in different slots of a cluster are refused ("a}b"). Does no I/O. Free it with
 * lk_permit_semaphore_free(). Errors: LK_EINVAL (also `permits` beyond 0 … LK_PERMITS_MAX, `ttl_ms`
 * beyond 0 … LK_LEASE_MAX_MS), LK_ENOMEM, LK_ECLOSED, LK_EFORKED. Since 0.2.
 */
LK_API int lk_permit_semaphore_new(lk_permit_semaphore **semaphore_out, lk_client *client,
				   const void *name, size_t name_size,
				   const lk_permit_semaphore_options *options, lk_error *error);

/* Frees a handle; permits that are held stay held. NULL is fine. Returns NULL. Since 0.2. */
LK_API lk_permit_semaphore *lk_permit_semaphore_free(lk_permit_semaphore *semaphore);

/*
 * Sets the number of permits if there is no such semaphore yet: 0 … LK_PERMITS_MAX
 * (RPermitExpirableSemaphore.trySetPermits). Returns 1 when it set the number, 0 when the semaphore
 * exists. Blocks for one round trip, at most for the command limit. Errors: LK_EINVAL,
 * LK_EWRONGTYPE, LK_EMAYBEHELD (no answer: it may have been set) and those of lk_client_ping().
 * Since 0.2.
 */
LK_API int lk_permit_semaphore_try_set(lk_permit_semaphore *semaphore, int64_t permits,
				       lk_error *error);

/*
 * Sets the number of permits, free and used together: 0 … LK_PERMITS_MAX
 * (RPermitExpirableSemaphore.setPermits). If more are in use than that, the number of free permits
 * becomes negative. Blocks for one round trip, at most for the command limit. Errors as
 * lk_permit_semaphore_try_set(). Since 0.2.
 */
LK_API int lk_permit_semaphore_set(lk_permit_semaphore *semaphore, int64_t permits,
				   lk_error *error);

/*
 * Adds `change`, which is not 0 and may be negative, to the number of permits
 * (RPermitExpirableSemaphore.addPermits, but the time to live stays). Blocks for one round trip, at
 * most for the command limit. Errors as lk_permit_semaphore_try_set(), LK_EINVAL also when the
 * number of free permits would leave an int's range. Since 0.2.
 */
LK_API int lk_permit_semaphore_add(lk_permit_semaphore *semaphore, int64_t change, lk_error *error);

/*
 * Acquires `count` permits (1 … LK_PERMITS_AT_ONCE_MAX), all or none, and writes them into
 * `permits_out`, which must have room for `count` (RPermitExpirableSemaphore.tryAcquire(permits,
 * wait, lease)). Waits at most `wait_ms`: -1 waits without limit (acquire), 0 tries once, and fails
 * with LK_EBUSY also when others of this client wait. The semaphore need not exist yet. `options`
 * as for lk_lock_acquire(), without owner and hears_asks; its lease is that of each permit, and
 * the events of each permit return its tag. Blocks, and treats trouble that may pass, as
 * lk_lock_acquire(). Errors as there, but never LK_ELOST; LK_ETIMEDOUT and LK_EBUSY when too few
 * are free. Since 0.2.
 */
LK_API int lk_permit_semaphore_acquire(lk_permit_semaphore *semaphore, int64_t count,
				       lk_permit *permits_out, int64_t wait_ms,
				       const lk_acquire_options *options, lk_error *error);

/*
 * Releases `count` permits (1 … LK_PERMITS_AT_ONCE_MAX), ours or another's
 * (RPermitExpirableSemaphore.tryRelease). No id may occur twice. It releases all or none, except
 * permits of ours that are lost, known before or found by this call: these are dropped and do not
 * prevent the release of the others. Blocks for one round trip, or for a few if it finds a loss, at
 * most for the command limit; for a single permit of ours, as lk_lock_release(). Errors: LK_ELOST
 * (some were ours and lost: these are dropped, all others released), LK_ENOTOWNER (a permit that is
 * not ours is not in use: nothing was released, and we still hold ours), LK_EMAYBEHELD (no answer,
 * or an answer that does not tell what a first copy of the request has done; ours are dropped),
 * LK_ENOTDURABLE (released, and a failover may undo that; ours are dropped, and the library repeats
 * their release), LK_EINVAL and those of lk_client_ping(). Since 0.2.
 */
LK_API int lk_permit_semaphore_release(lk_permit_semaphore *semaphore, const lk_permit *permits,
				       int64_t count, lk_error *error);

/*
 * Sets the end of a permit, ours or another's, to `lease_ms` (LK_LEASE_MIN_MS … LK_LEASE_MAX_MS)
 * from now, sooner or later than before (RPermitExpirableSemaphore.updateLeaseTime). A permit of
 * ours is no longer renewed. Blocks for one round trip, at most for the command limit. Errors:
 * LK_ENOTOWNER (not in use), LK_ELOST (it was ours, and is lost), LK_EMAYBEHELD (no answer: a
 * permit of ours counts as ending at the earlier of both ends; until the command limit has passed,
 * the server may still set the new end, even after another update), LK_ENOTDURABLE (the new end is
 * set, and a failover may undo that: likewise the earlier of both), LK_EINVAL and those of
 * lk_client_ping(). Since 0.2.
 */
LK_API int lk_permit_semaphore_update_lease(lk_permit_semaphore *semaphore, const char *id,
					    int64_t lease_ms, lk_error *error);

/*
 * Writes for how many ms a permit of ours is still certain. A memory read. Errors: LK_ENOTOWNER
 * (not ours), LK_ELOST, LK_EINVAL, LK_ENOMEM, LK_ECLOSED, LK_EFORKED. Since 0.2.
 */
LK_API int lk_permit_semaphore_remaining_ms(lk_permit_semaphore *semaphore, const char *id,
					    int64_t *remaining_ms_out, lk_error *error);

/*
 * Writes the remaining lease of a permit as the server sees it
 * (RPermitExpirableSemaphore.getLeaseTime), in ms: -1 when the permit has no end, -2 when it is not
 * in use. Blocks for one round trip, at most for the command limit. Errors: LK_EINVAL,
 * LK_EWRONGTYPE and those of lk_client_ping(). Since 0.2.
 */
LK_API int lk_permit_semaphore_server_ttl_ms(lk_permit_semaphore *semaphore, const char *id,
					     int64_t *ttl_ms_out, lk_error *error);

/*
 * Writes how many permits are free and how many are in use; their sum is the number of permits
 * (RPermitExpirableSemaphore.availablePermits, acquiredPermits). Either output may be NULL. Blocks
 * for one round trip, at most for the command limit. Errors: LK_EINVAL, LK_EWRONGTYPE and those of
 * lk_client_ping(). Since 0.2.
 */
LK_API int lk_permit_semaphore_count(lk_permit_semaphore *semaphore, int64_t *free_out,
				     int64_t *used_out, lk_error *error);

/*
 * Deletes the semaphore with all its permits: returns 1, or 0 when there was none
 * (RPermitExpirableSemaphore.delete). DEL deletes the keys, whatever their types. Waiters are not
 * told. The holder of a permit learns of it as of any loss. Blocks for one round trip, at most for
 * the command limit. Errors: LK_EINVAL, LK_EMAYBEHELD (no answer: it may be gone), LK_ENOTDURABLE
 * (it is gone, and a failover may undo that) and those of lk_client_ping(). Since 0.2.
 */
LK_API int lk_permit_semaphore_delete(lk_permit_semaphore *semaphore, lk_error *error);

LK_END_DECLS

#endif
