/* SPDX-License-Identifier: MIT */
/*
 * The fenced lock: a reentrant lock that gives each grant a token, and tokens only rise (Redisson's
 * RFencedLock).
 *
 * A lease is not a mutex. A holder that is paused past its deadline has lost the lock, and still
 * makes its next write. The token is the remedy: the owner shows it to the resource, and the
 * resource refuses a token that is older than the newest it has seen. Only that check stops the
 * write.
 *
 * In Redis, for the lock "backup":
 *
 *   backup                              hash    { <owner field>: 1 }        PEXPIRE lease
 *   lockkeeper_fence:{backup}           string  the newest token            PX 30 days
 *   redisson_lock_token:{backup}        string  Redisson's counter, with `share_java` only
 *   redisson_lock__channel:{backup}     channel, message "0" or "00" at each release
 *   lockkeeper_turns:{backup}           sorted set: clients that wait, by when they began to; each
 *                                       hears on "<channel>:<its id>" that it has its turn
 *
 * All calls of <lockkeeper/lock.h> work on its handle. It and the reentrant, fair and spin locks of
 * the same name exclude each other; those have no tokens. Of these, only a reentrant lock's release
 * wakes waiters of a fenced lock, and a fenced lock's release wakes only waiters of a reentrant
 * lock.
 *
 * THE TOKEN is the newest token plus one, or the server's time in microseconds, whichever is more.
 * So it rises when the server's clock steps back, and it rises when the data is gone (FLUSHALL, an
 * empty replacement). Only both at once could lower it. It fits in 53 bits; a counter beyond
 * 2^53 - 2 is refused (LK_EWRONGTYPE). A re-entry does not change it. When a client passes the lock
 * from one of its threads to another, one script makes a new token.
 *
 * JAVA. Without `share_java`, Java clients and ours exclude each other, but count tokens
 * separately. With it, our grants raise Redisson's counter too, so the next Java token is higher.
 * Then every handle of that name, in all programs, has to set `share_java`.
 */
#ifndef LOCKKEEPER_FENCED_LOCK_H
#define LOCKKEEPER_FENCED_LOCK_H

#include <stddef.h>
#include <stdint.h>

#include <lockkeeper/lock.h>

#define LK_FENCE_TOKEN_MAX UINT64_C(9007199254740991) /* the greatest token: 2^53 - 1 */
#define LK_FENCE_VALUE_SIZE_MAX 16777216              /* bytes that lk_fence_write() takes */

typedef struct lk_fenced_lock_options {
	size_t struct_size;
	int share_java; /* 1: Java peers share the tokens */
} lk_fenced_lock_options;

#define LK_FENCED_LOCK_OPTIONS_INIT                                                                \
	{                                                                                          \
		sizeof(lk_fenced_lock_options), 0                                                  \
	}

typedef struct lk_fence_options {
	size_t struct_size;
	int64_t ttl_ms; /* 0: the key keeps its time to live; else the key, and with it the memory
			   of tokens, expires this long from now, at most LK_WAIT_MAX_MS. The same
			   token again can only make that later */
} lk_fence_options;

#define LK_FENCE_OPTIONS_INIT                                                                      \
	{                                                                                          \
		sizeof(lk_fence_options), 0                                                        \
	}

LK_BEGIN_DECLS

/*
 * Makes a handle, as lk_lock_new() does (getFencedLock); `options` may be NULL. A name whose
 * derived keys are in another cluster slot ("a}b", "foo{bar") is refused (LK_EINVAL). Does no I/O.
 * Free it with lk_lock_free(). Errors as lk_lock_new(). Since 0.2.
 */
LK_API int lk_fenced_lock_new(lk_lock **lock_out, lk_client *client, const void *name,
			      size_t name_size, const lk_fenced_lock_options *options,
			      lk_error *error);

/*
 * Writes the token of the hold of `owner` (NULL: the calling thread). A memory read
 * (RFencedLock.getToken asks the server; behind an acquire this is RFencedLock.lockAndGetToken).
 * Every caller that has the hold, by a re-entry too, is told the same token. Notices have it, too:
 * lk_event.fence. Errors: LK_ENOTOWNER, LK_ELOST, LK_EINVAL (a lock of another kind, …), LK_ENOMEM,
 * LK_ECLOSED, LK_EFORKED. Since 0.2.
 */
LK_API int lk_lock_fence(lk_lock *lock, const char *owner, uint64_t *token_out, lk_error *error);

/*
 * FOR A RESOURCE THAT IS IN REDIS. In Redis, for the key "report-text":
 *
 *   report-text                         hash  { token: <newest token seen>, value: <bytes>,
 *                                               writes: <the last 16 clients that wrote> }
 *
 * The key has no time to live, unless the options set one. Read the value with HGET report-text
 * value. Do not use the key of the lock itself. The client's key_prefix is put before the key, as
 * before every name.
 */

/*
 * Returns 0 and remembers `token` when it is not older than any token seen at `key`. Else fails
 * with LK_ESTALE and writes the newest token into *newest_out, which may be NULL. The same token
 * passes any number of times. Blocks for one round trip, at most for the command limit. Errors:
 * LK_ESTALE, LK_EINVAL (token 0 or above LK_FENCE_TOKEN_MAX, …), LK_EWRONGTYPE (the key holds
 * something else), LK_EMAYBEHELD (no answer: the token may have been remembered) and those of
 * lk_client_ping(). Since 0.2.
 */
LK_API int lk_fence_check(lk_client *client, const void *key, size_t key_size, uint64_t token,
			  const lk_fence_options *options, uint64_t *newest_out, lk_error *error);

/*
 * Checks the token as lk_fence_check() does, and writes the value in the same step: at most
 * LK_FENCE_VALUE_SIZE_MAX bytes. `value` may be NULL if `value_size` is 0: that writes an empty
 * value. LK_ESTALE: nothing was written, or a newer token has overwritten it. Under one token, a
 * client's writes take effect in the order of its calls, and a copy of a request that the network
 * delayed overwrites no later write. Only a write that ended with LK_EMAYBEHELD may still take
 * effect late, and overwrite what another client wrote meanwhile under the same token. Errors
 * otherwise as lk_fence_check(). Since 0.2.
 */
LK_API int lk_fence_write(lk_client *client, const void *key, size_t key_size, uint64_t token,
			  const void *value, size_t value_size, const lk_fence_options *options,
			  uint64_t *newest_out, lk_error *error);

LK_END_DECLS

#endif
