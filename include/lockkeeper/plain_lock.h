/* SPDX-License-Identifier: MIT */
/*
 * The plain lock: a string with a time to live, shared with every program that acquires with
 * SET name token NX PX ms, and compares the token to release: redis-py's Lock, redsync,
 * node-redlock, …
 *
 * A lease is not a mutex. A holder that is paused past its deadline has lost the lock, and no lock
 * can stop its next write: see <lockkeeper.h>.
 *
 * In Redis, for the lock "backup":
 *
 *   backup                              string <owner field>            PX lease
 *   redisson_lock__channel:{backup}     channel, message "0" or "00" at a release of ours
 *   lockkeeper_turns:{backup}           sorted set: clients that wait, by when they began to; each
 *                                       hears on "<channel>:<its id>" that it has its turn
 *
 *   owner field = <uuid of the client>:<number>, the number new for every grant; other programs
 *   call it the token
 *
 * The handle is an lk_lock: acquire, release, extend, … are those of <lockkeeper/lock.h>, with the
 * same re-entry (counted in the client: other programs see one holder), watchdog and notices. The
 * exported field is the token, and may be given to another program. lk_lock_release() with
 * another program's token frees its lock.
 *
 * WAITING. Other programs publish nothing when they release, so a waiter looks again: soon at
 * first, then half as often each time, down to once in `poll_ms`. Each time it finds that the lock
 * has passed to another, it looks twice as often from then on, up to once in a sixteenth of
 * `poll_ms`, or in 5 ms if that is longer: programs that ask every 10 ms do not keep it out. All of
 * this up to a quarter earlier, at random: waiters then do not fall into step. Our releases
 * publish, and wake our waiters at once. A user without the right to subscribe only polls.
 * Our release wakes the client of ours that has waited longest. Whoever looks first takes the lock,
 * and a client that polls seldom wins against programs that come back at once.
 *
 * A LOCK WITHOUT A TIME TO LIVE, which redis-py's Lock makes by default, is respected: it stays
 * until its holder, or lk_lock_force_release(), frees it. Our locks always have a time to live.
 *
 * WAKING OTHERS. Some libraries' waiters sleep until a message comes, or an element of a list:
 * those of Spring's PUB_SUB_LOCK, python-redis-lock, walrus and redis-lock-py. With `notify` our
 * releases wake them too: "spring", "python-redis-lock", "walrus", "redis-lock-py"
 * (docs/beside.md), or
 *
 *   "publish CHANNEL MESSAGE"    without spaces in either; {1} stands for the lock's key
 *   "push LIST MESSAGE MS"       the list then has this message alone, and MS to live
 *
 * The script that releases does it, and only where the token was ours. Where that library
 * publishes, our waiters listen to its channel instead of ours: its releases wake them at once, and
 * those of ours without `notify` are noticed within `poll_ms`. Without the rights, or with a
 * list in another slot of a cluster, the lock is released and nobody of theirs wakes. A lease that
 * ends tells nobody.
 *
 * A key of another type (a reentrant lock's hash, say) is refused (LK_EWRONGTYPE). Any string
 * counts as a lock that another owner holds, even a semaphore's number, and lk_lock_force_release()
 * deletes it. However large it is, no more of it is read than tells whether it is the token.
 */
#ifndef LOCKKEEPER_PLAIN_LOCK_H
#define LOCKKEEPER_PLAIN_LOCK_H

#include <lockkeeper/lock.h>

#define LK_POLL_MIN_MS INT64_C(1)
#define LK_POLL_MAX_MS INT64_C(60000)

typedef struct lk_plain_lock_options {
	size_t struct_size;
	int64_t poll_ms;    /* how seldom a waiter looks again, at most; 0: 100 ms */
	const char *notify; /* whose waiters a release wakes; NULL: only ours. It is copied */
} lk_plain_lock_options;

#define LK_PLAIN_LOCK_OPTIONS_INIT                                                                 \
	{                                                                                          \
		sizeof(lk_plain_lock_options), 0, 0                                                \
	}

LK_BEGIN_DECLS

/*
 * Makes a handle for a plain lock; `name` as for lk_lock_new(), `options` may be NULL (poll_ms: 0,
 * or LK_POLL_MIN_MS … LK_POLL_MAX_MS; notify: the same for all handles of one name in a client, of
 * which some may have none). Takes nothing in Redis and does no I/O. Free it with lk_lock_free().
 * Errors: LK_EINVAL, also where the key is none of that library's; LK_ENOMEM, LK_ECLOSED,
 * LK_EFORKED. Since 0.2.
 */
LK_API int lk_plain_lock_new(lk_lock **lock_out, lk_client *client, const void *name,
			     size_t name_size, const lk_plain_lock_options *options,
			     lk_error *error);

LK_END_DECLS

#endif
