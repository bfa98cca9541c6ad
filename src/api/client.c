/* SPDX-License-Identifier: MIT */
/* The public face of the client. */
#include <lockkeeper/client.h>
#include <lockkeeper/loop.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/check.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "base/fail.h"
#include "conf/config.h"
#include "lock/client_new.h"
#include "lock/close.h"
#include "lock/completion_queue.h"
#include "lock/loop.h"
#include "lock/notice.h"
#include "lock/operation.h"

int lk_client_new(lk_client **client_out, const lk_config *config, lk_error *error)
{
	if (!client_out || !config)
		return lk__fail(error, LK_EINVAL, "lk_client_new: %s is NULL",
				client_out ? "config" : "client_out");
	int rc = lk__config_check(config, error);
	return rc < 0 ? rc : lk__client_new(client_out, config, error);
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

int lk_client_close(lk_client *client, int how, lk_error *error)
{
	if (!client)
		return lk__fail(error, LK_EINVAL, "lk_client_close: client is NULL");
	if (how < LK_CLOSE_IF_IDLE || how > LK_CLOSE_ABANDON)
		return lk__fail(error, LK_EINVAL, "lk_client_close: how is %d", how);
	int rc = lk__check_blocking(client, "lk_client_close", error);
	return rc < 0 ? rc : lk__client_close(client, how, error);
}

lk_client *lk_client_free(lk_client *client)
{
	if (client && lk__client_forked(client))
		lk__fds_drop_inherited();
	if (!client || lk__client_forked(client))
		return NULL;
	if (client->config->threadless)
		lk__close_to_free(client);
	else
		lk__close_for_good(client);
	/* Not in close: a call that is late to see it closed may still look its thread up. */
	lk__client_forget_threads(client);
	/* Completions that were not taken may keep the client; its log ends here all the same. */
	struct lk__log log = client->log;
	int64_t until_ns = lk__after_ms(lk__now_ns(), client->config->command_timeout_ms);
	lk__log_ref(&log);
	lk__client_unref(client);
	lk__log_end(&log, until_ns);
	return NULL;
}

/* ---- without threads ---- */

/* 0, or why the program does not drive this client. */
static int check_threadless(const lk_client *client, const char *operation, lk_error *error)
{
	if (!client)
		return lk__fail(error, LK_EINVAL, "%s: client is NULL", operation);
	int rc = lk__check_forked(client, operation, error);
	if (rc == 0 && !client->config->threadless)
		rc = lk__fail(error, LK_EINVAL,
			      "%s: the client has a thread (see lk_config_set_threadless)",
			      operation);
	return rc;
}

int lk_client_fd(lk_client *client, lk_error *error)
{
	int rc = check_threadless(client, "lk_client_fd", error);
	return rc < 0 ? rc : lk__loop_fd(client);
}

int64_t lk_client_due_ns(lk_client *client, lk_error *error)
{
	int rc = check_threadless(client, "lk_client_due_ns", error);
	return rc < 0 ? rc : lk__loop_due_ns(client);
}

int lk_client_process(lk_client *client, lk_error *error)
{
	const char *operation = "lk_client_process";
	int saved, rc = check_threadless(client, operation, error);
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

static int close_check(const struct lk__start *start)
{
	const char *operation = start->operation;
	lk_client *client = start->handle;
	int rc = check_threadless(client, operation, start->error);
	if (rc == 0)
		rc = LK__CHECK(operation, start->error, {LK__HOW, start->request->how});
	if (rc == 0 && atomic_load(&client->state) == LK__CLIENT_CLOSED)
		rc = lk__fail(start->error, LK_ECLOSED, "%s: the client is closed", operation);
	if (rc == 0 && lk__close_is_under_way(client))
		rc = lk__fail(start->error, LK_EPENDING, "%s: the client is being closed",
			      operation);
	return rc;
}

static int start_close(const struct lk__start *start)
{
	struct lk__completion *completion;
	int rc = close_check(start);
	if (rc == 0)
		rc = lk__start_reserve(start, &completion, NULL);
	if (rc < 0)
		return rc;
	rc = lk__close_start(start->handle, start->request->how, completion, start->error);
	if (rc < 0)
		lk__queue_unreserve(completion);
	return rc;
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
		lk__queue_unreserve(request);
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
		return start_close(start);
	}
}
