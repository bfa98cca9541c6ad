/*
 * The plain lock: a string with a time to live, shared with every program that takes a lock with
 * SET name token NX PX ms and frees it by comparing: redis-py's Lock, redsync, node-redlock, …
 *
 * In Redis, for the lock "backup":
 *
 *   backup                              string <owner field>            PX lease
 *   redisson_lock__channel:{backup}     channel, message "0" at each release of ours
 *
 *   owner field = <uuid of the client>:<number>, the number new for every grant; to the others it
 *   is the token
 *
 * The handle is an lk_lock: acquire, release, extend, … are those of <lockkeeper/lock.h>, with the
 * same re-entry (counted in the client: the others see one holder), watchdog, notices and terms.
 * An exported field is the token, and may be given to another program; with
 * lk_lock_release_field() a token of another program's frees its lock.
 *
 * WAITING. The others publish nothing when they release: a waiter looks again every `poll_ms`, or
 * up to a quarter earlier, at random, so that waiters do not fall into step; and at once when the
 * holder was one of ours, which publishes. A user who may not subscribe only polls. There is no
 * order between clients, and who polls has little chance against programs that come back at once.
 *
 * COMMANDS. Where the server has DELEX (Redis 8.4) or DELIFEQ (Valkey 9) and SET with IFEQ, the
 * lock is taken, handed on and released by them; elsewhere by scripts. A user who may run no
 * scripts can have plain locks there, and on Valkey 8.1 (SET with IFEQ alone), with the right to
 * SET, GET, PEXPIRE and PUBLISH besides. What the server does, and lets this user do, is asked
 * before the first try after each connect, by commands that change nothing. Where neither scripts
 * nor commands are to be had an acquire is LK_EDENIED, and says what is missing. Without scripts a
 * renewal that finds the lock lost may have prolonged its next holder's lease, once.
 *
 * A LOCK WITHOUT A TIME TO LIVE, which redis-py's Lock makes by default, is respected: it stays
 * until its holder, or lk_lock_force_release(), frees it. Ours always have one.
 *
 * A key of another type (a reentrant lock's hash, say) is refused: LK_EWRONGTYPE. Any string counts
 * as a lock that another holds, a semaphore's number too, and lk_lock_force_release() deletes it.
 */
#ifndef LOCKKEEPER_PLAIN_LOCK_H
#define LOCKKEEPER_PLAIN_LOCK_H

#include <lockkeeper/lock.h>

#define LK_POLL_MIN_MS INT64_C(1)
#define LK_POLL_MAX_MS INT64_C(60000)

typedef struct lk_plain_lock_options {
	size_t struct_size;
	int64_t poll_ms; /* a waiter looks again after about so long; 0: 100 ms */
} lk_plain_lock_options;

#define LK_PLAIN_LOCK_OPTIONS_INIT                                                                 \
	{                                                                                          \
		sizeof(lk_plain_lock_options), 0                                                   \
	}

LK_BEGIN_DECLS

/*
 * Makes a handle for a plain lock; `name` as for lk_lock_new(), `options` may be NULL (poll_ms: 0,
 * or LK_POLL_MIN_MS … LK_POLL_MAX_MS). Free it with lk_lock_free(). Takes nothing in Redis and does
 * no I/O. Errors: LK_EINVAL, LK_ENOMEM, LK_ECLOSED, LK_EFORKED. Since 0.1.
 */
LK_API int lk_plain_lock_new(lk_lock **lock_out, lk_client *client, const void *name,
			     size_t name_size, const lk_plain_lock_options *options,
			     lk_error *error);

LK_END_DECLS

#endif
