/* SPDX-License-Identifier: MIT */
#include "conn/conn.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "conn/node.h"
#include "conn/request.h"

#define REDIRECTS_MAX 16          /* of one request: more mean that servers redirect in a circle */
#define DRAIN_NS (250 * LK__MS)   /* for the answers that a former master owes */
#define POSTPONE_NS (50 * LK__MS) /* while keys move: a key takes some µs, all of a slot seconds */

/*
 * Nothing more is sent there, and the connection breaks when all is answered that was. Else what
 * was sent behind the refused request would go out again, and where that second copy is refused
 * nobody could tell whether the first one has run. A server that has just spoken answers soon.
 */
static void conn_drain(struct lk__conn *conn)
{
	if (conn->drains)
		return;
	conn->drains = true;
	conn->drain_until_ns = lk__now_ns() + DRAIN_NS;
}

void lk__conn_drained(struct lk__conn *conn)
{
	bool owes = conn->in_flight && conn->in_flight->appended;
	if (!owes || lk__now_ns() >= conn->drain_until_ns)
		lk__conn_must_break(conn, LK_EUNREACHABLE, "it has become a replica");
}

bool lk__conn_demoted(struct lk__conn *conn, struct lk__request *request, const redisReply *reply,
		      unsigned failures)
{
	struct lk__finder *finder = conn->node->finder;
	if (reply->type != REDIS_REPLY_ERROR || !lk__classify_replica(reply->str))
		return false;
	conn_drain(conn);
	conn->proved = false; /* so that a server which says it is a master is not stormed */
	conn->failures = failures;
	if (finder)
		finder->ops->suspect(finder);
	else if (failures > 0)
		return false; /* so is who answers to the name now */
	if (request->batch || request->sends != 1)
		return false;
	request->sends--;
	lk__conn_enqueue(conn, request);
	return true;
}

static bool is_redirect(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_ERROR && lk__classify_redirect(reply->str);
}

/* The answer that says so; NULL: none does. All of a batch is about one slot, so it goes there as a
 * whole. */
static const redisReply *redirect_of(const struct lk__request *request, const redisReply *reply)
{
	for (size_t i = 0; i < request->batch; i++)
		if (is_redirect(request->reply->element[i]))
			return request->reply->element[i];
	return is_redirect(reply) ? reply : NULL;
}

/* Has not run here, and is sent again in a moment. False: it is too late for that. */
static bool conn_postpone(struct lk__conn *conn, struct lk__request *request)
{
	int64_t until_ns = lk__now_ns() + POSTPONE_NS;
	if (until_ns >= request->deadline_ns)
		return false;
	lk__request_drop_answer(request);
	if (!conn->postponed)
		conn->postponed_until_ns = until_ns;
	request->asking = false; /* the server says again where it is to be asked */
	request->postponed = true;
	DL_APPEND(conn->postponed, request);
	return true;
}

bool lk__conn_redirected(struct lk__conn *conn, struct lk__request *request,
			 const redisReply *reply, struct lk__deferred *after)
{
	struct lk__finder *finder = conn->node->finder;
	reply = redirect_of(request, reply);
	if (!finder || !finder->ops->redirect || !reply)
		return false;
	struct lk__node *node = finder->ops->redirect(finder, reply->str, conn->place);
	assert(request->sends > 0);
	request->sends--;
	request->asking = node && *reply->str == 'A';
	bool circles = request->redirects == REDIRECTS_MAX;
	request->redirects += !circles;
	if (!node && !circles && conn_postpone(conn, request)) /* the next map tells of it */
		return true;
	bool refused = request->asking && request->batch; /* ASKING serves one command */
	if (node && !circles && !refused)
		request->elsewhere = node;
	int code = request->sends > 0 ? LK_EMAYBEHELD : LK_EUNAVAILABLE;
	lk__conn_done(conn, request, request->elsewhere ? LK_EUNREACHABLE : code, reply->str,
		      after);
	return true;
}

bool lk__request_is_parted(const struct lk__request *request)
{
	const redisReply *reply = request->reply;
	if (!request->code || !reply)
		return false;
	if (request->batch)
		return redirect_of(request, reply) != NULL;
	return reply->type == REDIS_REPLY_ERROR && lk__classify_parted(reply->str);
}

bool lk__conn_postponed(struct lk__conn *conn, struct lk__request *request, const redisReply *reply)
{
	if (!request->patient || request->batch || reply->type != REDIS_REPLY_ERROR ||
	    !lk__classify_parted(reply->str) || !conn_postpone(conn, request))
		return false;
	assert(request->sends > 0);
	request->sends--;
	request->redirects = 0; /* the next redirects are not part of a circle */
	return true;
}

void lk__conn_resume(struct lk__conn *conn)
{
	struct lk__request *request, *next, *postponed = conn->postponed;
	conn->postponed = NULL;
	DL_FOREACH_SAFE(postponed, request, next)
	{
		DL_DELETE(postponed, request);
		request->postponed = false;
		DL_APPEND(conn->in_flight, request);
		conn->in_flight_count++;
		if (conn->state == LK__CONN_UP)
			lk__conn_append(conn, request);
	}
}

/* Its connection of the same kind. */
static struct lk__conn *conn_alike(const struct lk__conn *conn, struct lk__node *node)
{
	if (conn->kind == LK__CONN_WORK)
		return lk__node_work(node);
	return lk__node_scripts_at(node, conn->index);
}

bool lk__conn_follow(struct lk__request *request)
{
	struct lk__node *node = request->elsewhere;
	request->elsewhere = NULL;
	if (!node || lk__now_ns() >= request->deadline_ns)
		return false;
	lk__request_drop_answer(request);
	request->code = 0; /* and done, for whoever might leave it, until it is there */
	lk__conn_submit(conn_alike(request->conn, node), request);
	return true;
}
