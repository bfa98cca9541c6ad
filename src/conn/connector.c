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
#define DOUBT_TIMES 3                  /* as long as before, each time */

enum connector_state { CONNECTOR_PAUSE, CONNECTOR_FIND, CONNECTOR_MAKE };

/* One way to the node, until it is greeted. */
struct attempt {
	struct lk_config *config;
	struct lk__opening *opening; /* until there is a stream, */
	struct lk__stream *stream;   /* over which it is greeted */
	struct lk__greeter *greeter;
	struct lk__readiness readiness; /* what it waits for */
};

struct lk__connector {
	struct lk__conn *conn;
	const struct lk__connector_ops *ops;
	struct lk__finder *finder; /* NULL: the configuration says where the node is */
	unsigned greeting;         /* LK__GREET_… */
	_Atomic bool hurried;      /* it is to find the node again */
	enum connector_state state;
	int set_fd;          /* of the loop, once that has waited for it; or -1 */
	int64_t deadline_ns; /* of the attempts */
	uint64_t generation; /* with which it was found, */
	uint64_t asked;      /* as the finder was asked */
	struct attempt first, second;
	int64_t owed_ns;           /* since when the first awaits a word of the server; or 0 */
	int64_t doubted_ns;        /* when that was last doubted; or 0 */
	int64_t second_ns;         /* when the second was begun last; or 0 */
	_Atomic int64_t needed_ns; /* see lk__connector_need() */

	_Atomic(const char *) awaits; /* for others: lk__connector_awaits() */
};

static void attempt_drop(struct attempt *attempt)
{
	lk__opening_free(attempt->opening);
	lk__greeter_free(attempt->greeter);
	lk__stream_close(attempt->stream);
	attempt->opening = NULL;
	attempt->greeter = NULL;
	attempt->stream = NULL;
}

static void connector_drop_second(struct lk__connector *connector)
{
	attempt_drop(&connector->second);
	lk_config_free(connector->second.config);
	connector->second.config = NULL;
}

static void connector_drop_attempts(struct lk__connector *connector)
{
	attempt_drop(&connector->first);
	connector_drop_second(connector);
	connector->owed_ns = connector->doubted_ns = connector->second_ns = 0;
}

void lk__connector_free(struct lk__connector *connector)
{
	if (!connector)
		return;
	connector_drop_attempts(connector);
	if (connector->finder)
		connector->finder->ops->unref(connector->finder);
	lk_config_free(connector->first.config);
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
	connector->first.readiness = (struct lk__readiness){-1, 0, lk__now_ns() + pause_ns};
}

/*
 * True, unless the connection is closed meanwhile. Then nothing is awaited any more: what the
 * attempt waited for last may be the descriptor of a look-up that has ended, whose number is free
 * for others.
 */
static bool connector_deliver(struct lk__connector *connector, struct attempt *attempt,
			      struct lk__reader *reader, const struct lk__greeting *greeting)
{
	bool watched = connector->set_fd >= 0 &&
		       connector_arm(connector, attempt->stream->fd, POLLIN);
	bool taken = connector->ops->made(connector->conn, attempt->stream, reader, greeting,
					  watched);
	if (taken) {
		attempt->stream = NULL;
	} else {
		lk__reader_free(reader);
		connector_drop_attempts(connector);
		connector_pause(connector, CLOSED_PAUSE_NS);
	}
	return taken;
}

/* An attempt failed. True: it was the last, and the connection has let go of its connector. */
static bool connector_report(struct lk__connector *connector, const lk_error *error)
{
	if (lk__now_ns() < connector->deadline_ns) /* a refusal is an answer */
		atomic_store(&connector->conn->node->mute_ns, 0);
	connector_drop_attempts(connector);
	int64_t pause_ns = connector->ops->failed(connector->conn, error);
	connector_pause(connector, pause_ns);
	return pause_ns < 0;
}

/* ---- steps: 1, the next can be taken at once; 0, it waits; or a code ---- */

static int connector_begin(struct lk__connector *connector)
{
	if (lk__now_ns() < connector->first.readiness.until_ns)
		return 0;
	connector->deadline_ns = lk__after_ms(lk__now_ns(),
					      connector->first.config->connect_timeout_ms);
	connector->asked = 0;
	connector->state = CONNECTOR_FIND;
	return 1;
}

static int attempt_begin(struct lk__connector *connector, struct attempt *attempt, lk_error *error)
{
	attempt->opening = lk__opening_new(attempt->config, connector->deadline_ns);
	return attempt->opening ? 1
				: lk__fail(error, LK_ENOMEM, "%s: cannot connect: out of memory",
					   attempt->config->url);
}

/* Where the node is now. */
static int connector_find(struct lk__connector *connector, lk_error *error)
{
	struct attempt *first = &connector->first;
	struct lk__finder *finder = connector->finder;
	int rc = finder ? finder->ops->find(finder, first->config, &connector->generation,
					    &connector->asked, connector->deadline_ns, error)
			: 0;
	first->readiness = (struct lk__readiness){-1, 0, connector->deadline_ns};
	if (rc != 0)
		return rc == 1 ? 0 : rc;
	connector->state = CONNECTOR_MAKE;
	return attempt_begin(connector, first, error);
}

static int attempt_open(struct lk__connector *connector, struct attempt *attempt, lk_error *error)
{
	int rc = lk__opening_step(attempt->opening, &attempt->stream, &attempt->readiness, error);
	if (rc <= 0)
		return rc;
	lk__opening_free(attempt->opening);
	attempt->opening = NULL;
	rc = lk__greeter_new(&attempt->greeter, attempt->stream, attempt->config,
			     connector->greeting, connector->deadline_ns, error);
	return rc < 0 ? rc : 1;
}

static void connector_say_where(const struct lk__connector *connector,
				struct lk__greeting *greeting)
{
	const struct lk_config *config = connector->first.config;
	char place[LK__PLACE_SIZE];
	if (!connector->finder)
		return;
	lk__place_name(place, config->host, config->port);
	greeting->generation = connector->generation;
	snprintf(greeting->place, sizeof(greeting->place), "%.63s", place);
}

static int attempt_greet(struct lk__connector *connector, struct attempt *attempt, bool *taken,
			 lk_error *error)
{
	struct lk__reader *reader;
	struct lk__greeting greeting;
	int rc = lk__greeter_step(attempt->greeter, &reader, &greeting, &attempt->readiness, error);
	if (rc == 1) {
		connector_say_where(connector, &greeting);
		*taken = connector_deliver(connector, attempt, reader, &greeting);
		return 0;
	}
	return rc;
}

static int attempt_go_on(struct lk__connector *connector, struct attempt *attempt, bool *taken,
			 lk_error *error)
{
	return attempt->opening ? attempt_open(connector, attempt, error)
				: attempt_greet(connector, attempt, taken, error);
}

static int connector_go_on(struct lk__connector *connector, bool *taken, lk_error *error)
{
	switch (connector->state) {
	case CONNECTOR_PAUSE:
		return connector_begin(connector);
	case CONNECTOR_FIND:
		return connector_find(connector, error);
	default:
		return attempt_go_on(connector, &connector->first, taken, error);
	}
}

/* ---- a first attempt that waits for a word of the handshake: conn.c ---- */

static bool connector_is_owed(const struct lk__connector *connector)
{
	const struct lk__opening *opening = connector->first.opening;
	return connector->state == CONNECTOR_MAKE && (!opening || lk__opening_shakes(opening));
}

static int64_t connector_until_ns(const struct lk__connector *connector)
{
	int64_t needed_ns = atomic_load(&connector->needed_ns);
	return needed_ns > lk__now_ns() ? lk__earlier(connector->deadline_ns, needed_ns)
					: connector->deadline_ns;
}

/* When it is doubted next: each time three times as much has passed as before. */
static int64_t connector_doubt_ns(const struct lk__connector *connector)
{
	int64_t owed_ns = connector->owed_ns, doubted_ns = connector->doubted_ns;
	int64_t part_ns = doubted_ns ? DOUBT_TIMES * (doubted_ns - owed_ns)
				     : lk__patience_ns(connector_until_ns(connector) - owed_ns);
	return owed_ns + part_ns;
}

/* Another connection was greeted since either of them was begun. */
static bool connector_is_outlived(const struct lk__connector *connector)
{
	return atomic_load(&connector->conn->node->greeted_ns) >
	       lk__later(connector->owed_ns, connector->second_ns);
}

/* True: a second attempt is to be made. Only the probe makes one without a proof that the server
 * greets: further attempts at a server that does not are in vain. */
static bool connector_doubt(struct lk__connector *connector)
{
	if (connector_is_outlived(connector))
		return true;
	if (lk__now_ns() < connector_doubt_ns(connector))
		return false;
	connector->doubted_ns = lk__now_ns();
	if (connector->conn->kind == LK__CONN_PROBE)
		return true;
	connector->ops->doubts(connector->conn->node, connector_until_ns(connector));
	return false;
}

/* To the same place, with the same credentials: the program is not asked once more. Without memory
 * the first is alone. */
static void connector_begin_second(struct lk__connector *connector)
{
	struct attempt *second = &connector->second;
	lk_error error;
	connector_drop_second(connector);
	connector->second_ns = lk__now_ns();
	second->config = lk__config_copy(connector->first.config);
	if (!second->config)
		return;
	second->config->credentials = NULL;
	attempt_begin(connector, second, &error);
}

/* True: it was greeted, and the connection has it. What goes wrong with it is no reason to give up
 * the first. */
static bool connector_go_on_second(struct lk__connector *connector)
{
	struct attempt *second = &connector->second;
	bool taken = false;
	lk_error error;
	int rc = second->opening || second->greeter;
	while (rc == 1)
		rc = attempt_go_on(connector, second, &taken, &error);
	if (rc < 0)
		connector_drop_second(connector);
	return taken;
}

/* True: the connection has the second. */
static bool connector_contend(struct lk__connector *connector)
{
	if (!connector_is_owed(connector))
		return false;
	if (!connector->owed_ns)
		connector->owed_ns = lk__now_ns();
	if (connector_go_on_second(connector))
		return true;
	if (!connector_is_owed(connector) || !connector_doubt(connector))
		return false;
	connector_begin_second(connector);
	return connector_go_on_second(connector);
}

static const char *connector_stage(const struct lk__connector *connector)
{
	switch (connector->state) {
	case CONNECTOR_FIND:
		return "it is not known yet where it is";
	case CONNECTOR_MAKE:
		return connector->first.opening ? lk__opening_awaits(connector->first.opening)
						: "no answer to the greeting yet";
	default:
		return NULL;
	}
}

/* The node is elsewhere. One that looks for it has not been led anywhere yet; and the program that
 * is being asked is not waited for here. */
static void connector_hurry(struct lk__connector *connector)
{
	const struct lk__opening *opening = connector->first.opening;
	if ((opening && lk__opening_asks(opening)) ||
	    !atomic_exchange(&connector->hurried, false) || connector->state == CONNECTOR_FIND)
		return;
	connector_drop_attempts(connector);
	connector_pause(connector, 0);
}

/* It waits for one attempt, or two; and for the next doubt. */
static void connector_waits(const struct lk__connector *connector, struct lk__readiness *waits_out)
{
	const struct attempt *second = &connector->second;
	waits_out[0] = connector->first.readiness;
	waits_out[1] = (struct lk__readiness){-1, 0, LK__NEVER};
	if (second->opening || second->greeter)
		waits_out[1] = second->readiness;
	if (connector->owed_ns)
		waits_out[1].until_ns = lk__earlier(waits_out[1].until_ns,
						    connector_doubt_ns(connector));
}

bool lk__connector_step(struct lk__connector *connector, struct lk__readiness *waits_out)
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
	taken = taken || connector_contend(connector);
	if (taken)
		lk__connector_free(connector);
	else
		connector_waits(connector, waits_out);
	return !taken;
}

int64_t lk__connector_watch(struct lk__connector *connector, int set_fd)
{
	struct lk__readiness waits[LK__CONNECTOR_WAITS];
	int64_t next_ns = LK__NEVER;
	connector->set_fd = set_fd;
	connector_waits(connector, waits);
	for (size_t i = 0; i < LK__CONNECTOR_WAITS; i++) {
		bool armed = waits[i].fd < 0 ||
			     connector_arm(connector, waits[i].fd, waits[i].events);
		next_ns = lk__earlier(next_ns, waits[i].until_ns);
		if (!armed)
			next_ns = lk__earlier(next_ns, lk__now_ns() + LK__MS);
	}
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
	connector->first.config = config;
	atomic_store(&connector->needed_ns, LK__NEVER);
	connector->set_fd = -1;
	connector->conn = conn;
	bool commands = conn->kind != LK__CONN_MESSAGES;
	connector->greeting = commands ? LK__GREET_SCRIPTS : 0;
	if (!commands && conn->node->config->chosen.tracks)
		connector->greeting |= LK__GREET_ID;
	if (commands && !atomic_load(&conn->node->no_hello))
		connector->greeting |= LK__GREET_HELLO;
	if (commands && conn->node->fsync != LK__FSYNC_OFF)
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

int lk__connector_start(struct lk__conn *conn, const struct lk__connector_ops *ops,
			int64_t pause_ns, lk_error *error)
{
	int rc = connector_new(&conn->connector, conn, error);
	if (rc < 0)
		return rc;
	conn->connector->ops = ops;
	connector_pause(conn->connector, pause_ns);
	return 0;
}

const char *lk__connector_awaits(const struct lk__connector *connector)
{
	return connector ? atomic_load(&connector->awaits) : NULL;
}

void lk__connector_hurry(struct lk__connector *connector)
{
	atomic_store(&connector->hurried, true);
}

bool lk__connector_need(struct lk__connector *connector, int64_t until_ns)
{
	int64_t known_ns = atomic_load(&connector->needed_ns);
	if (until_ns >= known_ns && known_ns > lk__now_ns())
		return false;
	atomic_store(&connector->needed_ns, until_ns);
	return true;
}
