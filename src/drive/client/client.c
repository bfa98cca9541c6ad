/* SPDX-License-Identifier: MIT */
#include "drive/client/client.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/fail.h"

int lk__client_check(lk_client *client, const char *operation, lk_error *error)
{
	int code = 0;
	if (lk__client_forked(client))
		code = LK_EFORKED;
	else if (atomic_load_explicit(&client->state, memory_order_relaxed) != LK__CLIENT_OPEN)
		code = LK_ECLOSED;
	return code ? lk__fail(error, code, "%s: %s", operation, lk_error_text(code)) : 0;
}

void lk__count_us(_Atomic uint64_t *buckets, _Atomic uint64_t *sum_us, int64_t duration_ns)
{
	uint64_t us = (uint64_t)(duration_ns > 0 ? duration_ns / LK__US : 0);
	int bucket = us < 2 ? 0 : 63 - __builtin_clzll(us);
	lk__count(&buckets[bucket < LK_HISTOGRAM_SIZE ? bucket : LK_HISTOGRAM_SIZE - 1], 1);
	lk__count(sum_us, us);
}

/* ---- threads ---- */

static struct lk__thread *thread_new(lk_client *client)
{
	struct lk__thread *thread;
	LL_FOREACH(client->threads, thread)
	if (thread->ended)
		break;
	if (!thread) {
		thread = calloc(1, sizeof(*thread));
		if (!thread)
			return NULL;
		pthread_mutex_init(&thread->mutex, NULL);
		thread->client = client;
		thread->callers = &client->callers;
		LL_PREPEND(client->threads, thread);
	}
	thread->ended = 0;
	thread->serial = atomic_fetch_add(&client->last_serial, 1) + 1;
	return thread;
}

struct lk__thread *lk__client_thread(lk_client *client)
{
	struct lk__thread *thread = lk__thread_get(client->key);
	if (thread) {
		lk__callers_note(&client->callers, thread);
		return thread;
	}
	pthread_mutex_lock(&client->mutex);
	thread = thread_new(client);
	if (thread && lk__thread_set(client->key, thread) != 0) {
		thread->ended = 1;
		thread = NULL;
	}
	pthread_mutex_unlock(&client->mutex);
	if (thread)
		lk__callers_note(&client->callers, thread);
	return thread;
}

void lk__client_forget_threads(lk_client *client)
{
	struct lk__park nap = {0};
	lk__thread_key_free(client->key);
	while (atomic_load(&client->ending) > 0)
		lk__park_wait(&nap, lk__now_ns() + LK__MS);
}

/* ---- references ---- */

void lk__client_ref(lk_client *client)
{
	atomic_fetch_add(&client->refs, 1);
}

void lk__client_unref(lk_client *client)
{
	size_t before = atomic_fetch_sub(&client->refs, 1);
	assert(before > 0);
	if (before == 1)
		client->ops->free(client);
}
