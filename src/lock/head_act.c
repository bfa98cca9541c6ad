/* SPDX-License-Identifier: MIT */
/*
 * What the head of a wait queue does. A begin returns 0 with an event, or LK__OP_WAITS; a look at
 * what is waited for does too, or returns why the head has to leave.
 */
#include "lock/head.h"

#include <assert.h>

#include "base/clock.h"
#include "lock/client.h"

int lk__head_gone(const struct lk__head *head)
{
	int over = lk__head_over(head);
	return over == LK_ETIMEDOUT ? 0 : over;
}

static int head_waits(struct lk__head *head, enum lk__head_wait wait)
{
	head->wait = wait;
	return LK__OP_WAITS;
}

/* ---- connection ---- */

static int connect_begin(struct lk__head *head, int64_t unlimited_until_ns)
{
	int64_t until_ns = lk__head_connect_until_ns(head, unlimited_until_ns);
	struct lk__conn *conn = lk__entry_policy(head->entry)->route(head);
	if (conn && lk__op_connect(head->op, conn, head->waiter->once, until_ns))
		return head_waits(head, LK__HEAD_CONNECTION);
	return lk__head_connected(head, LK__WAIT_READY, NULL);
}

static int connect_look(struct lk__head *head)
{
	lk_error why = {.code = LK_EUNREACHABLE, .message = "the server cannot be reached"};
	int rc = lk__op_connect_look(head->op, lk__head_gone(head), &why);
	return rc == LK__OP_WAITS ? rc : lk__head_connected(head, rc, &why);
}

/* ---- tries ---- */

/* While it is in flight the request has a reference of the entry. */
int lk__head_send(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	struct lk__conn *conn = lk__op_join(head->op, entry, entry->target.node);
	struct lk__request *request = lk__head_try(head);
	if (!request) {
		lk__op_part(head->op);
		return 0;
	}
	lk__entry_ref(entry);
	lk__client_record_show(entry->client, conn);
	lk__op_call(head->op, conn, request, lk__head_answer_until_ns(head));
	return head_waits(head, LK__HEAD_ANSWER);
}

/* A try of an earlier head is ours now; or its reader is about to bring the answer. */
static int await_begin(struct lk__head *head)
{
	struct lk__op *op = head->op;
	struct lk__waiting *waiting = head->entry->waiting;
	lk__head_pin(head);
	bool ours = waiting->request && !waiting->answered &&
		    lk__conn_take_over(waiting->request, op->thread,
				       lk__head_answer_until_ns(head));
	if (ours) {
		lk__op_await(op, waiting->request, lk__head_answer_until_ns(head));
	} else {
		op->request = NULL;
		lk__op_wait(op, head->waiter->until_ns);
	}
	head_waits(head, LK__HEAD_ANSWER);
	return waiting->answered ? lk__head_send_look(head) : LK__OP_WAITS;
}

/* The try is not in flight any more. */
static int head_told(struct lk__head *head)
{
	atomic_fetch_sub(&head->entry->refs, 1); /* never the last: the caller has one */
	lk__head_answered(head, head->op->request);
	return 0;
}

/* The time for an answer is over; `over`: and that of the head. */
static int answer_give_up(struct lk__head *head, int over)
{
	if (lk__op_leave(head->op, over != 0, over ? lk__head_detached : lk__request_forget))
		return head_told(head);
	if (over)
		return over;
	atomic_fetch_sub(&head->entry->refs, 1);
	lk__head_unanswered(head);
	return 0;
}

/* The answer to a try that was left behind, and whose reader brings it. */
static int answer_brought(struct lk__head *head)
{
	struct lk__waiting *waiting = head->entry->waiting;
	struct lk__request *request = waiting->answered;
	if (!request) {
		int over = lk__head_over(head);
		return over ? over : LK__OP_WAITS;
	}
	waiting->answered = NULL;
	lk__head_answered(head, request);
	return 0;
}

int lk__head_send_look(struct lk__head *head)
{
	if (!head->op->request)
		return answer_brought(head);
	if (lk__op_is_answered(head->op))
		return head_told(head);
	int gone = lk__head_gone(head);
	if (!gone && lk__now_ns() < head->op->until_ns)
		return LK__OP_WAITS;
	return answer_give_up(head, gone ? gone : lk__head_over(head));
}

/* ---- messages ---- */

static int listen_look(struct lk__head *head)
{
	lk_error why = {.code = LK_EUNREACHABLE, .message = "no answer to SUBSCRIBE"};
	int rc = lk__op_listen_look(head->op, lk__head_gone(head), &why);
	return rc == LK__OP_WAITS ? rc : lk__head_subscribed(head, rc, &why);
}

static int listen_begin(struct lk__head *head)
{
	struct lk__op *op = head->op;
	struct lk__entry *entry = head->entry;
	struct lk__conn *conn = lk__entry_messages(entry);
	if (!lk__head_subscribe(head))
		return 0;
	lk__channel_mark(conn, lk__entry_channel(entry), &op->mark);
	head_waits(head, LK__HEAD_SUBSCRIPTION);
	return lk__op_listen(op, conn, true, lk__head_subscribe_until_ns(head)) ? LK__OP_WAITS
										: listen_look(head);
}

static int hear_look(struct lk__head *head)
{
	int rc = lk__op_listen_look(head->op, lk__head_gone(head), NULL);
	return rc == LK__OP_WAITS ? rc : lk__head_heard(head, rc, &head->op->mark);
}

static int hear_begin(struct lk__head *head, int64_t until_ns, bool news_only)
{
	struct lk__op *op = head->op;
	until_ns = lk__head_listen(head, until_ns, news_only, &op->mark);
	head_waits(head, LK__HEAD_MESSAGE);
	return lk__op_listen(op, lk__entry_messages(head->entry), false, until_ns)
		       ? LK__OP_WAITS
		       : hear_look(head);
}

/* ---- pauses ---- */

static int pause_begin(struct lk__head *head, int64_t until_ns)
{
	head->pause_until_ns = until_ns - lk__head_jitter_ns(until_ns);
	lk__op_wait(head->op, lk__earlier(head->waiter->until_ns, head->pause_until_ns));
	return head_waits(head, LK__HEAD_PAUSE);
}

static int pause_look(struct lk__head *head)
{
	int over = lk__head_over(head);
	if (lk__now_ns() < head->pause_until_ns && !head->entry->waiting->asks_anew)
		return over ? over : LK__OP_WAITS;
	lk__head_happened(head, LK__ATTEMPT_TIMER);
	return 0;
}

/* ---- from one to the next ---- */

static int head_act(struct lk__head *head, const struct lk__effects *effects)
{
	bool holds_off = effects->action == LK__ATTEMPT_DO_HOLD_OFF;
	switch (effects->action) {
	case LK__ATTEMPT_DO_CONNECT:
		return connect_begin(head, effects->until_ns);
	case LK__ATTEMPT_DO_SEND:
		return lk__entry_policy(head->entry)->send(head);
	case LK__ATTEMPT_DO_AWAIT:
		return await_begin(head);
	case LK__ATTEMPT_DO_LISTEN:
		return listen_begin(head);
	case LK__ATTEMPT_DO_PAUSE:
		return pause_begin(head, effects->until_ns);
	default:
		assert(holds_off || effects->action == LK__ATTEMPT_DO_WAIT);
		return hear_begin(head, effects->until_ns, holds_off);
	}
}

static int head_look(struct lk__head *head)
{
	switch (head->wait) {
	case LK__HEAD_CONNECTION:
		return connect_look(head);
	case LK__HEAD_ANSWER:
		return lk__entry_policy(head->entry)->send_look(head);
	case LK__HEAD_SUBSCRIPTION:
		return listen_look(head);
	case LK__HEAD_MESSAGE:
		return hear_look(head);
	case LK__HEAD_PAUSE:
		return pause_look(head);
	default:
		return 0;
	}
}

int lk__head_run(struct lk__head *head)
{
	int rc = head_look(head);
	while (rc == 0) {
		struct lk__effects effects;
		head->wait = LK__HEAD_NOTHING;
		rc = lk__head_step(head, &effects);
		if (rc)
			return rc;
		rc = head_act(head, &effects);
	}
	return rc == LK__OP_WAITS ? rc : lk__head_leave(head, rc);
}
