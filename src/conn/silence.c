/* SPDX-License-Identifier: MIT */
/*
 * Silence: is it the server that says nothing, or only this connection?
 *
 * A firewall that has forgotten a connection drops what both sides send, and tells neither; new
 * connections work. Whoever waits for the command limit on each old one loses a short lease.
 *
 *   no answer for a third of a request's time ─▶ another connection is made, the probe
 *   it was greeted, and the first one still says nothing ─▶ the first one breaks
 *   one was broken by its silence ─▶ those that have been idle since before are closed
 *
 * - The time of a request is what is left until its deadline, and the command limit at most. A
 *   release has what is left of the lease, and a renewal what is left before the holder is warned.
 * - Answers come in order: what is needed soonest decides, wherever it stands.
 * - A slow server greets nobody either, or answers the older question first. So a connection is
 *   read once more after the greeting is known, before that proves anything.
 * - What is in flight is sent again over the next connection, as behind any that was lost.
 * - A probe that was in vain is repeated after a third of the time that is left then.
 * - A handshake may be forgotten as well, and is doubted after a third of the time until the
 *   connection is needed, or of the connect limit: the probe is made. If that is greeted, a second
 *   attempt is made beside the first (connector.c), which keeps its limit; whichever is greeted
 *   counts. The probe makes its second attempt without a proof, and another in its place whenever
 *   three times as much time has passed: a server that hangs sees one probe, and few of those.
 */
#include <utlist.h>

#include "base/clock.h"
#include "conf/config.h"
#include "conn/conn.h"
#include "conn/node.h"

#define PARTS 3                /* of the time for an answer: doubt begins with the second */
#define PAUSE_NS (50 * LK__MS) /* at least, before each doubt: an answer may be slow by itself */

/* ---- one connection, with its mutex ---- */

/* Since when the oldest request has heard nothing. */
static int64_t silent_since_ns(const struct lk__conn *conn)
{
	return lk__later(conn->in_flight->sent_ns, conn->heard_ns);
}

/* Another connection has been greeted since then. */
static bool conn_is_outlived(const struct lk__conn *conn)
{
	return silent_since_ns(conn) < atomic_load(&conn->node->greeted_ns);
}

int64_t lk__patience_ns(int64_t left_ns)
{
	return lk__later(left_ns / PARTS, PAUSE_NS);
}

static int64_t request_until_ns(const struct lk__request *request, int64_t since_ns)
{
	int64_t until_ns = request->deadline_ns ? request->deadline_ns : LK__NEVER;
	return request->needed_ns > since_ns ? lk__earlier(until_ns, request->needed_ns) : until_ns;
}

/* When a request that has heard nothing since then makes its connection doubtful. `waits`: it is a
 * WAIT, or behind one: until that is over the server serves nothing on this connection. */
static int64_t request_doubt_ns(const struct lk__conn *conn, const struct lk__request *request,
				int64_t since_ns, bool waits)
{
	int64_t limit_ns = conn->node->config->command_timeout_ms * LK__MS;
	int64_t left_ns = request_until_ns(request, since_ns) - since_ns;
	int64_t part_ns = lk__patience_ns(lk__earlier(limit_ns, left_ns));
	if (waits) /* for so long at most */
		part_ns += limit_ns / LK__ACKS_PARTS;
	return since_ns + part_ns;
}

void lk__conn_count_on(struct lk__conn *conn, const struct lk__request *request)
{
	int64_t doubt_ns = request_doubt_ns(conn, request, request->sent_ns, conn->asks_acks);
	bool first = conn->in_flight == request;
	conn->doubt_ns = first ? doubt_ns : lk__earlier(conn->doubt_ns, doubt_ns);
}

void lk__conn_need(struct lk__conn *conn, int64_t until_ns)
{
	struct lk__request *last = conn->in_flight ? conn->in_flight->prev : NULL;
	if (!last || !last->appended || (last->needed_ns && last->needed_ns <= until_ns))
		return;
	last->needed_ns = until_ns;
	lk__conn_count_on(conn, last);
}

/* The soonest of those that are sent. */
static int64_t conn_soonest_ns(const struct lk__conn *conn)
{
	const struct lk__request *request;
	int64_t soonest_ns = LK__NEVER;
	bool waits = false;
	DL_FOREACH(conn->in_flight, request)
	{
		int64_t since_ns = lk__later(request->sent_ns, conn->heard_ns);
		since_ns = lk__later(since_ns, conn->doubted_ns);
		waits |= request->asks_acks;
		int64_t doubt_ns = request_doubt_ns(conn, request, since_ns, waits);
		if (request->appended)
			soonest_ns = lk__earlier(soonest_ns, doubt_ns);
	}
	return soonest_ns;
}

void lk__conn_waited(struct lk__conn *conn)
{
	conn->doubt_ns = conn_soonest_ns(conn);
}

int64_t lk__conn_doubt_ns(const struct lk__conn *conn)
{
	if (!conn->in_flight || !conn->in_flight->appended || conn->drains)
		return LK__NEVER;
	bool doubted = conn->doubted_ns > silent_since_ns(conn);
	return doubted && conn_is_outlived(conn) ? 0 : conn->doubt_ns;
}

/* When the first answer to those that are in flight is needed, or LK__NEVER. */
static int64_t conn_until_ns(const struct lk__conn *conn, int64_t since_ns)
{
	const struct lk__request *request;
	int64_t until_ns = LK__NEVER;
	DL_FOREACH(conn->in_flight, request)
	until_ns = lk__earlier(until_ns, request_until_ns(request, since_ns));
	return until_ns;
}

/* Another connection is to be made, or has been greeted: then this one is read once more, and must
 * break. */
static void conn_doubt(struct lk__conn *conn, struct lk__deferred *after)
{
	bool outlived = conn_is_outlived(conn), known = conn->outlived;
	conn->doubted_ns = lk__now_ns();
	conn->doubt_ns = conn_soonest_ns(conn);
	conn->outlived = outlived;
	if (!outlived) {
		after->probe_ns = conn_until_ns(conn, conn->doubted_ns);
	} else if (known) {
		lk__conn_must_break(conn, LK_EUNREACHABLE,
				    "it says nothing, and a new connection is answered");
		lk__conn_fell_silent(conn);
	}
}

void lk__conn_heard_nothing(struct lk__conn *conn, struct lk__deferred *after)
{
	int64_t now_ns = lk__now_ns();
	if (now_ns >= lk__conn_limit_ns(conn)) {
		lk__conn_must_break(conn, LK_EUNREACHABLE, "no answer within the command limit");
		lk__conn_fell_silent(conn);
		return;
	}
	int64_t doubt_ns = lk__conn_doubt_ns(conn);
	if (doubt_ns > 0 && now_ns >= doubt_ns) /* of one that may have been answered since */
		doubt_ns = conn->doubt_ns = conn_soonest_ns(conn);
	if (now_ns >= doubt_ns)
		conn_doubt(conn, after);
}

void lk__conn_fell_silent(struct lk__conn *conn)
{
	struct lk__node *node = conn->node;
	conn->silent = true;
	atomic_store(&node->silent_ns, silent_since_ns(conn));
	if (conn->kind == LK__CONN_SCRIPTS)
		atomic_store(&node->mute_ns, silent_since_ns(conn));
	atomic_store(&node->judges, true);
}

/* ---- one that is being made ---- */

/* Who takes its steps takes the next one now. */
static void conn_step_on(struct lk__conn *conn)
{
	conn->tended = false;
	if (conn->leader)
		lk__conn_wake(conn);
}

static void conn_hasten(struct lk__conn *conn, int64_t until_ns)
{
	if (conn->state == LK__CONN_CONNECTING && conn->connector &&
	    lk__connector_need(conn->connector, until_ns))
		conn_step_on(conn);
}

void lk__conn_hasten(struct lk__conn *conn, const struct lk__request *request)
{
	conn_hasten(conn, request_until_ns(request, lk__now_ns()));
}

void lk__conn_hasten_all(struct lk__conn *conn)
{
	conn_hasten(conn, conn_until_ns(conn, lk__now_ns()));
}

/* ---- all connections of a node ---- */

void lk__node_try(struct lk__node *node, int64_t until_ns)
{
	struct lk__deferred after;
	lk__deferred_init(&after);
	lk__conn_open(&node->probe);
	pthread_mutex_lock(&node->probe.mutex);
	conn_hasten(&node->probe, until_ns);
	lk__conn_unlock_held(&node->probe, &after);
}

/* Since when it owes its callers an answer, or LK__NEVER. `heard_ns` is raised to when it last said
 * something. */
static int64_t conn_owes_since_ns(struct lk__conn *conn, int64_t *heard_ns)
{
	int64_t since_ns = LK__NEVER;
	pthread_mutex_lock(&conn->mutex);
	*heard_ns = lk__later(*heard_ns, conn->heard_ns);
	if (conn->kind == LK__CONN_SCRIPTS && conn->in_flight && conn->in_flight->appended)
		since_ns = conn->in_flight->sent_ns;
	pthread_mutex_unlock(&conn->mutex);
	return since_ns;
}

int64_t lk__node_mute_since_ns(struct lk__node *node)
{
	struct lk__conn *conn;
	int64_t since_ns = LK__NEVER, heard_ns = 0;
	int64_t mute_ns = atomic_load(&node->mute_ns);
	for (size_t i = 0; (conn = lk__node_conn(node, i)); i++)
		since_ns = lk__earlier(since_ns, conn_owes_since_ns(conn, &heard_ns));
	if (mute_ns && mute_ns >= heard_ns)
		since_ns = lk__earlier(since_ns, mute_ns);
	return since_ns == LK__NEVER ? since_ns : lk__later(since_ns, heard_ns);
}

/* ---- the same, in the loop's turn ---- */

/* Has one that is in doubt looked at again, now that another has been greeted; and one whose
 * handshake may be. */
static void conn_look_again(struct lk__conn *conn)
{
	struct lk__deferred after;
	lk__deferred_init(&after);
	pthread_mutex_lock(&conn->mutex);
	if (conn->state == LK__CONN_CONNECTING)
		conn_step_on(conn);
	if (conn->state == LK__CONN_UP && lk__conn_doubt_ns(conn) == 0) {
		if (conn->leader)
			lk__conn_wake(conn);
		else
			conn->node->events->attention(conn->node->context);
	}
	lk__conn_unlock_held(conn, &after);
}

void lk__node_judge(struct lk__node *node)
{
	struct lk__conn *conn;
	if (!atomic_exchange(&node->judges, false))
		return;
	for (size_t i = 0; (conn = lk__node_conn(node, i)); i++)
		conn_look_again(conn);
	int64_t silent_ns = atomic_load(&node->silent_ns);
	if (silent_ns > 0 && silent_ns < atomic_load(&node->greeted_ns)) {
		atomic_store(&node->silent_ns, 0);
		for (size_t i = 0; (conn = lk__node_conn(node, i)); i++)
			lk__conn_desert(conn, silent_ns);
	}
	lk__conn_rest(&node->probe, lk__now_ns(), 0);
}
