/* SPDX-License-Identifier: MIT */
/*
 * The calls of a multi lock that a loop resumes: that of the first part's client. The other
 * clients' loops read for it meanwhile, and wake it.
 */
#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/fail.h"
#include "drive/async/async_call.h"
#include "drive/many/multi_call.h"

struct lk__async_multi {
	struct lk__multi_call call;
	struct lk__guest guest[LK__MULTI_MAX]; /* in each other client, by its first part */
};

int lk__async_multi_new(struct lk__async *async)
{
	struct lk__completion *completion = async->completion;
	const struct lk__multi *locks = async->want.multi;
	enum lk__multi_way way = async->want.way == LK__ASYNC_ACQUIRE   ? LK__MULTI_ACQUIRE
				 : async->want.way == LK__ASYNC_RELEASE ? LK__MULTI_RELEASE
									: LK__MULTI_EXTEND;
	struct lk__want want = {.owner = completion->owner};
	if (way == LK__MULTI_ACQUIRE)
		want = async->want.acquire;
	int64_t time_ms = way == LK__MULTI_EXTEND    ? async->want.lease_ms
			  : way == LK__MULTI_RELEASE ? async->want.keep_ms
						     : 0;
	completion->multi = lk__multi_taken_new(locks);
	async->multi = calloc(1, sizeof(*async->multi));
	if (async->multi && completion->multi &&
	    lk__multi_call_init(&async->multi->call, way, &completion->multi->multi, &want, time_ms,
				&async->thread, &completion->value.error) == 0)
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
	struct lk__entry *const *parts = async->multi->call.ask->multi->part;
	assert(parts[0]->client == async->client);
	for (size_t i = 1; i < async->multi->call.ask->multi->count; i++)
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
	lk__multi_call_free(&multi->call);
	free(multi);
	async->multi = NULL;
}

struct lk__op *lk__async_multi_op(struct lk__async *async)
{
	guests_enter(async);
	return &async->multi->call.op;
}

void lk__async_multi_granted(struct lk__completion *completion)
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
	if (lk__release_count(entry, owner, NULL) == 1) {
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
