/*
 * The spin lock: a reentrant lock without messages (Redisson's RSpinLock). Who waits asks again
 * after pauses that double; nobody subscribes, and a release is one plain command. For clusters
 * whose messages go to every node, for servers that refuse SUBSCRIBE, and for locks that are
 * seldom contended.
 *
 * In Redis, for the lock "backup":
 *
 *   backup                              hash   { <owner field>: 1 }     PEXPIRE lease
 *
 * All calls of <lockkeeper/lock.h> work on its handle. It excludes reentrant and fenced locks of
 * the same name; but since its release tells nobody, those who wait for a message look again only
 * when the lease they last saw is over. Let all who contend use one kind.
 *
 * THE BACK-OFF begins anew with every wait. Each pause is shortened by a random part, up to a
 * half, so that waiters do not march in step. Only the head of a client's line asks; waiting
 * costs the server one command a pause and client.
 *
 * STARVATION. Between processes there is neither a queue nor a hold-off: one that comes back at
 * once can keep others out for as long as it is busy, as with Redisson's.
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
	int spin_factor;     /* each pause is so many times the one before; 0: 2; 1: all alike */
} lk_spin_lock_options;

#define LK_SPIN_LOCK_OPTIONS_INIT                                                                  \
	{                                                                                          \
		sizeof(lk_spin_lock_options), 0, 0, 0                                              \
	}

LK_BEGIN_DECLS

/*
 * Makes a handle, to be freed with lk_lock_free(), as lk_lock_new() does (getSpinLock); `options`
 * may be NULL. No I/O. Errors as lk_lock_new(), LK_EINVAL also for pauses out of 0 …
 * LK_SPIN_MAX_MS, spin_min_ms above spin_max_ms, a factor out of 0 … LK_SPIN_FACTOR_MAX. Since 0.1.
 */
LK_API int lk_spin_lock_new(lk_lock **lock_out, lk_client *client, const void *name,
			    size_t name_size, const lk_spin_lock_options *options, lk_error *error);

LK_END_DECLS

#endif
