/*
 * The fair lock: Redisson's RFairLock, on the same keys. First come, first served, across threads,
 * processes and languages.
 *
 * In Redis, for the lock "printer":
 *
 *   printer                            hash        { <owner field>: 1 }         PEXPIRE lease
 *   redisson_lock_queue:{printer}      list        [ <field>, … ]               the next one first
 *   redisson_lock_timeout:{printer}    sorted set  { <field>: alive until, ms }
 *   lockkeeper_fair:{printer}          hash        { <field of ours>: … }       with a ttl
 *   redisson_lock__channel:{printer}:<field>       a channel for each waiter
 *
 * All calls of <lockkeeper/lock.h> work on it, and mean the same: owners, re-entry, lease and
 * watchdog, notices. What differs:
 *
 * ORDER. Who asks first is served first, whichever process or thread it is in; nothing is handed
 * on inside a client out of turn. lk_lock_try() takes no place, and does not pass those who wait.
 *
 * HAND-OVER. A release gives the lock to the next in the queue in the same step on the server, if
 * that waits with this library, and tells it; it need not ask again. A Java waiter is woken as
 * Redisson wakes it.
 *
 * WAITERS THAT GO AWAY. One that times out or is cancelled leaves the queue at once. One whose
 * process died holds up the others for 3 s at most once its turn has come. A dead Java waiter
 * cannot be told from a slow one: it costs what its own limit says (Redisson: 5 minutes). One that
 * lives, but cannot be reached for 3 s when its turn comes, goes to the end of the queue.
 * Option fair_wait_ms: how long Java takes a waiter of ours for alive; a shorter wait limit counts.
 *
 * OTHER KINDS. Reentrant, fenced and spin locks of the same name exclude it and know no queue. They
 * and it do not wake each other: the waiter looks again when the ttl it last saw is over.
 *
 * CLOCKS. Ours go by the server's clock. Java writes its own time into the queue; a Java client
 * whose clock is fast may drop waiters.
 */
#ifndef LOCKKEEPER_FAIR_LOCK_H
#define LOCKKEEPER_FAIR_LOCK_H

#include <lockkeeper/lock.h>

LK_BEGIN_DECLS

/*
 * Makes a handle, to be freed with lk_lock_free(), as lk_lock_new() does (getFairLock). Also
 * refused (LK_EINVAL) are names whose braces would put lock and queue on different nodes of a
 * cluster: "a{b", "a}b", "{}". No I/O. Errors as lk_lock_new(). Since 0.1.
 */
LK_API int lk_fair_lock_new(lk_lock **lock_out, lk_client *client, const void *name,
			    size_t name_size, lk_error *error);

LK_END_DECLS

#endif
