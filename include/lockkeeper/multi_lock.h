/*
 * The multi lock: several reentrant locks, of one client or of many, taken all or none (Redisson's
 * RMultiLock).
 *
 * In Redis there is nothing but the locks themselves (<lockkeeper/lock.h>): Java clients, and
 * callers of one lock alone, exclude it and are excluded by it.
 *
 *   multi lock of "a", "b" of one client        one script takes both or none, one frees both
 *   multi lock of "a" here and "b" elsewhere    both servers are asked at once; what was had is
 *                                               given back when the other is busy
 *
 * The handle is an lk_lock: acquire, try, release, extend, is_held, remaining_ms, … are those of
 * <lockkeeper/lock.h>. What differs:
 *
 * PARTS. An acquire makes the owner hold each part, as lk_lock_acquire() on each would: a part that
 * the owner holds already is counted up, and one can be released alone. hold_count is the least of
 * the parts', deadline and remaining_ms are the soonest. A release gives up each part once; if
 * something was wrong with one (LK_ENOTOWNER, LK_ELOST), the others are released all the same.
 *
 * WAITING. Nothing is held while waiting, so that callers who name the same locks in opposite
 * orders cannot block each other. A caller waits for the first busy lock (by server, then name),
 * in its line and by its messages, and then tries the rest. Between those who want many locks and
 * those who want one of them there is no order: many locks that are much sought take patience.
 *
 * NOTICES come for each part by itself (its name, the tag of the acquire), from its own client. A
 * part that is lost makes every call say LK_ELOST until all is released.
 *
 * NOT FOR IT: export, is_held_by, server_ttl_ms, release_field and extend_field (LK_EINVAL: there
 * is no one field). is_locked is 1 when any part is held by anyone. force_release frees every part.
 * no_wait in release options does nothing: the release waits for its answers.
 *
 * Locks of one server reached by two addresses cannot be told from locks of two servers: the same
 * name in both would wait for itself.
 */
#ifndef LOCKKEEPER_MULTI_LOCK_H
#define LOCKKEEPER_MULTI_LOCK_H

#include <lockkeeper/lock.h>

#define LK_MULTI_LOCK_MAX 64 /* locks in one */

LK_BEGIN_DECLS

/*
 * Makes a handle for `count` (1 … LK_MULTI_LOCK_MAX) locks made with lk_lock_new() (getMultiLock);
 * their handles may be freed afterwards. Free it with lk_lock_free(). Takes nothing in Redis and
 * does no I/O. Errors: LK_EINVAL (no locks, too many, another kind of lock, one named twice),
 * LK_ENOMEM, LK_ECLOSED, LK_EFORKED. Since 0.1.
 */
LK_API int lk_multi_lock_new(lk_lock **lock_out, lk_lock *const *locks, size_t count,
			     lk_error *error);

LK_END_DECLS

#endif
