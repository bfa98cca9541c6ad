/* SPDX-License-Identifier: MIT */
/*
 * The fenced lock's recipe: the reentrant lock, and a token that rises with each grant. In Redis:
 *
 *   <name>                             hash { <uuid>:<number> → 1 }, PEXPIRE lease
 *   lockkeeper_fence:{<name>}          string, the newest token, kept for 30 days
 *   redisson_lock_token:{<name>}       Redisson's counter, where Java peers share the lock
 *   redisson_lock__channel:{<name>}    channel, "0" at each release
 *
 * The next token is the newest plus one, or the server's time in us if that is more: so it rises
 * when the clock steps back, and when the newest is gone.
 */
#ifndef LK__SYNC_FENCED_FENCED_H
#define LK__SYNC_FENCED_FENCED_H

#include "sync/recipe.h"

#define LK__FENCE_PREFIX "lockkeeper_fence"
#define LK__FENCE_JAVA_PREFIX "redisson_lock_token"
#define LK__FENCE_TOKEN_MAX UINT64_C(9007199254740991) /* 2^53 - 1: exact in Lua */

extern const struct lk__recipe lk__fenced_recipe;
extern const struct lk__recipe lk__fenced_java_recipe; /* with Redisson's counter */

/* What the bearer of a token wants at a key; `value` NULL: only to be let in. */
struct lk__fence_check {
	const char *key;
	size_t key_size;
	uint64_t token;
	int64_t ttl_ms; /* 0: as it is */
	const void *value;
	size_t value_size;
	const char *client;
	uint64_t number; /* of this write; a later one of the client has a greater one */
};

struct lk__request *lk__fence_check(const struct lk__fence_check *check);

/* 0 when the token was the newest; else the one that is. */
uint64_t lk__fence_read_check(const redisReply *reply);

#endif
