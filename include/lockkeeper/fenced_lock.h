/*
 * The fenced lock: a reentrant lock whose every grant comes with a token that only rises
 * (Redisson's RFencedLock). The owner shows the token to the resource, and the resource refuses
 * one that is older than the newest it has seen: so a holder that slept through the end of its
 * lease does no harm. No lock without that check can promise as much.
 *
 * In Redis, for the lock "backup":
 *
 *   backup                              hash    { <owner field>: 1 }        PEXPIRE lease
 *   lockkeeper_fence:{backup}           string  the newest token            PX 30 days
 *   redisson_lock_token:{backup}        string  Redisson's counter, with `share_java` only
 *   redisson_lock__channel:{backup}     channel, message "0" at each release
 *
 * All calls of <lockkeeper/lock.h> work on its handle. It excludes reentrant, fair and spin locks
 * of the same name, which have no tokens; only the reentrant ones wake it, and are woken by it.
 *
 * THE TOKEN is the newest one plus one, or the server's time in microseconds, whichever is more. So
 * it rises when the server's clock steps back, and when the data is gone (FLUSHALL, an empty
 * replacement); only both at once could lower it. It fits in 53 bits; a counter beyond
 * 2^53 - 2 is refused (LK_EWRONGTYPE). A re-entry does not change it. Inside a client, too, the
 * lock is handed on with a new token, by one script.
 *
 * JAVA. Without `share_java` Java clients and ours exclude each other, but count tokens apart.
 * With it ours raise Redisson's counter as well, and Java's next is above: then every handle of
 * that name, in all programs, has to say `share_java`.
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
	int64_t ttl_ms; /* 0: the key's time to live stays as it is; else it ends so long from now,
			   and with it the memory of tokens; at most LK_WAIT_MAX_MS */
} lk_fence_options;

#define LK_FENCE_OPTIONS_INIT                                                                      \
	{                                                                                          \
		sizeof(lk_fence_options), 0                                                        \
	}

LK_BEGIN_DECLS

/*
 * Makes a handle, to be freed with lk_lock_free(), as lk_lock_new() does (getFencedLock); `options`
 * may be NULL. A name whose derived keys are in another cluster slot ("a}b", "foo{bar") is
 * LK_EINVAL. No I/O. Errors as lk_lock_new(). Since 0.1.
 */
LK_API int lk_fenced_lock_new(lk_lock **lock_out, lk_client *client, const void *name,
			      size_t name_size, const lk_fenced_lock_options *options,
			      lk_error *error);

/*
 * Writes the token of the hold of `owner` (NULL: the calling thread). A memory read
 * (RFencedLock.getToken asks the server); see also lk_event.fence. Errors: LK_ENOTOWNER, LK_ELOST,
 * LK_EINVAL (a lock of another kind, …), LK_ENOMEM, LK_ECLOSED, LK_EFORKED. Since 0.1.
 */
LK_API int lk_lock_fence(lk_lock *lock, const char *owner, uint64_t *token_out, lk_error *error);

/*
 * FOR A RESOURCE THAT IS IN REDIS. In Redis, for the key "report":
 *
 *   report                              hash  { token: <newest token seen>, value: <bytes> }
 *
 * Without a time to live, unless the options name one; read it with HGET report value. Not the key
 * of the lock itself. The client's key_prefix stands before the key, as before every name.
 */

/*
 * 0 when `token` is not older than any seen at `key`, which then remembers it. Else LK_ESTALE, and
 * *newest_out (which may be NULL) is the newest. The same token passes again and again. Blocks for
 * one round trip, at most for the command limit. Errors: LK_EINVAL (token 0 or above
 * LK_FENCE_TOKEN_MAX, …), LK_EWRONGTYPE (the key holds something else), LK_EMAYBEHELD (no answer:
 * it may have been noted) and those of lk_client_ping(). Since 0.1.
 */
LK_API int lk_fence_check(lk_client *client, const void *key, size_t key_size, uint64_t token,
			  const lk_fence_options *options, uint64_t *newest_out, lk_error *error);

/*
 * The same, and writes the value in the same step: at most LK_FENCE_VALUE_SIZE_MAX bytes. `value`
 * may be NULL if `value_size` is 0; an empty value is a value. LK_ESTALE: nothing was written, or a
 * newer token has overwritten it. Errors otherwise as lk_fence_check(). Since 0.1.
 */
LK_API int lk_fence_write(lk_client *client, const void *key, size_t key_size, uint64_t token,
			  const void *value, size_t value_size, const lk_fence_options *options,
			  uint64_t *newest_out, lk_error *error);

LK_END_DECLS

#endif
