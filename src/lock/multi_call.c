/* SPDX-License-Identifier: MIT */
/* The calls of a multi lock: what goes to its parts and comes back, and the operations. */
#include "lock/multi.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "lock/acquire.h"
#include "lock/compensation.h"
#include "lock/extend.h"
#include "lock/fan_out.h"
#include "lock/loop.h"
#include "lock/release.h"
#include "sync/multi/attempt.h"
#include "sync/multi/multi.h"
#include "sync/script.h"
#include "sync/trace.h"

/* ---- what is asked of the parts ---- */

/*
 * Places in the wait queues of the parts, one try at all that are not taken yet, releases, or
 * extensions. Each function only begins or reads: between the two the operation waits for `asks`.
 * A try is a look at the parts, the connects, and reserve, which sends unless `asks` is empty.
 */

/* Parts of one client that go in one script: neighbours, since the parts are in order. */
struct part_group {
	size_t count;
	const size_t *part;        /* their places in the multi lock */
	struct lk__multi_key *key; /* of each */
	uint64_t number;           /* of an acquire */
	uint64_t epoch;
	int64_t lease_ms, until_ns;
};

struct lk__multi_ask;

/* One command for each of several connections. `read` is called for each, as the answers come, with
 * its request, done, or NULL where none came in time; what was not sent by then is done, with
 * LK_EUNREACHABLE, and not sent any more; what lacks replicas or disks by then, with
 * LK_ENOTDURABLE. The requests are gone then. Until an answer is read, closing its client waits:
 * what `read` still sends gets through. */
struct asks {
	size_t count;
	struct lk__conn *conn[LK__MULTI_MAX];
	struct lk__request *request[LK__MULTI_MAX]; /* NULL: read */
	void (*read)(struct lk__multi_ask *ask, size_t index, const struct lk__request *request);
	struct lk__fan_out *fan_out; /* asks all at once; NULL: a calling thread asks one alone */
};

struct lk__multi_ask {
	struct lk__op op;
	enum lk__multi_way way;
	int64_t time_ms; /* a lease that is extended; or a release keeps the parts so long */
	bool begun;
	const struct lk__multi *multi;
	struct lk__want want;
	struct lk__thread *threads[LK__MULTI_MAX]; /* the caller's, in each part's client */
	bool taken[LK__MULTI_MAX];
	int64_t until_ns;
	size_t busy;  /* the part to wait for */
	int code;     /* why it was not had: LK_EBUSY, what stood in the way, or 0: not known yet */
	bool again;   /* because requests were not sent, or came late for the first time; no more */
	bool unknown; /* in some round parts may have been granted, for all we know */
	bool late;    /* one came late, and has taught us the server's time */
	lk_error *error;

	/* Of an acquire: */
	struct lk__multi_attempt attempt;
	struct lk__multi_effects effects; /* `part`: whose client connects, or that is awaited */
	size_t connects_from;             /* the next part whose client may have to connect */
	struct lk__acquire alone;         /* of the part that is waited for alone, */
	struct lk__want alone_want;       /* what is asked of it, */
	_Atomic bool stop;                /* and that it is to end */

	/* Of one try, release or extension. */
	struct asks asks;
	int64_t asks_until_ns;           /* the caller waits so long at most */
	int64_t keep_ms;                 /* a release keeps the parts so long; 0: it frees them */
	const struct lk__node *connects; /* the node that was connected last; NULL */
	int64_t connects_since_ns;       /* when connecting began: the limit is of all together */
	int result;                      /* the first failure; 0: none */
	bool tells;                      /* which also goes to `error` */
	bool was_late;                   /* an earlier try */
	bool entered;                    /* the cancel token is tied to it */
	bool reserved[LK__MULTI_MAX];
	struct lk__caller waiter[LK__MULTI_MAX];
	size_t asked; /* parts that go on the wire: part[], key[] */
	size_t part[LK__MULTI_MAX];
	struct lk__multi_key key[LK__MULTI_MAX];
	size_t group_count;
	struct part_group group[LK__MULTI_MAX];
	union {
		struct lk__release release[LK__MULTI_MAX];
		struct lk__extension extension[LK__MULTI_MAX];
	};
	lk_error why; /* of the part that was read last */
};

static bool ask_is_busy(const struct lk__multi_ask *ask)
{
	return ask->busy < ask->multi->count;
}

static struct lk__entry *part_of(const struct lk__multi_ask *ask, size_t part)
{
	assert(part < ask->multi->count);
	return ask->multi->part[part];
}

static void ask_busy(struct lk__multi_ask *ask, size_t part, int code)
{
	if (part >= ask->busy)
		return;
	ask->busy = part; /* the first in the order of all */
	ask->code = code;
}

/* Puts a part on the list for the wire; its key is to be filled in. */
static struct part_group *ask_add(struct lk__multi_ask *ask, size_t part)
{
	const struct lk__entry *entry = part_of(ask, part);
	struct part_group *group = &ask->group[ask->group_count];
	const struct lk__entry *last = ask->asked ? part_of(ask, ask->part[ask->asked - 1]) : NULL;
	assert(ask->asked < ask->multi->count);
	assert(ask->asked == 0 || ask->part[ask->asked - 1] < part); /* in order */
	ask->part[ask->asked] = part;
	ask->key[ask->asked].target = &entry->target;
	if (last && last->client == entry->client && last->target.slot == entry->target.slot)
		group--;
	else
		*group = (struct part_group){.part = &ask->part[ask->asked],
					     .key = &ask->key[ask->asked]};
	ask->group_count = (size_t)(group - ask->group) + 1;
	ask->asked++;
	group->count++;
	return group;
}

/* Nothing is on the list for the wire. */
static void ask_clear(struct lk__multi_ask *ask)
{
	ask->asked = ask->group_count = ask->asks.count = 0;
	ask->result = 0;
}

/* The owner as each client knows it. */
static struct lk__owner part_owner(const struct lk__multi_ask *ask, size_t part)
{
	return ask->want.owner.name ? ask->want.owner
				    : (struct lk__owner){.serial = ask->threads[part]->serial};
}

static struct lk__want part_want(const struct lk__multi_ask *ask, size_t part)
{
	struct lk__want want = ask->want;
	want.owner = part_owner(ask, part);
	return want;
}

/* The arguments of a part's own acquire, where that part alone is waited for. */
static struct lk__want await_want(const struct lk__multi_ask *ask, size_t part)
{
	struct lk__want want = part_want(ask, part);
	int64_t now_ns = lk__now_ns();
	int64_t left_ms = now_ns < ask->until_ns ? (ask->until_ns - now_ns) / LK__MS + 1 : 1;
	if (want.wait_ms == 0)
		want.once_ms = left_ms;
	else
		want.wait_ms = ask->until_ns == LK__NEVER ? -1 : left_ms;
	return want;
}

/* ---- places in the wait queues ---- */

/* Tells whether nobody of this client has the lock, waits for it, or lets others go first, as a
 * mere try does not. */
static bool entry_is_free(struct lk__entry *entry, bool once)
{
	const struct lk__waiting *waiting = entry->waiting;
	int64_t now_ns = lk__now_ns();
	if (entry->hold && now_ns >= lk__hold_deadline(entry->hold))
		lk__entry_lose(entry, now_ns);
	return !entry->hold && !entry->passing &&
	       (!waiting || (!waiting->queue && !waiting->request && !waiting->answered &&
			     waiting->attempt.state == LK__ATTEMPT_IDLE)) &&
	       (once || now_ns >= entry->term.hold_off_until_ns);
}

/* Takes a part that the owner has already; `busy` may be set. 0 or a code. */
static int part_look(struct lk__multi_ask *ask, size_t part)
{
	struct lk__entry *entry = part_of(ask, part);
	struct lk__want want = part_want(ask, part);
	int rc = lk__hold_reenter(entry, &want, ask->error);
	ask->taken[part] = rc == 1;
	if (rc == 0 && !entry_is_free(entry, want.wait_ms == 0))
		ask_busy(ask, part, lk__entry_kept_out(entry));
	return rc == 1 ? 0 : rc < 0 ? rc : lk__entry_refuses(entry, &want.settings, ask->error);
}

/* Makes the caller the head of the wait queue, so that nobody of this client comes between. */
static int part_reserve(struct lk__multi_ask *ask, size_t part)
{
	struct lk__entry *entry = part_of(ask, part);
	struct lk__caller *waiter = &ask->waiter[part];
	struct lk__want want = part_want(ask, part);
	assert(!ask->reserved[part]);
	int rc = part_look(ask, part);
	if (rc < 0 || ask->taken[part] || ask_is_busy(ask))
		return rc;
	*waiter = (struct lk__caller){.thread = ask->threads[part], .until_ns = LK__NEVER};
	waiter->hold = lk__hold_wanted(waiter->thread, entry->target.recipe, &want);
	if (!waiter->hold || !lk__entry_begin_waiting(entry)) {
		lk__hold_free(waiter->hold);
		return lk__fail(ask->error, LK_ENOMEM, "acquire \"%.100s\": out of memory",
				entry->name);
	}
	entry->asked_lease_ms = lk__entry_lease_ms(entry, waiter->hold);
	lk__entry_join_queue(entry, waiter);
	assert(lk__entry_head(entry) == waiter); /* it was free */
	lk__entry_route(entry);
	lk__entry_rejoin_first(entry);
	ask->reserved[part] = true;
	return 0;
}

static void part_leave(struct lk__multi_ask *ask, size_t part)
{
	struct lk__entry *entry = part_of(ask, part);
	if (!ask->reserved[part])
		return;
	ask->reserved[part] = false;
	pthread_mutex_lock(&entry->mutex);
	lk__entry_leave_queue(entry, &ask->waiter[part]);
	lk__hold_free(ask->waiter[part].hold);
	lk__entry_promote(entry);
	lk__entry_end_waiting(entry);
	pthread_mutex_unlock(&entry->mutex);
}

/* Looks at, or reserves, what is not taken, until one is busy. 0 or a code. */
static int ask_parts(struct lk__multi_ask *ask,
		     int (*visit)(struct lk__multi_ask *ask, size_t part))
{
	int rc = 0;
	for (size_t i = 0; i < ask->multi->count && rc == 0 && !ask_is_busy(ask); i++) {
		struct lk__entry *entry = part_of(ask, i);
		if (ask->taken[i])
			continue;
		pthread_mutex_lock(&entry->mutex);
		rc = visit(ask, i);
		pthread_mutex_unlock(&entry->mutex);
	}
	return rc;
}

/* ---- asking ---- */

static lk_client *group_client(const struct lk__multi_ask *ask, const struct part_group *group)
{
	return part_of(ask, group->part[0])->client;
}

static struct lk__request *group_request(struct lk__multi_ask *ask, struct part_group *group)
{
	struct lk__entry *entry = part_of(ask, group->part[0]);
	lk_client *client = entry->client;
	assert(group->count > 0 && ask->reserved[group->part[0]]);
	lk__client_record_show(client, lk__entry_scripts(entry));
	group->number = atomic_fetch_add(&client->last_number, 1) + 1;
	for (size_t i = 0; i < group->count; i++)
		group->epoch = lk__entry_begin_try(part_of(ask, group->part[i]));
	group->lease_ms = lk__entry_lease_ms(entry, ask->waiter[group->part[0]].hold);
	group->until_ns = lk__after_ms(lk__now_ns(), client->config->command_timeout_ms);
	lk__field(entry, group->number, group->key[0].field);
	struct lk__request *request = lk__multi_acquire_request(group->key, group->count,
								group->lease_ms);
	if (request) {
		request->resend = true;
		request->return_unsent = true;
		request->deadline_ns = group->until_ns;
	}
	return request;
}

/* One that came while its client was closed or drained is nobody's. */
static int part_granted(struct lk__multi_ask *ask, size_t part, const struct part_group *group,
			const struct lk__request *request)
{
	struct lk__entry *entry = part_of(ask, part);
	assert(ask->reserved[part] && !ask->taken[part]);
	assert(lk__entry_head(entry) == &ask->waiter[part]);
	int ends = lk__entry_refuses(entry, &ask->waiter[part].settings, ask->error);
	if (ends) {
		lk__entry_release_in_background(entry, group->number);
		return ends;
	}
	entry->grant.fence = 0;
	entry->grant.node = entry->target.node;
	entry->grant.epoch = group->epoch - (request->redirects > 0); /* elsewhere: in doubt */
	entry->grant.repeated_until_ns = request->sends > 1 ? request->deadline_ns : 0;
	lk__entry_grant(entry, &ask->waiter[part], group->number, request->sent_ns,
			group->lease_ms);
	lk__client_record_show(entry->client, request->conn); /* which may be new */
	lk__entry_count(entry, acquires, 1);
	lk__entry_end_waiting(entry);
	ask->reserved[part] = false;
	ask->taken[part] = true;
	return 0;
}

static void group_granted(struct lk__multi_ask *ask, const struct part_group *group,
			  const struct lk__request *request)
{
	for (size_t i = 0; i < group->count; i++) {
		struct lk__entry *entry = part_of(ask, group->part[i]);
		pthread_mutex_lock(&entry->mutex);
		int code = part_granted(ask, group->part[i], group, request);
		pthread_mutex_unlock(&entry->mutex);
		ask->unknown |= code < 0; /* until it is given back */
		if (code < 0)
			ask->result = code;
	}
}

/* Where the master has answered a try that was sent once, no copy of it can come any more. What it
 * has granted and replicas lack is released there at once, and replicas hear of it later. */
static void group_compensate(struct lk__multi_ask *ask, const struct part_group *group,
			     const struct lk__attempt_event *event)
{
	for (size_t i = 0; i < group->count; i++) {
		struct lk__entry *entry = part_of(ask, group->part[i]);
		pthread_mutex_lock(&entry->mutex);
		if (event->code == LK_ENOTDURABLE)
			lk__compensate_unheard(entry, group->number,
					       event->copied ? group->until_ns : lk__now_ns());
		else
			lk__compensate(entry, group->number,
				       event->ran ? lk__now_ns() : group->until_ns);
		pthread_mutex_unlock(&entry->mutex);
	}
}

/* Its acquire is still on its way: a release behind it, which close waits for as well. */
static void group_release_behind(struct part_group *group, struct lk__entry *first)
{
	for (size_t i = 1; i < group->count; i++)
		memcpy(group->key[i].field, group->key[0].field, LK__FIELD_SIZE);
	struct lk__request *request = lk__multi_release_request(group->key, group->count);
	if (!request)
		return; /* out of memory: it is compensated all the same, later */
	request->resend = true;
	request->deadline_ns = lk__after_ms(group->until_ns, group->lease_ms);
	request->finish = lk__request_forget;
	if (!lk__conn_offer(lk__entry_scripts(first), request))
		lk__request_free(request); /* the client is closed: their leases end them */
}

static void group_explain(struct lk__multi_ask *ask, const struct part_group *group, int code,
			  const char *reason)
{
	const struct lk__entry *entry = part_of(ask, group->part[0]);
	lk__fail(ask->error, code, "acquire %zu locks, \"%.100s\" … on %.100s: %s",
		 ask->multi->count, entry->name, entry->client->config->url, reason);
}

/* The group was not had: what is told of it, if no earlier one is. `ends`: no other try helps. */
static void group_not_had(struct lk__multi_ask *ask, const struct part_group *group,
			  const struct lk__answer *answer, bool ends)
{
	int code = answer->event.code;
	if (!ask->result && (ends || group->part[0] < ask->busy))
		group_explain(ask, group, code, answer->reason);
	if (!ask->result && ends)
		ask->result = code;
	ask_busy(ask, group->part[0], code);
}

/* Reads the answer; NULL: none came. */
static struct lk__answer group_answer(const struct part_group *group,
				      const struct lk__request *request)
{
	const struct lk__answer none = {
		.event = {.type = LK__ATTEMPT_UNKNOWN, .code = LK_EMAYBEHELD},
		.reason = "no answer within the command limit"};
	const struct lk__answer wrong = {.event = none.event,
					 .reason = "the answer names none of them"};
	if (!request)
		return none;
	struct lk__answer answer = lk__answer_take(request, lk__multi_read_acquire, group->lease_ms,
						   lk__now_ns());
	return answer.busy < group->count ? answer : wrong;
}

static void group_read(struct lk__multi_ask *ask, size_t index, const struct lk__request *request)
{
	struct part_group *group = &ask->group[index];
	assert(index < ask->group_count);
	const struct lk__answer answer = group_answer(group, request);
	bool again = false, comes;
	switch (answer.event.type) {
	case LK__ATTEMPT_GRANTED:
		again = true;
		group_granted(ask, group, request);
		break;
	case LK__ATTEMPT_BUSY:
		lk__entry_count(part_of(ask, group->part[0]), busy, 1);
		ask_busy(ask, group->part[answer.busy], LK_EBUSY);
		break;
	case LK__ATTEMPT_LATE:
		again = !ask->was_late;
		ask->late = true;
		ask_busy(ask, group->part[0], LK_EUNAVAILABLE);
		break;
	case LK__ATTEMPT_FAILED:
		again = answer.event.unsent;
		comes = answer.event.retryable || (answer.event.passing && ask->want.wait_ms > 0);
		group_not_had(ask, group, &answer, !comes);
		break;
	default:
		if (!request)
			group_release_behind(group, part_of(ask, group->part[0]));
		/* A caller that waits for the first of them finds out the rest. */
		group_not_had(ask, group, &answer, answer.event.lasting);
		group_compensate(ask, group, &answer.event);
		ask->unknown = true;
	}
	ask->again &= again;
	/* Refused, but the first copy may have been granted. */
	bool copies = answer.event.type != LK__ATTEMPT_UNKNOWN && answer.event.copied;
	if (copies && !ask->taken[group->part[0]])
		group_compensate(ask, group, &answer.event);
	atomic_fetch_sub(&group_client(ask, group)->trying, 1);
}

/* ---- one command each ---- */

static void ask_read(struct lk__multi_ask *ask, size_t index, const struct lk__request *request)
{
	ask->asks.request[index] = NULL;
	ask->asks.read(ask, index, request);
	lk__conn_unpin(ask->asks.conn[index]);
}

static void ask_take(void *context, size_t index, const struct lk__fan_out_part *answers)
{
	ask_read(context, index, answers->request[0]);
}

/* Sends them, for an operation that waits for the answers until `asks_until_ns`. */
static void asks_begin(struct lk__multi_ask *ask, struct lk__op *op)
{
	const struct lk__fan_out_use use = {.context = ask, .take = ask_take};
	const struct lk__request none = {.code = LK_ENOMEM, .reason = "out of memory"};
	struct asks *asks = &ask->asks;
	bool one = asks->count == 1 && !op->thread->on_wake;
	asks->fan_out = one || asks->count == 0 ? NULL
						: lk__fan_out_new(asks->count, &use, op->thread);
	for (size_t i = 0; i < asks->count; i++) {
		struct lk__request *request = asks->request[i];
		lk__conn_pin(asks->conn[i]);
		if (asks->fan_out) {
			lk__fan_out_add(asks->fan_out, i, asks->conn[i], request);
		} else if (one) {
			lk__op_send(op, asks->conn[i], request, ask->asks_until_ns);
		} else {
			ask_read(ask, i, &none);
			lk__request_free(request);
		}
	}
	if (asks->fan_out) {
		lk__fan_out_go(asks->fan_out);
		lk__op_wait_nodes(op, asks->fan_out, ask->asks_until_ns);
	}
}

/* The answer, which may have come by now, or NULL. */
static void asks_end_one(struct lk__multi_ask *ask, struct lk__op *op, bool done)
{
	struct lk__request *request = op->request;
	if (!done)
		done = lk__op_leave(op, true, lk__request_forget);
	ask_read(ask, 0, done ? request : NULL);
	if (done)
		lk__request_free(request);
}

static void asks_end(struct lk__multi_ask *ask)
{
	struct asks *asks = &ask->asks;
	lk__fan_out_withdraw(asks->fan_out, true);
	for (size_t i = 0; i < asks->count; i++)
		if (asks->request[i])
			ask_read(ask, i, NULL);
	lk__fan_out_end(asks->fan_out);
}

/* True when all are read, at the latest when op->until_ns is over, or if it gives up. */
static bool asks_look(struct lk__multi_ask *ask, struct lk__op *op, bool gives_up)
{
	struct asks *asks = &ask->asks;
	bool one = !asks->fan_out && asks->count > 0 && asks->request[0];
	bool over = asks->fan_out ? lk__fan_out_look(asks->fan_out, op->until_ns)
				  : !one || lk__op_is_answered(op);
	if (!over && !gives_up && lk__now_ns() < op->until_ns)
		return false;
	if (asks->fan_out)
		asks_end(ask);
	else if (one)
		asks_end_one(ask, op, over);
	return true;
}

/* ---- a try ---- */

static int ask_look(struct lk__multi_ask *ask)
{
	int rc = lk__cancel_enter(ask->want.cancel, ask->threads[0], ask->error);
	ask_clear(ask);
	ask->entered = rc == 0;
	if (rc < 0)
		return rc;
	ask->was_late = ask->late;
	ask->busy = ask->multi->count;
	ask->again = false;
	return ask_parts(ask, part_look);
}

/* Adds the request of a group to those that are to be sent. False: there was no memory for it. */
static bool ask_send(struct lk__multi_ask *ask, const struct part_group *group,
		     struct lk__request *request, int64_t until_ns)
{
	if (!request)
		return false;
	assert(ask->asks.count < LK__MULTI_MAX);
	request->resend = true;
	request->deadline_ns = until_ns;
	ask->asks.conn[ask->asks.count] = lk__entry_scripts(part_of(ask, group->part[0]));
	ask->asks.request[ask->asks.count++] = request;
	return true;
}

/* Nothing is sent, for lack of memory. */
static int ask_fail(struct lk__multi_ask *ask, const char *operation)
{
	while (ask->asks.count > 0)
		lk__request_free(ask->asks.request[--ask->asks.count]);
	return lk__fail(ask->error, LK_ENOMEM, "%s: out of memory", operation);
}

/* A proxy that spreads keys runs the script at one server, where nobody looks for all of them. */
static int group_check(const struct lk__multi_ask *ask, const struct part_group *group)
{
	const struct lk__entry *entry = part_of(ask, group->part[0]);
	if (group->count == 1 || !atomic_load(&entry->target.node->spreads))
		return 0;
	return lk__fail(ask->error, LK_EINVAL,
			"acquire %zu locks, \"%.100s\" … on %.100s: a proxy spreads keys over "
			"several servers there, and would take all locks at one of them: name the "
			"servers themselves (redis-cluster:// for a cluster)",
			ask->multi->count, entry->name, entry->client->config->url);
}

static int ask_reserve(struct lk__multi_ask *ask)
{
	int rc = ask_parts(ask, part_reserve);
	for (size_t i = 0; i < ask->multi->count; i++)
		if (ask->reserved[i])
			ask_add(ask, i);
	if (rc < 0 || ask_is_busy(ask))
		return rc;
	ask->asks.read = group_read;
	ask->asks_until_ns = ask->until_ns;
	ask->again = true; /* until an answer says otherwise */
	for (size_t i = 0; i < ask->group_count; i++) {
		rc = group_check(ask, &ask->group[i]);
		if (rc < 0)
			return rc;
	}
	for (size_t i = 0; i < ask->group_count; i++) {
		struct part_group *group = &ask->group[i];
		struct lk__request *request = group_request(ask, group);
		if (!ask_send(ask, group, request, group->until_ns))
			return ask_fail(ask, "acquire");
		ask->asks_until_ns = lk__earlier(ask->asks_until_ns, group->until_ns);
	}
	for (size_t i = 0; i < ask->group_count; i++)
		atomic_fetch_add(&group_client(ask, &ask->group[i])->trying, 1);
	return 0;
}

/* The end of each look, whatever came of it: leaves the wait queues; once is enough. */
static void ask_leave(struct lk__multi_ask *ask)
{
	for (size_t i = 0; i < ask->multi->count; i++)
		part_leave(ask, i);
	if (ask->entered)
		lk__cancel_leave(ask->want.cancel);
	ask->entered = false;
}

/* 0, or why a client gives no part that is lacking, or none at all. */
static int ask_ends(const struct lk__multi_ask *ask)
{
	for (size_t i = 0; i < ask->multi->count; i++) {
		int code = lk__entry_ends(part_of(ask, i), &ask->waiter[i].settings);
		if (code == LK_ECLOSED || (code && !ask->taken[i]))
			return code;
	}
	return 0;
}

/* 0, or why nothing but releases can be waited for any more. */
static int ask_over(const struct lk__multi_ask *ask)
{
	const struct lk__want *want = &ask->want;
	int over = ask_ends(ask);
	if (!over && (lk__cancelled(want->cancel) || (want->stop && atomic_load(want->stop))))
		over = LK_ECANCELLED;
	return !over && lk__now_ns() >= ask->until_ns ? LK_ETIMEDOUT : over;
}

/* ---- giving back ---- */

/* Notes what became of a part: the first failure is told. */
static void ask_told(struct lk__multi_ask *ask, int rc)
{
	if (rc >= 0 || ask->result)
		return;
	ask->result = rc;
	if (ask->tells && ask->error)
		*ask->error = ask->why;
}

/* A count off; the last one goes on the wire. */
static int part_give_back(struct lk__multi_ask *ask, size_t part)
{
	struct lk__entry *entry = part_of(ask, part);
	struct lk__release *release = &ask->release[part];
	struct lk__owner owner = part_owner(ask, part);
	int rc = lk__release_count(entry, &owner, &ask->why);
	if (rc < 1)
		return rc;
	assert(entry->hold);             /* its last count */
	lk__compensation_reserve(entry); /* without it, close tells of a release that is unknown */
	lk__entry_rejoin_first(entry);   /* the next try comes behind the release of all parts */
	lk__release_begin(release, entry, ask->keep_ms, &ask->why);
	lk__entry_drop_hold(entry, lk__now_ns());
	release->passes = entry->passing = lk__entry_first(entry) != NULL;
	struct part_group *group = ask_add(ask, part);
	lk__field(entry, release->number, group->key[group->count - 1].field);
	if (release->valid_until_ns > group->until_ns)
		group->until_ns = release->valid_until_ns;
	return 0;
}

static void group_freed(struct lk__multi_ask *ask, const struct part_group *group,
			const struct lk__request *request)
{
	for (size_t i = 0; i < group->count; i++) {
		struct lk__release *release = &ask->release[group->part[i]];
		struct lk__entry *entry = release->entry;
		int64_t listeners = 0;
		pthread_mutex_lock(&entry->mutex);
		enum lk__released released = request ? lk__multi_read_release(request, i,
									      &listeners)
						     : LK__RELEASED_FAILED;
		int rc = lk__release_read(release, request, released, listeners);
		pthread_mutex_unlock(&entry->mutex);
		/* The hold is gone: what was not done may be held. */
		if (rc < 0 && rc != LK_ELOST)
			rc = ask->why.code = LK_EMAYBEHELD;
		ask_told(ask, rc);
	}
}

static void groups_freed(struct lk__multi_ask *ask, size_t index, const struct lk__request *request)
{
	assert(index < ask->group_count);
	group_freed(ask, &ask->group[index], request);
}

/* Releases once what is taken, at once. `result` then: 0, or the first code: LK_EMAYBEHELD where a
 * part was given up and the server has not confirmed it. */
static void ask_give_back(struct lk__multi_ask *ask)
{
	const struct lk__request none = {.code = LK_ENOMEM, .reason = "out of memory"};
	size_t sent = 0;
	ask_clear(ask);
	for (size_t i = 0; i < ask->multi->count; i++) {
		struct lk__entry *entry = part_of(ask, i);
		if (!ask->taken[i])
			continue;
		ask->taken[i] = false;
		pthread_mutex_lock(&entry->mutex);
		int rc = part_give_back(ask, i);
		pthread_mutex_unlock(&entry->mutex);
		ask_told(ask, rc);
	}
	ask->asks.read = groups_freed;
	ask->asks_until_ns = 0;
	for (size_t i = 0; i < ask->group_count; i++) {
		const struct part_group group = ask->group[i];
		struct lk__request *request =
			ask->keep_ms ? lk__multi_keep_request(group.key, group.count, ask->keep_ms)
				     : lk__multi_release_request(group.key, group.count);
		if (!ask_send(ask, &group, request, group.until_ns)) {
			group_freed(ask, &group, &none); /* left to compensation */
			continue;
		}
		ask->group[sent++] = group;
		if (group.until_ns > ask->asks_until_ns)
			ask->asks_until_ns = group.until_ns;
	}
}

/* Releases all parts once, which may be kept from others for `keep_ms`. */
static void ask_release(struct lk__multi_ask *ask, int64_t keep_ms)
{
	ask->keep_ms = keep_ms;
	ask->tells = true;
	for (size_t i = 0; i < ask->multi->count; i++)
		ask->taken[i] = true;
	ask_give_back(ask);
}

/* ---- extending ---- */

static int part_extended(struct lk__multi_ask *ask, size_t part, const struct lk__request *request)
{
	struct lk__entry *entry = part_of(ask, part);
	struct lk__extension *extension = &ask->extension[part];
	struct lk__owner owner = part_owner(ask, part);
	int rc = request ? lk__extend_read(entry, extension, request, &ask->why)
			 : lk__fail(&ask->why, LK_EMAYBEHELD,
				    "extend \"%.100s\": no answer within the limit", entry->name);
	return lk__extend_end(entry, &owner, extension, rc, &ask->why);
}

static void parts_extended(struct lk__multi_ask *ask, size_t index,
			   const struct lk__request *request)
{
	ask_told(ask, part_extended(ask, ask->part[index], request));
}

/* Extends all parts at once. 0, and `result` then; or a code, and nothing was sent. */
static int ask_extend(struct lk__multi_ask *ask, int64_t lease_ms)
{
	int rc = 0;
	ask_clear(ask);
	ask->tells = true;
	ask->asks.read = parts_extended;
	ask->asks_until_ns = LK__NEVER; /* the first end of a part is that of all */
	for (size_t i = 0; i < ask->multi->count && rc == 0; i++) {
		struct lk__owner owner = part_owner(ask, i);
		rc = lk__extend_begin(part_of(ask, i), &owner, lease_ms, &ask->extension[i],
				      ask->error);
	}
	for (size_t i = 0; i < ask->multi->count && rc == 0; i++) {
		const struct lk__extension *extension = &ask->extension[i];
		const struct part_group alone = {.count = 1, .part = &ask->part[i]};
		ask->part[i] = i;
		if (!ask_send(ask, &alone, lk__extend_request(part_of(ask, i), extension),
			      extension->until_ns))
			rc = ask_fail(ask, "extend");
		ask->asks_until_ns = lk__earlier(ask->asks_until_ns, extension->until_ns);
	}
	return rc;
}

/* ---- acquire ---- */

/*
 * An acquire carries out what its attempt (sync/multi/attempt.h) says, and feeds what came of it.
 * Each action is begun, and looked at when what it waits for may be there.
 */

/* A part that may be held and nobody wants; the count: none. */
static size_t ask_compensating(const struct lk__multi_ask *ask)
{
	size_t part = 0;
	while (part < ask->multi->count && atomic_load(&ask->multi->part[part]->compensating) == 0)
		part++;
	return part;
}

static struct lk__multi_event ask_event(const struct lk__multi_ask *ask,
					enum lk__multi_event_type type, int code)
{
	return (struct lk__multi_event){.type = type,
					.code = code < 0 ? code : 0,
					.busy = ask->busy,
					.busy_code = ask->code,
					.again = ask->again,
					.unknown = ask->unknown,
					.ends = ask_ends(ask),
					.cancelled = ask_over(ask) == LK_ECANCELLED,
					.compensating = ask_compensating(ask)};
}

static struct lk__entry *acquire_part(const struct lk__multi_ask *ask)
{
	return part_of(ask, ask->effects.part);
}

/* From here on the operation is woken at the caller's place in that part's client. */
static void call_moves(struct lk__multi_ask *ask, size_t part, lk_cancel *cancel)
{
	ask->op.thread = ask->threads[part];
	ask->op.cancel = cancel;
	lk__cancel_move(cancel, ask->op.thread);
}

/* Below: true with the event, false while it is to be waited for. */

/* ---- a part that is waited for alone ---- */

/* Meanwhile that part's client reads for an asynchronous call. */
static void await_listens(const struct lk__multi_ask *ask, bool listens)
{
	_Atomic size_t *listeners = &acquire_part(ask)->client->asyncs.listeners;
	if (!ask->op.thread->on_wake)
		return;
	if (listens)
		atomic_fetch_add(listeners, 1);
	else
		atomic_fetch_sub(listeners, 1);
}

static void await_begin(struct lk__multi_ask *ask)
{
	size_t part = ask->effects.part;
	ask->alone_want = await_want(ask, part);
	ask->alone_want.stop = &ask->stop;
	atomic_store(&ask->stop, false);
	lk__acquire_init(&ask->alone, acquire_part(ask), ask->threads[part], &ask->alone_want,
			 ask->error);
	await_listens(ask, true);
}

/* Tells whether anything of it may still be held that nobody wants. */
static bool entry_is_out(struct lk__entry *entry)
{
	pthread_mutex_lock(&entry->mutex);
	bool out = (entry->waiting && entry->waiting->tries) ||
		   atomic_load(&entry->compensating) > 0;
	pthread_mutex_unlock(&entry->mutex);
	return out;
}

/* The end of any client of the lock ends the wait. What is queued on a connection of another client
 * than the loop's leaves now: that client's loop may be asleep. */
static bool await_look(struct lk__multi_ask *ask, struct lk__multi_event *event)
{
	struct lk__entry *entry = acquire_part(ask);
	int over = ask_over(ask);
	if (lk__ends_wait(over))
		atomic_store(&ask->stop, true);
	int rc = ask->alone.op.step(&ask->alone.op);
	if (ask->op.thread->on_wake && entry->client != ask->multi->part[0]->client) {
		lk__conn_send_queued(lk__entry_scripts(entry));
		lk__loop_attend(entry->client);
	}
	if (rc == LK__OP_WAITS) {
		lk__op_wait_other(&ask->op, &ask->alone.op);
		return false;
	}
	await_listens(ask, false);
	if (rc == LK_ECANCELLED && (over == LK_ECLOSED || over == LK_EDRAINING)) {
		rc = entry_is_out(entry) ? LK_EMAYBEHELD : over;
		lk__fail(ask->error, rc, "acquire \"%.100s\": %s", entry->name, lk_error_text(rc));
	}
	ask->taken[ask->effects.part] = rc == 0;
	*event = ask_event(ask, LK__MULTI_AWAITED, rc);
	return true;
}

/* ---- connecting ---- */

/* Once a node, and before it joins a wait queue: callers of one part alone need not wait for the
 * servers of the others. All begin at once, so that together they take no longer than the slowest.
 * The one before `from` again, if connecting has told of another node. */
static size_t ask_connects(struct lk__multi_ask *ask, size_t from)
{
	if (from == 0) {
		ask->connects = NULL;
		ask->connects_since_ns = lk__now_ns();
	}
	for (size_t i = 0; from == 0 && i < ask->multi->count; i++)
		if (!ask->taken[i])
			lk__conn_open(lk__entry_scripts(part_of(ask, i)));
	for (size_t i = from > 0 ? from - 1 : 0; i < ask->multi->count; i++) {
		const struct lk__node *node = lk__entry_node(part_of(ask, i));
		if (ask->taken[i] || node == ask->connects)
			continue;
		ask->connects = node;
		return i;
	}
	return ask->multi->count;
}

/* One that is down is left to the wait for its part. */
static int ask_connected(struct lk__multi_ask *ask, size_t part, int rc, const lk_error *why)
{
	if (rc == LK__WAIT_READY)
		return 0;
	if (lk__ends_wait(rc))
		return lk__fail(ask->error, rc, "acquire: %s", lk_error_text(rc));
	const struct lk__entry *entry = part_of(ask, part);
	bool comes = lk__conn_may_come(entry->client->config, why->code) && ask->want.wait_ms > 0;
	lk__fail(ask->error, why->code, "acquire \"%.100s\": %.300s", entry->name, why->message);
	ask_busy(ask, part, why->code);
	return lk_error_is_fatal(why->code) && !comes ? why->code : 0;
}

static bool connect_begin(struct lk__multi_ask *ask, struct lk__multi_event *event)
{
	size_t part = ask_connects(ask, ask->connects_from);
	ask->effects.part = part;
	ask->connects_from = part + 1;
	*event = ask_event(ask, LK__MULTI_READY, 0);
	if (part == ask->multi->count)
		return true;
	int64_t limit_ms = part_of(ask, part)->client->config->connect_timeout_ms;
	int64_t until_ns = lk__after_ms(ask->connects_since_ns, limit_ms);
	call_moves(ask, part, ask->want.cancel);
	event->type = LK__MULTI_CONNECTED; /* if it is up */
	return !lk__op_connect(&ask->op, lk__entry_scripts(part_of(ask, part)), true,
			       lk__earlier(ask->until_ns, until_ns));
}

static bool connect_look(struct lk__multi_ask *ask, struct lk__multi_event *event)
{
	lk_error why = {.code = LK_EUNREACHABLE, .message = "the server cannot be reached"};
	int over = ask_over(ask);
	int rc = lk__op_connect_look(&ask->op, over == LK_ETIMEDOUT ? 0 : over, &why);
	if (rc == LK__OP_WAITS)
		return false;
	rc = ask_connected(ask, ask->effects.part, rc, &why);
	*event = ask_event(ask, LK__MULTI_CONNECTED, rc);
	return true;
}

/* ---- the other actions ---- */

/* Tells whether all are ours, and none has been lost by the time that all have been looked at. */
static bool ask_stands(const struct lk__multi_ask *ask)
{
	struct lk__multi_hold hold;
	return ask_over(ask) != LK_ECLOSED &&
	       lk__multi_hold_of(ask->multi, &ask->want.owner, &hold) == 0;
}

static void ask_tried(struct lk__multi_ask *ask, int code, struct lk__multi_event *event)
{
	ask_leave(ask);
	*event = ask_event(ask, LK__MULTI_TRIED, code ? code : ask->result);
	event->stands = event->code == 0 && !ask_is_busy(ask) && ask_stands(ask);
}

static bool try_begin(struct lk__multi_ask *ask, struct lk__multi_event *event)
{
	int rc = ask_reserve(ask);
	if (rc < 0 || ask->asks.count == 0) {
		ask_tried(ask, rc, event);
		return true;
	}
	call_moves(ask, ask->part[0], ask->want.cancel);
	asks_begin(ask, &ask->op);
	return false;
}

static bool try_look(struct lk__multi_ask *ask, struct lk__multi_event *event)
{
	if (!asks_look(ask, &ask->op, ask_over(ask) != 0))
		return false;
	ask_tried(ask, 0, event);
	return true;
}

static bool give_back_look(struct lk__multi_ask *ask, struct lk__multi_event *event)
{
	bool over = asks_look(ask, &ask->op, false);
	*event = ask_event(ask, LK__MULTI_GIVEN_BACK, 0);
	return over;
}

static void give_back_begin(struct lk__multi_ask *ask)
{
	ask_leave(ask);
	ask_give_back(ask);
	ask->asks_until_ns = lk__earlier(ask->effects.until_ns, ask->asks_until_ns);
	call_moves(ask, ask->asked ? ask->part[0] : 0, NULL);
	asks_begin(ask, &ask->op);
}

static void pause_begin(struct lk__multi_ask *ask)
{
	uint32_t random = 0;
	int64_t now_ns = lk__now_ns(), most_ns = ask->effects.until_ns - now_ns;
	lk__random_bytes(&random, sizeof(random));
	ask->op.thread = ask->threads[0];
	lk__op_wait(&ask->op, most_ns > 0 ? now_ns + (int64_t)random % most_ns : now_ns);
}

static bool pause_look(const struct lk__multi_ask *ask, struct lk__multi_event *event)
{
	*event = ask_event(ask, LK__MULTI_TIMER, 0);
	return ask_over(ask) || lk__now_ns() >= ask->op.until_ns;
}

static bool action_begin(struct lk__multi_ask *ask, struct lk__multi_event *event)
{
	switch (ask->effects.action) {
	case LK__MULTI_DO_LOOK:
		ask->connects_from = 0;
		int rc = ask_look(ask);
		*event = ask_event(ask, LK__MULTI_LOOKED, rc);
		return true;
	case LK__MULTI_DO_CONNECT:
		return connect_begin(ask, event);
	case LK__MULTI_DO_TRY:
		return try_begin(ask, event);
	case LK__MULTI_DO_GIVE_BACK:
		give_back_begin(ask);
		return false;
	case LK__MULTI_DO_PAUSE:
		pause_begin(ask);
		return false;
	default:
		assert(ask->effects.action == LK__MULTI_DO_AWAIT);
		await_begin(ask);
		return false;
	}
}

static bool action_look(struct lk__multi_ask *ask, struct lk__multi_event *event)
{
	switch (ask->effects.action) {
	case LK__MULTI_DO_CONNECT:
		return connect_look(ask, event);
	case LK__MULTI_DO_TRY:
		return try_look(ask, event);
	case LK__MULTI_DO_GIVE_BACK:
		return give_back_look(ask, event);
	case LK__MULTI_DO_PAUSE:
		return pause_look(ask, event);
	default:
		return await_look(ask, event);
	}
}

/* ---- from its first step to its last ---- */

/* A mere try may be sent up to three times, where nothing was asked before, and asks for a part
 * alone where that may be busy: all together have the time of one. */
static int64_t once_limit_ms(const struct lk__multi *multi)
{
	int64_t most_ms = 0;
	for (size_t i = 0; i < multi->count; i++) {
		const struct lk_config *config = multi->part[i]->client->config;
		most_ms = lk__later(most_ms,
				    config->connect_timeout_ms + config->command_timeout_ms);
	}
	return most_ms;
}

static void acquire_begin(struct lk__multi_ask *ask, struct lk__multi_event *event)
{
	const struct lk_config *config = part_of(ask, 0)->client->config;
	int64_t wait_ms = ask->want.wait_ms;
	if (wait_ms >= 0)
		ask->until_ns = lk__after_ms(lk__now_ns(),
					     wait_ms ? wait_ms : once_limit_ms(ask->multi));
	ask->attempt = (struct lk__multi_attempt){.count = ask->multi->count,
						  .once = wait_ms == 0,
						  .until_ns = ask->until_ns,
						  .command_ns = config->command_timeout_ms *
								LK__MS};
	ask->error->code = 0;
	*event = ask_event(ask, LK__MULTI_STARTED, 0);
}

/* With the reason that is there already, if it is that of the code. */
static int acquire_fail(const struct lk__multi_ask *ask)
{
	int code = ask->effects.code;
	assert(code < 0);
	if (ask->error->code == code)
		return code;
	return lk__fail(ask->error, code, "acquire %zu locks, \"%.100s\": %s", ask->multi->count,
			acquire_part(ask)->name, lk_error_text(code));
}

static int acquire_step(struct lk__multi_ask *ask)
{
	const struct lk__entry *first = part_of(ask, 0);
	struct lk__multi_event event;
	bool over = !ask->begun || action_look(ask, &event);
	if (!ask->begun)
		acquire_begin(ask, &event);
	ask->begun = true;
	while (over) {
		ask->effects = lk__multi_step(&ask->attempt, &event, lk__now_ns());
		lk__trace_multi(&first->client->log, first->name, &event, &ask->effects);
		if (ask->effects.action == LK__MULTI_DO_GRANT)
			return 0;
		if (ask->effects.action == LK__MULTI_DO_FAIL)
			return acquire_fail(ask);
		over = action_begin(ask, &event) || action_look(ask, &event);
	}
	return LK__OP_WAITS;
}

/* ---- release, extend ---- */

static int asks_step(struct lk__multi_ask *ask)
{
	int rc = 0;
	if (!ask->begun) {
		if (ask->way == LK__MULTI_RELEASE)
			ask_release(ask, ask->time_ms);
		else
			rc = ask_extend(ask, ask->time_ms);
		if (rc < 0)
			return rc;
		call_moves(ask, ask->asked ? ask->part[0] : 0, NULL);
		asks_begin(ask, &ask->op);
	}
	ask->begun = true;
	return asks_look(ask, &ask->op, false) ? ask->result : LK__OP_WAITS;
}

/* ---- from its begin to its end ---- */

static int multi_step(struct lk__op *op)
{
	struct lk__multi_ask *ask = (struct lk__multi_ask *)op;
	return ask->way == LK__MULTI_ACQUIRE ? acquire_step(ask) : asks_step(ask);
}

struct lk__op *lk__multi_call_new(enum lk__multi_way way, const struct lk__multi *multi,
				  const struct lk__want *want, int64_t time_ms,
				  struct lk__thread *thread, lk_error *error)
{
	struct lk__multi_ask *ask = calloc(1, sizeof(*ask));
	bool found = ask != NULL;
	assert(multi->count > 0 && multi->count <= LK__MULTI_MAX);
	for (size_t i = 0; found && i < multi->count; i++) {
		ask->threads[i] = thread ? thread : lk__client_thread(multi->part[i]->client);
		found = ask->threads[i] != NULL;
	}
	if (!found) {
		free(ask);
		return NULL;
	}
	lk__op_begin(&ask->op, multi_step, ask->threads[0], want->cancel);
	ask->way = way;
	ask->time_ms = time_ms;
	ask->multi = multi;
	ask->want = *want;
	ask->busy = multi->count;
	ask->until_ns = LK__NEVER;
	ask->error = error;
	return &ask->op;
}

int lk__multi_run(enum lk__multi_way way, const struct lk__multi *multi,
		  const struct lk__want *want, int64_t time_ms, lk_error *error)
{
	static const char *const no_memory[] = {
		[LK__MULTI_ACQUIRE] = "acquire: out of memory",
		[LK__MULTI_RELEASE] = "release: out of memory, still held",
		[LK__MULTI_EXTEND] = "extend: out of memory",
	};
	lk_error own = {.code = 0};
	struct lk__op *op = lk__multi_call_new(way, multi, want, time_ms, NULL,
					       error ? error : &own);
	if (!op)
		return lk__fail(error, LK_ENOMEM, "%s", no_memory[way]);
	int rc = way == LK__MULTI_ACQUIRE ? lk__multi_start_loops(multi, error) : 0;
	if (rc == 0)
		rc = lk__op_run(op);
	free(op);
	return rc;
}
