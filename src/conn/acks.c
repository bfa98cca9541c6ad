/* SPDX-License-Identifier: MIT */
/*
 * Answers that count when replicas have what they tell of.
 *
 *   EVALSHA a ─ EVALSHA b ─▶ answers of a and b are kept ─▶ WAIT ─▶ both are done
 *
 * A WAIT covers what its connection has done before, so one serves all answers that arrived
 * together, and a refusal needs none. While it is under way the server reads nothing more from this
 * connection: a request waits for one WAIT before its answer, and one behind it. Hence the time
 * limit of each, a third of the command limit.
 *
 * Replicas that are too few, or too late, make the outcome LK_ENOTDURABLE. A connection that is
 * lost before makes the answers void: the requests are sent again, as all that may be.
 *
 * Newer servers let WAIT count only from the last write of the connection; so every script whose
 * answer is kept here writes, also one that finds its work done.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

#include "conf/config.h"
#include "conn/conn.h"
#include "conn/node.h"

#define PARTS 3 /* of the command limit */

static struct lk__request *acks_request(int count, int64_t limit_ms)
{
	char number[16], limit[24];
	snprintf(number, sizeof(number), "%d", count);
	snprintf(limit, sizeof(limit), "%" PRId64, limit_ms / PARTS + 1);
	struct lk__request *request = lk__request_new(3, (const char *[]){"WAIT", number, limit},
						      (size_t[]){4, strlen(number), strlen(limit)});
	if (request) {
		request->asks_acks = true;
		request->wants_acks = count;
		request->finish = lk__request_forget;
	}
	return request;
}

static void acks_ask(struct lk__conn *conn)
{
	int64_t limit_ms = conn->node->config->command_timeout_ms;
	struct lk__request *request = acks_request(lk__node_acks(conn->node), limit_ms);
	if (!request) {
		lk__conn_must_break(conn, LK_ENOMEM, "out of memory");
		return;
	}
	conn->asks_acks = true;
	lk__conn_enqueue(conn, request);
	lk__conn_flush(conn);
}

static bool is_refusal(const struct lk__request *request)
{
	int type = request->reply->type;
	return request->durable == LK__DURABLE_GRANTS &&
	       (type == REDIS_REPLY_INTEGER || type == REDIS_REPLY_ARRAY);
}

/* Whether an answer is kept until replicas have what it tells of. */
bool lk__acks_await(struct lk__conn *conn, struct lk__request *request)
{
	if (!request->durable || is_refusal(request) || lk__node_acks(conn->node) == 0)
		return false;
	DL_APPEND(conn->unacked, request);
	if (!conn->asks_acks) /* one that is under way was sent behind it */
		acks_ask(conn);
	return true;
}

static void acks_too_few(struct lk__conn *conn, struct lk__request *request, int wanted,
			 const redisReply *reply, struct lk__deferred *after)
{
	char reason[sizeof(request->reason)];
	if (reply->type == REDIS_REPLY_ERROR)
		snprintf(reason, sizeof(reason), "no replica can acknowledge it: %.100s",
			 reply->str);
	else
		snprintf(reason, sizeof(reason),
			 "the master has done it, and %lld of %d replicas have acknowledged it",
			 reply->integer, wanted);
	lk__conn_done(conn, request, LK_ENOTDURABLE, reason, after);
}

/* The answer of a WAIT: all that is kept was answered before. */
void lk__acks_came(struct lk__conn *conn, const struct lk__request *asked, const redisReply *reply,
		   struct lk__deferred *after)
{
	struct lk__request *request, *next;
	int wanted = lk__node_acks(conn->node); /* it may have become more */
	if (wanted < asked->wants_acks)
		wanted = asked->wants_acks;
	bool enough = reply->type == REDIS_REPLY_INTEGER && reply->integer >= wanted;
	conn->asks_acks = false;
	DL_FOREACH_SAFE(conn->unacked, request, next)
	{
		DL_DELETE(conn->unacked, request);
		if (enough)
			lk__conn_done(conn, request, 0, "", after);
		else
			acks_too_few(conn, request, wanted, reply, after);
	}
}

/* The connection is lost: whether replicas have it will never be known. */
void lk__acks_lost(struct lk__conn *conn)
{
	struct lk__request *request, *unacked = conn->unacked;
	DL_FOREACH(unacked, request)
	{
		lk__request_drop_answer(request);
		conn->in_flight_count++;
	}
	DL_CONCAT(unacked, conn->in_flight);
	conn->in_flight = unacked;
	conn->unacked = NULL;
	conn->asks_acks = false;
}
