/*
 * The semaphore: a number of permits that anybody may take and give back, RSemaphore of Redisson.
 *
 * In Redis, for the semaphore "pool":
 *
 *   pool                            string, the free permits       ttl: none, or as it was set
 *   redisson_sc:{pool}              channel, message: the free permits after a change
 *   lockkeeper_sc:{pool}:<field>    string, what one request of ours came to     PX about a minute
 *
 * NOBODY OWNS A PERMIT. Whoever has taken one gives it back, or gives back one that another has
 * taken. What a process has when it dies is gone, until somebody adds it again:
 * <lockkeeper/permit_semaphore.h> is the one that heals by itself.
 *
 * COUNTED ONCE. A request that is sent again after a lost connection finds what it has done, and
 * counts once. A call without an answer within the command limit is LK_EMAYBEHELD: a take is
 * undone in the background, any other change may have been made.
 *
 * A KEY that is no whole number is refused (LK_EWRONGTYPE). A latch's, or a permit semaphore's,
 * cannot be told from this one's: it would be changed.
 *
 * FAIRNESS. Callers of one client stand in one line, first come first served; the head waits until
 * all that it wants is free. Between processes there is no order. A waiter looks again at each
 * message, and each second without one.
 */
#ifndef LOCKKEEPER_SEMAPHORE_H
#define LOCKKEEPER_SEMAPHORE_H

#include <stddef.h>
#include <stdint.h>

#include <lockkeeper/cancel.h>
#include <lockkeeper/client.h>
#include <lockkeeper/error.h>

#define LK_PERMITS_MAX INT64_C(2147483647) /* the most that there can be: Java's int */

typedef struct lk_semaphore lk_semaphore;

LK_BEGIN_DECLS

/*
 * Makes a handle for a name, as lk_lock_new() does. Names whose keys would be in other slots of a
 * cluster are refused ("a}b"). No I/O. Errors: LK_EINVAL, LK_ENOMEM, LK_ECLOSED, LK_EFORKED.
 * Since 0.1.
 */
LK_API int lk_semaphore_new(lk_semaphore **semaphore_out, lk_client *client, const void *name,
			    size_t name_size, lk_error *error);

/* Frees a handle. NULL is fine. Returns NULL. Since 0.1. */
LK_API lk_semaphore *lk_semaphore_free(lk_semaphore *semaphore);

/*
 * Sets the number of permits if there is no such semaphore yet (RSemaphore.trySetPermits): 0 …
 * LK_PERMITS_MAX, for `ttl_ms` (at most LK_LEASE_MAX_MS) or, with 0, without an end. Returns 1 when
 * it was set, 0 when there is one. Blocks for one round trip, at most for the command limit.
 * Errors: LK_EINVAL, LK_EWRONGTYPE, LK_EMAYBEHELD (no answer: it may have been set) and those of
 * lk_client_ping(). Since 0.1.
 */
LK_API int lk_semaphore_try_set(lk_semaphore *semaphore, int64_t permits, int64_t ttl_ms,
				lk_error *error);

/*
 * Takes `permits` (1 … LK_PERMITS_MAX), all or none, waiting without limit (RSemaphore.acquire);
 * there need not be a semaphore yet. Blocks. `cancel` may be NULL. Errors as lk_lock_acquire(), but
 * never LK_ELOST. Since 0.1.
 */
LK_API int lk_semaphore_acquire(lk_semaphore *semaphore, int64_t permits, lk_cancel *cancel,
				lk_error *error);

/*
 * The same for at most `wait_ms` (RSemaphore.tryAcquire(permits, wait)), LK_ETIMEDOUT when too few
 * were free; 0 is lk_semaphore_try(). Since 0.1.
 */
LK_API int lk_semaphore_acquire_within(lk_semaphore *semaphore, int64_t permits, int64_t wait_ms,
				       lk_cancel *cancel, lk_error *error);

/*
 * Asks once (RSemaphore.tryAcquire); LK_EBUSY when too few are free, or others of this client wait.
 * Blocks for one round trip, at most for the connect and command limits. Errors otherwise as
 * lk_semaphore_acquire(). Since 0.1.
 */
LK_API int lk_semaphore_try(lk_semaphore *semaphore, int64_t permits, lk_error *error);

/*
 * Gives `permits` (1 … LK_PERMITS_MAX) back; makes the semaphore if there is none
 * (RSemaphore.release). A number of free permits over LK_PERMITS_MAX is refused (LK_EINVAL), and
 * nothing is done. Blocks for one round trip, at most for the command limit. Errors: LK_EINVAL,
 * LK_EWRONGTYPE, LK_EMAYBEHELD (no answer: they may have been given back) and those of
 * lk_client_ping(). Since 0.1.
 */
LK_API int lk_semaphore_release(lk_semaphore *semaphore, int64_t permits, lk_error *error);

/*
 * The same only if there is such a semaphore: returns 1, or 0 when there is none
 * (RSemaphore.releaseIfExists). Since 0.1.
 */
LK_API int lk_semaphore_release_if_exists(lk_semaphore *semaphore, int64_t permits,
					  lk_error *error);

/*
 * Changes the number of permits by `change`, not 0, which may be negative and may leave fewer than
 * none free (RSemaphore.addPermits, but the time to live stays). Blocks for one round trip, at most
 * for the command limit. Errors: LK_EINVAL (also when the number would leave an int's range),
 * LK_EWRONGTYPE, LK_EMAYBEHELD (no answer: it may have been changed) and those of
 * lk_client_ping(). Since 0.1.
 */
LK_API int lk_semaphore_add(lk_semaphore *semaphore, int64_t change, lk_error *error);

/*
 * Takes all that are free and writes how many there were; a negative number is written as it was,
 * and set to 0 (RSemaphore.drainPermits, but the time to live stays). Blocks for one round trip, at
 * most for the command limit. Errors: LK_EINVAL, LK_EWRONGTYPE, LK_EMAYBEHELD (no answer: they may
 * have been taken) and those of lk_client_ping(). Since 0.1.
 */
LK_API int lk_semaphore_drain(lk_semaphore *semaphore, int64_t *permits_out, lk_error *error);

/*
 * Writes how many permits are free: 0 without a semaphore, perhaps negative
 * (RSemaphore.availablePermits). Blocks for one round trip, at most for the command limit. Errors:
 * LK_EINVAL, LK_EWRONGTYPE and those of lk_client_ping(). Since 0.1.
 */
LK_API int lk_semaphore_available(lk_semaphore *semaphore, int64_t *permits_out, lk_error *error);

/*
 * Removes the semaphore: 1, or 0 when there was none (RSemaphore.delete). The key goes by DEL,
 * whatever it is; nobody who waits is told. Blocks for one round trip, at most for the command
 * limit. Errors: LK_EINVAL, LK_EMAYBEHELD (no answer: it may be gone) and those of
 * lk_client_ping(). Since 0.1.
 */
LK_API int lk_semaphore_delete(lk_semaphore *semaphore, lk_error *error);

LK_END_DECLS

#endif
