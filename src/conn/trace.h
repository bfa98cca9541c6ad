/* SPDX-License-Identifier: MIT */
/*
 * The lines of LK_LOG_DEBUG about connections: each request, answer and message, and each
 * connection. The only place that makes text of them. While the level is lower, each does
 * nothing.
 *
 *   redis://h/0 scripts/9: > EVALSHA lock_acquire 1 orders 30000 1795… 6c…:3
 *   redis://h/0 scripts/9: < (integer) 1 in 0.213 ms: EVALSHA lock_acquire 1 orders 30000 …
 *
 * The number behind the kind of connection is its descriptor. Scripts are told by their names, long
 * words are cut, and what stands behind AUTH is left out. For callers with the connection's mutex.
 */
#ifndef LK__CONN_TRACE_H
#define LK__CONN_TRACE_H

#include "base/log.h"
#include "conn/conn.h"
#include "conn/node.h"

/* It goes to what is written next; again, if it was sent before. */
void lk__trace_request(const struct lk__conn *conn, const struct lk__request *request);

/* One of its answers, where it is a batch. NULL: what the connection for messages says. */
void lk__trace_answer(const struct lk__conn *conn, const struct lk__request *request,
		      const redisReply *reply);
void lk__trace_conn(const struct lk__conn *conn, const char *what);

/* A question to a sentinel or a node for its masters, over a connection of its own. */
void lk__trace_words(const struct lk_config *config, size_t argc, const char **argv);
void lk__trace_reply(const struct lk_config *config, const char *verb, const redisReply *reply);

#endif
