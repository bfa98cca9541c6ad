/* SPDX-License-Identifier: MIT */
#include "conn/connector.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/thread.h"
#include "conf/config.h"
#include "conn/conn.h"
#include "conn/handshake.h"
#include "conn/node.h"
#include "net/stream.h"
#include "resp/reader.h"

struct lk__connector {
	_Atomic int refs; /* the thread, and the connection */
	pthread_mutex_t mutex;
	struct lk__conn *conn; /* NULL once it was cut off */
	struct lk_config *config;
	unsigned greeting; /* LK__GREET_… */
	int64_t pause_ns;
	int cancel_fd;
};

static void connector_unref(struct lk__connector *connector)
{
	if (atomic_fetch_sub(&connector->refs, 1) > 1)
		return;
	lk__fd_close(connector->cancel_fd);
	lk_config_free(connector->config);
	pthread_mutex_destroy(&connector->mutex);
	free(connector);
}

/* True when it was told to stop meanwhile. */
static int connector_pause(struct lk__connector *connector)
{
	struct pollfd fd = {.fd = connector->cancel_fd, .events = POLLIN};
	int64_t until_ns = lk__now_ns() + connector->pause_ns;
	int timeout_ms;
	while ((timeout_ms = lk__ms_until(lk__now_ns(), until_ns, 60000)) > 0)
		if (lk__poll(&fd, 1, timeout_ms) > 0)
			return 1;
	return 0;
}

/* Whoever takes the connector out of its connection drops the connection's reference. */
static int connector_deliver(struct lk__connector *connector, struct lk__stream *stream,
			     struct lk__reader *reader, const struct lk__greeting *greeting)
{
	bool taken = false;
	pthread_mutex_lock(&connector->mutex);
	if (connector->conn) {
		lk__node_hear_time(connector->conn->node, greeting->server_us, greeting->sent_ns,
				   greeting->received_ns);
		taken = lk__conn_install(connector->conn, stream, reader, greeting);
		connector->conn = NULL;
	}
	pthread_mutex_unlock(&connector->mutex);
	if (taken) {
		connector_unref(connector);
	} else {
		lk__stream_close(stream);
		lk__reader_free(reader);
	}
	return 1;
}

/* True when it is over: given up, or stopped. */
static int connector_report(struct lk__connector *connector, const lk_error *error)
{
	bool taken = false;
	pthread_mutex_lock(&connector->mutex);
	connector->pause_ns = -1;
	if (connector->conn)
		connector->pause_ns = lk__conn_connect_failed(connector->conn, error, &taken);
	if (connector->pause_ns < 0)
		connector->conn = NULL;
	pthread_mutex_unlock(&connector->mutex);
	if (taken)
		connector_unref(connector);
	return connector->pause_ns < 0;
}

static int connector_attempt(struct lk__connector *connector)
{
	const struct lk_config *config = connector->config;
	int64_t deadline_ns = lk__after_ms(lk__now_ns(), config->connect_timeout_ms);
	lk_error error;
	struct lk__stream *stream;
	struct lk__reader *reader = NULL;
	struct lk__greeting greeting;
	int rc = lk__stream_open(&stream, config, deadline_ns, connector->cancel_fd, &error);
	if (rc < 0)
		return connector_report(connector, &error);
	rc = lk__handshake(stream, config, connector->greeting, deadline_ns, connector->cancel_fd,
			   &reader, &greeting, &error);
	if (rc == 0)
		return connector_deliver(connector, stream, reader, &greeting);
	lk__stream_close(stream);
	return connector_report(connector, &error);
}

static void *connector_main(void *argument)
{
	struct lk__connector *connector = argument;
	while (!connector_pause(connector) && !connector_attempt(connector))
		;
	connector_unref(connector);
	return NULL;
}

static int connector_new(struct lk__connector **connector_out, struct lk__conn *conn,
			 int64_t pause_ns, lk_error *error)
{
	const char *node = conn->node->config->url;
	int cancel_fd = lk__wake_fd_new();
	if (cancel_fd < 0)
		return lk__fail_errno(error, LK_ESYSTEM, errno, "%s: cannot connect", node);
	struct lk__connector *connector = calloc(1, sizeof(*connector));
	struct lk_config *config = connector ? lk__config_copy(conn->node->config) : NULL;
	if (!config) {
		lk__fd_close(cancel_fd);
		free(connector);
		return lk__fail(error, LK_ENOMEM, "%s: cannot connect: out of memory", node);
	}
	pthread_mutex_init(&connector->mutex, NULL);
	atomic_store(&connector->refs, 2);
	connector->config = config;
	connector->cancel_fd = cancel_fd;
	connector->conn = conn;
	connector->greeting = conn->kind == LK__CONN_MESSAGES ? 0 : LK__GREET_SCRIPTS;
	if (!atomic_load(&conn->node->was_up))
		connector->greeting |= LK__GREET_FIRST;
	connector->pause_ns = pause_ns;
	*connector_out = connector;
	return 0;
}

int lk__connector_start(struct lk__conn *conn, int64_t pause_ns, lk_error *error)
{
	struct lk__connector *connector = NULL;
	int rc = connector_new(&connector, conn, pause_ns, error);
	if (rc < 0)
		return rc;
	rc = lk__thread_start(NULL, connector_main, connector);
	if (rc) {
		connector_unref(connector);
		connector_unref(connector);
		return lk__fail_errno(error, LK_ESYSTEM, rc, "%s: cannot start a thread to connect",
				      conn->node->config->url);
	}
	conn->connector = connector;
	return 0;
}

void lk__connector_stop(struct lk__connector *connector)
{
	if (!connector)
		return;
	pthread_mutex_lock(&connector->mutex);
	connector->conn = NULL;
	pthread_mutex_unlock(&connector->mutex);
	lk__wake_fd(connector->cancel_fd);
	connector_unref(connector);
}
