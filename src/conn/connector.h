/* SPDX-License-Identifier: MIT */
/*
 * The thread that makes a connection: name, connect, TLS, AUTH, then hands it over and ends.
 *
 * It retries with back-off as long as somebody needs the connection. It is detached: name
 * resolution cannot be interrupted, and closing a client must not wait for it.
 */
#ifndef LK__CONN_CONNECTOR_H
#define LK__CONN_CONNECTOR_H

#include <stdint.h>

#include <lockkeeper/error.h>

struct lk__conn;
struct lk__connector;

/* Starts it, with the connection's mutex held. LK_ENOMEM or LK_ESYSTEM. */
int lk__connector_start(struct lk__conn *conn, int64_t pause_ns, lk_error *error);

/* Cuts it off from its connection, which may then go. NULL is fine. */
void lk__connector_stop(struct lk__connector *connector);

#endif
