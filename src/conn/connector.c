#include "conn/connector.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

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
	enum lk__conn_kind kind;
	int64_t pause_ns;
	int cancel_fd;
};

static void connector_unref(struct lk__connector *connector)
{
	if (atomic_fetch_sub(&connector->refs, 1) > 1)
		return;
	close(connector->cancel_fd);
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
		if (poll(&fd, 1, timeout_ms) > 0)
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
		lk__node_learn_time(connector->conn->node, greeting->server_us,
				    greeting->received_ns);
		taken = lk__conn_install(connector->conn, stream, reader);
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
	rc = lk__handshake(stream, config, connector->kind != LK__CONN_MESSAGES, deadline_ns,
			   connector->cancel_fd, &reader, &greeting, &error);
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

static struct lk__connector *connector_new(struct lk__conn *conn, int64_t pause_ns)
{
	struct lk__connector *connector = calloc(1, sizeof(*connector));
	if (!connector)
		return NULL;
	connector->config = lk__config_copy(conn->node->config);
	connector->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!connector->config || connector->cancel_fd < 0) {
		lk_config_free(connector->config);
		if (connector->cancel_fd >= 0)
			close(connector->cancel_fd);
		free(connector);
		return NULL;
	}
	pthread_mutex_init(&connector->mutex, NULL);
	atomic_store(&connector->refs, 2);
	connector->conn = conn;
	connector->kind = conn->kind;
	connector->pause_ns = pause_ns;
	return connector;
}

int lk__connector_start(struct lk__conn *conn, int64_t pause_ns, lk_error *error)
{
	struct lk__connector *connector = connector_new(conn, pause_ns);
	if (!connector)
		return lk__fail(error, LK_ENOMEM, "cannot connect: out of memory or descriptors");
	pthread_t thread;
	int rc = lk__thread_start(&thread, true, connector_main, connector);
	if (rc) {
		connector_unref(connector);
		connector_unref(connector);
		return lk__fail_errno(error, LK_ESYSTEM, rc, "cannot start a thread");
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
