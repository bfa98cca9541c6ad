/* SPDX-License-Identifier: MIT */
/*
 * A connection and those who do not lead it: operations that wait for it to come up, or for what it
 * brings, and the loop that reads and writes for them.
 */
#include <poll.h>
#include <stdio.h>
#include <utlist.h>

#include "base/clock.h"
#include "conn/conn.h"
#include "conn/node.h"
#include "net/stream.h"

void lk__standby_list(struct lk__conn *conn, struct lk__standby *standby, struct lk__thread *thread)
{
	standby->thread = thread;
	standby->listed = true;
	standby->failure_count = conn->failure_count;
	DL_APPEND(conn->standbys, standby);
}

void lk__standby_unlist(struct lk__conn *conn, struct lk__standby *standby)
{
	if (standby->listed)
		DL_DELETE(conn->standbys, standby);
	standby->listed = false;
}

void lk__standbys_wake(struct lk__conn *conn, struct lk__deferred *after)
{
	const struct lk__standby *standby;
	DL_FOREACH(conn->standbys, standby)
	lk__after_wake(after, standby->thread);
}

bool lk__conn_ready_begin(struct lk__conn *conn, struct lk__standby *standby,
			  struct lk__thread *thread, bool once)
{
	struct lk__deferred after;
	lk__deferred_init(&after);
	if (conn->state == LK__CONN_UP)
		return true;
	pthread_mutex_lock(&conn->mutex);
	bool up = conn->state == LK__CONN_UP;
	if (!up) {
		conn->wanted++;
		standby->once = once;
		lk__standby_list(conn, standby, thread);
		if (conn->state == LK__CONN_DOWN)
			lk__conn_start(conn, &after);
		after.drives = !thread->on_wake;
	}
	lk__conn_unlock_held(conn, &after);
	return up;
}

int lk__conn_ready_look(struct lk__conn *conn, const struct lk__standby *standby, lk_error *error)
{
	int rc = LK__WAIT_TIME_UP;
	pthread_mutex_lock(&conn->mutex);
	if (conn->state == LK__CONN_CLOSED) {
		rc = LK_ECLOSED;
	} else if (conn->state == LK__CONN_UP) {
		rc = LK__WAIT_READY;
	} else {
		if (lk__conn_has_come(conn, standby->failure_count, standby->once))
			rc = conn->last_error.code ? conn->last_error.code : LK_EUNREACHABLE;
		const char *awaits = lk__connector_awaits(conn->connector);
		if (conn->last_error.code && error)
			*error = conn->last_error;
		else if (awaits && error)
			snprintf(error->message, sizeof(error->message),
				 "the server cannot be reached: %s", awaits);
	}
	pthread_mutex_unlock(&conn->mutex);
	return rc;
}

void lk__conn_ready_end(struct lk__conn *conn, struct lk__standby *standby)
{
	struct lk__deferred after;
	lk__deferred_init(&after);
	pthread_mutex_lock(&conn->mutex);
	lk__standby_unlist(conn, standby);
	conn->wanted--;
	lk__conn_unlock_held(conn, &after);
}

int lk__conn_ready(struct lk__conn *conn, struct lk__thread *thread, bool once, int64_t until_ns,
		   lk_error *error)
{
	struct lk__standby standby;
	int rc;
	if (lk__conn_ready_begin(conn, &standby, thread, once))
		return LK__WAIT_READY;
	while ((rc = lk__conn_ready_look(conn, &standby, error)) == LK__WAIT_TIME_UP &&
	       lk__now_ns() < until_ns)
		lk__conn_ready_sleep(conn, &standby, thread, until_ns, NULL);
	lk__conn_ready_end(conn, &standby);
	return rc;
}

void lk__conn_send_queued(struct lk__conn *conn)
{
	pthread_mutex_lock(&conn->mutex);
	lk__conn_push(conn);
	pthread_mutex_unlock(&conn->mutex);
}

/* Tells whether the loop has to look at once: nobody else will, and the socket does not tell. */
static bool conn_is_urgent(const struct lk__conn *conn)
{
	bool buffered = conn->stream && conn->stream->buffered;
	return buffered || conn->must_break || atomic_load(&conn->ended);
}

/* Arms the set, with the mutex held, where the connection is up and nobody else reads. */
static int64_t conn_arm(struct lk__conn *conn, int set_fd)
{
	bool writes = lk__buffer_size(&conn->out) > 0 || (conn->stream->wants & POLLOUT);
	if (!conn->watched)
		conn->watched = lk__set_add(set_fd, conn->stream->fd, LK__SET_ENDED, conn) == 0;
	if (conn->watched && (writes || !atomic_load(&conn->armed)))
		atomic_store(&conn->armed,
			     lk__set_rearm(set_fd, conn->stream->fd, writes, conn) == 0);
	if (conn_is_urgent(conn))
		return 0;
	int64_t next_ns = lk__conn_next_ns(conn);
	return atomic_load(&conn->armed) ? next_ns : lk__earlier(next_ns, lk__now_ns() + LK__MS);
}

int64_t lk__conn_arm(struct lk__conn *conn, int set_fd)
{
	int64_t at_ns = LK__NEVER;
	pthread_mutex_lock(&conn->mutex);
	bool expects = conn->in_flight || conn->postponed || conn->unacked || conn->channels ||
		       conn_is_urgent(conn);
	if (conn->state == LK__CONN_UP && !lk__conn_is_led(conn) && expects)
		at_ns = conn_arm(conn, set_fd);
	if (conn->finished) /* left to us by one who could not */
		at_ns = 0;
	pthread_mutex_unlock(&conn->mutex);
	return at_ns;
}
