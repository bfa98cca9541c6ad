/* SPDX-License-Identifier: MIT */
/* The calls of a red lock's callers: each is begun at all nodes, waited for, and ended. */
#include "base/clock.h"
#include "drive/lock/head.h"
#include "drive/lock/release.h"
#include "drive/many/red.h"

/* ---- tries ---- */

/* Each node of a try connects on its own. */
struct lk__conn *lk__red_route(struct lk__head *head)
{
	(void)head;
	return NULL;
}

/* False with an event. */
static bool try_begin(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	entry->asked_lease_ms = entry->waiting->attempt.asked_lease_ms;
	head->epoch = lk__entry_begin_try(entry);
	lk__head_happened(head, LK__ATTEMPT_FAILED);
	lk__entry_try_begins(entry); /* the next step ends it, also where nothing is sent */
	head->call = lk__red_try_begin(entry, head->waiter, &head->event, head->error);
	return head->call != NULL;
}

static int try_end(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	int rc = lk__red_try_end(head->call, &head->event, head->error);
	head->call = NULL;
	if (rc == 0 && head->event.type == LK__ATTEMPT_BUSY)
		lk__count(&entry->client->counters.busy, 1);
	return rc;
}

int lk__red_send(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	if (!try_begin(head))
		return 0;
	pthread_mutex_unlock(&entry->mutex);
	lk__fan_out_wait(head->call->fan_out, head->call->until_ns, head->waiter->cancel);
	pthread_mutex_lock(&entry->mutex);
	return try_end(head);
}

void lk__red_send_begin(struct lk__head *head)
{
	if (try_begin(head))
		lk__head_waits(head, LK__HEAD_ANSWER, head->call->until_ns);
}

/* The answers are taken without the entry's mutex. */
int lk__red_send_look(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	pthread_mutex_unlock(&entry->mutex);
	bool decided = lk__fan_out_look(head->call->fan_out);
	pthread_mutex_lock(&entry->mutex);
	if (!decided && !lk__head_gone(head) && lk__now_ns() < head->until_ns)
		return 1;
	return try_end(head);
}

/* ---- what is held ---- */

int lk__red_release(struct lk__entry *entry, struct lk__thread *thread, bool no_wait,
		    lk_error *error)
{
	struct lk__nodes_call *call = lk__red_release_begin(entry, thread, error);
	if (!call)
		return LK_ENOMEM;
	pthread_mutex_unlock(&entry->mutex);
	if (!no_wait)
		lk__fan_out_wait(call->fan_out, call->until_ns, NULL);
	pthread_mutex_lock(&entry->mutex);
	return lk__red_release_end(call, !no_wait, error);
}

int lk__red_extend(struct lk__entry *entry, struct lk__thread *thread,
		   struct lk__extension *extension, lk_error *error)
{
	struct lk__nodes_call *call = lk__red_extend_begin(entry, thread, extension, error);
	if (!call)
		return LK_ENOMEM;
	lk__fan_out_wait(call->fan_out, call->until_ns, NULL);
	return lk__red_extend_end(call, error);
}
