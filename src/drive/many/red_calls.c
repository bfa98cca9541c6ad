/* SPDX-License-Identifier: MIT */
/* The calls of a red lock: each is begun at all nodes, waited for, and ended. */
#include "base/clock.h"
#include "drive/many/red.h"

/* Whether all that is needed of the nodes is there, or is not waited for any more. Their answers
 * are taken without the entry's mutex. */
static bool nodes_answered(const struct lk__op *op)
{
	return lk__fan_out_look(op->fan_out) || lk__now_ns() >= op->until_ns;
}

/* The same for one who has that mutex. */
static bool nodes_answered_under(const struct lk__op *op, struct lk__entry *entry)
{
	pthread_mutex_unlock(&entry->mutex);
	bool answered = nodes_answered(op);
	pthread_mutex_lock(&entry->mutex);
	return answered;
}

/* ---- tries ---- */

/* Each node of a try connects on its own. */
struct lk__conn *lk__red_route(struct lk__head *head)
{
	(void)head;
	return NULL;
}

int lk__red_send(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	entry->asked_lease_ms = entry->waiting->attempt.asked_lease_ms;
	head->epoch = lk__entry_begin_try(entry);
	lk__head_happened(head, LK__ATTEMPT_FAILED);
	lk__entry_try_begins(entry); /* the next step ends it, also where nothing is sent */
	head->call = lk__red_try_begin(entry, head->waiter, &head->event, head->error);
	if (!head->call)
		return 0;
	head->wait = LK__HEAD_ANSWER;
	lk__op_wait_nodes(head->op, head->call->fan_out, head->call->until_ns);
	return lk__red_send_look(head);
}

int lk__red_send_look(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	if (!nodes_answered_under(head->op, entry) && !lk__head_gone(head))
		return LK__OP_WAITS;
	int rc = lk__red_try_end(head->call, &head->event, head->error);
	head->call = NULL;
	if (rc == 0 && head->event.type == LK__ATTEMPT_BUSY)
		lk__count(&entry->client->counters.busy, 1);
	return rc;
}

/* ---- what is held ---- */

int lk__red_release(struct lk__releasing *releasing)
{
	struct lk__op *op = &releasing->op;
	releasing->call = lk__red_release_begin(releasing->entry, op->thread, releasing->keep_ms,
						releasing->error);
	if (!releasing->call)
		return LK_ENOMEM;
	if (releasing->no_wait)
		return lk__red_release_end(releasing->call, false, releasing->error);
	lk__op_wait_nodes(op, releasing->call->fan_out, releasing->call->until_ns);
	return lk__red_release_look(releasing);
}

int lk__red_release_look(struct lk__releasing *releasing)
{
	if (!nodes_answered_under(&releasing->op, releasing->entry))
		return LK__OP_WAITS;
	return lk__red_release_end(releasing->call, true, releasing->error);
}

int lk__red_extend(struct lk__extending *extending)
{
	struct lk__op *op = &extending->op;
	extending->call = lk__red_extend_begin(extending->entry, op->thread, &extending->extension,
					       extending->error);
	if (!extending->call)
		return LK_ENOMEM;
	lk__op_wait_nodes(op, extending->call->fan_out, extending->call->until_ns);
	return lk__red_extend_look(extending);
}

int lk__red_extend_look(struct lk__extending *extending)
{
	if (!nodes_answered(&extending->op))
		return LK__OP_WAITS;
	return lk__red_extend_end(extending->call, extending->error);
}
