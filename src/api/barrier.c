/* SPDX-License-Identifier: MIT */
/*
 * A party of a barrier, and its calls.
 *
 *   await   acquire ──▶ let through: what it holds is dropped, and its record told to go
 *   enter   acquire ──▶ inside: the watchdog renews it
 *   leave   release ──▶ acquire, until the others of the generation have left
 *
 * A wait has one number for all its tries. One that ends in another way than by being let through
 * gives the place up, and asks in the same step whether it was counted before: what its caller is
 * told is true. A party has one call at a time, which is an operation in its handle; the handle and
 * that call each have a reference of it.
 */
#include <lockkeeper/barrier.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/check.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conn/conn.h"
#include "lock/acquire.h"
#include "lock/loop.h"
#include "lock/release.h"
#include "resp/reply.h"
#include "sync/recipes.h"

#define PARTY_SIZE 32 /* the name under which it is an owner, with its NUL */

enum way { AWAITS, ENTERS, LEAVES };

enum step { BEGINS, GIVES_UP, WAITS, SETTLES };

struct lk_barrier {
	struct lk__op op; /* its call: first */
	struct lk__entry *entry;
	int64_t parties;
	char owner[PARTY_SIZE];
	uint64_t tag;
	int64_t margin_ms;
	_Atomic unsigned refs;
	_Atomic bool busy;       /* a call of it is under way, which alone uses the rest */
	uint64_t generation;     /* that it is inside, or is leaving; 0 */
	uint64_t number;         /* under which it has entered, */
	int64_t copies_until_ns; /* and until when a copy of that may run; 0 */

	/* The call: */
	enum way way;
	enum step at;
	struct lk__want want; /* its number is that of the wait */
	struct lk__grant grant;
	int64_t until_ns;
	int64_t met; /* the generation that it ended with */
	int code;    /* while it settles: why it was not let through */
	lk_error *error;
	union {
		struct lk__acquire acquire;
		struct lk__releasing releasing;
	};
};

static struct lk__owner party_owner(const lk_barrier *barrier)
{
	return (struct lk__owner){.name = barrier->owner, .name_size = strlen(barrier->owner)};
}

static void party_unref(lk_barrier *barrier)
{
	lk_client *client = barrier->entry->client;
	if (atomic_fetch_sub(&barrier->refs, 1) > 1)
		return;
	lk__entry_unref(barrier->entry);
	lk__client_unref(client);
	free(barrier);
}

/* One that is inside is not any more; its release is sent, and not waited for, if `sends`. */
static void party_drop(lk_barrier *barrier, bool sends)
{
	const struct lk__owner owner = party_owner(barrier);
	struct lk__entry *entry = barrier->entry;
	pthread_mutex_lock(&entry->mutex);
	lk__release_drop(entry, &owner, sends, NULL);
	pthread_mutex_unlock(&entry->mutex);
}

static bool is_inside(lk_barrier *barrier)
{
	const struct lk__owner owner = party_owner(barrier);
	pthread_mutex_lock(&barrier->entry->mutex);
	bool inside = lk__entry_hold_of(barrier->entry, &owner) != NULL;
	pthread_mutex_unlock(&barrier->entry->mutex);
	return inside;
}

/* Its record can go, unless a copy may still come and find it. Else, or without memory for it or a
 * connection, it ends by itself. */
static void party_told(lk_barrier *barrier, uint64_t number, int64_t copies_until_ns)
{
	struct lk__entry *entry = barrier->entry;
	char field[LK__FIELD_SIZE];
	if (copies_until_ns > lk__now_ns())
		return;
	lk__field(entry, number, field);
	lk__conn_tell(lk__entry_scripts(entry),
		      lk__barrier_call(&entry->target, "told", field, NULL));
}

/* ---- the wait ---- */

static int wait_begin(lk_barrier *barrier)
{
	struct lk__entry *entry = barrier->entry;
	struct lk__want *want = &barrier->want;
	if (barrier->until_ns != LK__NEVER && want->wait_ms > 0) {
		int64_t left_ms = (barrier->until_ns - lk__now_ns()) / LK__MS;
		want->wait_ms = left_ms > 0 ? left_ms : 1;
	}
	want->number = atomic_fetch_add(&entry->client->last_number, 1) + 1;
	want->count = barrier->way == LEAVES ? (int64_t)barrier->generation : barrier->parties;
	lk__acquire_init(&barrier->acquire, entry, barrier->op.thread, want, barrier->error);
	barrier->acquire.caller.tried = false; /* its begin may fail */
	barrier->at = WAITS;
	return 0;
}

/* It was let through. */
static int party_met(lk_barrier *barrier)
{
	int64_t copies_until_ns = barrier->grant.repeated_until_ns;
	barrier->met = (int64_t)barrier->grant.fence;
	if (barrier->way == ENTERS) {
		barrier->generation = barrier->grant.fence;
		barrier->number = barrier->want.number;
		barrier->copies_until_ns = copies_until_ns;
		return 0;
	}
	party_drop(barrier, false);
	party_told(barrier, barrier->want.number, copies_until_ns);
	if (barrier->way == LEAVES) {
		party_told(barrier, barrier->number, barrier->copies_until_ns);
		barrier->generation = 0;
	}
	return 0;
}

/* Tells whether the server may have counted it, or count it yet: after a "busy" that is so where a
 * copy of its one try is still under way, which is being compensated. */
static bool is_unsettled(const lk_barrier *barrier, int code)
{
	if (code == LK_EBUSY)
		return atomic_load(&barrier->entry->compensating) > 0;
	return barrier->acquire.caller.tried && code != LK_ELOST && code != LK_EINVAL &&
	       code != LK_EWRONGTYPE && code != LK_ECLOSED;
}

/* Gives the place up, and asks what became of it. */
static int settle_begin(lk_barrier *barrier, int code)
{
	struct lk__entry *entry = barrier->entry;
	char field[LK__FIELD_SIZE];
	lk__field(entry, barrier->want.number, field);
	struct lk__request *request = entry->target.recipe->release(&entry->target, field);
	if (!request)
		return lk__fail(barrier->error, LK_EMAYBEHELD,
				"barrier \"%.100s\": out of memory to ask whether it was counted",
				entry->name);
	barrier->code = code;
	barrier->at = SETTLES;
	lk__op_ask(&barrier->op, lk__entry_scripts(entry), request,
		   lk__after_ms(lk__now_ns(), entry->client->config->command_timeout_ms));
	return LK__OP_WAITS;
}

/* Reads the answer to that: the generation that the party met in; 0: it was not counted, and is not
 * any more; -1: nobody knows. */
static int64_t settle_read(const struct lk__request *answer)
{
	int64_t generation = 0;
	if (!answer || answer->code)
		return -1;
	if (answer->reply->type == REDIS_REPLY_NIL)
		return 0;
	return lk__reply_integer(answer->reply, 0, (int64_t)LK__FENCE_TOKEN_MAX, &generation)
		       ? generation
		       : -1;
}

/* It was not counted, and will not be: why it does not wait any more. */
static int settle_code(const lk_barrier *barrier)
{
	const struct lk__want *want = &barrier->want;
	int ends = lk__entry_ends(barrier->entry, &want->settings);
	if (barrier->code != LK_EMAYBEHELD)
		return barrier->code;
	if (ends)
		return ends;
	if (lk__cancelled(want->cancel) || (want->stop && atomic_load(want->stop)))
		return LK_ECANCELLED;
	return lk__now_ns() >= barrier->until_ns ? LK_ETIMEDOUT : LK_EUNREACHABLE;
}

static int settle_look(lk_barrier *barrier)
{
	struct lk__request *answer;
	if (!lk__op_ask_look(&barrier->op, &answer))
		return LK__OP_WAITS;
	const struct lk__entry *entry = barrier->entry;
	int64_t generation = settle_read(answer);
	if (answer)
		lk__request_free(answer);
	if (generation > 0 && barrier->way == AWAITS) {
		barrier->met = generation;
		return 0;
	}
	int code = generation < 0   ? LK_EMAYBEHELD
		   : generation > 0 ? LK_ELOST
				    : settle_code(barrier);
	return lk__fail(barrier->error, code, "barrier \"%.100s\" on %.100s: %s", entry->name,
			entry->client->config->url,
			code == LK_EMAYBEHELD ? "nobody knows whether it was counted"
			: code == LK_ELOST    ? "it was let in too late, and has left"
			: code == LK_ETIMEDOUT && barrier->way == LEAVES ? "others are still inside"
			: code == LK_ETIMEDOUT                           ? "others have not come"
									 : lk_error_text(code));
}

static int wait_step(lk_barrier *barrier)
{
	struct lk__op *op = &barrier->acquire.op;
	int rc = op->step(op);
	if (rc == LK__OP_WAITS)
		lk__op_wait_other(&barrier->op, op);
	else if (rc == 0)
		rc = party_met(barrier);
	else if (is_unsettled(barrier, rc))
		rc = settle_begin(barrier, rc);
	return rc;
}

/* ---- a call, from its begin to its end ---- */

/* It is not inside any more. */
static int give_up_step(lk_barrier *barrier)
{
	struct lk__op *op = &barrier->releasing.op;
	int rc = op->step(op);
	if (rc == LK__OP_WAITS)
		lk__op_wait_other(&barrier->op, op);
	if (rc < 0)
		barrier->generation = 0;
	return rc == 0 ? wait_begin(barrier) : rc;
}

static int party_begin(lk_barrier *barrier)
{
	struct lk__entry *entry = barrier->entry;
	bool inside = is_inside(barrier);
	if (barrier->way != LEAVES && (inside || barrier->generation))
		return lk__fail(barrier->error, LK_EINVAL,
				"barrier \"%.100s\": it has entered, and has not left",
				entry->name);
	if (barrier->way == LEAVES && !barrier->generation)
		return lk__fail(barrier->error, LK_ENOTOWNER,
				"barrier \"%.100s\": it has not entered", entry->name);
	if (!inside)
		return wait_begin(barrier);
	lk__release_init(&barrier->releasing, entry, barrier->op.thread, &barrier->want.owner, 0,
			 false, barrier->error);
	barrier->at = GIVES_UP;
	return 0;
}

static int party_next(lk_barrier *barrier)
{
	switch (barrier->at) {
	case BEGINS:
		return party_begin(barrier);
	case GIVES_UP:
		return give_up_step(barrier);
	case WAITS:
		return wait_step(barrier);
	default:
		return settle_look(barrier);
	}
}

static int party_step(struct lk__op *op)
{
	lk_barrier *barrier = (lk_barrier *)op;
	enum step at;
	int rc;
	do {
		at = barrier->at;
		rc = party_next(barrier);
	} while (rc == 0 && barrier->at != at);
	return rc;
}

/* Begins the call for which it is busy. Of `cancel` and `stop` one is NULL at least; `error` is
 * kept. */
static void call_begin(lk_barrier *barrier, struct lk__thread *thread, lk_cancel *cancel,
		       const _Atomic bool *stop, lk_error *error)
{
	int64_t wait_ms = barrier->want.wait_ms;
	lk__op_begin(&barrier->op, party_step, thread, NULL);
	barrier->at = BEGINS;
	barrier->until_ns = wait_ms > 0 ? lk__after_ms(lk__now_ns(), wait_ms) : LK__NEVER;
	barrier->error = error;
	barrier->want = (struct lk__want){
		.owner = party_owner(barrier),
		.wait_ms = wait_ms,
		.margin_ms = barrier->margin_ms,
		.tag = barrier->tag,
		.cancel = cancel,
		.stop = stop,
		.grant_out = &barrier->grant,
	};
	if (barrier->way == ENTERS)
		barrier->want.settings.flags = LK__BARRIER_ENTERS;
	if (barrier->way == LEAVES)
		barrier->want.settings.flags = LK__BARRIER_LEAVES;
}

/* ---- the handle ---- */

static int barrier_check(lk_client *client, const void *name, size_t *name_size, int64_t parties,
			 const lk_barrier_options *options, const char *operation, lk_error *error)
{
	int rc = lk__name_check_slot(client, name, name_size, LK__BARRIER_PREFIX, operation, error);
	if (rc == 0)
		rc = LK__CHECK(operation, error, {LK__PARTIES, parties});
	if (rc == 0)
		rc = lk__check_range(operation, "margin_ms", options->margin_ms, 0,
				     client->config->watchdog_ms, error);
	return rc;
}

int lk_barrier_new(lk_barrier **barrier_out, lk_client *client, const void *name, size_t name_size,
		   int64_t parties, const lk_barrier_options *options, lk_error *error)
{
	const char *operation = "lk_barrier_new";
	lk_barrier_options own;
	int rc = lk__copy_options(&own, sizeof(own), options, operation, error);
	if (rc == 0 && !barrier_out)
		rc = lk__fail(error, LK_EINVAL, "%s: an argument is NULL", operation);
	if (rc == 0)
		rc = barrier_check(client, name, &name_size, parties, &own, operation, error);
	if (rc < 0)
		return rc;
	lk_barrier *barrier = calloc(1, sizeof(*barrier));
	if (!barrier)
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", operation);
	uint64_t number = atomic_fetch_add(&client->last_number, 1) + 1;
	snprintf(barrier->owner, sizeof(barrier->owner), "party %" PRIu64, number);
	barrier->parties = parties;
	barrier->margin_ms = own.margin_ms;
	barrier->tag = own.tag;
	atomic_store(&barrier->refs, 1);
	const struct lk__owner owner = party_owner(barrier);
	rc = lk__entry_get(&barrier->entry, client, &lk__barrier_recipe, name, name_size, &owner,
			   error);
	if (rc < 0) {
		free(barrier);
		return rc;
	}
	lk__client_ref(client);
	*barrier_out = barrier;
	return 0;
}

lk_barrier *lk_barrier_free(lk_barrier *barrier)
{
	if (!barrier || lk__client_forked(barrier->entry->client))
		return NULL;
	if (atomic_load(&barrier->entry->client->state) != LK__CLIENT_CLOSED)
		party_drop(barrier, true);
	party_unref(barrier);
	return NULL;
}

/* ---- its calls, blocking and started ---- */

struct barrier_call {
	lk_barrier *barrier;
	enum way way;
	int64_t wait_ms;
	const char *operation;
	lk_error *error;
	struct lk__thread *thread; /* from call_enter() to lk__leave() */
	int saved;
};

/* Marks it busy with the call, which has a reference until party_give_back(). */
static int party_take(const struct barrier_call *call)
{
	lk_barrier *barrier = call->barrier;
	bool busy = false;
	if (!atomic_compare_exchange_strong(&barrier->busy, &busy, true))
		return lk__fail(call->error, LK_EINVAL,
				"%s \"%.100s\": another call of this party is under way",
				call->operation, barrier->entry->name);
	atomic_fetch_add(&barrier->refs, 1);
	barrier->way = call->way;
	barrier->want.wait_ms = call->wait_ms;
	barrier->met = 0;
	return 0;
}

static void party_give_back(lk_barrier *barrier)
{
	atomic_store(&barrier->busy, false);
	party_unref(barrier);
}

/* 0, and the party is taken; or a code. */
static int call_enter(struct barrier_call *call, bool blocks)
{
	if (!call->barrier)
		return lk__fail(call->error, LK_EINVAL, "%s: barrier is NULL", call->operation);
	lk_client *client = call->barrier->entry->client;
	int rc = LK__CHECK(call->operation, call->error, {LK__WAIT, call->wait_ms});
	if (rc == 0)
		rc = (blocks ? lk__enter : lk__enter_nowait)(client, call->operation, &call->thread,
							     &call->saved, call->error);
	if (rc < 0)
		return rc;
	rc = lk__loop_start(client, call->error);
	if (rc == 0)
		rc = party_take(call);
	if (rc < 0)
		lk__leave(call->saved);
	return rc;
}

static int barrier_run(struct barrier_call call, lk_cancel *cancel, uint64_t *generation_out)
{
	lk_error own = {.code = 0};
	int rc = call_enter(&call, true);
	if (rc < 0)
		return rc;
	call_begin(call.barrier, call.thread, cancel, NULL, call.error ? call.error : &own);
	rc = lk__op_run(&call.barrier->op);
	if (rc == 0 && generation_out)
		*generation_out = (uint64_t)call.barrier->met;
	party_give_back(call.barrier);
	lk__leave(call.saved);
	return rc;
}

int lk_barrier_await(lk_barrier *barrier, int64_t wait_ms, lk_cancel *cancel,
		     uint64_t *generation_out, lk_error *error)
{
	return barrier_run(
		(struct barrier_call){barrier, AWAITS, wait_ms, "lk_barrier_await", error, NULL, 0},
		cancel, generation_out);
}

int lk_barrier_enter(lk_barrier *barrier, int64_t wait_ms, lk_cancel *cancel,
		     uint64_t *generation_out, lk_error *error)
{
	return barrier_run(
		(struct barrier_call){barrier, ENTERS, wait_ms, "lk_barrier_enter", error, NULL, 0},
		cancel, generation_out);
}

int lk_barrier_leave(lk_barrier *barrier, int64_t wait_ms, lk_cancel *cancel, lk_error *error)
{
	return barrier_run(
		(struct barrier_call){barrier, LEAVES, wait_ms, "lk_barrier_leave", error, NULL, 0},
		cancel, NULL);
}

/* ---- through a queue ---- */

static struct lk__op *request_begin(void *of, struct lk__thread *thread, const _Atomic bool *stop,
				    lk_error *error)
{
	lk_barrier *barrier = of;
	call_begin(barrier, thread, NULL, stop, error);
	return &barrier->op;
}

static void request_end(void *of)
{
	party_give_back(of);
}

int lk__start_barrier(const struct lk__start *start)
{
	int operation = start->request->operation;
	struct barrier_call call = {
		.barrier = start->handle,
		.way = operation == LK_OP_AWAIT   ? AWAITS
		       : operation == LK_OP_ENTER ? ENTERS
						  : LEAVES,
		.wait_ms = start->request->wait_ms,
		.operation = start->operation,
		.error = start->error,
	};
	int rc = call_enter(&call, false);
	if (rc < 0)
		return rc;
	rc = lk__start_go(start, NULL, NULL,
			  &(struct lk__async_want){.way = LK__ASYNC_DRIVE,
						   .driven = {.client = call.barrier->entry->client,
							      .of = call.barrier,
							      .answer = &call.barrier->met,
							      .begin = request_begin,
							      .end = request_end}});
	if (rc < 0)
		party_give_back(call.barrier);
	lk__leave(call.saved);
	return rc;
}
