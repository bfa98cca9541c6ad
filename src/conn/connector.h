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

struct lk__conn;
struct lk__connector;
struct lk__readiness;

/* Makes it, with the connection's mutex held. LK_ENOMEM. */
int lk__connector_start(struct lk__conn *conn, int64_t pause_ns, lk_error *error);

/* As far as it goes without waiting, in the thread that leads, without a mutex. True: what it waits
 * for is written. False: the connection has what it is to have, and the connector is gone. Also
 * true when the connection was closed: then it does nothing more. */
bool lk__connector_step(struct lk__connector *connector, struct lk__readiness *readiness_out);

/* For a loop that leaves it until something happens: has the set tell of that, with the connection
 * as data. Returns when to go on without. */
int64_t lk__connector_watch(struct lk__connector *connector, int set_fd);

/* What the present attempt waits for, in words that stay; NULL: nothing, or there is no connector.
 * With the connection's mutex held. */
const char *lk__connector_awaits(const struct lk__connector *connector);

/* The node is elsewhere now: with its next step the present attempt ends, and another begins
 * without a pause. Any thread. */
void lk__connector_hurry(struct lk__connector *connector);

/* Nobody steps it. Waits for the program's callback, if that is running. NULL is fine. */
void lk__connector_free(struct lk__connector *connector);

#endif
