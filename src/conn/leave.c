/* SPDX-License-Identifier: MIT */
/* Whose a request is: its caller leaves it, withdraws it, or takes it over. */
#include <stdio.h>

#include "conn/conn.h"
#include "conn/node.h"

/* Locks the connection that has the request, or any when it is done. A reader may be taking it to
 * another one: then once more, at most for each redirect. `done` is looked at first, because the
 * reader clears it last. */
static struct lk__conn *request_lock(struct lk__request *request)
{
	for (;;) {
		struct lk__conn *conn = atomic_load(&request->conn);
		pthread_mutex_lock(&conn->mutex);
		if (atomic_load(&request->done) || atomic_load(&request->conn) == conn)
			return conn;
		pthread_mutex_unlock(&conn->mutex);
	}
}

/* True when it was never sent: then it is done. */
static bool conn_withdraw(struct lk__conn *conn, struct lk__request *request)
{
	const char *awaits = lk__connector_awaits(conn->connector);
	const char *why = conn->last_error.code ? conn->last_error.message
			  : awaits              ? awaits
						: "no connection yet";
	if (request->done || request->sends > 0)
		return false;
	if (request->postponed)
		why = "its keys are being moved to another node";
	lk__conn_remove(conn, request);
	request->done = true;
	request->code = LK_EUNREACHABLE;
	snprintf(request->reason, sizeof(request->reason), "not sent: %.140s", why);
	return true;
}

bool lk__conn_withdraw(struct lk__request *request)
{
	struct lk__conn *conn = request_lock(request);
	bool withdrawn = conn_withdraw(conn, request);
	pthread_mutex_unlock(&conn->mutex);
	return withdrawn;
}

bool lk__conn_hurry(struct lk__request *request)
{
	struct lk__deferred after;
	lk__deferred_init(&after);
	struct lk__conn *conn = request_lock(request);
	lk__acks_hurry(conn, request, &after);
	bool done = request->done;
	lk__conn_unlock_held(conn, &after);
	return done;
}

bool lk__conn_leave(struct lk__request *request, void (*finish)(struct lk__request *request))
{
	struct lk__conn *conn = request_lock(request);
	if (request->thread) /* else its present `finish` would never hear that it is done */
		conn_withdraw(conn, request);
	bool left = !request->done;
	if (left) {
		request->thread = NULL;
		request->finish = finish;
		if (!lk__conn_is_led(conn) && conn->state == LK__CONN_UP)
			conn->node->events->attention(conn->node->context);
	}
	pthread_mutex_unlock(&conn->mutex);
	return left;
}

bool lk__conn_take_over(struct lk__request *request, struct lk__thread *thread, int64_t until_ns)
{
	struct lk__conn *conn = request_lock(request);
	bool taken = !request->done;
	if (taken) {
		request->thread = thread;
		request->needed_ns = until_ns;
		lk__conn_count_on(conn, request);
		lk__conn_hasten(conn, request);
	}
	pthread_mutex_unlock(&conn->mutex);
	return taken;
}
