/* SPDX-License-Identifier: MIT */
/*
 * Makes a connection: pause, name, connect, TLS, AUTH; then hands it over and ends. It retries with
 * back-off as long as somebody needs the connection.
 *
 * It is a row of steps that never wait. A thread of its own takes them, detached, because a client
 * may be closed without waiting for it; or, for a client without threads, the loop's turn does.
 */
#ifndef LK__CONN_CONNECTOR_H
#define LK__CONN_CONNECTOR_H

#include <stdint.h>

#include <lockkeeper/error.h>

struct lk__conn;
struct lk__connector;

/* Starts it, with the connection's mutex held. LK_ENOMEM or LK_ESYSTEM. */
int lk__connector_start(struct lk__conn *conn, int64_t pause_ns, lk_error *error);

/* Of a client without threads: goes as far as that is possible without waiting, and has the set
 * tell when it goes on. Returns when to call again without that. */
int64_t lk__connector_turn(struct lk__conn *conn, int set_fd);

/* The node is elsewhere now: the present attempt ends, and the next begins without a pause. With
 * the mutex of a connection held that has a connector. */
void lk__connector_hurry(struct lk__conn *conn);

/* Cuts it off from its connection, which may then go. NULL is fine. */
void lk__connector_stop(struct lk__connector *connector);

#endif
