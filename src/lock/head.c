/* SPDX-License-Identifier: MIT */
#include "lock/head.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conn/channels.h"
#include "conn/node.h"
#include "lock/compensation.h"
#include "lock/loop.h"
#include "lock/told.h"
#include "lock/turns.h"
#include "resp/reply.h"
#include "sync/recipes.h"
#include "sync/script.h"
#include "sync/trace.h"

#define DEAF_NS (1000 * LK__MS)       /* between tries while no message can be heard */
#define DEAF_POLL_MS 100              /* the same where the server refuses to tell messages */
#define ANSWER_GRACE_NS (50 * LK__MS) /* beyond a try's deadline, for its answer's way back */

static int head_fail(struct lk__head *head, int code, const char *reason)
{
	return lk__fail(head->error, code, "acquire \"%.100s\" on %.100s: %s", head->entry->name,
			head->entry->client->config->url, reason);
}

static void head_happened(struct lk__head *head, enum lk__attempt_event_type type)
{
	head->event = (struct lk__attempt_event){.type = type};
}

static void head_failed(struct lk__head *head, int code, bool retryable, const char *reason)
{
	head->event = (struct lk__attempt_event){
		.type = LK__ATTEMPT_FAILED, .code = code, .retryable = retryable};
	head_fail(head, code, reason);
}

/* The try failed for want of a connection. */
static void head_unconnected(struct lk__head *head, const lk_error *why, bool retryable)
{
	head_failed(head, why->code, retryable, why->message);
	head->event.passing = lk__conn_may_come(head->entry->client->config, why->code);
}

/* 0, or why the head has to leave. */
static int head_end(const struct lk__head *head)
{
	const struct lk__caller *waiter = head->waiter;
	int over = lk__entry_ends(head->entry, &waiter->settings);
	if (!over && lk__caller_cancelled(waiter))
		over = LK_ECANCELLED;
	if (!over && waiter->until_ns != LK__NEVER && lk__now_ns() >= waiter->until_ns)
		over = LK_ETIMEDOUT;
	return over;
}

int lk__head_end_untimed(const struct lk__head *head)
{
	int over = head_end(head);
	return over == LK_ETIMEDOUT ? 0 : over;
}

static int head_waits(struct lk__head *head, int (*look)(struct lk__head *head))
{
	head->look = look;
	return LK__OP_WAITS;
}

/* `tries` is true from before a try is sent until its attempt has what became of it, and what
 * nobody wants of it is in the list of compensations. Meanwhile close waits. */
static void entry_note_tries(struct lk__entry *entry, bool tries)
{
	if (entry->waiting->tries != tries)
		atomic_fetch_add(&entry->client->trying, tries ? 1 : (uint64_t)-1);
	entry->waiting->tries = tries;
}

static void entry_compensate(struct lk__entry *entry, const struct lk__attempt_event *event,
			     const struct lk__effects *effects)
{
	if (effects->compensate == LK__COMPENSATE_COPIES && event->code == LK_ENOTDURABLE)
		lk__compensate_unheard(entry, effects->gives_up, effects->copies_until_ns);
	else if (effects->compensate == LK__COMPENSATE_COPIES)
		lk__compensate(entry, effects->gives_up, effects->copies_until_ns);
	else if (effects->compensate == LK__COMPENSATE_RELEASE)
		lk__entry_release_in_background(entry, effects->gives_up);
}

/* Feeds the event, and carries out what comes before the action. */
static struct lk__effects entry_step(struct lk__entry *entry, struct lk__attempt_event *event)
{
	event->subscribed = lk__entry_channel(entry) != NULL;
	event->compensating = lk__entry_compensates(entry);
	const struct lk__caller *head = lk__entry_head(entry);
	event->closing = head ? lk__entry_ends(entry, &head->settings) != 0
			      : atomic_load(&entry->client->state) != LK__CLIENT_OPEN;
	int64_t now_ns = lk__now_ns();
	struct lk__effects effects = lk__attempt_step(&entry->waiting->attempt, event, now_ns);
	lk__trace_step(&entry->client->log, entry->name, &entry->waiting->attempt, event, &effects,
		       now_ns);
	entry_compensate(entry, event, &effects);
	if (!entry->waiting->request && !entry->waiting->answered)
		entry_note_tries(entry, false);
	if (effects.unsubscribes)
		lk__entry_unsubscribe(entry);
	if (entry->waiting->attempt.busy || entry->waiting->attempt.code)
		lk__entry_wake_askers(entry);
	return effects;
}

/* ---- its connection ---- */

/*
 * From here on x_begin() starts an effect, and x_look() finds out whether it has ended. Both return
 * 0 with an event for the attempt, or LK__OP_WAITS. A look may also return the code with which the
 * head has to leave.
 */

static void head_unpin(struct lk__head *head)
{
	if (head->pinned)
		lk__conn_unpin(head->pinned);
	head->pinned = NULL;
}

/* While a try is out, and until its grant has an owner or has gone back, close must not take the
 * connection for idle: until the next step. */
static void head_pin(struct lk__head *head)
{
	struct lk__conn *conn = lk__entry_conn(head->entry);
	if (head->pinned == conn)
		return;
	lk__conn_pin(conn);
	head_unpin(head); /* it tries elsewhere than the last time */
	head->pinned = conn;
}

/* Connecting may have told that the lock is on another node. */
static bool head_is_astray(struct lk__head *head)
{
	if (lk__entry_node(head->entry) == head->entry->target.node)
		return false;
	head_failed(head, LK_EUNREACHABLE, true, "another node has it");
	head->event.unsent = true;
	return true;
}

/* The wait for the connection ended so. 0 with the event, or why the head has to leave. */
static int head_connected(struct lk__head *head, int rc, const lk_error *why)
{
	bool was_up = atomic_load(&head->entry->target.node->was_up);
	if (lk__ends_wait(rc))
		return rc;
	if (rc == LK__WAIT_READY)
		head_happened(head, LK__ATTEMPT_CONNECTED);
	else if (!head_is_astray(head))
		head_unconnected(head, why, was_up && rc == LK_ESYSTEM);
	head->event.moved = head->moved;
	head->moved = false;
	return 0;
}

static int connect_look(struct lk__head *head)
{
	lk_error why = {.code = LK_EUNREACHABLE, .message = "the server cannot be reached"};
	int rc = lk__op_connect_look(head->op, lk__head_end_untimed(head), &why);
	return rc == LK__OP_WAITS ? rc : head_connected(head, rc, &why);
}

static int connect_begin(struct lk__head *head, int64_t unlimited_until_ns)
{
	struct lk__entry *entry = head->entry;
	int64_t until_ns = head->waiter->until_ns;
	if (lk__entry_quorum(entry)) /* each try connects */
		return head_connected(head, LK__WAIT_READY, NULL);
	head->moved |= lk__entry_route(entry);
	lk__entry_return(entry, entry->target.node);
	if (until_ns == LK__NEVER)
		until_ns = unlimited_until_ns;
	if (lk__op_connect(head->op, lk__entry_conn(entry), head->waiter->once, until_ns))
		return head_waits(head, connect_look);
	return head_connected(head, LK__WAIT_READY, NULL);
}

/* ---- its tries ---- */

/* Makes the request of a try; NULL when out of memory. */
static struct lk__request *head_request(const struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	const struct lk__caller *waiter = head->waiter;
	int64_t left_ns = lk__later(waiter->until_ns - lk__now_ns(), 0);
	char field[LK__FIELD_SIZE];
	lk__field(entry, entry->waiting->attempt.number, field);
	entry->waiting->try_nonce = 0;
	/* Without it messages only wake: replicas may lack what another's release has granted. */
	if (entry->target.recipe->read_message && !lk__node_is_acked(entry->target.node))
		lk__random_bytes(&entry->waiting->try_nonce, sizeof(entry->waiting->try_nonce));
	const char *turn = lk__turn_take(entry);
	struct lk__try wanted = {
		.target = &entry->target,
		.field = field,
		.number = entry->waiting->attempt.number,
		.lease_ms = entry->waiting->attempt.asked_lease_ms,
		.wait_ms = waiter->until_ns == LK__NEVER ? -1 : left_ns / LK__MS + 1,
		.alive_ms = entry->client->config->fair_wait_ms,
		.count = waiter->count,
		.permits = waiter->settings.permits,
		.ttl_ms = waiter->settings.ttl_ms,
		.other_number = waiter->other_number,
		.settled = entry->target.recipe->sharing == LK__NO_HOLD ? entry->settled : 0,
		.nonce = entry->waiting->try_nonce,
		.turn = turn,
		.since_us = turn ? lk__turn_since_us(entry, waiter->begun_ns)
				 : lk__node_server_us(entry->target.node, waiter->begun_ns),
		.turn_ms = lk__turn_place_ms(entry),
		.asks_place_only = entry->waiting->attempt.asks_place_only,
		.flags = waiter->settings.flags,
		.once = waiter->once,
	};
	return entry->target.recipe->acquire(&wanted);
}

/* The request of a try, ready to be sent; NULL with an event. */
static struct lk__request *head_try(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	if (head_is_astray(head))
		return NULL;
	entry->asked_lease_ms = entry->waiting->attempt.asked_lease_ms;
	struct lk__request *request = lk__compensation_reserve(entry) ? head_request(head) : NULL;
	if (!request) {
		head_failed(head, LK_ENOMEM, false, "out of memory");
		return NULL;
	}
	request->resend = true;
	request->contended = entry->contended;
	request->return_unsent = true;
	request->deadline_ns = entry->waiting->attempt.try_until_ns;
	request->owner = entry;
	entry->waiting->asks_anew = false;
	head->epoch = lk__entry_begin_try(entry);
	if (lk__entry_channel(entry))
		lk__channel_mark(lk__entry_messages(entry), lk__entry_channel(entry),
				 &entry->waiting->mark);
	head->waiter->tried = true;
	return request;
}

/* Until when the answer to a try is waited for. */
static int64_t head_answer_until_ns(const struct lk__head *head)
{
	const struct lk__caller *waiter = head->waiter;
	int64_t try_ns = head->entry->waiting->attempt.try_until_ns + ANSWER_GRACE_NS;
	int64_t until_ns = lk__earlier(lk__later(waiter->until_ns, lk__now_ns()), try_ns);
	return lk__earlier(until_ns + waiter->last_answer_ns, try_ns);
}

/* Reads the answer to the lock's try, which is not in flight any more. */
static struct lk__answer entry_answer(struct lk__entry *entry, const struct lk__request *request)
{
	struct lk__answer answer = lk__answer_take(request, entry->target.recipe->read_acquire,
						   entry->waiting->attempt.asked_lease_ms,
						   lk__now_ns());
	if (answer.event.type == LK__ATTEMPT_BUSY) {
		lk__entry_count(entry, busy, 1);
		entry->contended = true;
		if (lk__entry_head(entry))
			lk__entry_note_wait(entry, lk__entry_head(entry));
		lk__front_busy(entry, answer.event.ttl_ms);
	}
	entry->waiting->request = NULL;
	return answer;
}

static void head_answered(struct lk__head *head, struct lk__request *request)
{
	struct lk__answer answer = entry_answer(head->entry, request);
	if (request->redirects) /* granted by another node: in doubt until that is asked again */
		head->epoch--;
	head->event = answer.event;
	head->fence = answer.fence;
	if (answer.event.code)
		head_fail(head, answer.event.code, answer.reason);
	lk__request_free(request);
}

/* A try was answered and nobody waits for it. */
static void detached_read(struct lk__entry *entry, struct lk__request *request)
{
	struct lk__answer answer = entry_answer(entry, request);
	lk__request_free(request);
	entry_step(entry, &answer.event);
	lk__turn_leave(entry);
}

/* A try whose caller has left is answered: the next head's, or nobody's. */
static void head_detached(struct lk__request *request)
{
	struct lk__entry *entry = request->owner;
	pthread_mutex_lock(&entry->mutex);
	if (lk__entry_head(entry)) {
		entry->waiting->answered = request;
		lk__thread_wake(lk__entry_head(entry)->thread);
	} else {
		detached_read(entry, request);
		lk__entry_rest(entry);
	}
	pthread_mutex_unlock(&entry->mutex);
	lk__entry_unref(entry);
}

/* The try is not in flight any more. */
static int head_told(struct lk__head *head)
{
	atomic_fetch_sub(&head->entry->refs, 1); /* never the last: the caller has one */
	head_answered(head, head->op->request);
	return 0;
}

/* No answer came in time. If `over` is not 0, the head leaves, too, with that code. */
static int answer_give_up(struct lk__head *head, int over)
{
	if (lk__op_leave(head->op, over != 0, over ? head_detached : lk__request_forget))
		return head_told(head);
	if (over)
		return over;
	atomic_fetch_sub(&head->entry->refs, 1);
	head->entry->waiting->request = NULL; /* what the server does now is refused as late */
	head_happened(head, LK__ATTEMPT_UNKNOWN);
	head->event.untold = true;
	head_fail(head, LK_EMAYBEHELD, "no answer within the command limit");
	return 0;
}

/* The answer to a try that was left behind, and whose reader brings it. */
static int answer_brought(struct lk__head *head)
{
	struct lk__waiting *waiting = head->entry->waiting;
	struct lk__request *request = waiting->answered;
	if (!request) {
		int over = head_end(head);
		return over ? over : LK__OP_WAITS;
	}
	waiting->answered = NULL;
	head_answered(head, request);
	return 0;
}

static int answer_look(struct lk__head *head)
{
	if (!head->op->request)
		return answer_brought(head);
	if (lk__op_is_answered(head->op))
		return head_told(head);
	int gone = lk__head_end_untimed(head);
	if (!gone && lk__now_ns() < head->op->until_ns)
		return LK__OP_WAITS;
	return answer_give_up(head, gone ? gone : head_end(head));
}

/* A try at one node: 0 with an event, or LK__OP_WAITS. While it is in flight the request has a
 * reference of the entry. */
static int head_send(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	struct lk__request *request = head_try(head);
	if (!request)
		return 0;
	struct lk__conn *conn = lk__op_join(head->op, entry, entry->target.node);
	entry->waiting->request = request; /* from now on its connection stays */
	head_pin(head);
	lk__entry_ref(entry);
	lk__client_record_show(entry->client, conn);
	lk__op_call(head->op, conn, request, head_answer_until_ns(head));
	return head_waits(head, answer_look);
}

/* A try of an earlier head is ours now; or its reader is about to bring the answer. */
static int await_begin(struct lk__head *head)
{
	struct lk__op *op = head->op;
	struct lk__waiting *waiting = head->entry->waiting;
	head_pin(head);
	bool ours = waiting->request && !waiting->answered &&
		    lk__conn_take_over(waiting->request, op->thread, head_answer_until_ns(head));
	if (ours) {
		lk__op_await(op, waiting->request, head_answer_until_ns(head));
	} else {
		op->request = NULL;
		lk__op_wait(op, head->waiter->until_ns);
	}
	head_waits(head, answer_look);
	return waiting->answered ? answer_look(head) : LK__OP_WAITS;
}

/* ---- what it hears ---- */

/* The name of the channel to listen on, which the caller frees; NULL when out of memory. A kind
 * with LK__OWN_CHANNEL has one for each waiter. */
static char *head_channel(const struct lk__entry *entry, size_t *size_out)
{
	const struct lk__target *target = &entry->target;
	char field[LK__FIELD_SIZE];
	char *name = lk__target_channel(target, size_out);
	if (!name || !(target->recipe->flags & LK__OWN_CHANNEL))
		return name;
	char *own = realloc(name, *size_out + 1 + sizeof(field));
	if (!own) {
		free(name);
		return NULL;
	}
	lk__field(entry, entry->waiting->attempt.number, field);
	*size_out += (size_t)sprintf(own + *size_out, ":%s", field);
	return own;
}

static struct lk__listening *head_open_channel(struct lk__entry *entry)
{
	size_t size;
	struct lk__listening *channel = NULL;
	char *name = head_channel(entry, &size);
	if (name)
		channel = lk__channel_open(lk__entry_messages(entry), name, size,
					   lk__turn_begin(entry), entry);
	/* Owners that have an entry each are told of each release by the channel all the same. */
	if (channel)
		channel->own_first = entry->target.recipe->sharing != LK__EACH_OWNER;
	free(name);
	return channel;
}

static int listen_look(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	lk_error why = {.code = LK_EUNREACHABLE, .message = "no answer to SUBSCRIBE"};
	int rc = lk__op_listen_look(head->op, lk__head_end_untimed(head), &why);
	if (rc == LK__OP_WAITS || lk__ends_wait(rc))
		return rc;
	if (rc == LK__WAIT_TIME_UP && head_end(head))
		return head_end(head);
	/* Without a connection, or while the server does not serve the slot, no message can come:
	 * the waiter looks again from time to time. */
	if (rc == LK__WAIT_READY || rc == LK__WAIT_TIME_UP || rc == LK_ESYSTEM ||
	    rc == LK_EUNAVAILABLE) {
		lk__channel_mark(lk__entry_messages(entry), lk__entry_channel(entry),
				 &entry->waiting->mark);
		head_happened(head, LK__ATTEMPT_LISTENING);
		head->event.turns = lk__turn_take(entry) != NULL;
		return 0;
	}
	head_unconnected(head, &why, false);
	return 0;
}

static int listen_begin(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	struct lk__conn *conn = lk__entry_messages(entry);
	struct lk__heard *mark = &entry->waiting->mark;
	int64_t until_ns = lk__earlier(head->waiter->until_ns, lk__now_ns() + DEAF_NS);
	if (lk__entry_channel(entry)) /* the server may have ended it before it was confirmed */
		lk__channel_retry(conn, lk__entry_channel(entry));
	else
		entry->waiting->channel = head_open_channel(entry);
	if (!lk__entry_channel(entry)) {
		head_failed(head, LK_ENOMEM, false, "out of memory");
		return 0;
	}
	lk__channel_mark(conn, lk__entry_channel(entry), mark);
	head_waits(head, listen_look);
	return lk__op_listen(head->op, conn, mark, true, until_ns) ? LK__OP_WAITS
								   : listen_look(head);
}

/* A random part of the half of the time until then. */
static int64_t jitter_ns(int64_t until_ns)
{
	uint32_t random = 0;
	int64_t now_ns = lk__now_ns();
	lk__random_bytes(&random, sizeof(random));
	return until_ns > now_ns ? (until_ns - now_ns) / 2 * (random % 1024) / 1024 : 0;
}

static int hear_look(struct lk__head *head);

/* Listens on until then, and asks meanwhile who is at the front of the order of turns, if that is
 * due. The answer may say that it has to look sooner. */
static int hear_on(struct lk__head *head, int64_t until_ns)
{
	struct lk__entry *entry = head->entry;
	if (!entry->waiting->mark
		     .news_only) /* the lock is free then, and others have the first try */
		until_ns = lk__earlier(until_ns,
				       lk__front_ask_when_due(entry, head->waiter->begun_ns));
	return lk__op_listen(head->op, lk__entry_messages(entry), &entry->waiting->mark, false,
			     until_ns)
		       ? LK__OP_WAITS
		       : hear_look(head);
}

/* The head listens longer than its attempt said while the server would tell it of a change. */
static int64_t hear_longer(const struct lk__head *head)
{
	int64_t until_ns = head->hear_until_ns;
	if (head->patient && head->op->mark->on)
		until_ns = lk__later(until_ns, lk__front_quiet_ns(head->entry));
	return lk__earlier(head->waiter->until_ns, until_ns);
}

static int hear_look(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	const struct lk__heard *mark = head->op->mark;
	int rc = lk__op_listen_look(head->op, lk__head_end_untimed(head), NULL);
	if (rc == LK__OP_WAITS || rc < 0)
		return rc;
	bool hinted = rc == LK__WAIT_READY && mark->hinted && /* which asks for no try */
		      lk__front_hinted(entry, head->patient, &head->hear_until_ns);
	if (hinted || (rc != LK__WAIT_READY && lk__now_ns() < hear_longer(head)))
		return hear_on(head, hear_longer(head));
	if (rc != LK__WAIT_READY && !mark->on) /* once in DEAF_NS */
		lk__channel_retry(lk__entry_messages(entry), lk__entry_channel(entry));
	head_happened(head, rc == LK__WAIT_READY ? LK__ATTEMPT_WOKEN : LK__ATTEMPT_TIMER);
	if (rc != LK__WAIT_READY)
		return head_end(head);
	if (entry->target.recipe->read_message) /* it may say that its listener has the lock */
		entry->target.recipe->read_message(mark->payload, entry->waiting->try_nonce,
						   &head->event.handed_us);
	head->event.soon = strcmp(mark->payload, LK__TOLD_SOON) == 0;
	return 0;
}

/* Listens from the mark on, which knows what has been heard so far. */
static int hear_begin(struct lk__head *head, const struct lk__effects *effects)
{
	int64_t until_ns = effects->until_ns;
	struct lk__entry *entry = head->entry;
	struct lk__heard *mark = &entry->waiting->mark;
	struct lk__conn *conn = lk__entry_messages(entry);
	if (!mark->listening) /* subscribed by a head that left before it knew */
		lk__channel_mark(conn, lk__entry_channel(entry), mark);
	mark->news_only = effects->action == LK__ATTEMPT_DO_HOLD_OFF;
	head->patient = effects->patient;
	if (entry->waiting->attempt.want.poll_ns) /* not in step with others who poll */
		until_ns -= jitter_ns(until_ns) / 2;
	if (!mark->on) {
		lk__conn_open(conn);
		until_ns = lk__earlier(until_ns, lk__now_ns() + DEAF_NS);
	}
	head->hear_until_ns = lk__earlier(head->waiter->until_ns, until_ns);
	head_waits(head, hear_look);
	return hear_on(head, head->hear_until_ns);
}

/* ---- its pauses ---- */

static int pause_look(struct lk__head *head)
{
	int over = head_end(head);
	if (lk__now_ns() < head->pause_until_ns && !head->entry->waiting->asks_anew)
		return over ? over : LK__OP_WAITS;
	head_happened(head, LK__ATTEMPT_TIMER);
	return 0;
}

static int pause_begin(struct lk__head *head, int64_t until_ns)
{
	head->pause_until_ns = until_ns - jitter_ns(until_ns);
	lk__op_wait(head->op, lk__earlier(head->waiter->until_ns, head->pause_until_ns));
	return head_waits(head, pause_look);
}

/* ---- from its first step to its last ---- */

/* Nobody follows. */
static bool head_is_last(const struct lk__head *head)
{
	return head->waiter == lk__entry_first(head->entry) && !head->waiter->next;
}

/* The head cannot go on, for that reason. Returns what its caller is told. */
static int head_leave(struct lk__head *head, int code)
{
	struct lk__entry *entry = head->entry;
	struct lk__attempt_event left = {.type = LK__ATTEMPT_LEFT, .code = code};
	left.last = head_is_last(head);
	left.unsent = !entry->waiting->request && !entry->waiting->answered;
	int verdict = entry_step(entry, &left).code;
	struct lk__request *request = left.last ? entry->waiting->answered : NULL;
	if (request) { /* for a head that did not come to read it: us */
		entry->waiting->answered = NULL;
		detached_read(entry, request);
	}
	if (left.last && !entry->waiting->request)
		lk__turn_leave(entry);
	if (verdict == code)
		return head_fail(head, verdict, lk_error_text(verdict));
	if (head->error->code != verdict)
		return head_fail(head, verdict,
				 code == LK_ETIMEDOUT ? "no answer within the wait limit"
						      : "no answer before the wait was ended");
	return verdict;
}

/* A grant goes to the waiter: 1. */
static int head_grant(struct lk__head *head, const struct lk__effects *effects)
{
	struct lk__entry *entry = head->entry;
	if (effects->handed) /* what was heard was the grant itself */
		atomic_store(&entry->doubt, false);
	lk__turn_is_over(entry);
	entry->grant.repeated_until_ns = effects->repeated_until_ns;
	entry->grant.node = entry->target.node;
	entry->grant.epoch = head->epoch;
	entry->grant.fence = head->fence;
	lk__entry_grant(entry, head->waiter, entry->waiting->attempt.number, effects->sent_ns,
			entry->waiting->attempt.asked_lease_ms);
	if (lk__entry_channel(entry)) /* others wait: until one is the head, the loop reads */
		lk__loop_attend(entry->client);
	return 1;
}

/* Before an effect: 0, or why the head has to leave. A wait limit that is very short buys one try
 * all the same. */
static int head_ends_before(struct lk__head *head, const struct lk__effects *effects)
{
	bool connects = effects->action == LK__ATTEMPT_DO_CONNECT;
	bool tries = connects || effects->action == LK__ATTEMPT_DO_SEND;
	int over = head_end(head);
	head_unpin(head);
	if (over && (over != LK_ETIMEDOUT || !head->first || !tries))
		return over;
	head->first = head->first && connects;
	return 0;
}

/* The reason of a failure that no answer has explained. */
static const char *head_reason(const struct lk__head *head, int code)
{
	if (head->event.type == LK__ATTEMPT_LATE)
		return "the request reached the server after its deadline";
	return head->event.type == LK__ATTEMPT_GRANTED
		       ? "granted while the client was being closed or drained, and given back"
		       : lk_error_text(code);
}

/* Feeds the event. 1: the waiter has its grant; 0: `effects` is what to do next; or a code: the
 * head is over, and its waiter still in the queue. */
static int head_step(struct lk__head *head, struct lk__effects *effects)
{
	*effects = entry_step(head->entry, &head->event);
	int code = effects->code;
	if (effects->new_number)
		head->waiter->downgrade_number = 0;
	if (effects->action == LK__ATTEMPT_DO_GRANT)
		return head_grant(head, effects);
	if (effects->action == LK__ATTEMPT_DO_FAIL) {
		if (head_is_last(head))
			lk__turn_leave(head->entry);
		return head->error->code == code ? code
						 : head_fail(head, code, head_reason(head, code));
	}
	int over = head_ends_before(head, effects);
	return over ? head_leave(head, over) : 0;
}

static int head_act(struct lk__head *head, const struct lk__effects *effects)
{
	const struct lk__quorum *quorum = lk__entry_quorum(head->entry);
	switch (effects->action) {
	case LK__ATTEMPT_DO_CONNECT:
		return connect_begin(head, effects->until_ns);
	case LK__ATTEMPT_DO_SEND:
		entry_note_tries(head->entry, true); /* the next step ends it, sent or not */
		return quorum ? quorum->send(head) : head_send(head);
	case LK__ATTEMPT_DO_AWAIT:
		return await_begin(head);
	case LK__ATTEMPT_DO_LISTEN:
		return listen_begin(head);
	case LK__ATTEMPT_DO_PAUSE:
		return pause_begin(head, effects->until_ns);
	default:
		assert(effects->action == LK__ATTEMPT_DO_WAIT ||
		       effects->action == LK__ATTEMPT_DO_HOLD_OFF);
		return hear_begin(head, effects);
	}
}

/* Goes on as far as it can: 1, granted to the waiter; LK__OP_WAITS; or a code, and the waiter is
 * still in the queue. */
static int head_run(struct lk__head *head)
{
	int rc = head->look ? head->look(head) : 0;
	while (rc == 0) {
		struct lk__effects effects;
		head->look = NULL;
		rc = head_step(head, &effects);
		if (rc)
			return rc;
		rc = head_act(head, &effects);
	}
	return rc == LK__OP_WAITS ? rc : head_leave(head, rc);
}

static struct lk__attempt_want head_want(const struct lk__entry *entry,
					 const struct lk__caller *waiter)
{
	const struct lk__settings *settings = &waiter->settings;
	int64_t poll_ms = settings->poll_ms ? settings->poll_ms : entry->target.recipe->poll_ms;
	int64_t deaf_ms = settings->poll_ms ? settings->poll_ms : DEAF_POLL_MS;
	int64_t spin_min_ms = settings->spin_min_ms ? settings->spin_min_ms : deaf_ms;
	int64_t spin_max_ms = settings->spin_max_ms ? settings->spin_max_ms : deaf_ms;
	return (struct lk__attempt_want){
		.once = waiter->once,
		.unlimited = waiter->until_ns == LK__NEVER,
		.undone = waiter->undone,
		.lease_ms = lk__entry_lease_ms(entry, waiter->hold),
		.count = waiter->count,
		.downgrade_number = waiter->downgrade_number,
		.number = waiter->number,
		.poll_ns = poll_ms * LK__MS,
		.look_ns = lk__turn_look_ns(entry),
		.spin_min_ns = spin_min_ms * LK__MS,
		.spin_max_ns = spin_max_ms * LK__MS,
		.spin_factor = settings->spin_min_ms ? settings->spin_factor : 1,
	};
}

static void head_begin(struct lk__head *head, struct lk__op *op, struct lk__entry *entry,
		       struct lk__caller *waiter, lk_error *error)
{
	*head = (struct lk__head){.op = op, .entry = entry, .waiter = waiter, .error = error};
	bool stale = lk__entry_is_stale(entry, waiter);
	/* Where the head before it has just been told "busy", a limit that is over is over. */
	head->first = entry->waiting->attempt.state == LK__ATTEMPT_IDLE ||
		      !entry->waiting->attempt.busy || stale;
	head->event = (struct lk__attempt_event){
		.type = LK__ATTEMPT_ADOPTED,
		.want = head_want(entry, waiter),
		.listens = lk__entry_channel(entry) &&
			   lk__channel_listens(lk__entry_messages(entry), lk__entry_channel(entry)),
		.hold_off_until_ns = entry->term.hold_off_until_ns,
		.stale = stale,
	};
	head->event.turns = head->event.listens && lk__turn_take(entry);
	head->error->code = 0;
	waiter->why = head->error;
}

int lk__head_lead(struct lk__head *head, struct lk__op *op, struct lk__entry *entry,
		  struct lk__caller *waiter, lk_error *error)
{
	if (!head->op)
		head_begin(head, op, entry, waiter, error);
	int rc = head_run(head);
	if (rc == LK__OP_WAITS)
		return rc;
	waiter->why = NULL;
	head_unpin(head);
	head->op = NULL;
	return rc;
}
