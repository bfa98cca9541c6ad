/* SPDX-License-Identifier: MIT */
#include "sync/script.h"

#include <assert.h>
#include <string.h>

#include <lockkeeper/error.h>

#include "conn/classify.h"
#include "resp/reply.h"

void lk__words_channel(struct lk__words *words, const struct lk__target *target)
{
	size_t size;
	char *name = lk__channel_name(target->recipe, target->key, target->key_size, &size);
	lk__words_own(words, name, size);
}

void lk__words_kept(struct lk__words *words, const char *field)
{
	size_t size = 0;
	char *kept = lk__kept_field(field, &size);
	lk__words_own(words, kept, size);
}

void lk__words_turn(struct lk__words *words, const struct lk__try *wanted)
{
	if (!wanted->turn)
		return;
	lk__words_text(words, wanted->turn);
	lk__words_number(words, wanted->since_us);
	lk__words_number(words, wanted->turn_ms);
	lk__words_text(words, wanted->polite ? "1" : "0");
	words->turn = wanted->polite ? '1' : '0';
}

int lk__reply_renewed(const struct lk__request *request, size_t count, size_t index)
{
	const redisReply *reply = request->reply;
	assert(index < count);
	if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements < count ||
	    request->code == LK_ENOTDURABLE)
		return -1;
	int64_t renewed;
	bool said = !request->code && lk__reply_integer(reply->element[index], 0, 1, &renewed);
	return said ? (int)renewed : -1;
}

struct lk__request *lk__renew_script(enum lk__script_id script, const struct lk__renewal *renewals,
				     size_t count)
{
	struct lk__words words = {0};
	assert(count > 0);
	lk__words_many(&words, 3 * count);
	for (size_t i = 0; i < count; i++)
		lk__words_add(&words, renewals[i].target->key, renewals[i].target->key_size);
	for (size_t i = 0; i < count; i++) {
		lk__words_text(&words, renewals[i].field);
		lk__words_number(&words, renewals[i].lease_ms);
	}
	return lk__words_script(&words, script, count);
}

struct lk__attempt_event lk__reply_refusal(const struct lk__request *request)
{
	assert(request->code < 0);
	if (request->code == LK_EMAYBEHELD || request->code == LK_ENOTDURABLE)
		return (struct lk__attempt_event){.type = LK__ATTEMPT_UNKNOWN,
						  .code = request->code,
						  .lasting = request->lasting};
	/* OOM and the like fail fast: trying again would only add to it. */
	bool retryable = lk_error_is_retryable(request->code) && request->code != LK_EREFUSED;
	return (struct lk__attempt_event){
		.type = LK__ATTEMPT_FAILED,
		.code = request->code,
		.retryable = retryable,
		.passing = request->passing,
	};
}

bool lk__reply_is_of_copy(const struct lk__request *request)
{
	return request->sends > 1;
}

enum lk__attempt_event_type lk__reply_not_done(const struct lk__request *request)
{
	return lk__reply_is_of_copy(request) ? LK__ATTEMPT_UNKNOWN : LK__ATTEMPT_LATE;
}

bool lk__reply_late(const redisReply *reply, int64_t *server_us)
{
	if (reply->type != REDIS_REPLY_STATUS || strncmp(reply->str, "LATE ", 5) != 0)
		return false;
	return lk__number_read(reply->str + 5, 0, INT64_MAX, server_us);
}

void lk__reply_acquired(const struct lk__request *request, struct lk__answer *answer)
{
	const redisReply *reply = request->reply;
	struct lk__attempt_event *event = &answer->event;
	assert(request->code || reply);
	event->type = LK__ATTEMPT_UNKNOWN;
	if (request->code) {
		*event = lk__reply_refusal(request);
	} else if (reply->type == REDIS_REPLY_NIL) {
		event->type = LK__ATTEMPT_GRANTED;
	} else if (reply->type == REDIS_REPLY_INTEGER) {
		event->type = LK__ATTEMPT_BUSY;
		event->ttl_ms = reply->integer;
	} else if (lk__reply_late(reply, &answer->event.server_us)) {
		event->type = lk__reply_not_done(request);
	}
}

static enum lk__released released(const struct lk__request *request, int64_t least,
				  int64_t *listeners)
{
	assert(request->code || request->reply);
	if (request->code)
		return LK__RELEASED_FAILED;
	if (request->reply->type == REDIS_REPLY_NIL)
		return LK__RELEASED_NOT_OWNER;
	return lk__reply_integer(request->reply, least, INT64_MAX, listeners) ? LK__RELEASED
									      : LK__RELEASED_FAILED;
}

enum lk__released lk__reply_released(const struct lk__request *request, int64_t *listeners)
{
	return released(request, 0, listeners);
}

enum lk__released lk__reply_turn_given(const struct lk__request *request, int64_t *listeners)
{
	return released(request, -1 - INT64_C(0xffffffff), listeners);
}

enum lk__exchanged lk__reply_exchanged(const struct lk__request *request)
{
	const redisReply *reply = request->reply;
	assert(request->code || reply);
	if (request->code == LK_EMAYBEHELD || request->code == LK_ENOTDURABLE)
		return LK__EXCHANGE_UNKNOWN;
	if (request->code)
		return LK__EXCHANGE_NOT_DONE;
	if (reply->type == REDIS_REPLY_NIL)
		return LK__EXCHANGED;
	if (reply->type == REDIS_REPLY_INTEGER)
		return LK__EXCHANGE_NOT_OWNER;
	if (reply->type == REDIS_REPLY_STATUS && strncmp(reply->str, "FREED", 5) == 0)
		return LK__EXCHANGE_FREED;
	return lk__reply_is_of_copy(request) ? LK__EXCHANGE_UNKNOWN : LK__EXCHANGE_NOT_DONE;
}
