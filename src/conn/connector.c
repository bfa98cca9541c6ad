/* SPDX-License-Identifier: MIT */
#include "conn/conn.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conf/url.h"
#include "conn/handshake.h"
#include "conn/node.h"
#include "net/stream.h"
#include "resp/reply.h"

#define CLOSED_PAUSE_NS (100 * LK__MS) /* far longer than its leader takes to notice */

enum connector_state { CONNECTOR_PAUSE, CONNECTOR_FIND, CONNECTOR_OPEN, CONNECTOR_GREET };

struct lk__connector {
	struct lk__conn *conn;
	struct lk_config *config;
	struct lk__finder *finder; /* NULL: the configuration says where the node is */
	unsigned greeting;         /* LK__GREET_… */
	_Atomic bool hurried;      /* it is to find the node again */
	enum connector_state state;
	struct lk__readiness readiness; /* what it waits for */
	int set_fd;                     /* of the loop, once that has waited for it; or -1 */
	int64_t deadline_ns;            /* of the attempt */
	uint64_t generation;            /* with which it was found, */
	uint64_t asked;                 /* as the finder was asked */
	struct lk__opening *opening;
	struct lk__stream *stream;
	struct lk__greeter *greeter;

	_Atomic(const char *) awaits; /* for others: lk__connector_awaits() */
};

static void connector_drop_attempt(struct lk__connector *connector)
{
	lk__opening_free(connector->opening);
	lk__greeter_free(connector->greeter);
	lk__stream_close(connector->stream);
	connector->opening = NULL;
	connector->greeter = NULL;
	connector->stream = NULL;
}

void lk__connector_free(struct lk__connector *connector)
{
	if (!connector)
		return;
	connector_drop_attempt(connector);
	if (connector->finder)
		connector->finder->ops->unref(connector->finder);
	lk_config_free(connector->config);
	free(connector);
}

/* In the loop's set: it is asked for the next event, or put there. */
static bool connector_arm(const struct lk__connector *connector, int fd, short events)
{
	bool writes = (events & POLLOUT) != 0;
	return lk__set_rearm(connector->set_fd, fd, writes, connector->conn) == 0 ||
	       (lk__set_add(connector->set_fd, fd, LK__SET_ENDED, connector->conn) == 0 &&
		lk__set_rearm(connector->set_fd, fd, writes, connector->conn) == 0);
}

/* ---- the connection is told ---- */

static void connector_pause(struct lk__connector *connector, int64_t pause_ns)
{
	connector->state = CONNECTOR_PAUSE;
	connector->readiness = (struct lk__readiness){-1, 0, lk__now_ns() + pause_ns};
}

/*
 * True, unless the connection is closed meanwhile. Then nothing is awaited any more: what the
 * attempt waited for last may be the descriptor of a look-up that has ended, whose number is free
 * for others.
 */
static bool connector_deliver(struct lk__connector *connector, struct lk__reader *reader,
			      const struct lk__greeting *greeting)
{
	bool watched = connector->set_fd >= 0 &&
		       connector_arm(connector, connector->stream->fd, POLLIN);
	lk__node_hear_time(connector->conn->node, greeting->server_us, greeting->sent_ns,
			   greeting->received_ns);
	bool taken = lk__conn_install(connector->conn, connector->stream, reader, greeting,
				      watched);
	if (taken) {
		connector->stream = NULL;
	} else {
		lk__reader_free(reader);
		connector_drop_attempt(connector);
		connector_pause(connector, CLOSED_PAUSE_NS);
	}
	return taken;
}

/* An attempt failed. True: it was the last, and the connection has let go of its connector. */
static bool connector_report(struct lk__connector *connector, const lk_error *error)
{
	if (lk__now_ns() < connector->deadline_ns) /* a refusal is an answer */
		atomic_store(&connector->conn->node->mute_ns, 0);
	connector_drop_attempt(connector);
	int64_t pause_ns = lk__conn_connect_failed(connector->conn, error);
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

/* Where the node is now. */
static int connector_find(struct lk__connector *connector, lk_error *error)
{
	struct lk_config *config = connector->config;
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

static int connector_open(struct lk__connector *connector, lk_error *error)
{
	int rc = lk__opening_step(connector->opening, &connector->stream, &connector->readiness,
				  error);
	if (rc <= 0)
		return rc;
	lk__opening_free(connector->opening);
	connector->opening = NULL;
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

static int connector_greet(struct lk__connector *connector, bool *taken, lk_error *error)
{
	struct lk__reader *reader;
	struct lk__greeting greeting;
	int rc = lk__greeter_step(connector->greeter, &reader, &greeting, &connector->readiness,
				  error);
	if (rc == 1) {
		connector_say_where(connector, &greeting);
		*taken = connector_deliver(connector, reader, &greeting);
		return 0;
	}
	return rc;
}

static int connector_go_on(struct lk__connector *connector, bool *taken, lk_error *error)
{
	switch (connector->state) {
	case CONNECTOR_PAUSE:
		return connector_begin(connector);
	case CONNECTOR_FIND:
		return connector_find(connector, error);
	case CONNECTOR_OPEN:
		return connector_open(connector, error);
	default:
		return connector_greet(connector, taken, error);
	}
}

static const char *connector_stage(const struct lk__connector *connector)
{
	switch (connector->state) {
	case CONNECTOR_FIND:
		return "it is not known yet where it is";
	case CONNECTOR_OPEN:
		return lk__opening_awaits(connector->opening);
	case CONNECTOR_GREET:
		return "no answer to the greeting yet";
	default:
		return NULL;
	}
}

/* The node is elsewhere. One that looks for it has not been led anywhere yet; and the program that
 * is being asked is not waited for here. */
static void connector_hurry(struct lk__connector *connector)
{
	if ((connector->opening && lk__opening_asks(connector->opening)) ||
	    !atomic_exchange(&connector->hurried, false) || connector->state == CONNECTOR_FIND)
		return;
	connector_drop_attempt(connector);
	connector_pause(connector, 0);
}

bool lk__connector_step(struct lk__connector *connector, struct lk__readiness *readiness_out)
{
	bool taken = false;
	int rc = 1;
	connector_hurry(connector);
	while (rc == 1) {
		lk_error error;
		rc = connector_go_on(connector, &taken, &error);
		if (rc < 0) {
			taken = connector_report(connector, &error);
			rc = !taken;
		}
		if (!taken)
			atomic_store(&connector->awaits, connector_stage(connector));
	}
	*readiness_out = connector->readiness;
	if (taken)
		lk__connector_free(connector);
	return !taken;
}

int64_t lk__connector_watch(struct lk__connector *connector, int set_fd)
{
	const struct lk__readiness *readiness = &connector->readiness;
	connector->set_fd = set_fd;
	if (readiness->fd < 0 || connector_arm(connector, readiness->fd, readiness->events))
		return readiness->until_ns;
	return lk__earlier(readiness->until_ns, lk__now_ns() + LK__MS);
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
	connector->config = config;
	connector->set_fd = -1;
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

int lk__connector_start(struct lk__conn *conn, int64_t pause_ns, lk_error *error)
{
	int rc = connector_new(&conn->connector, conn, error);
	if (rc == 0)
		connector_pause(conn->connector, pause_ns);
	return rc;
}

const char *lk__connector_awaits(const struct lk__connector *connector)
{
	return connector ? atomic_load(&connector->awaits) : NULL;
}

void lk__connector_hurry(struct lk__connector *connector)
{
	atomic_store(&connector->hurried, true);
}
