/* SPDX-License-Identifier: MIT */
#include "sync/answer.h"

#include <assert.h>
#include <string.h>

#include <lockkeeper/error.h>

#include "conn/conn.h"
#include "conn/node.h"
#include "sync/script.h"

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

/* The words that no script of ours says are shown: somebody has to find out who says them. */
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
	if (event->type == LK__ATTEMPT_GRANTED &&
	    now_ns >= lk__lease_end_ns(request->sent_ns, lease_ms))
		answer_doubt(&answer, "the grant arrived after its lease had expired");
	if (event->type == LK__ATTEMPT_UNKNOWN && !event->code)
		answer_doubt(&answer, strange(request->reply));
	if (event->type == LK__ATTEMPT_LATE)
		lk__node_learn_time(request->conn->node, event->server_us, now_ns);
	if (event->code && !answer.reason)
		answer.reason = request->reason;
	return answer;
}
