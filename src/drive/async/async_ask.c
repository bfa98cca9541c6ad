/* SPDX-License-Identifier: MIT */
/* One request of a call at one node, and the connection that it may have to wait for. */
#include <assert.h>

#include "base/clock.h"
#include "drive/async/async_call.h"

#define LOOK_NS (5 * LK__MS) /* between looks at an answer that another thread is bringing */

/* ---- connection ---- */

bool lk__async_connect(struct lk__async *async, struct lk__conn *conn, bool once, int64_t until_ns)
{
	assert(!async->connecting);
	if (lk__conn_ready_begin(conn, &async->standby, &async->thread, once))
		return false;
	async->connecting = conn;
	async->asked_until_ns = until_ns;
	lk__async_wait(async, lk__async_until_ns(async, until_ns));
	return true;
}

bool lk__async_connect_look(struct lk__async *async, int *rc_out, lk_error *why)
{
	struct lk__conn *conn = async->connecting;
	int rc = lk__conn_ready_look(conn, &async->standby, why);
	if (rc == LK__WAIT_TIME_UP && !lk__async_is_over(async, async->asked_until_ns))
		return false;
	lk__conn_ready_end(conn, &async->standby);
	async->connecting = NULL;
	*rc_out = rc;
	return true;
}

/* ---- request ---- */

/* It is done: the call is resumed with it. */
static void ask_answered(struct lk__request *request)
{
	struct lk__async *async = request->owner;
	assert(!atomic_load(&async->answer)); /* one question at a time */
	atomic_store(&async->answer, request);
	lk__thread_wake(&async->thread);
}

void lk__async_ask(struct lk__async *async, struct lk__conn *conn, struct lk__request *request,
		   int64_t until_ns)
{
	assert(!async->asked && !async->connecting);
	request->owner = async;
	request->finish = ask_answered;
	request->resend = request->patient = true;
	request->deadline_ns = until_ns;
	async->asked = request;
	async->asked_until_ns = until_ns;
	lk__async_wait(async, lk__async_until_ns(async, until_ns));
	lk__conn_queue(conn, request);
}

/* The time is over: true with the request if it was never sent, or with NULL when nobody waits for
 * it any more. False: it is done, and its answer on the way to the loop. */
static bool ask_give_up(struct lk__async *async, struct lk__request **answer_out)
{
	struct lk__request *request = async->asked;
	*answer_out = request;
	if (lk__conn_withdraw(request))
		return true;
	*answer_out = NULL;
	if (!lk__conn_hurry(request) && lk__conn_leave(request, lk__request_forget))
		return true;
	lk__async_wait(async, lk__now_ns() + LOOK_NS);
	return false;
}

bool lk__async_ask_look(struct lk__async *async, struct lk__request **answer_out)
{
	struct lk__request *answer = atomic_exchange(&async->answer, NULL);
	assert(async->asked && (!answer || answer == async->asked));
	if (!answer &&
	    (!lk__async_is_over(async, async->asked_until_ns) || !ask_give_up(async, &answer)))
		return false;
	async->asked = NULL;
	*answer_out = answer;
	return true;
}
