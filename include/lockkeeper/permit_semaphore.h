/*
 * The permit semaphore: a number of permits, each with an id and a lease of its own, so that what
 * a dead process had comes back by itself. RPermitExpirableSemaphore of Redisson.
 *
 * In Redis, for the semaphore "pool":
 *
 *   pool                            string, the free permits        no ttl
 *   {pool}:timeout                  sorted set { permit id, 16 bytes → its end, ms since 1970 }
 *   redisson_sc:{pool}              channel, message: the free permits after a change
 *   lockkeeper_sc:{pool}:<field>    string, what one request of ours came to     PX about a minute
 *
 * Ends are the server's time; a permit of Java's without an end has 922337203685477. Free and used
 * permits are changed together, in one script.
 *
 * WHO HAS A PERMIT. Whoever knows its id, 32 hexadecimal digits: any thread, any process, Java. A
 * permit that this client has taken is renewed by its watchdog, unless a lease was named, and
 * reported by LK_EVENT_AT_RISK and LK_EVENT_LOST, with the id as the event's `field`.
 *
 * A KEY that is no whole number is refused (LK_EWRONGTYPE). A semaphore's, or a latch's, cannot be
 * told from this one's: it would be changed.
 *
 * FAIRNESS. Callers of one client stand in one line, first come first served; the head waits until
 * all that it wants is free. Between processes there is no order. A waiter looks again at each
 * message, when the next permit ends, and each second.
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
#define LK_PERMITS_AT_ONCE_MAX 1000 /* in one acquire or release */

typedef struct lk_permit_semaphore lk_permit_semaphore;

typedef struct lk_permit {
	char id[LK_PERMIT_ID_SIZE];
} lk_permit;

LK_BEGIN_DECLS

/*
 * Makes a handle for a name, as lk_lock_new() does. Names whose keys would be in other slots of a
 * cluster are refused ("a}b"). No I/O. Errors: LK_EINVAL, LK_ENOMEM, LK_ECLOSED, LK_EFORKED.
 * Since 0.1.
 */
LK_API int lk_permit_semaphore_new(lk_permit_semaphore **semaphore_out, lk_client *client,
				   const void *name, size_t name_size, lk_error *error);

/* Frees a handle; permits that are held stay held. NULL is fine. Returns NULL. Since 0.1. */
LK_API lk_permit_semaphore *lk_permit_semaphore_free(lk_permit_semaphore *semaphore);

/*
 * Sets the number of permits if there is no such semaphore yet: 0 … LK_PERMITS_MAX
 * (RPermitExpirableSemaphore.trySetPermits). Returns 1 when it was set, 0 when there is one. Blocks
 * for one round trip, at most for the command limit. Errors: LK_EINVAL, LK_EWRONGTYPE,
 * LK_EMAYBEHELD (no answer: it may have been set) and those of lk_client_ping(). Since 0.1.
 */
LK_API int lk_permit_semaphore_try_set(lk_permit_semaphore *semaphore, int64_t permits,
				       lk_error *error);

/*
 * Sets the number of permits, free and used together (RPermitExpirableSemaphore.setPermits): 0 …
 * LK_PERMITS_MAX. With fewer than are used, fewer than none are free. Blocks for one round trip, at
 * most for the command limit. Errors as lk_permit_semaphore_try_set(). Since 0.1.
 */
LK_API int lk_permit_semaphore_set(lk_permit_semaphore *semaphore, int64_t permits,
				   lk_error *error);

/*
 * Changes their number by `change`, not 0, which may be negative
 * (RPermitExpirableSemaphore.addPermits, but the time to live stays). Blocks for one round trip, at
 * most for the command limit. Errors as lk_permit_semaphore_try_set(), LK_EINVAL also when the
 * number of free ones would leave an int's range. Since 0.1.
 */
LK_API int lk_permit_semaphore_add(lk_permit_semaphore *semaphore, int64_t change, lk_error *error);

/*
 * Takes `count` permits (1 … LK_PERMITS_AT_ONCE_MAX), all or none, and writes them into
 * `permits_out`, which has room for so many (RPermitExpirableSemaphore.acquire). Waits without
 * limit; there need not be a semaphore yet. `options` as for lk_lock_acquire(), without an owner;
 * its lease is that of each permit, its tag comes back in the events of each. Errors as there, but
 * never LK_ELOST. Since 0.1.
 */
LK_API int lk_permit_semaphore_acquire(lk_permit_semaphore *semaphore, int64_t count,
				       lk_permit *permits_out, const lk_acquire_options *options,
				       lk_error *error);

/*
 * The same for at most `wait_ms` (RPermitExpirableSemaphore.tryAcquire(permits, wait, lease)),
 * LK_ETIMEDOUT when too few were free; 0 is lk_permit_semaphore_try(). Since 0.1.
 */
LK_API int lk_permit_semaphore_acquire_within(lk_permit_semaphore *semaphore, int64_t count,
					      lk_permit *permits_out, int64_t wait_ms,
					      const lk_acquire_options *options, lk_error *error);

/*
 * Asks once (RPermitExpirableSemaphore.tryAcquire(permits)); LK_EBUSY when too few are free, or
 * others of this client wait. Blocks for one round trip, at most for the connect and command
 * limits. Errors otherwise as lk_permit_semaphore_acquire(). Since 0.1.
 */
LK_API int lk_permit_semaphore_try(lk_permit_semaphore *semaphore, int64_t count,
				   lk_permit *permits_out, const lk_acquire_options *options,
				   lk_error *error);

/*
 * Gives `count` permits back (1 … LK_PERMITS_AT_ONCE_MAX), ours or another's, all or none; no id
 * twice (RPermitExpirableSemaphore.tryRelease). Blocks for one round trip, at most for the command
 * limit; for a single one of ours as lk_lock_release(). Errors: LK_ENOTOWNER (one of them is not in
 * use: nothing was done), LK_ELOST (some were ours and lost: these are given up, all others given
 * back), LK_EMAYBEHELD (no answer; ours are given up), LK_EINVAL and those of lk_client_ping().
 * Since 0.1.
 */
LK_API int lk_permit_semaphore_release(lk_permit_semaphore *semaphore, const lk_permit *permits,
				       int64_t count, lk_error *error);

/*
 * Lets a permit, ours or another's, end `lease_ms` (LK_LEASE_MIN_MS … LK_LEASE_MAX_MS) from now,
 * sooner or later than it would (RPermitExpirableSemaphore.updateLeaseTime); one of ours is no
 * longer renewed. Blocks for one round trip, at most for the command limit. Errors: LK_ENOTOWNER
 * (not in use), LK_ELOST (it was ours, and is lost), LK_EMAYBEHELD (no answer: one of ours counts
 * as ending when the sooner of both does; until the command limit is over the server may still let
 * it end so, also after another update), LK_EINVAL and those of lk_client_ping(). Since 0.1.
 */
LK_API int lk_permit_semaphore_update_lease(lk_permit_semaphore *semaphore, const char *id,
					    int64_t lease_ms, lk_error *error);

/*
 * Writes how long a permit of ours is certain, in ms. A memory read. Errors: LK_ENOTOWNER (not
 * ours), LK_ELOST, LK_EINVAL, LK_ENOMEM, LK_ECLOSED, LK_EFORKED. Since 0.1.
 */
LK_API int lk_permit_semaphore_remaining_ms(lk_permit_semaphore *semaphore, const char *id,
					    int64_t *remaining_ms_out, lk_error *error);

/*
 * Writes how long a permit lasts as the server sees it (RPermitExpirableSemaphore.getLeaseTime):
 * ms, -1 for one without an end, -2 for one that is not in use. Blocks for one round trip, at most
 * for the command limit. Errors: LK_EINVAL, LK_EWRONGTYPE and those of lk_client_ping(). Since 0.1.
 */
LK_API int lk_permit_semaphore_server_ttl_ms(lk_permit_semaphore *semaphore, const char *id,
					     int64_t *ttl_ms_out, lk_error *error);

/*
 * Writes how many permits are free and how many in use; their sum is all there are
 * (RPermitExpirableSemaphore.availablePermits, acquiredPermits). Either may be NULL. Blocks for one
 * round trip, at most for the command limit. Errors: LK_EINVAL, LK_EWRONGTYPE and those of
 * lk_client_ping(). Since 0.1.
 */
LK_API int lk_permit_semaphore_count(lk_permit_semaphore *semaphore, int64_t *free_out,
				     int64_t *used_out, lk_error *error);

/*
 * Removes the semaphore with all its permits: 1, or 0 when there was none
 * (RPermitExpirableSemaphore.delete). The keys go by DEL, whatever they are; nobody who waits is
 * told, and who has a permit learns of it as of any loss. Blocks for one round trip, at most for
 * the command limit. Errors: LK_EINVAL, LK_EMAYBEHELD (no answer: it may be gone) and those of
 * lk_client_ping(). Since 0.1.
 */
LK_API int lk_permit_semaphore_delete(lk_permit_semaphore *semaphore, lk_error *error);

LK_END_DECLS

#endif
