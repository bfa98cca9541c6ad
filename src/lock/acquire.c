/* SPDX-License-Identifier: MIT */
#include "lock/acquire.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/probe.h"
#include "conf/config.h"
#include "conn/channels.h"
#include "lock/compensation.h"
#include "lock/front.h"
#include "lock/loop.h"
#include "lock/notice.h"
#include "sync/script.h"
#include "sync/trace.h"

#define LOOK_NS (5 * LK__MS)          /* between looks at a lock that is being passed to us */
#define DEAF_NS (1000 * LK__MS)       /* between tries while no message can be heard */
#define DEAF_POLL_MS 100              /* the same where the server refuses to tell messages */
#define ANSWER_GRACE_NS (50 * LK__MS) /* beyond a try's deadline, for its answer's way back */
#define LAST_ANSWER_PART 10           /* of the wait limit, beyond it, for the answer to a try: */
#define LAST_ANSWER_MIN_NS (20 * LK__MS)
#define LAST_ANSWER_MAX_NS (250 * LK__MS)

/* ---- a caller in the wait queue ---- */

static int64_t caller_last_answer_ns(const struct lk__caller *waiter)
{
	int64_t part_ns = (waiter->until_ns - waiter->begun_ns) / LAST_ANSWER_PART;
	if (part_ns < LAST_ANSWER_MIN_NS)
		return LAST_ANSWER_MIN_NS;
	return lk__earlier(part_ns, LAST_ANSWER_MAX_NS);
}

static int caller_fail(const struct lk__entry *entry, int code, lk_error *error)
{
	return lk__fail(error, code, "acquire \"%.100s\": %s", entry->name, lk_error_text(code));
}

/* With what the head was told, if that is why and it is still there. */
static int caller_fail_as(struct lk__entry *entry, int code, lk_error *error)
{
	const struct lk__caller *head = lk__entry_head(entry);
	if (!head || !head->why || head->why->code != entry->waiting->attempt.code)
		return lk__fail(error, code, "acquire \"%.100s\" on %.100s: %s", entry->name,
				entry->client->config->url, lk_error_text(code));
	if (error)
		*error = *head->why;
	if (error)
		error->code = code;
	return code;
}

/* From now on it waits for the answer to the head's try alone, and not for long; a mere try within
 * its limits. */
static void caller_asks(struct lk__entry *entry, struct lk__caller *waiter)
{
	if (waiter->asks_until_ns)
		return;
	waiter->asks_until_ns = waiter->once ? waiter->until_ns
					     : lk__now_ns() + caller_last_answer_ns(waiter);
	entry->waiting->askers++;
}

/*
 * A caller behind others does not wait, or not any longer: it leaves with the reason. While that is
 * not known the answer to the head's try is waited for: 0.
 */
static int caller_kept_out(struct lk__entry *entry, struct lk__caller *waiter, lk_error *error)
{
	bool stale = lk__entry_is_stale(entry, waiter);
	int code = stale ? 0 : lk__entry_kept_out(entry);
	if (waiter->undone && lk__entry_compensates(entry))
		return caller_fail(entry, LK_EMAYBEHELD, error);
	if (code == LK_EBUSY)
		return caller_fail(entry, waiter->once ? LK_EBUSY : LK_ETIMEDOUT, error);
	if (code)
		return caller_fail_as(entry, code, error);
	if (waiter->asks_until_ns && lk__now_ns() >= waiter->asks_until_ns)
		return lk__fail(error, LK_EUNREACHABLE,
				"acquire \"%.100s\" on %.100s: no answer within the wait limit",
				entry->name, entry->client->config->url);
	caller_asks(entry, waiter);
	if (stale)
		lk__entry_ask_anew(entry);
	return 0;
}

/* Tells whether a hold of the waiter's owner, other than its own, was lost and not released yet. */
static bool caller_lost(const struct lk__entry *entry, const struct lk__caller *waiter)
{
	const struct lk__owner owner = lk__hold_owner(waiter->hold);
	const struct lk__hold *hold;
	LL_FOREACH(entry->lost, hold)
	if (hold != waiter->hold && lk__owner_is(hold, &owner))
		return true;
	return false;
}

/* An owner's name waits in several threads, and one of them has the lock: the others re-enter. 1, 0
 * where they cannot yet, or why they will not. */
static int caller_joins(struct lk__entry *entry, struct lk__caller *waiter, lk_error *error)
{
	struct lk__want want = {.owner = lk__hold_owner(waiter->hold),
				.lease_ms = waiter->hold->lease_ms};
	const struct lk__hold *hold = entry->hold;
	if (waiter->state != LK__WAITER_WAITS || !hold || !lk__owner_is(hold, &want.owner))
		return 0;
	int rc = lk__hold_reenter(entry, &want, error);
	if (rc == 1) {
		lk__entry_leave_queue(entry, waiter);
		lk__hold_free(waiter->hold);
		waiter->hold = NULL;
	}
	return rc;
}

/* 0, or why a waiter that is not the head leaves the queue. */
static int caller_over(struct lk__entry *entry, struct lk__caller *waiter, lk_error *error)
{
	int code = lk__entry_ends(entry, &waiter->settings);
	if (waiter->state == LK__WAITER_TAKES)
		return 0;
	if (!code && caller_lost(entry, waiter))
		code = LK_ELOST;
	else if (!code && lk__caller_cancelled(waiter))
		code = LK_ECANCELLED;
	else if (!code && (waiter->once || lk__now_ns() >= waiter->until_ns))
		return caller_kept_out(entry, waiter, error);
	return code ? caller_fail(entry, code, error) : 0;
}

/* Tells whether its owner can be told that it has the lock. */
static bool caller_keeps(const struct lk__entry *entry, const struct lk__caller *waiter)
{
	const struct lk__hold *hold = waiter->hold;
	assert(hold);
	if (!hold->entry) /* its kind leaves nothing behind */
		return true;
	return !lk__entry_ends(entry, &waiter->settings) && !hold->lost &&
	       !caller_lost(entry, waiter) && lk__now_ns() < lk__hold_deadline(hold);
}

/* Looks at a caller that is not the head: 1, it has the lock; 0, it waits on, until `until_ns`
 * unless it is woken before; or why it leaves. */
static int caller_look(struct lk__entry *entry, struct lk__caller *waiter, int64_t *until_ns,
		       lk_error *error)
{
	if (waiter->state == LK__WAITER_GRANTED) {
		if (!waiter->hold) /* first it acquired, then its owner released */
			return waiter->given_up ? caller_fail(entry, LK_ELOST, error) : 1;
		if (caller_keeps(entry, waiter))
			return 1;
		lk__entry_undo_grant(entry, waiter);
	}
	*until_ns = waiter->until_ns;
	if (lk__entry_head(entry) == waiter)
		return 0;
	int rc = caller_joins(entry, waiter, error);
	if (rc == 0)
		rc = caller_over(entry, waiter, error);
	if (waiter->asks_until_ns)
		*until_ns = waiter->asks_until_ns;
	/* What is being passed to it comes within the command limit, also after its own. */
	if (waiter->state == LK__WAITER_TAKES)
		*until_ns = lk__now_ns() + LOOK_NS;
	return rc;
}

/* The owner's grant of the other side of the lock. The number serves one downgrade: if two grants
 * had the same, a late release of the first could end the second. */
struct other_side {
	uint64_t number; /* of the grant; 0: none */
	bool downgraded; /* before */
	int code;        /* LK_ENOMEM: not known */
};

static struct other_side caller_other_side(const struct lk__entry *entry,
					   const struct lk__owner *owner)
{
	struct other_side side = {0};
	const struct lk__recipe *recipe = entry->target.recipe->other_side;
	struct lk__entry *other = NULL;
	if (recipe)
		side.code = lk__entry_look(&other, entry->client, recipe, entry->name,
					   lk__entry_name_size(entry), owner);
	if (!other)
		return side;
	pthread_mutex_lock(&other->mutex);
	if (other->hold && lk__now_ns() < lk__hold_deadline(other->hold)) {
		side.number = other->grant.number;
		side.downgraded = other->downgraded;
		other->downgraded = true;
	}
	pthread_mutex_unlock(&other->mutex);
	lk__entry_unref(other);
	return side;
}

static int caller_prepare(struct lk__entry *entry, struct lk__thread *thread,
			  const struct lk__want *want, const struct other_side *side,
			  struct lk__caller *waiter, lk_error *error)
{
	const struct lk_config *config = entry->client->config;
	int64_t now_ns = lk__now_ns();
	if (side->code)
		return caller_fail(entry, side->code, error);
	if (side->number && !(entry->target.recipe->flags & LK__DOWNGRADES))
		return caller_fail(entry, LK_EUPGRADE, error);
	*waiter = (struct lk__caller){.thread = thread,
				      .once = want->wait_ms == 0,
				      .cancel = want->cancel,
				      .stop = want->stop,
				      .begun_ns = now_ns,
				      .count = want->count,
				      .other_number = side->number,
				      .downgrade_number = side->downgraded ? 0 : side->number,
				      .number = want->number,
				      .settings = want->settings,
				      .since_ns = now_ns,
				      .until_ns = LK__NEVER};
	int64_t once_ms = config->connect_timeout_ms + config->command_timeout_ms;
	if (waiter->once)
		waiter->until_ns = lk__after_ms(now_ns, want->once_ms ? want->once_ms : once_ms);
	else if (want->wait_ms > 0)
		waiter->until_ns = lk__after_ms(now_ns, want->wait_ms);
	if (atomic_load(&entry->client->counters.waiting) >= (uint64_t)config->max_waiters)
		return lk__fail(error, LK_ELIMIT,
				"acquire \"%.100s\": %lld callers wait (max_waiters)", entry->name,
				(long long)config->max_waiters);
	int rc = lk__cancel_enter(want->cancel, thread, error);
	if (rc < 0)
		return rc;
	waiter->hold = lk__hold_wanted(thread, entry->target.recipe, want);
	if (!waiter->hold || !lk__entry_begin_waiting(entry)) {
		lk__hold_free(waiter->hold);
		lk__cancel_leave(want->cancel);
		return caller_fail(entry, LK_ENOMEM, error);
	}
	if (!waiter->hold->owner_serial)
		waiter->hold->taker = waiter;
	return 0;
}

static int caller_queue(struct lk__entry *entry, struct lk__caller *waiter, lk_error *error)
{
	if (entry->hold && lk__now_ns() >= lk__hold_deadline(entry->hold))
		lk__entry_lose(entry, lk__now_ns());
	waiter->contended = entry->hold || lk__entry_first(entry);
	int rc = waiter->once && waiter->contended ? caller_kept_out(entry, waiter, error) : 0;
	if (rc < 0)
		return rc;
	DL_APPEND(entry->waiting->queue, waiter);
	lk__entry_count(entry, waiting, 1);
	if (waiter->contended)
		lk__probe3(wait__start, entry->name, entry->client->id, waiter);
	lk__entry_promote_without_wake(entry, waiter);
	return 0;
}

static void caller_count(struct lk__entry *entry, const struct lk__caller *waiter, int rc)
{
	if (rc != 1)
		lk__probe3(acquire__failed, entry->name, entry->client->id, rc);
	if (rc == 1) {
		int64_t waited_ns = lk__now_ns() - waiter->begun_ns;
		lk__entry_count(entry, acquires, 1);
		lk__entry_count(entry, contended, waiter->contended);
		lk__entry_count_us(entry, wait, waited_ns);
		lk__probe4(acquire__granted, entry->name, entry->client->id, entry->grant.number,
			   waited_ns);
	} else if (rc == LK_ETIMEDOUT) {
		lk__entry_count(entry, timeouts, 1);
	} else if (rc == LK_EBUSY) {
		lk__entry_count(entry, refusals, 1);
	} else if (rc == LK_ECANCELLED) {
		lk__entry_count(entry, cancels, 1);
	} else {
		lk__entry_count(entry, failures, 1);
	}
}

/* Gives up what a caller had that is not in the queue any more, and counts how it ended. */
static void caller_finish(struct lk__entry *entry, const struct lk__want *want,
			  const struct lk__caller *waiter, int rc)
{
	bool given_up = waiter->state == LK__WAITER_GRANTED && !waiter->hold;
	lk__cancel_leave(want->cancel);
	if (rc == 1 && want->grant_out)
		*want->grant_out = given_up ? waiter->was : entry->grant;
	if (rc < 0 && waiter->state == LK__WAITER_GRANTED &&
	    entry->target.recipe->flags & LK__BECOMES_HOLDS)
		atomic_fetch_sub(&entry->client->unclaimed_grants, 1);
	if (waiter->hold && !waiter->hold->owner_serial)
		waiter->hold->taker = NULL;
	if (rc == 1 && waiter->hold && entry->target.recipe->flags & LK__ELECTS)
		lk__notices_elected(entry);
	if (rc < 0 || entry->target.recipe->sharing == LK__NO_HOLD)
		lk__hold_free(waiter->hold);
	if (rc < 0 || waiter->state == LK__WAITER_GRANTED) /* else it was counted as a re-entry */
		caller_count(entry, waiter, rc);
	lk__entry_end_waiting(entry);
}

/* 1, the owner re-entered; 0, `waiter` is in the wait queue; or a code. Returns with the entry's
 * mutex held. */
static int caller_begin(struct lk__entry *entry, struct lk__thread *thread,
			const struct lk__want *want, struct lk__caller *waiter, lk_error *error)
{
	struct other_side side = caller_other_side(entry, &want->owner);
	lk__probe2(acquire__start, entry->name, entry->client->id);
	pthread_mutex_lock(&entry->mutex);
	int rc = lk__hold_reenter(entry, want, error);
	if (rc == 0)
		rc = lk__entry_refuses(entry, &want->settings, error);
	if (rc)
		return rc;
	rc = caller_prepare(entry, thread, want, &side, waiter, error);
	if (rc < 0) {
		caller_count(entry, waiter, rc);
		return rc;
	}
	rc = caller_queue(entry, waiter, error);
	if (rc < 0)
		caller_finish(entry, want, waiter, rc);
	return rc;
}

/* After a begin of 0, with 1 or a code. */
static void caller_end(struct lk__entry *entry, const struct lk__want *want,
		       struct lk__caller *waiter, int rc)
{
	if (rc < 0 && waiter->state != LK__WAITER_GRANTED) {
		lk__entry_leave_queue(entry, waiter);
		lk__entry_promote(entry);
	}
	caller_finish(entry, want, waiter, rc);
}

/* ---- the head of the wait queue ---- */

/*
 * The head carries out the effects of each step of the lock's attempt (src/sync/attempt.h), and
 * feeds what came of them. It decides nothing. Each action has a begin, which returns 0 with an
 * event, or LK__OP_WAITS; a look at what is waited for does too, or says why the head has to leave.
 */

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
static int head_over(const struct lk__head *head)
{
	const struct lk__caller *waiter = head->waiter;
	int over = lk__entry_ends(head->entry, &waiter->settings);
	if (!over && lk__caller_cancelled(waiter))
		over = LK_ECANCELLED;
	if (!over && waiter->until_ns != LK__NEVER && lk__now_ns() >= waiter->until_ns)
		over = LK_ETIMEDOUT;
	return over;
}

int lk__head_gone(const struct lk__head *head)
{
	int over = head_over(head);
	return over == LK_ETIMEDOUT ? 0 : over;
}

static int head_waits(struct lk__head *head, enum lk__head_wait wait)
{
	head->wait = wait;
	return LK__OP_WAITS;
}

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
		lk__entry_try_ends(entry);
	if (effects.unsubscribes)
		lk__entry_unsubscribe(entry);
	if (entry->waiting->attempt.busy || entry->waiting->attempt.code)
		lk__entry_wake_askers(entry);
	return effects;
}

/* ---- its connection ---- */

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

/* Looks up where to connect. */
static struct lk__conn *head_route(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	head->moved |= lk__entry_route(entry);
	lk__entry_return(entry, entry->target.node);
	return lk__entry_conn(entry);
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
	int rc = lk__op_connect_look(head->op, lk__head_gone(head), &why);
	return rc == LK__OP_WAITS ? rc : head_connected(head, rc, &why);
}

static int connect_begin(struct lk__head *head, int64_t unlimited_until_ns)
{
	int64_t until_ns = head->waiter->until_ns;
	/* On several nodes each try connects. */
	struct lk__conn *conn = lk__entry_quorum(head->entry) ? NULL : head_route(head);
	if (until_ns == LK__NEVER)
		until_ns = unlimited_until_ns;
	if (conn && lk__op_connect(head->op, conn, head->waiter->once, until_ns))
		return head_waits(head, LK__HEAD_CONNECTION);
	return head_connected(head, LK__WAIT_READY, NULL);
}

/* ---- its tries ---- */

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
		.turn_ms = lk__front_place_ms(entry),
		.asks_place_only = entry->waiting->attempt.asks_place_only,
		.flags = waiter->settings.flags,
		.once = waiter->once,
	};
	if (waiter->until_ns != LK__NEVER)
		wanted.wait_ms = now_ns < waiter->until_ns
					 ? (waiter->until_ns - now_ns) / LK__MS + 1
					 : 1;
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
	entry->waiting->request = request;
	entry->waiting->asks_anew = false;
	lk__entry_try_begins(entry);
	head->epoch = lk__entry_begin_try(entry);
	if (lk__entry_channel(entry))
		lk__channel_mark(lk__entry_messages(entry), lk__entry_channel(entry),
				 &entry->waiting->mark);
	head_pin(head);
	head->waiter->tried = true;
	return request;
}

/* Until when the answer to a try is waited for. */
static int64_t head_answer_until_ns(const struct lk__head *head)
{
	const struct lk__caller *waiter = head->waiter;
	int64_t try_ns = head->entry->waiting->attempt.try_until_ns + ANSWER_GRACE_NS;
	int64_t now_ns = lk__now_ns();
	int64_t until_ns = waiter->until_ns > now_ns ? waiter->until_ns : now_ns;
	if (until_ns >= try_ns)
		return try_ns;
	return lk__earlier(until_ns + caller_last_answer_ns(waiter), try_ns);
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

/* A try at one node: 0 with an event, or LK__OP_WAITS. While it is in flight the request has a
 * reference of the entry. */
static int head_send(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	struct lk__conn *conn = lk__op_join(head->op, entry, entry->target.node);
	struct lk__request *request = head_try(head);
	if (!request) {
		lk__op_part(head->op);
		return 0;
	}
	lk__entry_ref(entry);
	lk__client_record_show(entry->client, conn);
	lk__op_call(head->op, conn, request, head_answer_until_ns(head));
	return head_waits(head, LK__HEAD_ANSWER);
}

/* The try is not in flight any more. */
static int head_told(struct lk__head *head)
{
	atomic_fetch_sub(&head->entry->refs, 1); /* never the last: the caller has one */
	head_answered(head, head->op->request);
	return 0;
}

/* The time for an answer is over; `over`: and that of the head. */
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
		int over = head_over(head);
		return over ? over : LK__OP_WAITS;
	}
	waiting->answered = NULL;
	head_answered(head, request);
	return 0;
}

/* Looks for its answer: as head_send(), or why the head has to leave. */
static int head_send_look(struct lk__head *head)
{
	if (!head->op->request)
		return answer_brought(head);
	if (lk__op_is_answered(head->op))
		return head_told(head);
	int gone = lk__head_gone(head);
	if (!gone && lk__now_ns() < head->op->until_ns)
		return LK__OP_WAITS;
	return answer_give_up(head, gone ? gone : head_over(head));
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
	head_waits(head, LK__HEAD_ANSWER);
	return waiting->answered ? head_send_look(head) : LK__OP_WAITS;
}

/* ---- what it hears ---- */

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

static int head_subscribed(struct lk__head *head, int rc, const lk_error *why)
{
	struct lk__entry *entry = head->entry;
	if (lk__ends_wait(rc))
		return rc;
	if (rc == LK__WAIT_TIME_UP && head_over(head))
		return head_over(head);
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
	head_unconnected(head, why, false);
	return 0;
}

static int listen_look(struct lk__head *head)
{
	lk_error why = {.code = LK_EUNREACHABLE, .message = "no answer to SUBSCRIBE"};
	int rc = lk__op_listen_look(head->op, lk__head_gone(head), &why);
	return rc == LK__OP_WAITS ? rc : head_subscribed(head, rc, &why);
}

static int listen_begin(struct lk__head *head)
{
	struct lk__op *op = head->op;
	struct lk__entry *entry = head->entry;
	struct lk__conn *conn = lk__entry_messages(entry);
	int64_t until_ns = lk__earlier(head->waiter->until_ns, lk__now_ns() + DEAF_NS);
	if (lk__entry_channel(entry)) /* the server may have ended it before it was confirmed */
		lk__channel_retry(conn, lk__entry_channel(entry));
	else
		entry->waiting->channel = head_open_channel(entry);
	if (!lk__entry_channel(entry)) {
		head_failed(head, LK_ENOMEM, false, "out of memory");
		return 0;
	}
	lk__channel_mark(conn, lk__entry_channel(entry), &op->mark);
	head_waits(head, LK__HEAD_SUBSCRIPTION);
	return lk__op_listen(op, conn, true, until_ns) ? LK__OP_WAITS : listen_look(head);
}

/* A random part of the half of the time until then. */
static int64_t jitter_ns(int64_t until_ns)
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

static int hear_look(struct lk__head *head);

/* Listens on, and asks meanwhile who is at the front of the order of turns, if that is due. */
static int hear_on(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	int64_t ask_ns = lk__front_due_ns(entry, head->waiter->begun_ns);
	if (lk__now_ns() >= ask_ns) {
		lk__front_ask(entry);
		ask_ns = lk__front_due_ns(entry, head->waiter->begun_ns);
	}
	bool later = ask_ns != LK__NEVER && lk__now_ns() < ask_ns;
	int64_t until_ns = later ? lk__earlier(ask_ns, head->hear_until_ns) : head->hear_until_ns;
	return lk__op_listen(head->op, lk__entry_messages(entry), false, until_ns)
		       ? LK__OP_WAITS
		       : hear_look(head);
}

/* What came is a hint, which asks for no try. */
static bool hear_hint(struct lk__head *head)
{
	return head->op->mark.hinted &&
	       lk__front_hinted(head->entry, head->patient, &head->hear_until_ns);
}

/* Until when it listens: longer than it meant to, as long as it would be told. */
static int64_t hear_longer(struct lk__head *head)
{
	int64_t until_ns = lk__earlier(head->waiter->until_ns, lk__front_quiet_ns(head->entry));
	if (head->patient && head->op->mark.on && until_ns > head->hear_until_ns)
		head->hear_until_ns = until_ns;
	return head->hear_until_ns;
}

static int hear_look(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	const struct lk__heard *mark = &head->op->mark;
	int rc = lk__op_listen_look(head->op, lk__head_gone(head), NULL);
	if (rc == LK__OP_WAITS || rc < 0)
		return rc;
	if (rc == LK__WAIT_READY ? hear_hint(head) : lk__now_ns() < hear_longer(head))
		return hear_on(head);
	if (rc != LK__WAIT_READY && !mark->on) /* once in DEAF_NS */
		lk__channel_retry(lk__entry_messages(entry), lk__entry_channel(entry));
	head_happened(head, rc == LK__WAIT_READY ? LK__ATTEMPT_WOKEN : LK__ATTEMPT_TIMER);
	if (rc != LK__WAIT_READY)
		return head_over(head);
	head->event.handed_us = head_handed_us(entry, mark->payload);
	head->event.soon = strcmp(mark->payload, LK__TOLD_SOON) == 0;
	entry->waiting->mark = *mark;
	return 0;
}

/* Listens from the mark on, which knows what has been heard so far. */
static int hear_begin(struct lk__head *head, const struct lk__effects *effects)
{
	int64_t until_ns = effects->until_ns;
	struct lk__entry *entry = head->entry;
	struct lk__heard *mark = &head->op->mark;
	struct lk__conn *conn = lk__entry_messages(entry);
	if (!entry->waiting->mark.listening) /* subscribed by a head that left before it knew */
		lk__channel_mark(conn, lk__entry_channel(entry), &entry->waiting->mark);
	*mark = entry->waiting->mark;
	mark->news_only = effects->action == LK__ATTEMPT_DO_HOLD_OFF;
	head->patient = effects->patient;
	if (entry->waiting->attempt.want.poll_ns) /* not in step with others who poll */
		until_ns -= jitter_ns(until_ns) / 2;
	if (!mark->on) {
		lk__conn_open(conn);
		until_ns = lk__earlier(until_ns, lk__now_ns() + DEAF_NS);
	}
	head->hear_until_ns = lk__earlier(head->waiter->until_ns, until_ns);
	head_waits(head, LK__HEAD_MESSAGE);
	return hear_on(head);
}

/* ---- its pauses ---- */

static int pause_begin(struct lk__head *head, int64_t until_ns)
{
	head->pause_until_ns = until_ns - jitter_ns(until_ns);
	lk__op_wait(head->op, lk__earlier(head->waiter->until_ns, head->pause_until_ns));
	return head_waits(head, LK__HEAD_PAUSE);
}

static int pause_look(struct lk__head *head)
{
	int over = head_over(head);
	if (lk__now_ns() < head->pause_until_ns && !head->entry->waiting->asks_anew)
		return over ? over : LK__OP_WAITS;
	head_happened(head, LK__ATTEMPT_TIMER);
	return 0;
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

/* A wait limit that is very short buys one try all the same. */
static int head_is_over(struct lk__head *head, const struct lk__effects *effects)
{
	bool connects = effects->action == LK__ATTEMPT_DO_CONNECT;
	bool tries = connects || effects->action == LK__ATTEMPT_DO_SEND;
	int over = head_over(head);
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
	int over = head_is_over(head, effects);
	return over ? head_leave(head, over) : 0;
}

static int head_act(struct lk__head *head, const struct lk__effects *effects)
{
	const struct lk__quorum *quorum = lk__entry_quorum(head->entry);
	switch (effects->action) {
	case LK__ATTEMPT_DO_CONNECT:
		return connect_begin(head, effects->until_ns);
	case LK__ATTEMPT_DO_SEND:
		return quorum ? quorum->tries->send(head) : head_send(head);
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

static int head_look(struct lk__head *head)
{
	const struct lk__quorum *quorum = lk__entry_quorum(head->entry);
	switch (head->wait) {
	case LK__HEAD_CONNECTION:
		return connect_look(head);
	case LK__HEAD_ANSWER:
		return quorum ? quorum->tries->send_look(head) : head_send_look(head);
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

/* Goes on as far as it can: 1, granted to the waiter; LK__OP_WAITS; or a code, and the waiter is
 * still in the queue. */
static int head_run(struct lk__head *head)
{
	int rc = head_look(head);
	while (rc == 0) {
		struct lk__effects effects;
		head->wait = LK__HEAD_NOTHING;
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
		.look_ns = lk__front_look_ns(entry),
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

/* ---- from its begin to its end ---- */

/* As long as it is the head: LK__OP_WAITS; else 1, granted, 0, or a code. */
static int acquire_lead(struct lk__acquire *acquire)
{
	if (!acquire->heads)
		head_begin(&acquire->head, &acquire->op, acquire->entry, &acquire->caller,
			   acquire->error);
	int rc = head_run(&acquire->head);
	acquire->heads = rc == LK__OP_WAITS;
	if (!acquire->heads) {
		acquire->caller.why = NULL;
		head_unpin(&acquire->head);
	}
	return rc;
}

/* 1: it has the lock; LK__OP_WAITS; or a code. */
static int acquire_stand(struct lk__acquire *acquire)
{
	struct lk__entry *entry = acquire->entry;
	struct lk__caller *caller = &acquire->caller;
	assert(!acquire->heads || lk__entry_head(entry) == caller);
	for (;;) {
		int64_t until_ns = LK__NEVER;
		int rc = lk__entry_head(entry) == caller ? acquire_lead(acquire) : 0;
		if (rc == LK__OP_WAITS)
			return rc;
		if (rc >= 0)
			rc = caller_look(entry, caller, &until_ns, acquire->error);
		if (rc)
			return rc;
		if (lk__entry_head(entry) == caller)
			continue;
		lk__op_wait(&acquire->op, until_ns);
		return LK__OP_WAITS;
	}
}

static int acquire_step(struct lk__op *op)
{
	struct lk__acquire *acquire = (struct lk__acquire *)op;
	struct lk__entry *entry = acquire->entry;
	int rc = 0;
	if (acquire->begun)
		pthread_mutex_lock(&entry->mutex);
	else
		rc = caller_begin(entry, op->thread, acquire->want, &acquire->caller,
				  acquire->error);
	acquire->begun = true;
	if (rc == 0) {
		rc = acquire_stand(acquire);
		if (rc != LK__OP_WAITS)
			caller_end(entry, acquire->want, &acquire->caller, rc);
	}
	pthread_mutex_unlock(&entry->mutex);
	return rc == 1 ? 0 : rc;
}

void lk__acquire_init(struct lk__acquire *acquire, struct lk__entry *entry,
		      struct lk__thread *thread, const struct lk__want *want, lk_error *error)
{
	lk__op_begin(&acquire->op, acquire_step, thread, want->cancel);
	acquire->entry = entry;
	acquire->want = want;
	acquire->begun = acquire->heads = false;
	acquire->error = error;
}

int lk__acquire_run(struct lk__entry *entry, struct lk__thread *thread, const struct lk__want *want,
		    lk_error *error)
{
	lk_error own = {.code = 0};
	struct lk__acquire acquire;
	lk__acquire_init(&acquire, entry, thread, want, error ? error : &own);
	return lk__op_run(&acquire.op);
}
