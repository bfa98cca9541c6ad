/* SPDX-License-Identifier: MIT */
#include "sync/script.h"

#include <assert.h>
#include <string.h>

#include <lockkeeper/error.h>

#include "conn/request.h"
#include "conn/conn.h"
#include "conn/node.h"
#include "resp/reply.h"

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

enum lk__exchanged lk__reply_exchanged(const struct lk__request *request, struct lk__answer *answer)
{
	(void)answer; /* there is no token */
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

/* A reply that came with LK_ENOTDURABLE is read as it would be without: only a grant is void. */
static struct lk__answer answer_read(const struct lk__request *request, lk__read_acquire *read)
{
	struct lk__answer answer = {.fence = 0};
	if (request->code != LK_ENOTDURABLE) {
		read(request, &answer);
		return answer;
	}
	struct lk__request durable = *request;
	durable.code = 0;
	read(&durable, &answer);
	if (answer.event.type == LK__ATTEMPT_GRANTED)
		answer.event = lk__reply_refusal(request);
	return answer;
}

static void answer_doubt(struct lk__answer *answer, const char *reason)
{
	answer->event.type = LK__ATTEMPT_UNKNOWN;
	answer->event.code = LK_EMAYBEHELD;
	answer->reason = reason;
}

/* The words that no script of ours says are shown: somebody has to find their source. */
static const char *strange(const redisReply *reply)
{
	bool words = reply && reply->type == REDIS_REPLY_STATUS && strchr(reply->str, ' ');
	return words ? reply->str : "the answer does not say whether it was granted";
}

struct lk__answer lk__answer_take(const struct lk__request *request, lk__read_acquire *read,
				  int64_t lease_ms, int64_t now_ns)
{
	struct lk__answer answer = answer_read(request, read);
	struct lk__attempt_event *event = &answer.event;
	assert(event->type >= LK__ATTEMPT_GRANTED && event->type <= LK__ATTEMPT_UNKNOWN);
	assert(event->type != LK__ATTEMPT_GRANTED || !event->code);
	event->sent_ns = request->sent_ns;
	event->copied = lk__reply_is_of_copy(request);
	event->untold = request->code == LK_EMAYBEHELD;
	event->unsent = request->code == LK_EUNREACHABLE && request->sends == 0;
	event->ran = request->ran;
	if (event->type == LK__ATTEMPT_GRANTED &&
	    now_ns >= lk__lease_end_ns(request->sent_ns, lease_ms)) {
		answer_doubt(&answer, "the grant arrived after its lease had expired");
		event->ran = !event->copied;
	}
	if (event->type == LK__ATTEMPT_UNKNOWN && !event->code)
		answer_doubt(&answer, strange(request->reply));
	if (event->type == LK__ATTEMPT_LATE)
		lk__node_learn_time(request->conn->node, event->server_us, now_ns);
	if (event->code && !answer.reason)
		answer.reason = request->reason;
	return answer;
}
