/* SPDX-License-Identifier: MIT */
#include "drive/client/client.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "drive/async/async.h"
#include "drive/entry/entry.h"
#include "drive/life/life.h"
#include "drive/client/loop.h"
#include "drive/notices/notices.h"
#include "drive/background/compensation.h"
#include "drive/background/watch.h"

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

/* ---- what the node tells ---- */

static void client_on_attention(void *context)
{
	lk__loop_attend(context);
}

static void client_on_lost(void *context)
{
	lk__loop_verify(context);
}

/* What was in doubt is looked at now that the node answers again. */
static void client_on_up(void *context)
{
	lk__loop_verify(context);
	lk__loop_wake(context);
}

static void client_on_connecting(void *context)
{
	lk__loop_wake(context);
}

/* A release was heard of a lock that we may hold: whose was it? One that we only wait for is no
 * work of the loop's, which would be in the way of the waiter's try. */
static void client_on_doubt(void *context, void *owner)
{
	struct lk__entry *entry = owner;
	(void)context;
	if (!atomic_exchange(&entry->doubt, true) && atomic_load(&entry->hold))
		lk__watch_at(entry, lk__now_ns());
}

static const struct lk__node_events client_events = {
	.attention = client_on_attention,
	.lost = client_on_lost,
	.up = client_on_up,
	.connecting = client_on_connecting,
	.doubt = client_on_doubt,
};

/* ---- threads ---- */

static void thread_abandon(struct lk__hold *hold)
{
	struct lk__entry *entry = hold->entry;
	pthread_mutex_lock(&entry->mutex);
	hold->abandoned = true;
	if (entry->hold == hold) {
		lk__notices_give(entry->client, hold, LK__NOTICE_ABANDONED);
		lk__log(&entry->client->log, LK_LOG_WARNING, "thread ended while it held: %.200s",
			entry->name);
	}
	pthread_mutex_unlock(&entry->mutex);
}

/* At the end of a thread: what it held is no longer renewed. */
static void thread_end(void *argument)
{
	struct lk__thread *thread = argument;
	lk_client *client = thread->client;
	if (lk__client_forked(client))
		return;
	atomic_fetch_add(&client->ending, 1);
	for (;;) {
		pthread_mutex_lock(&thread->mutex);
		struct lk__hold *hold = thread->holds;
		if (hold) {
			DL_DELETE2(thread->holds, hold, thread_prev, thread_next);
			hold->thread_prev = NULL;
			hold->thread = NULL;
		}
		pthread_mutex_unlock(&thread->mutex);
		if (!hold)
			break;
		thread_abandon(hold);
	}
	pthread_mutex_lock(&client->mutex);
	thread->ended = 1;
	pthread_mutex_unlock(&client->mutex);
	atomic_fetch_sub(&client->ending, 1); /* from now on the client may be gone */
}

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
		LL_PREPEND(client->threads, thread);
	}
	thread->ended = 0;
	thread->serial = atomic_fetch_add(&client->last_serial, 1) + 1;
	return thread;
}

struct lk__thread *lk__client_thread(lk_client *client)
{
	struct lk__thread *thread = lk__thread_get(client->key);
	if (thread)
		return thread;
	pthread_mutex_lock(&client->mutex);
	thread = thread_new(client);
	if (thread && lk__thread_set(client->key, thread) != 0) {
		thread->ended = 1;
		thread = NULL;
	}
	pthread_mutex_unlock(&client->mutex);
	return thread;
}

void lk__client_forget_threads(lk_client *client)
{
	struct lk__park nap = {0};
	lk__thread_key_free(client->key);
	while (atomic_load(&client->ending) > 0)
		lk__park_wait(&nap, lk__now_ns() + LK__MS);
}

/* ---- birth and death ---- */

static void client_free(lk_client *client)
{
	struct lk__thread *thread, *next;
	if (client->topo) /* what was submitted after the close comes back to its owners */
		client->topo->ops->close(client->topo);
	lk__loop_free(client);
	lk__async_free(client);
	lk__compensation_free(client);
	lk__entries_free(client);
	if (client->topo)
		client->topo->ops->free(client->topo);
	LL_FOREACH_SAFE(client->threads, thread, next)
	{
		pthread_mutex_destroy(&thread->mutex);
		free(thread);
	}
	lk__notices_free(client);
	lk__watch_free(client);
	pthread_mutex_destroy(&client->record.mutex);
	pthread_mutex_destroy(&client->mutex);
	lk__alive_free(client->alive);
	lk_config_free(client->config);
	free(client);
}

void lk__client_ref(lk_client *client)
{
	atomic_fetch_add(&client->refs, 1);
}

void lk__client_unref(lk_client *client)
{
	size_t before = atomic_fetch_sub(&client->refs, 1);
	assert(before > 0);
	if (before == 1)
		client_free(client);
}

int lk__client_new(lk_client **client_out, const struct lk_config *config, lk_error *error)
{
	lk_client *client = calloc(1, sizeof(*client));
	if (!client)
		return lk__fail(error, LK_ENOMEM, "lk_client_new: out of memory");
	client->notices.fd = -1;
	client->record.since_ns = lk__now_ns();
	pthread_mutex_init(&client->record.mutex, NULL);
	atomic_store(&client->refs, 1);
	pthread_mutex_init(&client->mutex, NULL);
	lk__watch_init(client);
	int rc = lk__notices_init(client, error);
	client->config = lk__config_copy(config);
	if (rc == 0 && !client->config)
		rc = lk__fail(error, LK_ENOMEM, "lk_client_new: out of memory");
	if (rc == 0 && lk__random_uuid(client->id) < 0)
		rc = lk__fail(error, LK_ESYSTEM, "lk_client_new: no randomness");
	if (rc == 0)
		rc = lk__alive_new(&client->alive, error);
	if (rc == 0) {
		client->log = client->config->log;
		rc = lk__topo_new(&client->topo, client->config, &client_events, client, error);
	}
	if (rc == 0 && lk__thread_key_new(&client->key, thread_end) != 0) {
		client->topo->ops->close(client->topo);
		rc = lk__fail(error, LK_ESYSTEM, "lk_client_new: no thread-specific key is left");
	}
	if (rc == 0 && client->config->threadless)
		rc = lk__loop_start(client, error);
	if (rc < 0) {
		client_free(client);
		return rc;
	}
	*client_out = client;
	return 0;
}
