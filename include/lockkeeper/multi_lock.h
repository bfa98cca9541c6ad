/* SPDX-License-Identifier: MIT */
/*
 * The multi lock: several reentrant locks, of one client or of several, acquired all or none
 * (Redisson's RMultiLock).
 *
 * A lease is not a mutex. A holder that is paused past its deadline has lost the locks, and no lock
 * can stop its next write: see <lockkeeper.h>.
 *
 * Redis contains only the locks themselves (<lockkeeper/lock.h>). So a multi lock, Java clients,
 * and callers of one of the locks exclude each other. One acquire:
 *
 *   multi lock of "a", "b" of one client        one script takes both or none, one frees both
 *   multi lock of "a" here and "b" elsewhere    both servers are asked at once; if one is busy,
 *                                               the grant of the other is released
 *
 * The handle is an lk_lock: acquire, try, release, extend, is_held, remaining_ms, … are those of
 * <lockkeeper/lock.h>. What differs:
 *
 * PARTS. An acquire makes the owner hold each part, as lk_lock_acquire() on each would. An owner
 * that already holds a part re-enters it. Each part can be released alone. hold_count is the lowest
 * of the parts; deadline and remaining_ms are the earliest. A release releases each part once. If
 * it finds that a part was not held or was lost (LK_ENOTOWNER, LK_ELOST), it releases the others
 * all the same. LK_EMAYBEHELD: the holds are gone in this client, but a server has not confirmed
 * their release. LK_ENOMEM: nothing was done.
 *
 * WAITING. A caller holds nothing while it waits, so callers that name the same locks in opposite
 * orders cannot block each other. It waits for the first busy lock (by server, then by name), in
 * that lock's queue and for its messages, and then tries the rest. A caller that wants only one of
 * the locks may overtake it, so a caller that wants several contended locks may wait long.
 *
 * NOTICES. Each part makes notices of its own (its name, the tag of the acquire), in its own
 * client. After the loss of a part, acquire, release, extend and remaining_ms fail with LK_ELOST
 * until every part is released.
 *
 * NOT AVAILABLE: export, is_held_by, server_ttl_ms, and a field in options (LK_EINVAL: it
 * has no single field). is_locked writes 1 when anyone holds any part. force_release frees every
 * part. The option no_wait does nothing: the release waits for its answers.
 *
 * PROXIES. A proxy that spreads keys over several servers runs a script at the server of its first
 * key: it would take all locks there, and others look for them elsewhere. Where HELLO shows such a
 * proxy (it tells no connection id), an acquire of several locks fails with LK_EINVAL, and takes
 * nothing. Name the servers themselves, or let the proxy pass connections on as they are.
 *
 * The library cannot tell one server at two addresses from two servers: a multi lock of the same
 * name at both would wait for itself.
 */
#ifndef LOCKKEEPER_MULTI_LOCK_H
#define LOCKKEEPER_MULTI_LOCK_H

#include <lockkeeper/lock.h>

#define LK_MULTI_LOCK_MAX 64 /* the most locks in one multi lock */

LK_BEGIN_DECLS

/*
 * Makes a handle for `count` (1 … LK_MULTI_LOCK_MAX) locks made with lk_lock_new() (getMultiLock).
 * Their handles may be freed afterwards. Takes nothing in Redis and does no I/O. Free it with
 * lk_lock_free(). Errors: LK_EINVAL (no locks, too many, another kind of lock, one named twice,
 * threadless clients among others), LK_ENOMEM, LK_ECLOSED, LK_EFORKED. Since 0.2.
 */
LK_API int lk_multi_lock_new(lk_lock **lock_out, lk_lock *const *locks, size_t count,
			     lk_error *error);

LK_END_DECLS

#endif
