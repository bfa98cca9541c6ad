/* SPDX-License-Identifier: MIT */
/*
 * The count-down latch: callers wait until its count is zero. Redisson's RCountDownLatch, on the
 * same keys.
 *
 * In Redis, for the latch "ready":
 *
 *   ready                                        string, the count; gone when it is open
 *                                                PX: A TIME TO LIVE
 *   redisson_countdownlatch__channel__{ready}    channel, message "0" open, "1" set or removed
 *   lockkeeper_sc:{ready}:<field>                string, the result of one of our requests
 *                                                PX about a minute
 *
 * A latch without a count is open. The channel has braces added around every name, even around a
 * name that has braces.
 *
 * COUNTED ONCE. A count-down that is sent again after a lost connection finds its own record, and
 * counts once. Without an answer within the command limit the call fails with LK_EMAYBEHELD: the
 * server may have counted it.
 *
 * A KEY that is not a whole number is refused (LK_EWRONGTYPE), however large it is. A semaphore's
 * key looks like a latch's: the call would change it.
 *
 * LOST DATA. A latch that FLUSHALL or a restart without data takes away is open: its waiters go on.
 * A handle cannot say the count for good, as that of a semaphore can: an open latch has no key
 * either, so the count would close it again.
 *
 * A TIME TO LIVE. Without one a latch that nobody counts down stays closed for ever. The option
 * `ttl_ms` of a handle gives one to a latch that is set through it. A latch that has a time to live
 * lasts `ttl_ms` at least after each lk_latch_try_set() and lk_latch_count_down(); nothing shortens
 * it. At its end the latch is open, and its waiters go on within a second. A latch that has none
 * keeps none. All other calls keep it as it is, and so do those through a handle without `ttl_ms`.
 *
 * WAITING. One request to the server serves all waiting threads of a client. The client sends it at
 * each message, and every second without one; and when the limit of a thread passes that began to
 * wait after the last one was sent: LK_ETIMEDOUT is never the answer to an older question.
 */
#ifndef LOCKKEEPER_LATCH_H
#define LOCKKEEPER_LATCH_H

#include <stddef.h>
#include <stdint.h>

#include <lockkeeper/cancel.h>
#include <lockkeeper/client.h>
#include <lockkeeper/error.h>

#define LK_LATCH_COUNT_MAX INT64_C(9007199254740991) /* the highest count: 2^53 - 1 */

typedef struct lk_latch lk_latch;

typedef struct lk_latch_options {
	size_t struct_size;
	int64_t ttl_ms; /* at most LK_LEASE_MAX_MS: A TIME TO LIVE; 0: none is given */
} lk_latch_options;

#define LK_LATCH_OPTIONS_INIT                                                                      \
	{                                                                                          \
		sizeof(lk_latch_options), 0                                                        \
	}

LK_BEGIN_DECLS

/*
 * Makes a handle for a name, as lk_lock_new() does; `options` may be NULL. Names whose keys would
 * be in different slots of a cluster are refused ("a}b"). Does no I/O. Free it with
 * lk_latch_free(). Errors: LK_EINVAL (also `ttl_ms` beyond 0 … LK_LEASE_MAX_MS), LK_ENOMEM,
 * LK_ECLOSED, LK_EFORKED. Since 0.2.
 */
LK_API int lk_latch_new(lk_latch **latch_out, lk_client *client, const void *name, size_t name_size,
			const lk_latch_options *options, lk_error *error);

/* Frees a handle. NULL is fine. Returns NULL. Since 0.2. */
LK_API lk_latch *lk_latch_free(lk_latch *latch);

/*
 * Closes an open latch with a count of 1 … LK_LATCH_COUNT_MAX (RCountDownLatch.trySetCount).
 * Returns 1 when it set the count, 0 when the latch already has a count. Blocks for one round trip,
 * at most for the command limit. Errors: LK_EINVAL, LK_EWRONGTYPE, LK_EMAYBEHELD (no answer: it may
 * have been set) and those of lk_client_ping(). Since 0.2.
 */
LK_API int lk_latch_try_set(lk_latch *latch, int64_t count, lk_error *error);

/*
 * Counts down by `by`, at least 1; at zero the latch is open (RCountDownLatch.countDown, which
 * counts down by 1). An open latch stays open. Writes the remaining count into `left_out`, which
 * may be NULL. Blocks for one round trip, at most for the command limit. Errors: LK_EINVAL,
 * LK_EWRONGTYPE, LK_EMAYBEHELD (no answer: it may have been counted) and those of
 * lk_client_ping(). Since 0.2.
 */
LK_API int lk_latch_count_down(lk_latch *latch, int64_t by, int64_t *left_out, lk_error *error);

/*
 * Writes the count, 0 for an open latch (RCountDownLatch.getCount). Blocks for one round trip, at
 * most for the command limit. Errors: LK_EINVAL, LK_EWRONGTYPE and those of lk_client_ping().
 * Since 0.2.
 */
LK_API int lk_latch_count(lk_latch *latch, int64_t *count_out, lk_error *error);

/*
 * Waits until the latch is open (RCountDownLatch.await), at most `wait_ms` (at most LK_WAIT_MAX_MS;
 * -1: without limit), which covers trouble that may pass, as in lk_lock_acquire(). 0 asks once, for
 * at most the command limit, and cannot be cancelled. Blocks. `cancel` may be NULL. Without limit
 * the call retries for 30 s (retry_ms) if a server that answered before becomes unreachable during
 * the wait; if the first connect fails, the call fails at once. Errors: LK_ETIMEDOUT (the latch is
 * still closed), LK_ECANCELLED, LK_EWRONGTYPE, LK_ELIMIT (waiters), LK_EINVAL (another call uses
 * the token, …) and those of lk_client_ping(). Since 0.2.
 */
LK_API int lk_latch_await(lk_latch *latch, int64_t wait_ms, lk_cancel *cancel, lk_error *error);

/*
 * Removes the count, whatever it is, so that waiters go on (RCountDownLatch.delete, which leaves
 * Java's waiters asleep). Returns 1, or 0 when the latch was open. Blocks for one round trip, at
 * most for the command limit. Errors: LK_EINVAL, LK_EWRONGTYPE, LK_EMAYBEHELD (no answer: the count
 * may be gone), LK_ENOTDURABLE (it is gone, and a failover may undo that) and those of
 * lk_client_ping(). Since 0.2.
 */
LK_API int lk_latch_delete(lk_latch *latch, lk_error *error);

LK_END_DECLS

#endif
