/* SPDX-License-Identifier: MIT */
/*
 * The barrier: n parties wait for each other, again and again.
 *
 *     lk_barrier_new(&barrier, client, "step", LK_STRLEN, 3, NULL, &error);
 *     for (;;) {
 *             work();
 *             if (lk_barrier_await(barrier, 60000, NULL, &generation, &error) < 0)
 *                     break;
 *     }
 *
 * In Redis, for the barrier "step":
 *
 *   step                         hash { parties: <n>, <id>: "<state> <until> <number> <lease>
 *                                       <deadline>" }, PEXPIRE; <id> is the owner field of a wait
 *   lockkeeper_fence:{step}      string, the newest generation      PX 30 days
 *   lockkeeper_barrier:{step}    channel, message "look"
 *
 * All of them are in one slot of a cluster. No other library has these keys.
 *
 * WHO GETS THROUGH. Nobody does before n have come; then all of these n do, in one step, with the
 * number of their generation.
 *
 * A PARTY is a handle, with one call at a time. Make one for each thread, or task, that is to be
 * counted. All say the same n; a call that finds others who wait to be another number fails
 * (LK_EINVAL).
 *
 * WHO DIES while it waits is not counted any more when its lease is over: the client's watchdog_ms
 * since it was last heard of. The others go on waiting, for a replacement, or until their limit. A
 * barrier that breaks for all, as a Java CyclicBarrier does, would make each death an error in n-1
 * places, and all would have to agree on when to begin anew; here a supervisor that starts the dead
 * one again is enough. A party that was stopped for longer than its lease takes its place again
 * when it goes on; if others have met without it, it is told so (LK_ELOST).
 *
 * COUNTED ONCE. A wait has one id. A request that is sent again after a lost connection finds it,
 * and the generation that it met in, for an hour. A wait that ends at its limit, or is cancelled,
 * gives its place up and learns in the same step whether it was counted: LK_ETIMEDOUT and
 * LK_ECANCELLED mean that it was not, and that nobody got through by it. If it was, the call
 * succeeds. Without an answer it fails with LK_EMAYBEHELD. A command limit (command_timeout_ms) of
 * more than a minute is longer than the server remembers who gave up.
 *
 * THE GENERATION is a number that rises, also after FLUSHALL and when the server's clock is set
 * back. It is not counted by one: it is the newest plus one, or the server's time in µs.
 *
 * ENTER AND LEAVE are the double barrier, as Curator has it. All n enter together, and each of them
 * holds its membership until it leaves, renewed as a lock is; its loss is told by
 * <lockkeeper/event.h>. A leave waits until all of its generation have left; one that dies inside
 * counts as having left when its lease is over. The next n get in when nobody is inside. Parties
 * that await and parties that enter may meet: those that await are not inside afterwards.
 *
 * BROKEN. lk_scan_force_release() ends what stands at a barrier: nobody who waits was counted, and
 * those inside lose their membership (LK_ELOST). lk_scan_show() says who stands there.
 *
 * WAITING. Messages wake those who wait; and each asks again at least three times in a lease, which
 * shows that it is alive.
 */
#ifndef LOCKKEEPER_BARRIER_H
#define LOCKKEEPER_BARRIER_H

#include <stddef.h>
#include <stdint.h>

#include <lockkeeper/cancel.h>
#include <lockkeeper/client.h>
#include <lockkeeper/error.h>

#define LK_BARRIER_PARTIES_MAX 1000

typedef struct lk_barrier lk_barrier;

typedef struct lk_barrier_options {
	size_t struct_size;
	int64_t margin_ms; /* one that is inside is warned so long before its end; 0: lease / 10 */
	uint64_t tag;      /* returned in events about it */
} lk_barrier_options;

#define LK_BARRIER_OPTIONS_INIT                                                                    \
	{                                                                                          \
		sizeof(lk_barrier_options), 0, 0                                                   \
	}

LK_BEGIN_DECLS

/*
 * Makes a handle, one party of the barrier `name`, at which `parties` (1 … LK_BARRIER_PARTIES_MAX)
 * meet; `options` may be NULL. Names whose keys would be in different slots of a cluster are
 * refused ("a}b"). Does no I/O. Free it with lk_barrier_free(). Errors: LK_EINVAL, LK_ENOMEM,
 * LK_ECLOSED, LK_EFORKED. Since 0.2.
 */
LK_API int lk_barrier_new(lk_barrier **barrier_out, lk_client *client, const void *name,
			  size_t name_size, int64_t parties, const lk_barrier_options *options,
			  lk_error *error);

/*
 * Frees a handle, before or after lk_client_free(), and never during a call of it. One that is
 * inside leaves, without waiting for the others. NULL is fine. Returns NULL. Since 0.2.
 */
LK_API lk_barrier *lk_barrier_free(lk_barrier *barrier);

/*
 * Comes to the barrier, and waits until so many have (CyclicBarrier.await), at most `wait_ms` (at
 * most LK_WAIT_MAX_MS; -1: no limit), which covers trouble that may pass, as in lk_lock_acquire().
 * 0 asks once: it gets through if it is the last one, and else was not there. Writes the generation
 * to `generation_out`, which may be NULL. `cancel` may be NULL. Blocks; at the end of the limit for
 * one more answer, at most for the command limit. Errors: LK_ETIMEDOUT (others have not come),
 * LK_EBUSY (the same, with a `wait_ms` of 0), LK_ECANCELLED, LK_EMAYBEHELD (COUNTED ONCE), LK_ELOST
 * (WHO DIES), LK_EWRONGTYPE, LK_EINVAL (another call of this party is under way, it is inside, …)
 * and those of lk_client_ping(). Since 0.2.
 */
LK_API int lk_barrier_await(lk_barrier *barrier, int64_t wait_ms, lk_cancel *cancel,
			    uint64_t *generation_out, lk_error *error);

/*
 * Waits as lk_barrier_await() does, and with 0 it is inside (DistributedDoubleBarrier.enter): until
 * lk_barrier_leave(). One that fails is not inside; LK_ELOST also says that it was let in when it
 * had ended its wait: the others have entered with it, and it has left. Errors as
 * lk_barrier_await(). Since 0.2.
 */
LK_API int lk_barrier_enter(lk_barrier *barrier, int64_t wait_ms, lk_cancel *cancel,
			    uint64_t *generation_out, lk_error *error);

/*
 * Leaves, and waits until all that entered with it have (DistributedDoubleBarrier.leave), with a
 * limit as lk_barrier_await(). It has left also when the limit is reached, or the wait is
 * cancelled: the next call waits on. Blocks. Errors: LK_ETIMEDOUT and, with 0, LK_EBUSY (others are
 * inside), LK_ECANCELLED, LK_ENOTOWNER (it has not entered), LK_ELOST (its lease was over before,
 * and the others count it as having left; or the barrier was broken), LK_EMAYBEHELD (it may be
 * inside until its lease is over), LK_ENOTDURABLE (all have left, and a failover may undo that: the
 * next call asks again) and those of lk_client_ping(). Since 0.2.
 */
LK_API int lk_barrier_leave(lk_barrier *barrier, int64_t wait_ms, lk_cancel *cancel,
			    lk_error *error);

LK_END_DECLS

#endif
