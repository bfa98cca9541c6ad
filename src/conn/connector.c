/* SPDX-License-Identifier: MIT */
#include "conn/connector.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/thread.h"
#include "conf/config.h"
#include "conf/credentials.h"
#include "conf/url.h"
#include "conn/conn.h"
#include "conn/finder.h"
#include "conn/handshake.h"
#include "conn/node.h"
#include "net/socket.h"
#include "net/stream.h"
#include "resp/reader.h"

enum connector_state { CONNECTOR_PAUSE, CONNECTOR_FIND, CONNECTOR_OPEN, CONNECTOR_GREET };

struct lk__connector {
	_Atomic int refs; /* of the connection; and of its thread, or a turn of the loop */
	pthread_mutex_t mutex;
	struct lk__conn *conn; /* NULL once it was cut off */
	struct lk_config *config;
	struct lk__finder *finder; /* NULL: the configuration says where the node is */
	unsigned greeting;         /* LK__GREET_… */
	int cancel_fd;        /* to stop, or to find the node again; -1 where the loop steps it, */
	_Atomic bool hurried; /* which is to find the node again */

	/* Of the one who steps it. */
	enum connector_state state;
	struct lk__readiness readiness; /* what it waits for */
	int set_fd;                     /* of the loop, if that steps it */
	int watched_fd;                 /* in the set, or -1 */
	int64_t deadline_ns;            /* of the attempt */
	uint64_t generation;            /* with which it was found, */
	uint64_t asked;                 /* as the finder was asked */
	struct lk__opening *opening;
	struct lk__stream *stream;
	struct lk__greeter *greeter;
};

static void connector_drop_attempt(struct lk__connector *connector)
{
	lk__opening_free(connector->opening);
	lk__greeter_free(connector->greeter);
	lk__stream_close(connector->stream);
	connector->opening = NULL;
	connector->greeter = NULL;
	connector->stream = NULL;
	connector->watched_fd = -1;
}

static void connector_unref(struct lk__connector *connector)
{
	if (atomic_fetch_sub(&connector->refs, 1) > 1)
		return;
	connector_drop_attempt(connector);
	if (connector->cancel_fd >= 0)
		lk__fd_close(connector->cancel_fd);
	if (connector->finder)
		connector->finder->ops->unref(connector->finder);
	lk_config_free(connector->config);
	pthread_mutex_destroy(&connector->mutex);
	free(connector);
}

/* ---- the connection is told ---- */

/* The thread that takes the connector out of its connection drops the connection's reference. */
static void connector_deliver(struct lk__connector *connector, struct lk__reader *reader,
			      const struct lk__greeting *greeting)
{
	bool taken = false;
	pthread_mutex_lock(&connector->mutex);
	if (connector->conn) {
		bool watched = connector->watched_fd >= 0 &&
			       lk__set_rearm(connector->set_fd, connector->watched_fd, 0,
					     connector->conn) == 0;
		lk__node_hear_time(connector->conn->node, greeting->server_us, greeting->sent_ns,
				   greeting->received_ns);
		taken = lk__conn_install(connector->conn, connector->stream, reader, greeting,
					 watched);
		connector->conn = NULL;
	}
	pthread_mutex_unlock(&connector->mutex);
	if (taken) {
		connector->stream = NULL;
		connector_unref(connector);
	} else {
		lk__reader_free(reader);
	}
}

static void connector_pause(struct lk__connector *connector, int64_t pause_ns)
{
	connector->state = CONNECTOR_PAUSE;
	connector->readiness = (struct lk__readiness){-1, 0, lk__now_ns() + pause_ns};
}

/* An attempt failed. True when it is over: given up, or stopped. */
static bool connector_report(struct lk__connector *connector, const lk_error *error)
{
	bool taken = false;
	int64_t pause_ns = -1;
	connector_drop_attempt(connector);
	pthread_mutex_lock(&connector->mutex);
	if (connector->conn)
		pause_ns = lk__conn_connect_failed(connector->conn, error, &taken);
	if (pause_ns < 0)
		connector->conn = NULL;
	pthread_mutex_unlock(&connector->mutex);
	if (taken)
		connector_unref(connector);
	else if (pause_ns >= 0)
		connector_pause(connector, pause_ns);
	return pause_ns < 0;
}

/* ---- steps: 1, the next can be taken at once; 0, it waits; or a code ---- */

static int connector_begin(struct lk__connector *connector)
{
	if (lk__now_ns() < connector->readiness.until_ns)
		return 0;
	connector->deadline_ns = lk__after_ms(lk__now_ns(), connector->config->connect_timeout_ms);
	connector->asked = 0;
	connector->state = CONNECTOR_FIND;
	return 1;
}

/* Where the node is now. Blocks in a thread of its own, not in the loop. */
static int connector_find(struct lk__connector *connector, lk_error *error)
{
	const struct lk_config *config = connector->config;
	struct lk__finder *finder = connector->finder;
	int rc = finder ? finder->ops->find(finder, connector->config, &connector->generation,
					    &connector->asked, connector->deadline_ns, error)
			: 0;
	connector->readiness = (struct lk__readiness){-1, 0, connector->deadline_ns};
	if (rc != 0)
		return rc == 1 ? 0 : rc;
	connector->opening = lk__opening_new(config, connector->deadline_ns);
	if (!connector->opening)
		return lk__fail(error, LK_ENOMEM, "%s: cannot connect: out of memory", config->url);
	connector->state = CONNECTOR_OPEN;
	return 1;
}

/* The program may be asked, whose client is not closed meanwhile. */
static int connector_ask_credentials(struct lk__connector *connector, lk_error *error)
{
	char place[LK__PLACE_SIZE];
	lk__config_place(connector->config, place);
	pthread_mutex_lock(&connector->mutex);
	int rc = connector->conn ? lk__credentials_renew(connector->config, place, error) : 0;
	pthread_mutex_unlock(&connector->mutex);
	return rc;
}

static int connector_open(struct lk__connector *connector, lk_error *error)
{
	int rc = lk__opening_step(connector->opening, &connector->stream, &connector->readiness,
				  error);
	if (rc <= 0)
		return rc;
	lk__opening_free(connector->opening);
	connector->opening = NULL;
	rc = connector_ask_credentials(connector, error);
	if (rc < 0)
		return rc;
	rc = lk__greeter_new(&connector->greeter, connector->stream, connector->config,
			     connector->greeting, connector->deadline_ns, error);
	connector->state = CONNECTOR_GREET;
	return rc < 0 ? rc : 1;
}

static void connector_say_where(const struct lk__connector *connector,
				struct lk__greeting *greeting)
{
	char place[LK__PLACE_SIZE];
	if (!connector->finder)
		return;
	lk__place_name(place, connector->config->host, connector->config->port);
	greeting->generation = connector->generation;
	snprintf(greeting->place, sizeof(greeting->place), "%.63s", place);
}

static int connector_greet(struct lk__connector *connector, bool *over, lk_error *error)
{
	struct lk__reader *reader;
	struct lk__greeting greeting;
	int rc = lk__greeter_step(connector->greeter, &reader, &greeting, &connector->readiness,
				  error);
	if (rc == 1) {
		*over = true;
		connector_say_where(connector, &greeting);
		connector_deliver(connector, reader, &greeting);
	}
	return rc;
}

/* Goes as far as it can without waiting. True when it is over. */
static bool connector_step(struct lk__connector *connector)
{
	bool over = false;
	for (;;) {
		lk_error error;
		int rc;
		switch (connector->state) {
		case CONNECTOR_PAUSE:
			rc = connector_begin(connector);
			break;
		case CONNECTOR_FIND:
			rc = connector_find(connector, &error);
			break;
		case CONNECTOR_OPEN:
			rc = connector_open(connector, &error);
			break;
		default:
			rc = connector_greet(connector, &over, &error);
		}
		if (rc < 0)
			over = connector_report(connector, &error);
		if (rc == 0 || over)
			return over;
	}
}

/* The node is elsewhere. */
static void connector_begin_anew(struct lk__connector *connector)
{
	connector_drop_attempt(connector);
	connector_pause(connector, 0);
}

/* ---- its own thread ---- */

/* It was woken: true when it is to stop, and not to find the node again at once. */
static bool connector_is_cut_off(struct lk__connector *connector)
{
	lk__wake_fd_clear(connector->cancel_fd);
	connector_begin_anew(connector);
	pthread_mutex_lock(&connector->mutex);
	bool cut_off = !connector->conn;
	pthread_mutex_unlock(&connector->mutex);
	return cut_off;
}

static void *connector_main(void *argument)
{
	struct lk__connector *connector = argument;
	while (!connector_step(connector)) {
		int status = lk__socket_wait(&connector->readiness, connector->cancel_fd);
		if (status == -ECANCELED && connector_is_cut_off(connector))
			break;
		if (status != 0 && status != -ETIMEDOUT &&
		    status != -ECANCELED) { /* somebody closed our descriptors */
			struct lk__park nap = {0};
			lk__park_wait(&nap, lk__now_ns() + LK__MS);
		}
	}
	connector_unref(connector);
	return NULL;
}

/* ---- the loop's turn ---- */

/* Asks the set for the event. False: it is to be looked at again soon. */
static bool connector_watch(struct lk__connector *connector, struct lk__conn *conn, int set_fd)
{
	const struct lk__readiness *readiness = &connector->readiness;
	if (readiness->fd < 0)
		return true;
	connector->set_fd = set_fd;
	if (connector->watched_fd != readiness->fd &&
	    lk__set_add(set_fd, readiness->fd, LK__SET_ENDED, conn) == 0)
		connector->watched_fd = readiness->fd;
	return connector->watched_fd == readiness->fd &&
	       lk__set_rearm(set_fd, readiness->fd, (readiness->events & POLLOUT) != 0, conn) == 0;
}

static int64_t connector_turn(struct lk__connector *connector, struct lk__conn *conn, int set_fd)
{
	bool finds = connector->state == CONNECTOR_FIND; /* it has not led anywhere yet */
	if (atomic_exchange(&connector->hurried, false) && !finds)
		connector_begin_anew(connector);
	if (connector_step(connector))
		return LK__NEVER;
	int64_t until_ns = connector->readiness.until_ns;
	bool watched = connector_watch(connector, conn, set_fd);
	return watched ? until_ns : lk__earlier(until_ns, lk__now_ns() + LK__MS);
}

/* Another thread may close the connection meanwhile. */
int64_t lk__connector_turn(struct lk__conn *conn, int set_fd)
{
	pthread_mutex_lock(&conn->mutex);
	struct lk__connector *connector = conn->connector;
	if (connector)
		atomic_fetch_add(&connector->refs, 1);
	pthread_mutex_unlock(&conn->mutex);
	if (!connector)
		return LK__NEVER;
	int64_t next_ns = connector_turn(connector, conn, set_fd);
	connector_unref(connector);
	return next_ns;
}

/* ---- from start to stop ---- */

static int connector_new(struct lk__connector **connector_out, struct lk__conn *conn,
			 lk_error *error)
{
	const char *node = conn->node->config->url;
	struct lk__connector *connector = calloc(1, sizeof(*connector));
	struct lk_config *config = connector ? lk__config_copy(conn->node->config) : NULL;
	if (!config) {
		free(connector);
		return lk__fail(error, LK_ENOMEM, "%s: cannot connect: out of memory", node);
	}
	pthread_mutex_init(&connector->mutex, NULL);
	atomic_store(&connector->refs, 1);
	connector->config = config;
	connector->cancel_fd = connector->watched_fd = -1;
	connector->conn = conn;
	connector->greeting = conn->kind == LK__CONN_MESSAGES ? 0 : LK__GREET_SCRIPTS;
	if (connector->greeting && !atomic_load(&conn->node->no_hello))
		connector->greeting |= LK__GREET_HELLO;
	if (connector->greeting && conn->node->fsync != LK__FSYNC_OFF)
		connector->greeting |= LK__GREET_DISK;
	if (conn->node->finder) {
		connector->finder = conn->node->finder;
		atomic_fetch_add(&connector->finder->refs, 1);
		connector->greeting |= LK__GREET_MASTER;
	}
	if (!atomic_load(&conn->node->was_up))
		connector->greeting |= LK__GREET_FIRST;
	*connector_out = connector;
	return 0;
}

/* 0 or an errno. */
static int connector_launch(struct lk__connector *connector)
{
	connector->cancel_fd = lk__wake_fd_new();
	if (connector->cancel_fd < 0)
		return errno;
	atomic_fetch_add(&connector->refs, 1);
	int rc = lk__thread_start(NULL, connector_main, connector);
	if (rc)
		connector_unref(connector);
	return rc;
}

int lk__connector_start(struct lk__conn *conn, int64_t pause_ns, lk_error *error)
{
	struct lk__node *node = conn->node;
	struct lk__connector *connector = NULL;
	int rc = connector_new(&connector, conn, error);
	if (rc < 0)
		return rc;
	connector_pause(connector, pause_ns);
	bool threads = !node->config->threadless;
	rc = threads ? connector_launch(connector) : 0;
	if (rc) {
		connector_unref(connector);
		return lk__fail_errno(error, LK_ESYSTEM, rc, "%s: cannot start a thread to connect",
				      node->config->url);
	}
	conn->connector = connector;
	if (!threads)
		node->events->connecting(node->context);
	return 0;
}

void lk__connector_hurry(struct lk__conn *conn)
{
	struct lk__connector *connector = conn->connector;
	if (connector->cancel_fd >= 0) {
		lk__wake_fd(connector->cancel_fd);
		return;
	}
	atomic_store(&connector->hurried, true);
	conn->node->events->connecting(conn->node->context);
}

void lk__connector_stop(struct lk__connector *connector)
{
	if (!connector)
		return;
	pthread_mutex_lock(&connector->mutex);
	connector->conn = NULL;
	pthread_mutex_unlock(&connector->mutex);
	if (connector->cancel_fd >= 0)
		lk__wake_fd(connector->cancel_fd);
	connector_unref(connector);
}
