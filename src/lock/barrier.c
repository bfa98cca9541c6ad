/* SPDX-License-Identifier: MIT */
#include "lock/barrier.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conn/conn.h"
#include "sync/recipes.h"

void lk__barrier_unref(lk_barrier *barrier)
{
	lk_client *client = barrier->entry->client;
	if (atomic_fetch_sub(&barrier->refs, 1) > 1)
		return;
	lk__entry_unref(barrier->entry);
	lk__client_unref(client);
	free(barrier);
}

void lk__barrier_drop(lk_barrier *barrier, bool release)
{
	const struct lk__owner owner = lk__barrier_owner(barrier);
	struct lk__entry *entry = barrier->entry;
	pthread_mutex_lock(&entry->mutex);
	lk__release_drop(entry, &owner, release, NULL);
	pthread_mutex_unlock(&entry->mutex);
}

void lk__barrier_give_back(lk_barrier *barrier)
{
	atomic_store(&barrier->busy, false);
	lk__barrier_unref(barrier);
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
	struct lk__request *request = lk__barrier_told(&entry->target, field);
	if (!request)
		return;
	request->finish = lk__request_forget;
	request->deadline_ns = lk__after_ms(lk__now_ns(),
					    entry->client->config->command_timeout_ms);
	if (!lk__conn_offer(lk__entry_scripts(entry), request))
		lk__request_free(request);
}

/* ---- the wait ---- */

static int wait_begin(struct lk__meeting *meeting)
{
	lk_barrier *barrier = meeting->barrier;
	struct lk__entry *entry = barrier->entry;
	struct lk__want *want = &meeting->want;
	if (meeting->until_ns != LK__NEVER && want->wait_ms > 0) {
		int64_t left_ms = (meeting->until_ns - lk__now_ns()) / LK__MS;
		want->wait_ms = left_ms > 0 ? left_ms : 1;
	}
	meeting->number = atomic_fetch_add(&entry->client->last_number, 1) + 1;
	want->number = meeting->number;
	want->count = meeting->way == LK__MEETING_LEAVE ? (int64_t)barrier->generation
							: barrier->parties;
	lk__acquire_init(&meeting->acquire, entry, meeting->op.thread, want, meeting->error);
	meeting->acquire.caller.tried = false; /* its begin may fail */
	meeting->at = LK__MEETING_WAITS;
	return 0;
}

/* It was let through. */
static int meeting_met(struct lk__meeting *meeting)
{
	lk_barrier *barrier = meeting->barrier;
	int64_t copies_until_ns = meeting->grant.repeated_until_ns;
	meeting->generation = meeting->grant.fence;
	if (meeting->way == LK__MEETING_ENTER) {
		barrier->generation = meeting->generation;
		barrier->number = meeting->number;
		barrier->copies_until_ns = copies_until_ns;
		return 0;
	}
	lk__barrier_drop(barrier, false);
	party_told(barrier, meeting->number, copies_until_ns);
	if (meeting->way == LK__MEETING_LEAVE) {
		party_told(barrier, barrier->number, barrier->copies_until_ns);
		barrier->generation = 0;
	}
	return 0;
}

/* Tells whether the server may have counted it, or count it yet: after a "busy" that is so where a
 * copy of its one try is still under way, which is being compensated. */
static bool is_unsettled(const struct lk__meeting *meeting, int code)
{
	const struct lk__entry *entry = meeting->barrier->entry;
	if (code == LK_EBUSY)
		return atomic_load(&entry->compensating) > 0;
	return meeting->acquire.caller.tried && code != LK_ELOST && code != LK_EINVAL &&
	       code != LK_EWRONGTYPE && code != LK_ECLOSED;
}

/* Gives the place up, and asks what became of it. */
static int settle_begin(struct lk__meeting *meeting, int code)
{
	struct lk__entry *entry = meeting->barrier->entry;
	char field[LK__FIELD_SIZE];
	lk__field(entry, meeting->number, field);
	struct lk__request *request = entry->target.recipe->release(&entry->target, field);
	if (!request)
		return lk__fail(meeting->error, LK_EMAYBEHELD,
				"barrier \"%.100s\": out of memory to ask whether it was counted",
				entry->name);
	meeting->code = code;
	meeting->at = LK__MEETING_SETTLES;
	lk__op_ask(&meeting->op, lk__entry_scripts(entry), request,
		   lk__after_ms(lk__now_ns(), entry->client->config->command_timeout_ms));
	return LK__OP_WAITS;
}

/* It was not counted, and will not be: why it does not wait any more. */
static int settle_code(const struct lk__meeting *meeting)
{
	const struct lk__want *want = &meeting->want;
	if (meeting->code != LK_EMAYBEHELD)
		return meeting->code;
	if (lk__cancelled(want->cancel) || (want->stop && atomic_load(want->stop)))
		return LK_ECANCELLED;
	return lk__now_ns() >= meeting->until_ns ? LK_ETIMEDOUT : LK_EUNREACHABLE;
}

static int settle_look(struct lk__meeting *meeting)
{
	struct lk__request *answer;
	if (!lk__op_ask_look(&meeting->op, &answer))
		return LK__OP_WAITS;
	struct lk__entry *entry = meeting->barrier->entry;
	int64_t generation = answer && !answer->code ? lk__barrier_read_release(answer) : -1;
	if (answer)
		lk__request_free(answer);
	if (generation > 0 && meeting->way == LK__MEETING_AWAIT) {
		meeting->generation = (uint64_t)generation;
		return 0;
	}
	int code = generation < 0   ? LK_EMAYBEHELD
		   : generation > 0 ? LK_ELOST
				    : settle_code(meeting);
	return lk__fail(meeting->error, code, "barrier \"%.100s\" on %.100s: %s", entry->name,
			entry->client->config->url,
			code == LK_EMAYBEHELD ? "nobody knows whether it was counted"
			: code == LK_ELOST    ? "it was let in too late, and has left"
			: code == LK_ETIMEDOUT && meeting->way == LK__MEETING_LEAVE
				? "others are still inside"
			: code == LK_ETIMEDOUT ? "others have not come"
					       : lk_error_text(code));
}

static int wait_step(struct lk__meeting *meeting)
{
	struct lk__op *op = &meeting->acquire.op;
	int rc = op->step(op);
	if (rc == LK__OP_WAITS)
		lk__op_wait_other(&meeting->op, op);
	else if (rc == 0)
		rc = meeting_met(meeting);
	else if (is_unsettled(meeting, rc))
		rc = settle_begin(meeting, rc);
	return rc;
}

/* ---- from its begin to its end ---- */

/* It is not inside any more. */
static int give_up_step(struct lk__meeting *meeting)
{
	struct lk__op *op = &meeting->releasing.op;
	int rc = op->step(op);
	if (rc == LK__OP_WAITS)
		lk__op_wait_other(&meeting->op, op);
	if (rc < 0)
		meeting->barrier->generation = 0;
	return rc == 0 ? wait_begin(meeting) : rc;
}

static bool is_inside(lk_barrier *barrier)
{
	const struct lk__owner owner = lk__barrier_owner(barrier);
	pthread_mutex_lock(&barrier->entry->mutex);
	bool inside = lk__entry_hold_of(barrier->entry, &owner) != NULL;
	pthread_mutex_unlock(&barrier->entry->mutex);
	return inside;
}

static int meeting_begin(struct lk__meeting *meeting)
{
	lk_barrier *barrier = meeting->barrier;
	struct lk__entry *entry = barrier->entry;
	bool inside = is_inside(barrier);
	if (meeting->way != LK__MEETING_LEAVE && (inside || barrier->generation))
		return lk__fail(meeting->error, LK_EINVAL,
				"barrier \"%.100s\": it has entered, and has not left",
				entry->name);
	if (meeting->way == LK__MEETING_LEAVE && !barrier->generation)
		return lk__fail(meeting->error, LK_ENOTOWNER,
				"barrier \"%.100s\": it has not entered", entry->name);
	if (!inside)
		return wait_begin(meeting);
	lk__release_init(&meeting->releasing, entry, meeting->op.thread, &meeting->want.owner, 0,
			 false, meeting->error);
	meeting->at = LK__MEETING_GIVES_UP;
	return 0;
}

static int meeting_next(struct lk__meeting *meeting)
{
	switch (meeting->at) {
	case LK__MEETING_BEGINS:
		return meeting_begin(meeting);
	case LK__MEETING_GIVES_UP:
		return give_up_step(meeting);
	case LK__MEETING_WAITS:
		return wait_step(meeting);
	default:
		return settle_look(meeting);
	}
}

static int meeting_step(struct lk__op *op)
{
	struct lk__meeting *meeting = (struct lk__meeting *)op;
	enum lk__meeting_step at;
	int rc;
	do {
		at = meeting->at;
		rc = meeting_next(meeting);
	} while (rc == 0 && meeting->at != at);
	return rc;
}

void lk__meeting_init(struct lk__meeting *meeting, lk_barrier *barrier, enum lk__meeting_way way,
		      struct lk__thread *thread, int64_t wait_ms, lk_cancel *cancel,
		      const _Atomic bool *stop, lk_error *error)
{
	assert(atomic_load(&barrier->busy) && !(cancel && stop));
	lk__op_begin(&meeting->op, meeting_step, thread, NULL);
	meeting->barrier = barrier;
	meeting->way = way;
	meeting->at = LK__MEETING_BEGINS;
	meeting->until_ns = wait_ms > 0 ? lk__after_ms(lk__now_ns(), wait_ms) : LK__NEVER;
	meeting->generation = 0;
	meeting->error = error;
	meeting->want = (struct lk__want){
		.owner = lk__barrier_owner(barrier),
		.wait_ms = wait_ms,
		.margin_ms = barrier->margin_ms,
		.tag = barrier->tag,
		.cancel = cancel,
		.stop = stop,
		.grant_out = &meeting->grant,
	};
	if (way == LK__MEETING_ENTER)
		meeting->want.settings.flags = LK__BARRIER_ENTERS;
	if (way == LK__MEETING_LEAVE)
		meeting->want.settings.flags = LK__BARRIER_LEAVES;
}
