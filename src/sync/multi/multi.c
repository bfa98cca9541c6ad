/* SPDX-License-Identifier: MIT */
#include "sync/multi/multi.h"

#include "resp/reply.h"
#include "sync/script.h"

void lk__multi_read_acquire(const struct lk__request *request, struct lk__answer *answer)
{
	const redisReply *said = lk__reply_tried(request, answer);
	struct lk__attempt_event *event = &answer->event;
	int64_t busy;
	if (!said || said->type != REDIS_REPLY_ARRAY || said->elements != 2 ||
	    !lk__reply_integer(said->element[0], 1, INT32_MAX, &busy) ||
	    !lk__reply_integer(said->element[1], INT64_MIN, INT64_MAX, &event->ttl_ms))
		return;
	event->type = LK__ATTEMPT_BUSY;
	answer->busy = (size_t)busy - 1;
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
