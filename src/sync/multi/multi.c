/* SPDX-License-Identifier: MIT */
#include "sync/multi/multi.h"

#include <assert.h>

#include "resp/reply.h"
#include "sync/script.h"

static void add_keys(struct lk__words *words, const struct lk__multi_key *keys, size_t count)
{
	for (size_t i = 0; i < count; i++)
		lk__words_add(words, keys[i].target->key, keys[i].target->key_size);
}

struct lk__request *lk__multi_acquire_request(const struct lk__multi_key *keys, size_t count,
					      int64_t lease_ms)
{
	struct lk__words words = {0};
	assert(count > 0 && lease_ms > 0);
	lk__words_many(&words, count + 3);
	add_keys(&words, keys, count);
	lk__words_text(&words, keys[0].field);
	lk__words_number(&words, lease_ms);
	lk__words_deadline(&words);
	return lk__words_script(&words, LK__SCRIPT_MULTI_ACQUIRE, count);
}

struct lk__request *lk__multi_release_request(const struct lk__multi_key *keys, size_t count)
{
	struct lk__words words = {0};
	assert(count > 0);
	lk__words_many(&words, 3 * count);
	add_keys(&words, keys, count);
	for (size_t i = 0; i < count; i++) {
		lk__words_text(&words, keys[i].field);
		lk__words_channel(&words, keys[i].target);
	}
	return lk__words_script(&words, LK__SCRIPT_MULTI_RELEASE, count);
}

struct lk__request *lk__multi_keep_request(const struct lk__multi_key *keys, size_t count,
					   int64_t keep_ms)
{
	struct lk__words words = {0};
	assert(count > 0 && keep_ms > 0);
	lk__words_many(&words, 4 * count + 1);
	add_keys(&words, keys, count);
	lk__words_number(&words, keep_ms);
	for (size_t i = 0; i < count; i++) {
		lk__words_text(&words, keys[i].field);
		lk__words_channel(&words, keys[i].target);
		lk__words_kept(&words, keys[i].field);
	}
	return lk__words_script(&words, LK__SCRIPT_MULTI_KEEP, count);
}

void lk__multi_read_acquire(const struct lk__request *request, struct lk__answer *answer)
{
	const redisReply *reply = request->reply;
	struct lk__attempt_event *event = &answer->event;
	assert(request->code || reply);
	int64_t busy;
	event->type = LK__ATTEMPT_UNKNOWN;
	if (request->code) {
		*event = lk__reply_refusal(request);
	} else if (reply->type == REDIS_REPLY_NIL) {
		event->type = LK__ATTEMPT_GRANTED;
	} else if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
		   lk__reply_integer(reply->element[0], 1, INT32_MAX, &busy) &&
		   lk__reply_integer(reply->element[1], INT64_MIN, INT64_MAX, &event->ttl_ms)) {
		event->type = LK__ATTEMPT_BUSY;
		answer->busy = (size_t)busy - 1;
	} else if (lk__reply_late(reply, &event->server_us)) {
		event->type = lk__reply_not_done(request);
	}
}

enum lk__released lk__multi_read_release(const struct lk__request *request, size_t index,
					 int64_t *listeners)
{
	const redisReply *reply = request->reply;
	if (request->code || reply->type != REDIS_REPLY_ARRAY || index >= reply->elements)
		return LK__RELEASED_FAILED;
	int64_t told;
	if (!lk__reply_integer(reply->element[index], -1, INT64_MAX, &told))
		return LK__RELEASED_FAILED;
	if (told < 0)
		return LK__RELEASED_NOT_OWNER;
	*listeners = told;
	return LK__RELEASED;
}
