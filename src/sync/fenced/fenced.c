/* SPDX-License-Identifier: MIT */
/* The fenced lock, and the check of its tokens. */
#include <assert.h>
#include <string.h>

#include "resp/reply.h"
#include "sync/recipes.h"
#include "sync/script.h"

static struct lk__request *fenced_acquire(const struct lk__try *wanted)
{
	return lk__fenced_acquire(wanted, "");
}

/* The token behind the word of a status; 0 where the reply has another form. */
static uint64_t token_behind(const char *word, const redisReply *reply)
{
	int64_t token = 0;
	size_t size = strlen(word);
	if (reply->type == REDIS_REPLY_STATUS && strncmp(reply->str, word, size) == 0)
		lk__number_read(reply->str + size, 1, (int64_t)LK__FENCE_TOKEN_MAX, &token);
	return (uint64_t)token;
}

/* The token of a grant; 0 when the reply is not a grant. */
static uint64_t fence_read_token(const redisReply *reply)
{
	return token_behind("TOKEN ", reply);
}

void lk__fence_read_acquire(const struct lk__request *request, struct lk__answer *answer)
{
	assert(request->code || request->reply);
	if (!request->code && request->reply->type == REDIS_REPLY_NIL) {
		answer->event.type = LK__ATTEMPT_UNKNOWN; /* no grant without a token */
		return;
	}
	lk__reply_acquired(request, answer);
	answer->fence = request->code ? 0 : fence_read_token(request->reply);
	if (answer->fence)
		answer->event.type = LK__ATTEMPT_GRANTED;
}

static enum lk__exchanged fenced_read_exchange(const struct lk__request *request,
					       struct lk__answer *answer)
{
	answer->fence = request->code ? 0 : fence_read_token(request->reply);
	if (answer->fence)
		return LK__EXCHANGED;
	enum lk__exchanged exchanged = lk__reply_exchanged(request, answer);
	return exchanged == LK__EXCHANGED ? LK__EXCHANGE_UNKNOWN : exchanged;
}

#define FENCED_RECIPE(more)                                                                        \
	{                                                                                          \
		.type = "fenced lock", .channel_prefix = LK__LOCK_CHANNEL_PREFIX,                  \
		.sharing = LK__ONE_QUEUE,                                                          \
		.flags = LK__NEEDS_SERVER | LK__FENCES | LK__TURNS | (more),                       \
		.acquire = fenced_acquire, .release = lk__lock_release, .keep = lk__lock_keep,     \
		.exchange = lk__fenced_acquire, .force = lk__lock_force, .renew = lk__lock_renew,  \
		.is_locked = lk__lock_is_locked, .is_held_by = lk__lock_is_held_by,                \
		.read_acquire = lk__fence_read_acquire, .read_release = lk__reply_turn_given,      \
		.read_exchange = fenced_read_exchange,                                             \
	}

const struct lk__recipe lk__fenced_recipe = FENCED_RECIPE(0);
const struct lk__recipe lk__fenced_java_recipe = FENCED_RECIPE(LK__JAVA_COUNTER);

struct lk__request *lk__fence_check(const struct lk__fence_check *check)
{
	struct lk__words words = {.count = 0};
	lk__words_add(&words, check->key, check->key_size);
	lk__words_number(&words, (int64_t)check->token);
	lk__words_number(&words, check->ttl_ms);
	if (check->value) {
		lk__words_add(&words, check->value, check->value_size);
		lk__words_text(&words, check->client);
		lk__words_number(&words, (int64_t)check->number);
	}
	return lk__words_script(&words, LK__SCRIPT_FENCED_CHECK, 1);
}

uint64_t lk__fence_read_check(const redisReply *reply)
{
	return token_behind("STALE ", reply);
}
