/* SPDX-License-Identifier: MIT */
/*
 * The public face of the client, which is put together here from what the files of src/lock/ hand
 * up: the turn of its loop, what a lock does on several nodes, what its nodes and ending threads
 * tell it, and its end.
 */
#include <lockkeeper/client.h>
#include <lockkeeper/loop.h>

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

#include "api/check.h"
#include "api/close.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "base/fail.h"
#include "base/identity.h"
#include "conf/config.h"
#include "lock/acquire.h"
#include "lock/async.h"
#include "lock/compensation.h"
#include "lock/completion_queue.h"
#include "lock/entry.h"
#include "lock/hold.h"
#include "lock/loop.h"
#include "lock/notice.h"
#include "lock/operation.h"
#include "lock/red.h"
#include "lock/told.h"

/* ---- the turn of the loop ---- */

static int64_t client_nodes(lk_client *client, int64_t now_ns)
{
	struct lk__topo *topo = client->topo;
	struct lk__node *node;
	int64_t next_ns = LK__NEVER;
	for (size_t i = 0; (node = topo->ops->node_at(topo, i)); i++)
		next_ns = lk__earlier(next_ns, lk__node_turn(node, now_ns));
	return next_ns;
}

/* A turn of its loop: see struct lk__client_ops. */
static int64_t client_turn(lk_client *client, bool verify, bool *resumed_out)
{
	if (verify)
		lk__compensation_retry(client);
	lk__told_turn(client);
	int64_t next_ns = lk__watch_turn(client, verify);
	next_ns = lk__earlier(next_ns, lk__compensation_turn(client));
	next_ns = lk__earlier(next_ns, lk__client_record_turn(client));
	next_ns = lk__earlier(next_ns, lk__async_turn(client, resumed_out));
	next_ns = lk__earlier(next_ns, client_nodes(client, lk__now_ns()));
	lk__notices_ring(client);
	return lk__earlier(next_ns, lk__close_turn(client));
}

static const struct lk__quorum quorum = {&lk__red_parts, lk__red_send, &lk__red_holds};

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

/* ---- its end ---- */

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

/* ---- making one ---- */

/* Makes what can fail. */
static int client_begin(lk_client *client, const lk_config *config, lk_error *error)
{
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
	if (rc < 0)
		return rc;
	client->log = client->config->log;
	rc = lk__topo_new(&client->topo, client->config, &client_events, client, error);
	if (rc == 0 && lk__thread_key_new(&client->key, thread_end) != 0) {
		client->topo->ops->close(client->topo);
		rc = lk__fail(error, LK_ESYSTEM, "lk_client_new: no thread-specific key is left");
	}
	return rc == 0 && client->config->threadless ? lk__loop_start(client, error) : rc;
}

int lk_client_new(lk_client **client_out, const lk_config *config, lk_error *error)
{
	if (!client_out || !config)
		return lk__fail(error, LK_EINVAL, "lk_client_new: %s is NULL",
				client_out ? "config" : "client_out");
	int rc = lk__config_check(config, error);
	if (rc < 0)
		return rc;
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
	rc = client_begin(client, config, error);
	if (rc < 0) {
		client_free(client);
		return rc;
	}
	*client_out = client;
	return 0;
}

int lk_client_open(lk_client **client_out, const char *url, lk_error *error)
{
	lk_config *config;
	int rc = lk_config_new(&config, error);
	if (rc < 0)
		return rc;
	rc = lk_config_load_environment(config, error);
	if (rc == 0 && url)
		rc = lk_config_set(config, "url", url, error);
	if (rc == 0)
		rc = lk_client_new(client_out, config, error);
	lk_config_free(config);
	return rc;
}

static int client_ask_time(lk_client *client, struct lk__conn *conn, struct lk__thread *thread,
			   lk_error *error)
{
	int64_t until_ns = lk__after_ms(lk__now_ns(), client->config->command_timeout_ms);
	struct lk__request *request = lk__question(
		lk__request_new(1, (const char *[]){"TIME"}, (size_t[]){4}));
	int rc = lk__ask(client, conn, thread, request, "ping", until_ns, error);
	if (rc == LK__WAIT_READY)
		lk__request_free(request);
	return rc == LK__WAIT_READY ? 0 : rc;
}

int lk_client_ping(lk_client *client, lk_error *error)
{
	struct lk__thread *thread;
	int saved, rc = lk__enter(client, "lk_client_ping", &thread, &saved, error);
	if (rc < 0)
		return rc;
	struct lk__conn *conn = lk__node_scripts(client->topo->ops->node_at(client->topo, 0));
	int64_t begun_ns = lk__now_ns();
	int64_t until_ns = lk__after_ms(begun_ns, client->config->connect_timeout_ms);
	rc = lk__conn_ready(conn, thread, true, until_ns, error);
	if (rc == LK__WAIT_TIME_UP)
		rc = lk__fail(error, LK_EUNREACHABLE,
			      "ping %s: no connection within the connect limit",
			      client->config->url);
	else if (rc == LK_ECLOSED)
		lk__fail(error, rc, "ping: the client is closed");
	else if (rc == LK__WAIT_READY)
		rc = lk__conn_greeted_since(conn, begun_ns)
			     ? 0 /* the handshake has asked, and was answered */
			     : client_ask_time(client, conn, thread, error);
	lk__leave(saved);
	return rc;
}

const char *lk_client_id(const lk_client *client)
{
	return client->id;
}

const char *lk_client_node(const lk_client *client)
{
	return client->config->url;
}

/* The client no longer hears of the ends of its threads. Waits for those that are ending right now,
 * which do no I/O there. */
static void forget_threads(lk_client *client)
{
	struct lk__park nap = {0};
	lk__thread_key_free(client->key);
	while (atomic_load(&client->ending) > 0)
		lk__park_wait(&nap, lk__now_ns() + LK__MS);
}

lk_client *lk_client_free(lk_client *client)
{
	if (client && lk__client_forked(client))
		lk__fds_drop_inherited();
	if (!client || lk__client_forked(client))
		return NULL;
	lk__close_to_free(client);
	/* Not in close: a call that is late to see it closed may still look its thread up. */
	forget_threads(client);
	/* Completions that were not taken may keep the client; its log ends here all the same. */
	struct lk__log log = client->log;
	int64_t until_ns = lk__after_ms(lk__now_ns(), client->config->command_timeout_ms);
	lk__log_ref(&log);
	lk__client_unref(client);
	lk__log_end(&log, until_ns);
	return NULL;
}

/* ---- without threads ---- */

int lk_client_fd(lk_client *client, lk_error *error)
{
	int rc = lk__check_threadless(client, "lk_client_fd", error);
	return rc < 0 ? rc : lk__loop_fd(client);
}

int64_t lk_client_due_ns(lk_client *client, lk_error *error)
{
	int rc = lk__check_threadless(client, "lk_client_due_ns", error);
	return rc < 0 ? rc : lk__loop_due_ns(client);
}

int lk_client_process(lk_client *client, lk_error *error)
{
	const char *operation = "lk_client_process";
	int saved, rc = lk__check_threadless(client, operation, error);
	if (rc == 0 && atomic_load(&client->state) == LK__CLIENT_CLOSED)
		rc = LK_ECLOSED;
	else if (rc < 0)
		return rc;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &saved);
	if (rc == 0)
		rc = lk__loop_process(client);
	lk__log_deliver(&client->log);
	pthread_setcancelstate(saved, NULL);
	return rc < 0 ? lk__fail(error, rc, "%s: %s", operation, lk_error_text(rc)) : 0;
}

/* Hands the request for notices to the client. */
static int start_notices(const struct lk__start *start)
{
	struct lk__completion *request;
	lk_client *client = start->handle;
	int rc = lk__client_check(client, start->operation, start->error);
	if (rc == 0)
		rc = lk__loop_start(client, start->error);
	if (rc == 0)
		rc = lk__start_reserve(start, &request, NULL);
	if (rc < 0)
		return rc;
	request->client = client;
	lk__client_ref(client);
	rc = lk__notices_request(client, request, start->error);
	if (rc < 0) {
		lk__start_unreserve(request);
		lk__client_unref(client);
	}
	return rc;
}

int lk__start_client(const struct lk__start *start)
{
	switch (start->request->operation) {
	case LK_OP_NOTICE:
		return start_notices(start);
	case LK_OP_DRAIN:
		return lk__start_drain(start);
	default:
		assert(start->request->operation == LK_OP_CLOSE);
		return lk__start_close(start);
	}
}
