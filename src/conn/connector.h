/* SPDX-License-Identifier: MIT */
/*
 * Makes a connection: pause, name, connect, TLS, AUTH; then hands it over and ends. It retries with
 * back-off as long as somebody needs the connection.
 *
 * It is a row of steps that never wait, taken by who leads the connection meanwhile: a caller that
 * waits for it, or the loop. What cannot be a step is an errand: a name, the program's callback for
 * credentials, the files of certificates.
 */
#ifndef LK__CONN_CONNECTOR_H
#define LK__CONN_CONNECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include <lockkeeper/error.h>

#include "conn/conn.h"
#include "scripts.h"

struct lk__readiness;

struct lk__greeting {
	int64_t server_us;              /* the server's clock … */
	int64_t sent_ns;                /* … as it was some time between this … */
	int64_t received_ns;            /* … and this */
	bool scripts[LK__SCRIPT_COUNT]; /* which of our scripts the server has */
	bool spreads;                   /* it is a proxy that answers for several servers */
	bool no_hello;                  /* it does not answer HELLO */
	bool time_by_script;            /* it is a proxy whose TIME is not the server's */
	int64_t client_id;   /* what the server calls the connection; -1: it does not say */
	uint64_t generation; /* of the node's finder, where it has one */
	char place[LK__CONN_PLACE_SIZE]; /* and where that found the server; else "" */
};

/* A text says this about a node that lacks the commands of a server. */
#define LK__LIKE_SENTINEL "a Sentinel? name the server that it watches"

/* The acts of its connection. Each is called without a mutex. */
struct lk__connector_ops {
	/*
	 * It has a stream (`watched`: in the loop's set, which tells its next event), or why it has
	 * none (the answer is the pause before the next try, or -1: stop). True, or -1: the
	 * connection has let go of its connector.
	 */
	bool (*made)(struct lk__conn *conn, struct lk__stream *stream, struct lk__reader *reader,
		     const struct lk__greeting *greeting, bool watched);
	int64_t (*failed)(struct lk__conn *conn, const lk_error *error);
	/* The server says nothing: another of its connections is to show whether it would greet. */
	void (*doubts)(struct lk__node *node, int64_t until_ns);
};

/* Makes it, with the connection's mutex held. LK_ENOMEM. */
int lk__connector_start(struct lk__conn *conn, const struct lk__connector_ops *ops,
			int64_t pause_ns, lk_error *error);

#define LK__CONNECTOR_WAITS 2

/* As far as it goes without waiting, in the thread that leads, without a mutex. True: what it waits
 * for is written, each of which ends the wait: LK__CONNECTOR_WAITS of them. False: the connection
 * has what it is to have, and the connector is gone. Also true when the connection was closed: then
 * it does nothing more. */
bool lk__connector_step(struct lk__connector *connector, struct lk__readiness *waits_out);

/* For a loop that leaves it until something happens: has the set tell of that, with the connection
 * as data. Returns when to go on without. */
int64_t lk__connector_watch(struct lk__connector *connector, int set_fd);

/* Says what the present attempt waits for, in words that stay; NULL: nothing, or there is no
 * connector. With the connection's mutex held. */
const char *lk__connector_awaits(const struct lk__connector *connector);

/* The node is elsewhere now: with its next step the present attempt ends, and another begins
 * without a pause. Any thread. */
void lk__connector_hurry(struct lk__connector *connector);

/* Somebody needs the connection until then. True: sooner than was known, and who takes the steps is
 * to take the next one at once. With the connection's mutex held. */
bool lk__connector_need(struct lk__connector *connector, int64_t until_ns);

/* Nobody steps it. Waits for the program's callback, if that is running. NULL is fine. */
void lk__connector_free(struct lk__connector *connector);

#endif
