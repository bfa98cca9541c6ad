/* SPDX-License-Identifier: MIT */
/*
 * The calls of a multi lock that the loop resumes: the loop is that of the first part's client. The
 * other clients' loops read for it meanwhile, and wake it.
 */
#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/fail.h"
#include "drive/async/async_call.h"
#include "drive/client/loop.h"
#include "drive/many/multi_head.h"

struct lk__async_multi {
	struct lk__multi_ask *ask;
	struct lk__multi_head head;            /* of an acquire */
	struct lk__want want;                  /* of the part that is waited for */
	struct lk__conn *conn;                 /* that is waited for, */
	struct lk__standby standby;            /* because it was not up at once */
	struct lk__guest guest[LK__MULTI_MAX]; /* in each other client, by its first part */
	bool begins;                           /* the wait for that part has not begun */
	bool up;                               /* the connection was */
};

int lk__async_multi_new(struct lk__async *async)
{
	struct lk__completion *completion = async->completion;
	const struct lk__multi *locks = async->want.multi;
	struct lk__want want = {.owner = completion->owner};
	if (async->want.way == LK__ASYNC_ACQUIRE)
		want = async->want.acquire;
	completion->multi = lk__multi_taken_new(locks);
	async->multi = calloc(1, sizeof(*async->multi));
	if (async->multi && completion->multi)
		async->multi->ask = lk__multi_ask_new(&completion->multi->multi, &want,
						      &async->thread, &completion->value.error);
	if (async->multi && async->multi->ask)
		return 0;
	lk__async_multi_free(async);
	lk__multi_taken_free(completion->multi);
	completion->multi = NULL;
	return LK_ENOMEM;
}

/* ---- its other clients ---- */

static void guest_enter(struct lk__guest *guest, struct lk__thread *thread, lk_client *client)
{
	lk__client_ref(client);
	guest->thread = thread;
	guest->client = client;
	pthread_mutex_lock(&client->mutex);
	DL_APPEND(client->asyncs.guests, guest);
	pthread_mutex_unlock(&client->mutex);
}

/* Any client but that of the first part, whose loop drives the call. */
static void guests_enter(struct lk__async *async)
{
	struct lk__entry *const *parts = async->multi->ask->multi->part;
	assert(parts[0]->client == async->client);
	for (size_t i = 1; i < async->multi->ask->multi->count; i++)
		if (parts[i]->client != parts[i - 1]->client)
			guest_enter(&async->multi->guest[i], &async->thread, parts[i]->client);
}

static void guest_leave(struct lk__guest *guest)
{
	lk_client *client = guest->client;
	if (!client)
		return;
	pthread_mutex_lock(&client->mutex);
	DL_DELETE(client->asyncs.guests, guest);
	pthread_mutex_unlock(&client->mutex);
	lk__client_unref(client);
}

int64_t lk__async_multi_until_ns(const struct lk__async_multi *multi, int64_t until_ns)
{
	for (size_t i = 1; i < LK__MULTI_MAX; i++)
		if (multi->guest[i].client)
			until_ns = lk__earlier(until_ns,
					       lk__client_until_ns(multi->guest[i].client));
	return until_ns;
}

void lk__async_multi_free(struct lk__async *async)
{
	struct lk__async_multi *multi = async->multi;
	if (!multi)
		return;
	for (size_t i = 1; i < LK__MULTI_MAX; i++)
		guest_leave(&multi->guest[i]);
	free(multi->ask);
	free(multi);
	async->multi = NULL;
}

/* ---- waits ---- */

/* Whether the answers are there, or are not waited for any more. */
static bool asks_end(struct lk__async *async, int64_t until_ns, bool gives_up)
{
	struct lk__multi_ask *ask = async->multi->ask;
	if (!lk__asks_look(&ask->asks) && !gives_up && !lk__async_is_over(async, until_ns))
		return false;
	lk__asks_end(&ask->asks);
	return true;
}

/* ---- acquire ---- */

static struct lk__entry *awaited_entry(const struct lk__async_multi *multi)
{
	assert(multi->head.effects.part < multi->ask->multi->count);
	return multi->ask->multi->part[multi->head.effects.part];
}

/* While it waits for a part, that one's client reads for it. */
static void await_listens(const struct lk__async_multi *multi, bool listens)
{
	_Atomic size_t *listeners = &awaited_entry(multi)->client->asyncs.listeners;
	if (listens)
		atomic_fetch_add(listeners, 1);
	else
		atomic_fetch_sub(listeners, 1);
}

static void action_begin(struct lk__async *async)
{
	struct lk__async_multi *multi = async->multi;
	const struct lk__multi_effects *effects = &multi->head.effects;
	switch (effects->action) {
	case LK__MULTI_DO_AWAIT:
		multi->want = lk__multi_await_want(multi->ask, effects->part);
		multi->begins = true;
		await_listens(multi, true);
		break;
	case LK__MULTI_DO_CONNECT:
		multi->conn = lk__entry_scripts(awaited_entry(multi));
		multi->up = lk__conn_ready_begin(multi->conn, &multi->standby, &async->thread,
						 true);
		break;
	case LK__MULTI_DO_TRY:
	case LK__MULTI_DO_GIVE_BACK:
		lk__asks_begin(&multi->ask->asks, &async->thread);
		break;
	default:
		break;
	}
}

/* Below: whether the action has ended, and how. */

/* The close of any client of the lock ends the wait. What is queued on a connection of another
 * client leaves now: that client's loop may be asleep. */
static bool await_look(struct lk__async *async, int *rc_out)
{
	struct lk__async_multi *multi = async->multi;
	struct lk__entry *entry = awaited_entry(multi);
	bool closed = lk__multi_over(multi->ask) == LK_ECLOSED;
	if (closed)
		atomic_store(&async->cancelled, true);
	int rc = lk__async_stand(async, entry, &multi->want, multi->begins);
	bool out = (entry->waiting && entry->waiting->tries) ||
		   atomic_load(&entry->compensating) > 0;
	pthread_mutex_unlock(&entry->mutex);
	multi->begins = false;
	if (entry->client != async->client) {
		lk__conn_send_queued(lk__entry_scripts(entry));
		lk__loop_attend(entry->client);
	}
	if (rc)
		await_listens(multi, false);
	if (rc == LK_ECANCELLED && closed) {
		rc = out ? LK_EMAYBEHELD : LK_ECLOSED;
		lk__fail(multi->ask->error, rc, "acquire \"%.100s\": %s", entry->name,
			 lk_error_text(rc));
	}
	*rc_out = rc < 0 ? rc : 0;
	return rc != 0;
}

static bool connect_look(struct lk__async *async, int *rc_out, lk_error *why)
{
	struct lk__async_multi *multi = async->multi;
	struct lk__conn *conn = multi->conn;
	int rc = LK__WAIT_READY;
	if (!multi->up) {
		int over = lk__multi_over(multi->ask);
		rc = over == LK_ECLOSED || over == LK_ECANCELLED
			     ? over
			     : lk__conn_ready_look(conn, &multi->standby, why);
		if (rc == LK__WAIT_TIME_UP &&
		    !lk__async_is_over(async, multi->head.effects.until_ns))
			return false;
		lk__conn_ready_end(conn, &multi->standby);
	}
	*rc_out = rc;
	return true;
}

static bool action_look(struct lk__async *async, int *rc_out, lk_error *why)
{
	struct lk__async_multi *multi = async->multi;
	int64_t until_ns = multi->head.effects.until_ns;
	bool over = lk__multi_over(multi->ask) != 0;
	*rc_out = 0;
	switch (multi->head.effects.action) {
	case LK__MULTI_DO_AWAIT:
		return await_look(async, rc_out);
	case LK__MULTI_DO_CONNECT:
		return connect_look(async, rc_out, why);
	case LK__MULTI_DO_TRY:
		return asks_end(async, until_ns, over);
	case LK__MULTI_DO_GIVE_BACK:
		return asks_end(async, until_ns, false);
	default:
		return over || lk__async_is_over(async, until_ns);
	}
}

/* All are its owner's. */
static void acquire_note(struct lk__completion *completion)
{
	struct lk__multi_taken *taken = completion->multi;
	struct lk__multi_hold all = {.deadline_ns = 0};
	lk__multi_hold_of(&taken->multi, &completion->owner, &all);
	completion->value.deadline_ns = all.deadline_ns;
	for (size_t i = 0; i < taken->multi.count; i++) {
		struct lk__entry *entry = taken->multi.part[i];
		pthread_mutex_lock(&entry->mutex);
		const struct lk__hold *hold = lk__entry_hold_of(entry, &completion->owner);
		taken->number[i] = hold ? hold->number : 0;
		pthread_mutex_unlock(&entry->mutex);
	}
}

static void multi_acquire(struct lk__async *async, bool starts)
{
	struct lk__async_multi *multi = async->multi;
	lk_error why = {.code = LK_EUNREACHABLE, .message = "the server cannot be reached"};
	int came, rc = 0;
	if (starts)
		rc = lk__multi_head_start(&multi->head, multi->ask);
	for (bool begins = starts; rc == 0; begins = true) {
		if (begins)
			action_begin(async);
		if (!action_look(async, &came, &why))
			return;
		rc = lk__multi_head_next(&multi->head, came, &why);
	}
	if (rc == 1)
		acquire_note(async->completion);
	lk__async_complete(async, rc < 0 ? rc : 0);
}

/* ---- release, extend ---- */

static int asks_start(struct lk__async *async)
{
	struct lk__multi_ask *ask = async->multi->ask;
	int rc = 0;
	if (async->want.way == LK__ASYNC_RELEASE)
		lk__multi_release_begin(ask, async->want.keep_ms);
	else
		rc = lk__multi_extend_begin(ask, async->want.lease_ms);
	if (rc == 0)
		lk__asks_begin(&ask->asks, &async->thread);
	return rc;
}

void lk__async_multi(struct lk__async *async, bool starts)
{
	if (starts)
		guests_enter(async);
	if (async->want.way == LK__ASYNC_ACQUIRE) {
		multi_acquire(async, starts);
		return;
	}
	struct lk__multi_ask *ask = async->multi->ask;
	int rc = starts ? asks_start(async) : 0;
	if (rc < 0)
		lk__async_complete(async, rc);
	else if (asks_end(async, ask->asks_until_ns, false))
		lk__async_complete(async, ask->result);
}

/* ---- taken ---- */

/* Whether every hold still is what was granted; else its owner has given one up. */
static bool taken_is_whole(const struct lk__completion *completion)
{
	const struct lk__multi_taken *taken = completion->multi;
	bool whole = true;
	for (size_t i = 0; i < taken->multi.count && whole; i++) {
		struct lk__entry *entry = taken->multi.part[i];
		pthread_mutex_lock(&entry->mutex);
		const struct lk__hold *hold = lk__entry_hold_of(entry, &completion->owner);
		whole = hold && hold->number == taken->number[i];
		pthread_mutex_unlock(&entry->mutex);
	}
	return whole;
}

/* The lease of a part ended before its owner could know of it: all are given up. */
static void part_give_up(struct lk__entry *entry, const struct lk__owner *owner)
{
	pthread_mutex_lock(&entry->mutex);
	if (lk__release_count(entry, owner, 0, NULL) == 1) {
		uint64_t number = entry->grant.number;
		lk__entry_drop_hold(entry, lk__now_ns());
		lk__entry_release_unasked(entry, number);
		lk__entry_promote(entry);
	}
	pthread_mutex_unlock(&entry->mutex);
}

void lk__async_multi_acquired(struct lk__completion *completion)
{
	const struct lk__multi *multi = &completion->multi->multi;
	struct lk__multi_hold all = {.deadline_ns = 0};
	assert(multi->count > 0 && multi->part[0] == completion->entry);
	if (!taken_is_whole(completion))
		return;
	if (lk__multi_hold_of(multi, &completion->owner, &all) == 0) {
		completion->value.deadline_ns = all.deadline_ns;
		return;
	}
	for (size_t i = 0; i < multi->count; i++)
		part_give_up(multi->part[i], &completion->owner);
	lk__fail(&completion->value.error, LK_EMAYBEHELD,
		 "acquire %zu locks, \"%.100s\": a lease ended before the completion was taken",
		 multi->count, completion->entry->name);
}
