/* SPDX-License-Identifier: MIT */
/*
 * The spin lock: a reentrant lock without messages (Redisson's RSpinLock). A waiter asks again
 * after pauses that double; nobody subscribes, and a release is one plain command. It suits
 * clusters that send every message to every node, servers that refuse SUBSCRIBE, and locks that are
 * seldom contended.
 *
 * A lease is not a mutex. A holder that is paused past its deadline has lost the lock, and no lock
 * can stop its next write: see <lockkeeper.h>.
 *
 * In Redis, for the lock "backup":
 *
 *   backup                              hash   { <owner field>: 1 }     PEXPIRE lease
 *
 * All calls of <lockkeeper/lock.h> work on its handle. It and the reentrant, fair and fenced locks
 * of the same name exclude each other. But its release tells nobody, so waiters of those kinds look
 * again only when the ttl they last saw has passed. So all who contend for a name should use one
 * kind.
 *
 * THE BACK-OFF starts anew with every wait. Each pause is shortened at random by up to a half, so
 * that waiters do not fall into step. Only the first waiter in a client's queue asks. Waiting costs
 * the server one command per pause and client.
 *
 * STARVATION. Processes neither queue nor hold off: a process that comes back at once can keep
 * others out while it is busy, as with Redisson.
 */
#ifndef LOCKKEEPER_SPIN_LOCK_H
#define LOCKKEEPER_SPIN_LOCK_H

#include <stddef.h>
#include <stdint.h>

#include <lockkeeper/lock.h>

#define LK_SPIN_MAX_MS INT64_C(3600000) /* the longest pause that can be set: an hour */
#define LK_SPIN_FACTOR_MAX 16

typedef struct lk_spin_lock_options {
	size_t struct_size;
	int64_t spin_min_ms; /* the first pause; 0: 1 ms */
	int64_t spin_max_ms; /* the longest pause; 0: 128 ms, or spin_min_ms if that is more */
	int spin_factor;     /* each pause is this many times its predecessor; 0: 2; 1: all equal */
} lk_spin_lock_options;

#define LK_SPIN_LOCK_OPTIONS_INIT                                                                  \
	{                                                                                          \
		sizeof(lk_spin_lock_options), 0, 0, 0                                              \
	}

LK_BEGIN_DECLS

/*
 * Makes a handle, as lk_lock_new() does (getSpinLock); `options` may be NULL. Does no I/O. Free it
 * with lk_lock_free(). Errors as lk_lock_new(), LK_EINVAL also for pauses outside 0 …
 * LK_SPIN_MAX_MS, spin_min_ms above spin_max_ms, a factor outside 0 … LK_SPIN_FACTOR_MAX.
 * Since 0.2.
 */
LK_API int lk_spin_lock_new(lk_lock **lock_out, lk_client *client, const void *name,
			    size_t name_size, const lk_spin_lock_options *options, lk_error *error);

LK_END_DECLS

#endif
