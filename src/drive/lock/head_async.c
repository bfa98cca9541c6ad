/* SPDX-License-Identifier: MIT */
/*
 * A head that never sleeps, in the loop. Each action is begun once, and then looked at: `wait` says
 * what it waits for, and `until_ns` when to look if nothing wakes it before.
 */
#include "drive/lock/head.h"

#include <assert.h>

#include "base/clock.h"
#include "drive/client/client_record.h"

#define LOOK_NS (5 * LK__MS) /* between looks at an answer that another thread is bringing */

int lk__head_gone(const struct lk__head *head)
{
	int over = lk__head_over(head);
	return over == LK_ETIMEDOUT ? 0 : over;
}

void lk__head_waits(struct lk__head *head, enum lk__head_wait wait, int64_t until_ns)
{
	head->wait = wait;
	head->until_ns = until_ns;
}

/* Whether there is nothing to do yet but to wait on. */
static bool head_waits_on(const struct lk__head *head, int rc)
{
	return rc == LK__WAIT_TIME_UP && lk__now_ns() < head->until_ns;
}

/* ---- connection ---- */

static void connect_begin(struct lk__head *head, int64_t unlimited_until_ns)
{
	const struct lk__caller *waiter = head->waiter;
	struct lk__conn *conn = head->entry->policy->route(head);
	if (!conn || lk__conn_ready_begin(conn, &head->standby, waiter->thread, waiter->once))
		lk__head_connected(head, LK__WAIT_READY, NULL);
	else
		lk__head_waits(head, LK__HEAD_CONNECTION,
			       lk__head_connect_until_ns(head, unlimited_until_ns));
}

static int connect_look(struct lk__head *head)
{
	struct lk__conn *conn = lk__entry_conn(head->entry);
	lk_error why = {.code = LK_EUNREACHABLE, .message = "the server cannot be reached"};
	int rc = lk__head_gone(head);
	if (rc == 0)
		rc = lk__conn_ready_look(conn, &head->standby, &why);
	if (head_waits_on(head, rc))
		return 1;
	lk__conn_ready_end(conn, &head->standby);
	return lk__head_connected(head, rc, &why);
}

/* ---- tries ---- */

void lk__head_send_begin(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	struct lk__request *request = lk__head_try(head);
	if (!request)
		return;
	request->finish = lk__head_detached; /* wakes us, or the next head */
	lk__entry_ref(entry);
	lk__client_record_show(entry->client, lk__entry_conn(entry));
	lk__conn_queue(lk__entry_conn(entry), request);
	lk__head_waits(head, LK__HEAD_ANSWER, lk__head_answer_until_ns(head));
}

/* The try that an earlier head left behind is ours. */
static void await_begin(struct lk__head *head)
{
	lk__head_pin(head);
	lk__head_waits(head, LK__HEAD_ANSWER, lk__head_answer_until_ns(head));
}

/* The time for an answer is over. */
static int answer_give_up(struct lk__head *head, int over)
{
	struct lk__entry *entry = head->entry;
	struct lk__request *request = entry->waiting->request;
	if (lk__conn_withdraw(request)) { /* it was never sent */
		atomic_fetch_sub(&entry->refs, 1);
		lk__head_answered(head, request);
		return 0;
	}
	if (over && lk__conn_hurry(request)) {
		lk__head_waits(head, LK__HEAD_ANSWER, lk__now_ns() + LOOK_NS);
		return 1;
	}
	if (over)
		return over;
	if (!lk__conn_leave(request, lk__request_forget)) {
		lk__head_waits(head, LK__HEAD_ANSWER, lk__now_ns() + LOOK_NS);
		return 1;
	}
	atomic_fetch_sub(&entry->refs, 1);
	lk__head_unanswered(head);
	return 0;
}

int lk__head_send_look(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	struct lk__request *request = entry->waiting->answered;
	int gone = lk__head_gone(head);
	if (request) {
		entry->waiting->answered = NULL;
		lk__head_answered(head, request);
		return 0;
	}
	if (!gone && lk__now_ns() < head->until_ns)
		return 1;
	return answer_give_up(head, gone ? gone : lk__head_over(head));
}

/* ---- messages ---- */

static void listen_begin(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	struct lk__conn *conn = lk__entry_messages(entry);
	if (!lk__head_subscribe(head))
		return;
	lk__channel_mark(conn, lk__entry_channel(entry), &head->mark);
	lk__channel_stand_by(conn, lk__entry_channel(entry), &head->standby, head->waiter->thread);
	lk__head_waits(head, LK__HEAD_SUBSCRIPTION, lk__head_subscribe_until_ns(head));
}

static int listen_look(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	struct lk__conn *conn = lk__entry_messages(entry);
	lk_error why = {.code = LK_EUNREACHABLE, .message = "no answer to SUBSCRIBE"};
	int rc = lk__head_gone(head);
	if (rc == 0)
		rc = lk__channel_await_look(conn, &head->mark, &why);
	if (head_waits_on(head, rc))
		return 1;
	lk__channel_stand_down(conn, lk__entry_channel(entry), &head->standby);
	return lk__head_subscribed(head, rc, &why);
}

static void hear_begin(struct lk__head *head, int64_t until_ns, bool news_only)
{
	struct lk__entry *entry = head->entry;
	until_ns = lk__head_listen(head, until_ns, news_only, &head->mark);
	lk__channel_stand_by(lk__entry_messages(entry), lk__entry_channel(entry), &head->standby,
			     head->waiter->thread);
	lk__head_waits(head, LK__HEAD_MESSAGE, until_ns);
}

static int hear_look(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	struct lk__conn *conn = lk__entry_messages(entry);
	int rc = lk__head_gone(head);
	if (rc == 0)
		rc = lk__channel_hear_look(conn, &head->mark);
	if (head_waits_on(head, rc))
		return 1;
	lk__channel_stand_down(conn, lk__entry_channel(entry), &head->standby);
	return lk__head_heard(head, rc, &head->mark);
}

/* ---- pauses ---- */

static void pause_begin(struct lk__head *head, int64_t until_ns)
{
	head->pause_until_ns = until_ns - lk__head_jitter_ns(until_ns);
	lk__head_waits(head, LK__HEAD_TIME,
		       lk__earlier(head->waiter->until_ns, head->pause_until_ns));
}

static int pause_look(struct lk__head *head)
{
	if (lk__now_ns() < head->pause_until_ns) {
		int over = lk__head_over(head);
		return over ? over : 1;
	}
	lk__head_happened(head, LK__ATTEMPT_TIMER);
	return 0;
}

/* ---- the loop's turns ---- */

/* Ends in an event, or in a wait. */
static void head_act(struct lk__head *head, const struct lk__effects *effects)
{
	bool holds_off = effects->action == LK__ATTEMPT_DO_HOLD_OFF;
	switch (effects->action) {
	case LK__ATTEMPT_DO_CONNECT:
		connect_begin(head, effects->until_ns);
		break;
	case LK__ATTEMPT_DO_SEND:
		head->entry->policy->send_begin(head);
		break;
	case LK__ATTEMPT_DO_AWAIT:
		await_begin(head);
		break;
	case LK__ATTEMPT_DO_LISTEN:
		listen_begin(head);
		break;
	case LK__ATTEMPT_DO_PAUSE:
		pause_begin(head, effects->until_ns);
		break;
	default:
		assert(holds_off || effects->action == LK__ATTEMPT_DO_WAIT);
		hear_begin(head, effects->until_ns, holds_off);
	}
}

/* 1: it waits on; 0 with an event, or why the head has to leave. */
static int head_look(struct lk__head *head)
{
	switch (head->wait) {
	case LK__HEAD_CONNECTION:
		return connect_look(head);
	case LK__HEAD_ANSWER:
		return head->entry->policy->send_look(head);
	case LK__HEAD_SUBSCRIPTION:
		return listen_look(head);
	case LK__HEAD_MESSAGE:
		return hear_look(head);
	case LK__HEAD_TIME:
		return pause_look(head);
	default:
		return 0;
	}
}

int lk__head_resume(struct lk__head *head)
{
	for (;;) {
		struct lk__effects effects;
		int rc = head_look(head);
		if (rc > 0)
			return 0;
		head->wait = LK__HEAD_NOTHING;
		if (rc < 0)
			return lk__head_leave(head, rc);
		rc = lk__head_step(head, &effects);
		if (rc)
			return rc;
		head_act(head, &effects);
	}
}
