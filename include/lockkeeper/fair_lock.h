/* SPDX-License-Identifier: MIT */
/*
 * The fair lock: Redisson's RFairLock, on the same keys. First come, first served, across threads,
 * processes and languages.
 *
 * A lease is not a mutex. A holder that is paused past its deadline has lost the lock, and no lock
 * can stop its next write: see <lockkeeper.h>.
 *
 * In Redis, for the lock "printer":
 *
 *   printer                            hash        { <owner field>: 1 }         PEXPIRE lease
 *   redisson_lock_queue:{printer}      list        [ <field>, … ]               next waiter first
 *   redisson_lock_timeout:{printer}    sorted set  { <field>: alive until, ms }
 *   lockkeeper_fair:{printer}          hash        { <field of ours>: … }       with a ttl
 *   redisson_lock__channel:{printer}:<field>       a channel for each waiter
 *
 * All calls of <lockkeeper/lock.h> work on its handle and mean the same: owners, re-entry, lease
 * and watchdog, notices. What differs:
 *
 * ORDER. Callers are served in the order in which they asked, whichever process or thread they are
 * in. A client does not pass the lock among its threads out of turn. A single try (wait_ms 0) takes
 * no place in the queue, and does not overtake waiters.
 *
 * A waiter keeps its place when a connection is lost, when the server does not answer for however
 * long, in a failover, and when its turn comes while too few replicas acknowledge. The queue is
 * data of the server: where that restarts without it, or a new master lacks the newest places,
 * waiters queue up in the order in which they come back. Places are replicated, but a call does not
 * wait until replicas have them. And a waiter that comes back more than 3 s after the lock is free
 * may be passed: see WAITERS THAT GO AWAY.
 *
 * HAND-OVER. If the next waiter uses this library, the release gives it the lock in the same step
 * on the server and tells it, so it need not ask again. If the next waiter is a Java client, the
 * release wakes it as Redisson does.
 *
 * WAITERS THAT GO AWAY. A waiter that times out or is cancelled leaves the queue at once. If the
 * server refuses that or does not answer, the library repeats it; if the lock reaches that place
 * first, the library releases it. Waiters whose processes died hold up the others for 3 s at most,
 * however many they are: when the turn of one of them comes, the silence of all is measured. A dead
 * Java waiter looks like a slow one: it holds up the others until its own limit has passed
 * (Redisson: 5 minutes). A live waiter that cannot be reached for 3 s, and whose turn comes, moves
 * to the end of the queue. The option fair_wait_ms sets how long Java clients believe that a waiter
 * of ours is alive; if the caller's wait limit is shorter, it counts instead.
 *
 * OTHER KINDS. Reentrant, fenced and spin locks of the same name exclude it, and ignore its queue.
 * Neither wakes the other's waiters. A waiter looks again when the ttl it last saw has passed; a
 * waiter for a spin lock, after its pause.
 *
 * CLOCKS. Our clients use the server's clock. A Java client writes its own time into the queue; if
 * its clock is fast, it may drop waiters.
 */
#ifndef LOCKKEEPER_FAIR_LOCK_H
#define LOCKKEEPER_FAIR_LOCK_H

#include <lockkeeper/lock.h>

LK_BEGIN_DECLS

/*
 * Makes a handle, as lk_lock_new() does (getFairLock). Also refuses (LK_EINVAL) names whose braces
 * would put lock and queue on different nodes of a cluster: "a{b", "a}b", "{}". Does no I/O. Free
 * it with lk_lock_free(). Errors as lk_lock_new(). Since 0.2.
 */
LK_API int lk_fair_lock_new(lk_lock **lock_out, lk_client *client, const void *name,
			    size_t name_size, lk_error *error);

LK_END_DECLS

#endif
