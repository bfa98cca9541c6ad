/* SPDX-License-Identifier: MIT */
#include "lock/notice.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include <lockkeeper/event.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/fail.h"
#include "lock/entry.h"
#include "lock/loop.h"
#include "sync/recipes.h"

/* The least that a program can have been compiled with. */
#define EVENT_SIZE_MIN (offsetof(lk_event, node) + LK_NODE_SIZE)

static_assert(LK_NODE_SIZE == LK__CONN_PLACE_SIZE, "a place is shown whole");
static_assert(LK_EVENT_REASON_SIZE == LK__TROUBLE_SIZE, "a reason is shown whole");

int lk__notices_init(lk_client *client, lk_error *error)
{
	pthread_mutex_init(&client->notices.mutex, NULL);
	client->notices.fd = lk__wake_fd_new();
	if (client->notices.fd < 0)
		return lk__fail_system(error, errno, "eventfd");
	return 0;
}

void lk__notices_free(lk_client *client)
{
	if (client->notices.fd >= 0)
		lk__fd_close(client->notices.fd);
	pthread_mutex_destroy(&client->notices.mutex);
}

/* ---- a completion queue, from the client's side ---- */

/* Under the mutex, which it gives up for the callback. */
static void queue_ring(lk_queue *queue)
{
	if (!queue->owed)
		return;
	queue->owed = false;
	queue->pins++;
	pthread_mutex_unlock(&queue->mutex);
	queue->on_ready(queue->context);
	pthread_mutex_lock(&queue->mutex);
	queue->pins--;
}

void lk__queue_deliver(lk_queue *queue, struct lk__completion *completions)
{
	struct lk__completion *completion;
	pthread_mutex_lock(&queue->mutex);
	DL_FOREACH(completions, completion)
	{
		assert(completion->queue == queue);
		HASH_DEL(queue->in_flight, completion);
		completion->async = NULL;
	}
	bool before = queue->completed != NULL;
	DL_CONCAT(queue->completed, completions);
	lk__queue_mark(queue, before);
	queue_ring(queue);
	pthread_mutex_unlock(&queue->mutex);
}

/* Under the queue's mutex: behind all that wait to be taken, or not among them. */
static void queue_place(lk_queue *queue, struct lk__completion *request, bool listed)
{
	bool before = queue->completed != NULL;
	if (request->listed)
		DL_DELETE(queue->completed, request);
	if (listed)
		DL_APPEND(queue->completed, request);
	request->listed = listed;
	lk__queue_mark(queue, before);
}

/* Puts the request for notices behind all that waits to be taken, or (`any` is false, and it is not
 * cancelled) takes it out. True: the callback is owed. */
static bool request_notify(struct lk__completion *request, bool any)
{
	lk_queue *queue = request->queue;
	pthread_mutex_lock(&queue->mutex);
	request->begun = true;
	/* What a closed client has left comes before the completion of its close. */
	bool stays = atomic_load(&request->client->state) == LK__CLIENT_CLOSED && any;
	if (!stays || !request->listed)
		queue_place(queue, request, any || request->cancelled);
	bool owed = queue->owed;
	pthread_mutex_unlock(&queue->mutex);
	return owed;
}

/* ---- notices ---- */

/* Leaves a callback to the loop. With any mutex held. */
static void notices_owe(lk_client *client)
{
	if (!atomic_exchange(&client->notices.owes, true))
		lk__loop_wake(client);
}

/* Under the mutex: tells both ways to read them whether there are any. The end of a queue's request
 * comes after the last notice of a closed client. */
static void notices_mark(lk_client *client)
{
	struct lk__notices *notices = &client->notices;
	int state = atomic_load(&client->state);
	bool any = notices->holds || notices->tellers;
	bool readable = any || state != LK__CLIENT_OPEN;
	if (readable && !notices->readable)
		lk__wake_fd(notices->fd);
	else if (!readable && notices->readable)
		lk__wake_fd_clear(notices->fd);
	notices->readable = readable;
	if (notices->request && request_notify(notices->request, any || state == LK__CLIENT_CLOSED))
		notices_owe(client);
}

void lk__notices_place(const struct lk__hold *hold, char place_out[LK__CONN_PLACE_SIZE])
{
	*place_out = '\0';
	if (hold->told && hold->told->node)
		lk__node_place_at(hold->told->node, hold->told->epoch, place_out);
}

static void notice_explain(const struct lk__trouble *trouble, lk_event *event_out)
{
	event_out->code = trouble->code;
	memcpy(event_out->server, trouble->place, sizeof(event_out->server));
	memcpy(event_out->reason, trouble->reason, sizeof(event_out->reason));
}

static void event_begin(const struct lk__entry *entry, int type, lk_event *event_out)
{
	size_t name_size = lk__entry_name_size(entry);
	size_t shown = name_size < sizeof(event_out->name) ? name_size
							   : sizeof(event_out->name) - 1;
	memset(event_out, 0, sizeof(*event_out));
	event_out->type = type;
	event_out->name_size = name_size;
	memcpy(event_out->name, entry->name, shown);
}

static void notice_fill(const struct lk__hold *hold, int type, lk_event *event_out)
{
	const struct lk__entry *entry = hold->entry;
	const struct lk__ear *ear = lk__hold_extra(hold)->ear;
	event_begin(entry, type, event_out);
	event_out->tag = lk__hold_extra(hold)->tag;
	event_out->deadline_ns = hold->told_until_ns;
	event_out->fence = lk__hold_extra(hold)->fence;
	lk__notices_place(hold, event_out->node);
	lk__field(entry, hold->number, event_out->field);
	if (type == LK_EVENT_ASKED && ear)
		memcpy(event_out->reason, ear->text, sizeof(event_out->reason));
	else if (hold->told && type != LK_EVENT_ABANDONED)
		notice_explain(&hold->told->trouble, event_out);
}

/* ---- of elections ---- */

/* Under the mutex. */
static void teller_put(lk_client *client, struct lk__teller *teller, enum lk__telling telling)
{
	struct lk__notices *notices = &client->notices;
	if (!teller->pending)
		DL_APPEND(notices->tellers, teller);
	teller->pending |= 1u << telling;
	notices_mark(client);
}

static bool teller_has(const struct lk__teller *teller, enum lk__telling telling)
{
	return teller->pending & (1u << telling);
}

/* The next term begins: what nobody has read of the last one is kept only where its begin was
 * read. */
static void teller_begin(lk_client *client, struct lk__teller *teller)
{
	bool over = teller_has(teller, LK__TELL_NOT_LEADING);
	bool unread = teller_has(teller, LK__TELL_LEADING);
	bool before = teller_has(teller, LK__TELL_BEFORE);
	if (over && !unread)
		teller->event[LK__TELL_BEFORE] = teller->event[LK__TELL_NOT_LEADING];
	if (teller->pending)
		DL_DELETE(client->notices.tellers, teller);
	teller->pending = 0;
	if (before || (over && !unread))
		teller_put(client, teller, LK__TELL_BEFORE);
}

void lk__notices_elected(const struct lk__entry *entry)
{
	const struct lk__hold *hold = entry->hold;
	struct lk__teller *teller = entry->target.stand ? entry->target.stand->teller : NULL;
	lk_client *client = entry->client;
	if (!teller || !hold)
		return;
	lk__stand_progress(entry->target.stand, lk__now_ns());
	pthread_mutex_lock(&client->notices.mutex);
	teller_begin(client, teller);
	teller->number = hold->number;
	notice_fill(hold, LK_EVENT_LEADING, &teller->event[LK__TELL_LEADING]);
	teller->event[LK__TELL_LEADING].deadline_ns = lk__hold_deadline(hold);
	teller_put(client, teller, LK__TELL_LEADING);
	pthread_mutex_unlock(&client->notices.mutex);
}

void lk__notices_unelected(const struct lk__entry *entry, uint64_t tag, const lk_error *why)
{
	struct lk__teller *teller = entry->target.stand->teller;
	lk_client *client = entry->client;
	pthread_mutex_lock(&client->notices.mutex);
	teller_begin(client, teller);
	lk_event *event = &teller->event[LK__TELL_NOT_LEADING];
	event_begin(entry, LK_EVENT_NOT_LEADING, event);
	event->tag = tag;
	event->code = why->code;
	snprintf(event->reason, sizeof(event->reason), "%.*s", LK_EVENT_REASON_SIZE - 1,
		 why->message);
	teller_put(client, teller, LK__TELL_NOT_LEADING);
	pthread_mutex_unlock(&client->notices.mutex);
}

void lk__notices_hush(lk_client *client, struct lk__teller *teller)
{
	pthread_mutex_lock(&client->notices.mutex);
	if (teller->pending) {
		DL_DELETE(client->notices.tellers, teller);
		teller->pending = 0;
		notices_mark(client);
	}
	pthread_mutex_unlock(&client->notices.mutex);
}

/* Under the mutex: what the hold of a leader is told goes the candidate's way. */
static void teller_give(lk_client *client, struct lk__teller *teller, const struct lk__hold *hold,
			enum lk__telling telling)
{
	static const int types[LK__TELLINGS] = {
		[LK__TELL_AT_RISK] = LK_EVENT_AT_RISK,
		[LK__TELL_STOP] = LK_EVENT_STOP,
		[LK__TELL_NOT_LEADING] = LK_EVENT_NOT_LEADING,
	};
	if (teller->number != hold->number)
		return; /* it was not told that it leads */
	notice_fill(hold, types[telling], &teller->event[telling]);
	if (telling == LK__TELL_NOT_LEADING) {
		unsigned unread = (1u << LK__TELL_ASKED) | (1u << LK__TELL_AT_RISK) |
				  (1u << LK__TELL_STOP);
		teller->number = 0;
		if (teller->pending && !(teller->pending & ~unread))
			DL_DELETE(client->notices.tellers, teller);
		teller->pending &= ~unread;
	}
	teller_put(client, teller, telling);
}

/* Under the mutex: the leader is asked to hand over, unless it was not told that it leads. */
static void teller_ask(lk_client *client, struct lk__teller *teller, struct lk__hold *hold,
		       const char *why)
{
	lk_event *event = &teller->event[LK__TELL_ASKED];
	if (teller->number != hold->number)
		return;
	hold->told_until_ns = lk__hold_deadline(hold);
	notice_fill(hold, LK_EVENT_ASKED, event);
	event->code = 0;
	event->server[0] = '\0';
	snprintf(event->reason, sizeof(event->reason), "%s", why);
	teller_put(client, teller, LK__TELL_ASKED);
}

/* Under the mutex: 1 and the oldest, or 0. */
static int tellers_pop(lk_client *client, lk_event *event_out)
{
	struct lk__teller *teller = client->notices.tellers;
	if (!teller)
		return 0;
	unsigned telling = 0;
	while (!teller_has(teller, telling))
		telling++;
	*event_out = teller->event[telling];
	teller->pending &= ~(1u << telling);
	if (!teller->pending)
		DL_DELETE(client->notices.tellers, teller);
	notices_mark(client);
	return 1;
}

static struct lk__teller *hold_teller(const struct lk__hold *hold)
{
	const struct lk__stand *stand = hold->entry->target.stand;
	return stand ? stand->teller : NULL;
}

/* ---- of holds ---- */

void lk__notices_give(lk_client *client, struct lk__hold *hold, unsigned notice)
{
	struct lk__notices *notices = &client->notices;
	if (lk__hold_extra(hold)->no_loss)
		return;
	struct lk__teller *teller = hold_teller(hold);
	pthread_mutex_lock(&notices->mutex);
	bool any = notices->holds != NULL;
	if (!hold->notices && !teller)
		DL_APPEND2(notices->holds, hold, notice_prev, notice_next);
	if (!teller)
		hold->notices |= notice;
	hold->told_until_ns = lk__hold_deadline(hold);
	if (!hold->told)
		hold->told = calloc(1, sizeof(*hold->told));
	if (hold->told) {
		hold->told->node = hold->entry->is_quorum ? NULL : hold->entry->grant.node;
		hold->told->epoch = hold->entry->grant.epoch;
	}
	if (teller)
		teller_give(client, teller, hold,
			    notice == LK__NOTICE_LOST ? LK__TELL_STOP : LK__TELL_AT_RISK);
	else if (!any)
		notices_mark(client);
	pthread_mutex_unlock(&notices->mutex);
}

void lk__notices_ask(lk_client *client, struct lk__hold *hold, const char *why)
{
	struct lk__ear *ear = lk__hold_extra(hold)->ear;
	struct lk__teller *teller = hold_teller(hold);
	pthread_mutex_lock(&client->notices.mutex);
	if (teller)
		teller_ask(client, teller, hold, why);
	else
		snprintf(ear->text, sizeof(ear->text), "%s", why);
	pthread_mutex_unlock(&client->notices.mutex);
	if (!teller)
		lk__notices_give(client, hold, LK__NOTICE_ASKED);
}

void lk__notices_forget(lk_client *client, struct lk__hold *hold)
{
	struct lk__teller *teller = hold_teller(hold);
	pthread_mutex_lock(&client->notices.mutex);
	if (teller)
		teller_give(client, teller, hold, LK__TELL_NOT_LEADING);
	if (hold->notices) {
		hold->notices = 0;
		DL_DELETE2(client->notices.holds, hold, notice_prev, notice_next);
		notices_mark(client);
	}
	pthread_mutex_unlock(&client->notices.mutex);
}

void lk__notices_close(lk_client *client)
{
	pthread_mutex_lock(&client->notices.mutex);
	notices_mark(client);
	pthread_mutex_unlock(&client->notices.mutex);
}

/* 1 and the oldest notice, or 0. Under the mutex. */
static int notices_pop(lk_client *client, lk_event *event_out)
{
	static const struct {
		unsigned notice;
		int type;
	} kinds[] = {{LK__NOTICE_ASKED, LK_EVENT_ASKED},
		     {LK__NOTICE_AT_RISK, LK_EVENT_AT_RISK},
		     {LK__NOTICE_ABANDONED, LK_EVENT_ABANDONED},
		     {LK__NOTICE_LOST, LK_EVENT_LOST}};
	struct lk__hold *hold = client->notices.holds;
	if (!hold)
		return tellers_pop(client, event_out);
	size_t i = 0;
	assert(hold->notices);
	while (!(hold->notices & kinds[i].notice))
		i++;
	notice_fill(hold, kinds[i].type, event_out);
	hold->notices &= ~kinds[i].notice;
	if (!hold->notices)
		DL_DELETE2(client->notices.holds, hold, notice_prev, notice_next);
	notices_mark(client);
	return 1;
}

/* ---- through a completion queue ---- */

void lk__notices_ring(lk_client *client)
{
	if (!atomic_load_explicit(&client->notices.owes, memory_order_relaxed))
		return;
	atomic_store(&client->notices.owes, false);
	pthread_mutex_lock(&client->notices.mutex);
	struct lk__completion *request = client->notices.request;
	lk_queue *queue = request ? request->queue : NULL;
	if (queue) {
		pthread_mutex_lock(&queue->mutex);
		queue->pins++; /* it stays, without the mutex of the notices */
		pthread_mutex_unlock(&queue->mutex);
	}
	pthread_mutex_unlock(&client->notices.mutex);
	if (queue) {
		pthread_mutex_lock(&queue->mutex);
		queue_ring(queue);
		queue->pins--;
		pthread_mutex_unlock(&queue->mutex);
	}
}

int lk__notices_request(lk_client *client, struct lk__completion *request, lk_error *error)
{
	const char *operation = "LK_OP_NOTICE";
	struct lk__notices *notices = &client->notices;
	int rc = 0;
	pthread_mutex_lock(&notices->mutex);
	if (atomic_load(&client->state) == LK__CLIENT_CLOSED)
		rc = lk__fail(error, LK_ECLOSED, "%s: the client is closed", operation);
	else if (notices->request)
		rc = lk__fail(error, LK_EINVAL,
			      "%s: the notices of this client go to %s queue already", operation,
			      notices->request->queue == request->queue ? "this" : "another");
	else
		notices->request = request;
	if (rc == 0)
		notices_mark(client); /* some may wait already */
	pthread_mutex_unlock(&notices->mutex);
	return rc;
}

int lk__notices_cancel(struct lk__completion *request)
{
	request->cancelled = request->begun;
	queue_place(request->queue, request, request->cancelled);
	if (request->queue->owed)
		notices_owe(request->client);
	return request->begun;
}

static void notice_complete(const struct lk__completion *request, const lk_event *event,
			    lk_completion *completion_out)
{
	*completion_out = (lk_completion){.id = request->value.id,
					  .tag = event->tag,
					  .operation = LK_OP_NOTICE,
					  .event = event->type,
					  .deadline_ns = event->deadline_ns,
					  .fence = event->fence};
	completion_out->reason_code = event->code;
	memcpy(completion_out->reason, event->reason, sizeof(completion_out->reason));
	memcpy(completion_out->node, event->node, sizeof(completion_out->node));
	memcpy(completion_out->server, event->server, sizeof(completion_out->server));
	memcpy(completion_out->field, event->field, sizeof(completion_out->field));
}

/* Under the mutex: whether the request is over, which its error says then. */
static bool notices_end(lk_client *client, struct lk__completion *request)
{
	bool closed = atomic_load(&client->state) == LK__CLIENT_CLOSED;
	if (request->cancelled)
		lk__fail(&request->value.error, LK_ECANCELLED, "notices: cancelled");
	else if (closed && !client->notices.holds && !client->notices.tellers)
		lk__fail(&request->value.error, LK_ECLOSED, "notices: the client is closed");
	else
		return false;
	client->notices.request = NULL;
	pthread_mutex_lock(&request->queue->mutex);
	queue_place(request->queue, request, false);
	HASH_DEL(request->queue->in_flight, request);
	request->queue->count--;
	pthread_mutex_unlock(&request->queue->mutex);
	return true;
}

bool lk__notices_take(lk_client *client, const lk_queue *queue, lk_completion *completion_out)
{
	struct lk__notices *notices = &client->notices;
	struct lk__completion *ended = NULL;
	lk_event event;
	bool any = false;
	pthread_mutex_lock(&notices->mutex);
	struct lk__completion *request = notices->request;
	if (!request || request->queue != queue) {
		/* another thread took the end */
	} else if (notices_end(client, request)) {
		*completion_out = request->value;
		ended = request;
		any = true;
	} else if (notices_pop(client, &event)) {
		notice_complete(request, &event, completion_out);
		any = true;
	}
	pthread_mutex_unlock(&notices->mutex);
	if (ended) {
		free(ended);
		lk__client_unref(client); /* the caller has another */
	}
	return any;
}

/* ---- by waiting ---- */

static int notices_sleep(lk_client *client, int64_t until_ns, lk_cancel *cancel)
{
	struct pollfd fds[2] = {
		{.fd = client->notices.fd, .events = POLLIN},
		{.fd = cancel ? cancel->fd : -1, .events = POLLIN},
	};
	int timeout_ms = until_ns == LK__NEVER ? -1 : lk__ms_until(lk__now_ns(), until_ns, 60000);
	return lk__cancel_poll(cancel, fds, 2, timeout_ms);
}

static int notices_wait(lk_client *client, lk_event *event_out, int64_t until_ns, lk_cancel *cancel,
			lk_error *error)
{
	for (;;) {
		pthread_mutex_lock(&client->notices.mutex);
		int found = notices_pop(client, event_out);
		pthread_mutex_unlock(&client->notices.mutex);
		if (found)
			return 1;
		if (atomic_load(&client->state) != LK__CLIENT_OPEN)
			return lk__fail(error, LK_ECLOSED, "lk_event_wait: the client is closed");
		if (lk__cancelled(cancel))
			return lk__fail(error, LK_ECANCELLED, "lk_event_wait: cancelled");
		if (until_ns != LK__NEVER && lk__now_ns() >= until_ns)
			return 0;
		notices_sleep(client, until_ns, cancel);
	}
}

int lk_event_wait(lk_client *client, lk_event *event_out, int64_t wait_ms, lk_cancel *cancel,
		  lk_error *error)
{
	const char *operation = "lk_event_wait";
	if (!client || !event_out || wait_ms < -1)
		return lk__fail(error, LK_EINVAL, "%s: %s", operation,
				wait_ms < -1 ? "wait_ms is under -1" : "an argument is NULL");
	int saved,
		rc = lk__check_size(operation, event_out, EVENT_SIZE_MIN, sizeof(lk_event), error);
	if (rc < 0)
		return rc;
	if (lk__client_forked(client))
		return lk__fail(error, LK_EFORKED, "%s: %s", operation, lk_error_text(LK_EFORKED));
	lk_event event;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &saved);
	int64_t until_ns = wait_ms < 0 ? LK__NEVER : lk__after_ms(lk__now_ns(), wait_ms);
	rc = notices_wait(client, &event, until_ns, cancel, error);
	if (rc == 1)
		lk__copy_sized(event_out, event_out->struct_size, &event, sizeof(event));
	pthread_setcancelstate(saved, NULL);
	return rc;
}

int lk_event_fd(lk_client *client, lk_error *error)
{
	if (!client)
		return lk__fail(error, LK_EINVAL, "lk_event_fd: client is NULL");
	if (lk__client_forked(client))
		return lk__fail(error, LK_EFORKED, "lk_event_fd: %s", lk_error_text(LK_EFORKED));
	return client->notices.fd;
}
