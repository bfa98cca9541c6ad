/* SPDX-License-Identifier: MIT */
/* A head that sleeps in the calling thread. */
#include "drive/lock/head.h"

#include "base/clock.h"
#include "drive/client/client_record.h"

/* The wait for the try's answer ended with `rc`: an event, or the head leaves and the try stays. */
static int head_waited(struct lk__head *head, int rc)
{
	struct lk__entry *entry = head->entry;
	struct lk__request *request = entry->waiting->request;
	int over = lk__head_over(head);
	if (rc != LK__WAIT_READY) {
		lk__entry_ref(entry);
		if (over)
			lk__conn_hurry(request);
		if (lk__conn_leave(request, over ? lk__head_detached : lk__request_forget)) {
			if (over)
				return over;
			lk__head_unanswered(head);
			atomic_fetch_sub(&entry->refs, 1);
			return 0;
		}
		atomic_fetch_sub(&entry->refs, 1);
	}
	lk__head_answered(head, request);
	return 0;
}

/* Each returns 0 with an event, or why the head has to leave. */
static int head_connect(struct lk__head *head, int64_t unlimited_until_ns)
{
	struct lk__entry *entry = head->entry;
	const struct lk__caller *waiter = head->waiter;
	lk_error why = {.code = LK_EUNREACHABLE, .message = "the server cannot be reached"};
	int64_t until_ns = lk__head_connect_until_ns(head, unlimited_until_ns);
	struct lk__conn *conn = entry->policy->route(head);
	if (!conn)
		return lk__head_connected(head, LK__WAIT_READY, &why);
	pthread_mutex_unlock(&entry->mutex);
	int rc = lk__conn_ready(conn, waiter->thread, waiter->once, until_ns, waiter->cancel, &why);
	pthread_mutex_lock(&entry->mutex);
	return lk__head_connected(head, rc, &why);
}

int lk__head_send(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	const struct lk__caller *waiter = head->waiter;
	struct lk__conn *conn = lk__entry_join(entry, entry->target.node);
	struct lk__request *request = lk__head_try(head);
	if (!request) {
		lk__conn_part(conn);
		return 0;
	}
	pthread_mutex_unlock(&entry->mutex);
	lk__client_record_show(entry->client, conn);
	int rc = lk__conn_call(conn, request, waiter->thread, lk__head_answer_until_ns(head),
			       waiter->cancel);
	lk__conn_part(conn);
	pthread_mutex_lock(&entry->mutex);
	return head_waited(head, rc);
}

/* A try of an earlier head is in flight, or has just been answered. */
static int head_await(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	struct lk__caller *waiter = head->waiter;
	lk__head_pin(head);
	if (entry->waiting->request && !entry->waiting->answered &&
	    lk__conn_take_over(entry->waiting->request, waiter->thread)) {
		int64_t until_ns = lk__head_answer_until_ns(head);
		atomic_fetch_sub(&entry->refs, 1);
		pthread_mutex_unlock(&entry->mutex);
		int rc = lk__conn_await(entry->waiting->request, waiter->thread, until_ns,
					waiter->cancel);
		pthread_mutex_lock(&entry->mutex);
		return head_waited(head, rc);
	}
	while (!entry->waiting->answered) {
		int over = lk__head_over(head);
		if (over)
			return over;
		pthread_mutex_unlock(&entry->mutex);
		lk__park_wait(&waiter->thread->park, waiter->until_ns);
		pthread_mutex_lock(&entry->mutex);
	}
	struct lk__request *request = entry->waiting->answered;
	entry->waiting->answered = NULL;
	lk__head_answered(head, request);
	return 0;
}

static int head_listen(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	lk_error why = {.code = LK_EUNREACHABLE, .message = "no answer to SUBSCRIBE"};
	if (!lk__head_subscribe(head))
		return 0;
	int64_t until_ns = lk__head_subscribe_until_ns(head);
	pthread_mutex_unlock(&entry->mutex);
	int rc = lk__channel_await(lk__entry_messages(entry), lk__entry_channel(entry),
				   head->waiter->thread, until_ns, head->waiter->cancel, &why);
	pthread_mutex_lock(&entry->mutex);
	return lk__head_subscribed(head, rc, &why);
}

static int head_hear(struct lk__head *head, int64_t until_ns, bool news_only)
{
	struct lk__entry *entry = head->entry;
	struct lk__heard mark;
	until_ns = lk__head_listen(head, until_ns, news_only, &mark);
	pthread_mutex_unlock(&entry->mutex);
	int rc = lk__channel_hear(lk__entry_messages(entry), &mark, head->waiter->thread, until_ns,
				  head->waiter->cancel);
	pthread_mutex_lock(&entry->mutex);
	return lk__head_heard(head, rc, &mark);
}

static int head_pause(struct lk__head *head, int64_t until_ns)
{
	struct lk__entry *entry = head->entry;
	struct lk__caller *waiter = head->waiter;
	until_ns -= lk__head_jitter_ns(until_ns);
	while (lk__now_ns() < until_ns) {
		int over = lk__head_over(head);
		if (over)
			return over;
		pthread_mutex_unlock(&entry->mutex);
		lk__park_wait(&waiter->thread->park, lk__earlier(waiter->until_ns, until_ns));
		pthread_mutex_lock(&entry->mutex);
	}
	lk__head_happened(head, LK__ATTEMPT_TIMER);
	return 0;
}

static int head_act(struct lk__head *head, const struct lk__effects *effects)
{
	switch (effects->action) {
	case LK__ATTEMPT_DO_CONNECT:
		return head_connect(head, effects->until_ns);
	case LK__ATTEMPT_DO_SEND:
		return head->entry->policy->send(head);
	case LK__ATTEMPT_DO_AWAIT:
		return head_await(head);
	case LK__ATTEMPT_DO_LISTEN:
		return head_listen(head);
	case LK__ATTEMPT_DO_WAIT:
	case LK__ATTEMPT_DO_HOLD_OFF:
		return head_hear(head, effects->until_ns,
				 effects->action == LK__ATTEMPT_DO_HOLD_OFF);
	case LK__ATTEMPT_DO_PAUSE:
		return head_pause(head, effects->until_ns);
	default:
		return LK_EINTERNAL;
	}
}

static int head_run(struct lk__head *head)
{
	for (;;) {
		struct lk__effects effects;
		int rc = lk__head_step(head, &effects);
		if (rc)
			return rc;
		rc = head_act(head, &effects);
		if (rc < 0)
			return lk__head_leave(head, rc);
	}
}

int lk__head_drive(struct lk__entry *entry, struct lk__caller *waiter, lk_error *error)
{
	lk_error own = {0};
	struct lk__head head;
	lk__head_begin(&head, entry, waiter, error ? error : &own);
	int rc = head_run(&head);
	lk__head_end(&head);
	return rc;
}
