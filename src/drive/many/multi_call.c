/* SPDX-License-Identifier: MIT */
/*
 * An acquire carries out what its head (multi_head.h) says: each action is begun, and looked at
 * when what it waits for may be there. Releases and extensions ask all parts at once.
 */
#include "drive/many/multi_call.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fail.h"
#include "drive/client/loop.h"

static bool call_is_resumed(const struct lk__multi_call *call)
{
	return call->op.thread->on_wake != NULL;
}

/* From here on the operation is woken at the caller's place in that part's client. */
static void call_moves(struct lk__multi_call *call, size_t part, lk_cancel *cancel)
{
	call->op.thread = call->ask->threads[part];
	call->op.cancel = cancel;
	lk__cancel_move(cancel, call->op.thread);
}

/* ---- a part that is waited for alone ---- */

static struct lk__entry *awaited_entry(const struct lk__multi_call *call)
{
	assert(call->head.effects.part < call->ask->multi->count);
	return call->ask->multi->part[call->head.effects.part];
}

/* Meanwhile that part's client reads for an asynchronous call. */
static void await_listens(const struct lk__multi_call *call, bool listens)
{
	_Atomic size_t *listeners = &awaited_entry(call)->client->asyncs.listeners;
	if (!call_is_resumed(call))
		return;
	if (listens)
		atomic_fetch_add(listeners, 1);
	else
		atomic_fetch_sub(listeners, 1);
}

static void await_begin(struct lk__multi_call *call)
{
	struct lk__multi_ask *ask = call->ask;
	size_t part = call->head.effects.part;
	call->want = lk__multi_await_want(ask, part);
	call->want.stop = &call->stop;
	atomic_store(&call->stop, false);
	lk__acquire_init(&call->part, awaited_entry(call), ask->threads[part], &call->want,
			 ask->error);
	await_listens(call, true);
}

/* Whether anything of it may still be held that nobody wants. */
static bool entry_is_out(struct lk__entry *entry)
{
	pthread_mutex_lock(&entry->mutex);
	bool out = (entry->waiting && entry->waiting->tries) ||
		   atomic_load(&entry->compensating) > 0;
	pthread_mutex_unlock(&entry->mutex);
	return out;
}

/* The close of any client of the lock ends the wait. What is queued on a connection of another
 * client than the loop's leaves now: that client's loop may be asleep. */
static bool await_look(struct lk__multi_call *call, int *rc_out)
{
	struct lk__multi_ask *ask = call->ask;
	struct lk__entry *entry = awaited_entry(call);
	int over = lk__multi_over(ask);
	if (over == LK_ECLOSED || over == LK_ECANCELLED)
		atomic_store(&call->stop, true);
	int rc = call->part.op.step(&call->part.op);
	if (call_is_resumed(call) && entry->client != ask->multi->part[0]->client) {
		lk__conn_send_queued(lk__entry_scripts(entry));
		lk__loop_attend(entry->client);
	}
	if (rc == LK__OP_WAITS) {
		lk__op_wait_other(&call->op, &call->part.op);
		return false;
	}
	await_listens(call, false);
	if (rc == LK_ECANCELLED && over == LK_ECLOSED) {
		rc = entry_is_out(entry) ? LK_EMAYBEHELD : LK_ECLOSED;
		lk__fail(ask->error, rc, "acquire \"%.100s\": %s", entry->name, lk_error_text(rc));
	}
	*rc_out = rc;
	return true;
}

/* ---- connections ---- */

/* False: it is up. */
static bool connect_begin(struct lk__multi_call *call)
{
	call_moves(call, call->head.effects.part, call->ask->want.cancel);
	return lk__op_connect(&call->op, lk__entry_scripts(awaited_entry(call)), true,
			      call->head.effects.until_ns);
}

static bool connect_look(struct lk__multi_call *call, int *rc_out, lk_error *why)
{
	int over = lk__multi_over(call->ask);
	int rc = lk__op_connect_look(&call->op, over == LK_ETIMEDOUT ? 0 : over, why);
	*rc_out = rc;
	return rc != LK__OP_WAITS;
}

/* ---- acquire ---- */

/* True: it waits, or is to be looked at. */
static bool action_begin(struct lk__multi_call *call)
{
	struct lk__multi_ask *ask = call->ask;
	const struct lk__multi_effects *effects = &call->head.effects;
	switch (effects->action) {
	case LK__MULTI_DO_AWAIT:
		await_begin(call);
		return true;
	case LK__MULTI_DO_CONNECT:
		return connect_begin(call);
	case LK__MULTI_DO_TRY:
		call_moves(call, ask->part[0], ask->want.cancel);
		lk__asks_begin(&ask->asks, &call->op, effects->until_ns);
		return true;
	case LK__MULTI_DO_GIVE_BACK:
		call_moves(call, ask->part[0], NULL);
		lk__asks_begin(&ask->asks, &call->op, effects->until_ns);
		return true;
	default:
		call->op.thread = ask->threads[0];
		lk__op_wait(&call->op, effects->until_ns);
		return true;
	}
}

/* Whether the action has ended, and how. */
static bool action_look(struct lk__multi_call *call, int *rc_out, lk_error *why)
{
	struct lk__multi_ask *ask = call->ask;
	bool over = lk__multi_over(ask) != 0;
	*rc_out = 0;
	switch (call->head.effects.action) {
	case LK__MULTI_DO_AWAIT:
		return await_look(call, rc_out);
	case LK__MULTI_DO_CONNECT:
		return connect_look(call, rc_out, why);
	case LK__MULTI_DO_TRY:
		return lk__asks_look(&ask->asks, &call->op, over);
	case LK__MULTI_DO_GIVE_BACK:
		return lk__asks_look(&ask->asks, &call->op, false);
	default:
		return over || lk__now_ns() >= call->op.until_ns;
	}
}

static int acquire_step(struct lk__multi_call *call)
{
	lk_error why = {.code = LK_EUNREACHABLE, .message = "the server cannot be reached"};
	bool begins = !call->begun;
	int rc = begins ? lk__multi_head_start(&call->head, call->ask) : 0;
	for (call->begun = true; rc == 0; begins = true) {
		int came = LK__WAIT_READY;
		if ((!begins || action_begin(call)) && !action_look(call, &came, &why))
			return LK__OP_WAITS;
		rc = lk__multi_head_next(&call->head, came, &why);
	}
	return rc < 0 ? rc : 0;
}

/* ---- release, extend ---- */

static int asks_begin(struct lk__multi_call *call)
{
	struct lk__multi_ask *ask = call->ask;
	int rc = 0;
	if (call->way == LK__MULTI_RELEASE)
		lk__multi_release_begin(ask, call->time_ms);
	else
		rc = lk__multi_extend_begin(ask, call->time_ms);
	if (rc < 0)
		return rc;
	call_moves(call, ask->asked ? ask->part[0] : 0, NULL);
	lk__asks_begin(&ask->asks, &call->op, ask->asks_until_ns);
	return 0;
}

static int asks_step(struct lk__multi_call *call)
{
	int rc = call->begun ? 0 : asks_begin(call);
	call->begun = true;
	if (rc < 0)
		return rc;
	return lk__asks_look(&call->ask->asks, &call->op, false) ? call->ask->result : LK__OP_WAITS;
}

/* ---- from its begin to its end ---- */

static int multi_step(struct lk__op *op)
{
	struct lk__multi_call *call = (struct lk__multi_call *)op;
	return call->way == LK__MULTI_ACQUIRE ? acquire_step(call) : asks_step(call);
}

int lk__multi_call_init(struct lk__multi_call *call, enum lk__multi_way way,
			const struct lk__multi *multi, const struct lk__want *want, int64_t time_ms,
			struct lk__thread *thread, lk_error *error)
{
	call->ask = lk__multi_ask_new(multi, want, thread, error);
	if (!call->ask)
		return LK_ENOMEM;
	lk__op_begin(&call->op, multi_step, call->ask->threads[0], want->cancel);
	call->way = way;
	call->time_ms = time_ms;
	call->begun = false;
	return 0;
}

void lk__multi_call_free(struct lk__multi_call *call)
{
	free(call->ask);
}

int lk__multi_acquire(const struct lk__multi *multi, const struct lk__want *want, lk_error *error)
{
	lk_error own = {.code = 0};
	struct lk__multi_call call;
	assert(multi->count > 0 && multi->count <= LK__MULTI_MAX);
	if (lk__multi_call_init(&call, LK__MULTI_ACQUIRE, multi, want, 0, NULL,
				error ? error : &own) < 0)
		return lk__fail(error, LK_ENOMEM, "acquire: out of memory");
	int rc = lk__multi_start_loops(multi, error);
	if (rc == 0)
		rc = lk__op_run(&call.op);
	lk__multi_call_free(&call);
	return rc;
}

/* `no_memory`: what is told then. */
static int multi_held(const struct lk__multi *multi, enum lk__multi_way way,
		      const struct lk__owner *owner, int64_t time_ms, const char *no_memory,
		      lk_error *error)
{
	const struct lk__want want = {.owner = *owner};
	struct lk__multi_call call;
	if (lk__multi_call_init(&call, way, multi, &want, time_ms, NULL, error) < 0)
		return lk__fail(error, LK_ENOMEM, "%s", no_memory);
	int rc = lk__op_run(&call.op);
	lk__multi_call_free(&call);
	return rc;
}

int lk__multi_release(const struct lk__multi *multi, const struct lk__owner *owner, int64_t keep_ms,
		      lk_error *error)
{
	return multi_held(multi, LK__MULTI_RELEASE, owner, keep_ms,
			  "release: out of memory, still held", error);
}

int lk__multi_extend(const struct lk__multi *multi, const struct lk__owner *owner, int64_t lease_ms,
		     lk_error *error)
{
	return multi_held(multi, LK__MULTI_EXTEND, owner, lease_ms, "extend: out of memory", error);
}
