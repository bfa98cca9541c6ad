/* SPDX-License-Identifier: MIT */
#include "lock/head.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "lock/acquire.h"
#include "lock/compensation.h"
#include "lock/loop.h"
#include "sync/script.h"
#include "sync/trace.h"

#define DEAF_NS (1000 * LK__MS)       /* between tries while no message can be heard */
#define DEAF_POLL_MS 100              /* the same where the server refuses to tell messages */
#define ANSWER_GRACE_NS (50 * LK__MS) /* beyond a try's deadline, for its answer's way back */
#define TURN_GRACE_MS 1000            /* beyond the next look, for a place in the order of turns */
#define LAST_ANSWER_PART 10           /* of the wait limit, beyond it, for the answer to a try: */
#define LAST_ANSWER_MIN_NS (20 * LK__MS)
#define LAST_ANSWER_MAX_NS (250 * LK__MS)

int64_t lk__caller_last_answer_ns(const struct lk__caller *waiter)
{
	int64_t part_ns = (waiter->until_ns - waiter->begun_ns) / LAST_ANSWER_PART;
	if (part_ns < LAST_ANSWER_MIN_NS)
		return LAST_ANSWER_MIN_NS;
	return lk__earlier(part_ns, LAST_ANSWER_MAX_NS);
}

int64_t lk__head_answer_until_ns(const struct lk__head *head)
{
	const struct lk__caller *waiter = head->waiter;
	int64_t try_ns = head->entry->waiting->attempt.try_until_ns + ANSWER_GRACE_NS;
	int64_t now_ns = lk__now_ns();
	int64_t until_ns = waiter->until_ns > now_ns ? waiter->until_ns : now_ns;
	if (until_ns >= try_ns)
		return try_ns;
	return lk__earlier(until_ns + lk__caller_last_answer_ns(waiter), try_ns);
}

static int head_fail(struct lk__head *head, int code, const char *reason)
{
	return lk__fail(head->error, code, "acquire \"%.100s\" on %.100s: %s", head->entry->name,
			head->entry->client->config->url, reason);
}

void lk__head_happened(struct lk__head *head, enum lk__attempt_event_type type)
{
	head->event = (struct lk__attempt_event){.type = type};
}

static void head_failed(struct lk__head *head, int code, bool retryable, const char *reason)
{
	head->event = (struct lk__attempt_event){
		.type = LK__ATTEMPT_FAILED, .code = code, .retryable = retryable};
	head_fail(head, code, reason);
}

/* The same where it is for want of a connection. */
static void head_unconnected(struct lk__head *head, const lk_error *why, bool retryable)
{
	head_failed(head, why->code, retryable, why->message);
	head->event.passing = lk__conn_may_come(head->entry->client->config, why->code);
}

/* 0, or why the head has to leave. */
int lk__head_over(const struct lk__head *head)
{
	const struct lk__caller *waiter = head->waiter;
	if (atomic_load(&head->entry->client->state) != LK__CLIENT_OPEN)
		return LK_ECLOSED;
	if (lk__caller_cancelled(waiter))
		return LK_ECANCELLED;
	if (waiter->until_ns != LK__NEVER && lk__now_ns() >= waiter->until_ns)
		return LK_ETIMEDOUT;
	return 0;
}

/* ---- steps ---- */

static void entry_compensate(struct lk__entry *entry, const struct lk__attempt_event *event,
			     const struct lk__effects *effects)
{
	if (effects->compensate == LK__COMPENSATE_COPIES && event->code == LK_ENOTDURABLE)
		lk__compensate_unheard(entry, effects->gives_up, effects->copies_until_ns);
	else if (effects->compensate == LK__COMPENSATE_COPIES)
		lk__compensate(entry, effects->gives_up, effects->copies_until_ns);
	else if (effects->compensate == LK__COMPENSATE_RELEASE)
		lk__entry_release_unasked(entry, effects->gives_up);
}

/* Feeds the event, and carries out what comes before the action. */
static struct lk__effects entry_step(struct lk__entry *entry, struct lk__attempt_event *event)
{
	event->subscribed = lk__entry_channel(entry) != NULL;
	event->compensating = lk__entry_policy(entry)->compensating(entry);
	event->closing = atomic_load(&entry->client->state) != LK__CLIENT_OPEN;
	int64_t now_ns = lk__now_ns();
	struct lk__effects effects = lk__attempt_step(&entry->waiting->attempt, event, now_ns);
	lk__trace_step(&entry->client->log, entry->name, &entry->waiting->attempt, event, &effects,
		       now_ns);
	entry_compensate(entry, event, &effects);
	if (!entry->waiting->request && !entry->waiting->answered)
		lk__entry_try_ends(entry);
	if (effects.unsubscribes)
		lk__entry_unsubscribe(entry);
	if (entry->waiting->attempt.busy || entry->waiting->attempt.code)
		lk__entry_wake_askers(entry);
	return effects;
}

/* ---- answers ---- */

static void head_unpin(struct lk__head *head)
{
	if (head->pinned)
		lk__conn_unpin(head->pinned);
	head->pinned = NULL;
}

void lk__head_pin(struct lk__head *head)
{
	struct lk__conn *conn = lk__entry_conn(head->entry);
	if (head->pinned == conn)
		return;
	lk__conn_pin(conn);
	head_unpin(head); /* it tries elsewhere than the last time */
	head->pinned = conn;
}

/* What the answer to the lock's try says, which is not in flight any more. */
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
	}
	entry->waiting->request = NULL;
	return answer;
}

void lk__head_answered(struct lk__head *head, struct lk__request *request)
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
void lk__head_detached(struct lk__request *request)
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

void lk__head_unanswered(struct lk__head *head)
{
	head->entry->waiting->request = NULL; /* what the server does now is refused as late */
	lk__head_happened(head, LK__ATTEMPT_UNKNOWN);
	head->event.untold = true;
	head_fail(head, LK_EMAYBEHELD, "no answer within the command limit");
}

/* ---- connections ---- */

/* Connecting may have told that the lock is on another node. */
static bool head_is_astray(struct lk__head *head)
{
	if (lk__entry_node(head->entry) == head->entry->target.node)
		return false;
	head_failed(head, LK_EUNREACHABLE, true, "another node has it");
	head->event.unsent = true;
	return true;
}

struct lk__conn *lk__head_route(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	head->moved |= lk__entry_route(entry);
	lk__entry_return(entry, entry->target.node);
	return lk__entry_conn(entry);
}

int64_t lk__head_connect_until_ns(const struct lk__head *head, int64_t unlimited_until_ns)
{
	int64_t until_ns = head->waiter->until_ns;
	return until_ns == LK__NEVER ? unlimited_until_ns : until_ns;
}

int lk__head_connected(struct lk__head *head, int rc, const lk_error *why)
{
	bool was_up = atomic_load(&head->entry->target.node->was_up);
	if (rc == LK_ECANCELLED || rc == LK_ECLOSED)
		return rc;
	if (rc == LK__WAIT_READY)
		lk__head_happened(head, LK__ATTEMPT_CONNECTED);
	else if (!head_is_astray(head))
		head_unconnected(head, why, was_up && rc == LK_ESYSTEM);
	head->event.moved = head->moved;
	head->moved = false;
	return 0;
}

/* ---- tries ---- */

/* What ends a lock without a message is noticed within this time. A place in the order of turns is
 * not kept for ever. */
static int64_t look_most_ms(const struct lk__entry *entry)
{
	int64_t look_ms = entry->client->config->look_again_ms;
	bool turns = (entry->target.recipe->flags & LK__TURNS) != 0;
	return turns ? lk__earlier(look_ms, LK__TURN_MOST_MS) : look_ms;
}

/* Makes the request of a try; NULL when out of memory. */
static struct lk__request *head_request(const struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	const struct lk__caller *waiter = head->waiter;
	int64_t now_ns = lk__now_ns();
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
		.wait_ms = -1,
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
		.turn_ms = look_most_ms(entry) + TURN_GRACE_MS,
		.polite = entry->waiting->attempt.polite,
		.flags = waiter->settings.flags,
		.once = waiter->once,
	};
	if (waiter->until_ns != LK__NEVER)
		wanted.wait_ms = now_ns < waiter->until_ns
					 ? (waiter->until_ns - now_ns) / LK__MS + 1
					 : 1;
	return entry->target.recipe->acquire(&wanted);
}

struct lk__request *lk__head_try(struct lk__head *head)
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
	entry->waiting->request = request;
	entry->waiting->asks_anew = false;
	lk__entry_try_begins(entry);
	head->epoch = lk__entry_begin_try(entry);
	if (lk__entry_channel(entry))
		lk__channel_mark(lk__entry_messages(entry), lk__entry_channel(entry),
				 &entry->waiting->mark);
	lk__head_pin(head);
	return request;
}

/* ---- messages ---- */

/* The channel on which a release is told, to be freed; where each waiter has one of its own, that.
 * NULL when out of memory. */
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

bool lk__head_subscribe(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	struct lk__listening *channel = lk__entry_channel(entry);
	if (channel) /* the server may have ended it before it was confirmed */
		lk__channel_retry(lk__entry_messages(entry), channel);
	else
		entry->waiting->channel = head_open_channel(entry);
	if (!lk__entry_channel(entry))
		head_failed(head, LK_ENOMEM, false, "out of memory");
	return lk__entry_channel(entry) != NULL;
}

int64_t lk__head_subscribe_until_ns(const struct lk__head *head)
{
	return lk__earlier(head->waiter->until_ns, lk__now_ns() + DEAF_NS);
}

int lk__head_subscribed(struct lk__head *head, int rc, const lk_error *why)
{
	struct lk__entry *entry = head->entry;
	if (rc == LK_ECANCELLED || rc == LK_ECLOSED)
		return rc;
	if (rc == LK__WAIT_TIME_UP && lk__head_over(head))
		return lk__head_over(head);
	/* Without a connection, or while the server does not serve the slot, no message can come:
	 * the waiter looks again from time to time. */
	if (rc == LK__WAIT_READY || rc == LK__WAIT_TIME_UP || rc == LK_ESYSTEM ||
	    rc == LK_EUNAVAILABLE) {
		lk__channel_mark(lk__entry_messages(entry), lk__entry_channel(entry),
				 &entry->waiting->mark);
		lk__head_happened(head, LK__ATTEMPT_LISTENING);
		head->event.turns = lk__turn_take(entry) != NULL;
		return 0;
	}
	head_unconnected(head, why, false);
	return 0;
}

/* A random part of the half of the time until then. */
int64_t lk__head_jitter_ns(int64_t until_ns)
{
	uint32_t random = 0;
	int64_t now_ns = lk__now_ns();
	lk__random_bytes(&random, sizeof(random));
	return until_ns > now_ns ? (until_ns - now_ns) / 2 * (random % 1024) / 1024 : 0;
}

/* Since when, in server time, the message says that its listener has the lock; 0: it only wakes. */
static int64_t head_handed_us(const struct lk__entry *entry, const char *payload)
{
	int64_t handed_us = 0;
	bool handed = entry->target.recipe->read_message &&
		      entry->target.recipe->read_message(payload, entry->waiting->try_nonce,
							 &handed_us);
	return handed ? handed_us : 0;
}

int64_t lk__head_listen(struct lk__head *head, int64_t until_ns, bool news_only,
			struct lk__heard *mark)
{
	struct lk__entry *entry = head->entry;
	if (!entry->waiting->mark.listening) /* subscribed by a head that left before it knew */
		lk__channel_mark(lk__entry_messages(entry), lk__entry_channel(entry),
				 &entry->waiting->mark);
	*mark = entry->waiting->mark;
	mark->news_only = news_only;
	if (entry->waiting->attempt.want.poll_ns) /* not in step with others who poll */
		until_ns -= lk__head_jitter_ns(until_ns) / 2;
	if (!mark->on) {
		lk__conn_open(lk__entry_messages(entry));
		until_ns = lk__earlier(until_ns, lk__now_ns() + DEAF_NS);
	}
	return lk__earlier(head->waiter->until_ns, until_ns);
}

int lk__head_heard(struct lk__head *head, int rc, const struct lk__heard *mark)
{
	struct lk__entry *entry = head->entry;
	if (rc < 0)
		return rc;
	if (rc != LK__WAIT_READY && !mark->on) /* once in DEAF_NS */
		lk__channel_retry(lk__entry_messages(entry), lk__entry_channel(entry));
	lk__head_happened(head, rc == LK__WAIT_READY ? LK__ATTEMPT_WOKEN : LK__ATTEMPT_TIMER);
	if (rc == LK__WAIT_READY) {
		head->event.handed_us = head_handed_us(entry, mark->payload);
		head->event.soon = strcmp(mark->payload, LK__TOLD_SOON) == 0;
		entry->waiting->mark = *mark;
	}
	return rc == LK__WAIT_READY ? 0 : lk__head_over(head);
}

/* ---- from the first step to the last ---- */

/* Nobody follows. */
static bool head_is_last(const struct lk__head *head)
{
	return head->waiter == lk__entry_first(head->entry) && !head->waiter->next;
}

int lk__head_leave(struct lk__head *head, int code)
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
				 code == LK_ECLOSED ? "no answer before the client was closed"
						    : "no answer within the wait limit");
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

/* A wait limit that is very short buys one try all the same. */
static int head_is_over(struct lk__head *head, const struct lk__effects *effects)
{
	bool connects = effects->action == LK__ATTEMPT_DO_CONNECT;
	bool tries = connects || effects->action == LK__ATTEMPT_DO_SEND;
	int over = lk__head_over(head);
	head_unpin(head);
	if (over && (over != LK_ETIMEDOUT || !head->first || !tries))
		return over;
	head->first = head->first && connects;
	return 0;
}

/* Of a failure that no answer has explained. */
static const char *head_reason(const struct lk__head *head, int code)
{
	if (head->event.type == LK__ATTEMPT_LATE)
		return "the request reached the server after its deadline";
	return head->event.type == LK__ATTEMPT_GRANTED
		       ? "granted while the client was being closed, and given back"
		       : lk_error_text(code);
}

int lk__head_step(struct lk__head *head, struct lk__effects *effects)
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
	int over = head_is_over(head, effects);
	return over ? lk__head_leave(head, over) : 0;
}

/* Not by all clients at once. For that the clock's last digits do: a random number would be a
 * system call for each acquire. */
static int64_t head_look_ns(const struct lk__entry *entry)
{
	int64_t most_ns = look_most_ms(entry) * LK__MS;
	/* The upper ten bits of a product mix them. */
	uint64_t part = (uint64_t)lk__now_ns() * UINT64_C(0x9e3779b97f4a7c15) >> 54;
	return most_ns - most_ns / 4 * (int64_t)part / 1024;
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
		.poll_ns = poll_ms * LK__MS,
		.look_ns = head_look_ns(entry),
		.spin_min_ns = spin_min_ms * LK__MS,
		.spin_max_ns = spin_max_ms * LK__MS,
		.spin_factor = settings->spin_min_ms ? settings->spin_factor : 1,
	};
}

void lk__head_begin(struct lk__head *head, struct lk__op *op, struct lk__entry *entry,
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

void lk__head_end(struct lk__head *head)
{
	head->waiter->why = NULL;
	head_unpin(head);
}
