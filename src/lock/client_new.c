/* SPDX-License-Identifier: MIT */
/*
 * A client is put together here from what the files below hand up: the turn of its loop, what
 * a lock does on several nodes, what its nodes and ending threads tell it, and its end.
 */
#include "lock/client_new.h"

#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/identity.h"
#include "conf/config.h"
#include "lock/acquire.h"
#include "lock/async.h"
#include "lock/client.h"
#include "lock/close.h"
#include "lock/compensation.h"
#include "lock/completion_queue.h"
#include "lock/entry.h"
#include "lock/extend.h"
#include "lock/hold.h"
#include "lock/loop.h"
#include "lock/notice.h"
#include "lock/red.h"
#include "lock/release.h"
#include "lock/renewal.h"
#include "lock/tracked.h"

/* ---- the turn of the loop ---- */

/* Connections that are silent, and those that a crowd has left. */
static int64_t client_nodes(lk_client *client, int64_t now_ns)
{
	struct lk__topo *topo = client->topo;
	struct lk__node *node;
	int64_t next_ns = LK__NEVER;
	for (size_t i = 0; (node = topo->ops->node_at(topo, i)); i++) {
		lk__node_judge(node);
		next_ns = lk__earlier(next_ns, lk__node_rest(node, now_ns));
	}
	return next_ns;
}

/* A turn of its loop: see struct lk__client_ops. */
static int64_t client_turn(lk_client *client, bool verify, bool *resumed_out)
{
	if (verify) {
		lk__watch_all(client);
		lk__compensation_retry(client);
	}
	lk__tracked_turn(client);
	int64_t next_ns = lk__watch_turn(client);
	next_ns = lk__earlier(next_ns, lk__compensation_turn(client));
	next_ns = lk__earlier(next_ns, lk__client_record_turn(client));
	next_ns = lk__earlier(next_ns, lk__async_turn(client, resumed_out));
	next_ns = lk__earlier(next_ns, client_nodes(client, lk__now_ns()));
	lk__notices_ring(client);
	return lk__earlier(next_ns, lk__close_turn(client));
}

static const struct lk__quorum quorum = {&lk__red_grants, &lk__red_tries, &lk__red_renewals};

/* ---- what the node tells ---- */

static void client_on_attention(void *context)
{
	lk__loop_attend(context);
}

static void client_on_lost(void *context)
{
	lk__loop_verify(context);
}

/* Looks at what was in doubt, now that the node answers again. */
static void client_on_up(void *context)
{
	lk__loop_verify(context);
	lk__loop_wake(context);
}

/* Without a loop, the next caller goes on. */
static void client_on_connecting(void *context)
{
	lk__loop_start(context, NULL);
	lk__loop_wake(context);
}

/* A release was heard of a lock that we may hold: whose was it? One that we only wait for is no
 * work of the loop's, which would be in the way of the waiter's try. */
static void client_on_doubt(void *context, void *owner)
{
	(void)context;
	lk__doubt(owner);
}

static void client_on_told(void *context)
{
	lk__loop_wake(context);
}

static const struct lk__node_events client_events = {
	.attention = client_on_attention,
	.lost = client_on_lost,
	.up = client_on_up,
	.connecting = client_on_connecting,
	.doubt = client_on_doubt,
	.told = client_on_told,
};

/* ---- the end of a thread ---- */

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

/* A thread ends: the watchdog renews nothing of it any more. */
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

/* ---- its end, and making one ---- */

/* Every entry that is left, with its holds. No other thread is in a call. */
static void entries_free(lk_client *client)
{
	struct lk__entry *entry = NULL;
	struct lk__hold *hold, *next;
	while ((entry = lk__entries_next(&client->entries, entry))) {
		lk__hold_free(entry->hold);
		LL_FOREACH_SAFE(entry->lost, hold, next)
		lk__hold_free(hold);
		entry->hold = entry->lost = NULL;
	}
	lk__entries_free(client);
}

static void client_free(lk_client *client)
{
	struct lk__thread *thread, *next;
	if (client->topo) /* what was submitted after the close comes back to its owners */
		client->topo->ops->close(client->topo);
	lk__loop_free(client);
	lk__async_free(client);
	lk__compensation_free(client);
	entries_free(client);
	if (client->topo)
		client->topo->ops->free(client->topo);
	LL_FOREACH_SAFE(client->threads, thread, next)
	{
		pthread_mutex_destroy(&thread->mutex);
		free(thread);
	}
	lk__notices_free(client);
	lk__declared_free(client);
	pthread_mutex_destroy(&client->record.mutex);
	pthread_mutex_destroy(&client->mutex);
	lk__alive_free(client->alive);
	if (client->config)
		lk__log_end(&client->config->log, 0);
	lk_config_free(client->config);
	free(client);
}

static const struct lk__client_ops client_ops = {
	.turn = client_turn,
	.free = client_free,
	.quorum = &quorum,
};

int lk__client_new(lk_client **client_out, const struct lk_config *config, lk_error *error)
{
	lk_client *client = calloc(1, sizeof(*client));
	if (!client)
		return lk__fail(error, LK_ENOMEM, "lk_client_new: out of memory");
	client->ops = &client_ops;
	client->notices.fd = -1;
	client->record.since_ns = lk__now_ns();
	lk__ready_init(&client->asyncs.ready);
	pthread_mutex_init(&client->record.mutex, NULL);
	atomic_store(&client->refs, 1);
	pthread_mutex_init(&client->mutex, NULL);
	lk__entries_init(client);
	int rc = lk__notices_init(client, error);
	client->config = lk__config_copy(config);
	if (client->config)
		lk__config_fit_limits(client->config);
	if (rc == 0 && !client->config)
		rc = lk__fail(error, LK_ENOMEM, "lk_client_new: out of memory");
	if (rc == 0 && lk__random_uuid(client->id) < 0)
		rc = lk__fail(error, LK_ESYSTEM, "lk_client_new: no randomness");
	if (rc == 0)
		rc = lk__alive_new(&client->alive, error);
	if (rc == 0)
		rc = lk__log_start(&client->config->log, client->config->threadless, error);
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
