/* SPDX-License-Identifier: MIT */
/* The way of a command through a connection: submit, write, match, follow, wake. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/probe.h"
#include "conf/config.h"
#include "conn/request.h"
#include "conn/conn.h"
#include "conn/node.h"
#include "conn/trace.h"
#include "net/stream.h"
#include "resp/reply.h"

#define LOADS_MAX 5      /* times a script is loaded for one request, */
#define LOADS_VAIN 3     /* and is then spelled out: a proxy has loaded it at another server */
#define WORDS_MAX 90     /* of a refusal that are passed on */
#define REDIRECTS_MAX 16 /* of one request: more mean that servers redirect in a circle */
#define COMMAND_NS (10 * LK__US) /* a script takes the server at least, about */
#define ASK_TIME_NS (1000 * LK__MS)
#define DRAIN_NS (250 * LK__MS)   /* for the answers that a former master owes */
#define POSTPONE_NS (50 * LK__MS) /* while keys move: a key takes some µs, all of a slot seconds */

/* ---- writing ---- */

void lk__conn_must_break(struct lk__conn *conn, int code, const char *reason)
{
	if (conn->must_break)
		return;
	conn->must_break = true;
	conn->fault.code = code;
	snprintf(conn->fault.reason, sizeof(conn->fault.reason), "%s", reason);
}

static void conn_cannot_write(struct lk__conn *conn, int failed)
{
	char text[100], reason[160];
	snprintf(reason, sizeof(reason), "writing failed: %s",
		 lk__system_text(failed, text, sizeof(text)));
	lk__conn_must_break(conn, LK_EUNREACHABLE, reason);
}

void lk__conn_flush(struct lk__conn *conn)
{
	while (conn->stream && lk__buffer_size(&conn->out) > 0) {
		ssize_t wrote = lk__stream_write(conn->stream, lk__buffer_front(&conn->out),
						 lk__buffer_size(&conn->out));
		if (wrote < 0) {
			if (wrote != -EAGAIN && wrote != -EINTR)
				conn_cannot_write(conn, (int)-wrote);
			if (wrote != -EINTR)
				break;
		} else {
			lk__buffer_take(&conn->out, (size_t)wrote);
		}
	}
	atomic_store_explicit(&conn->left, lk__buffer_size(&conn->out) > 0, memory_order_relaxed);
}

/* Puts its bytes behind what is to be written. Without memory for one, nothing may follow it. */
static void conn_append(struct lk__conn *conn, struct lk__request *request)
{
	if (!conn->must_break &&
	    lk__buffer_append(&conn->out, request->bytes.bytes + request->bytes.start,
			      lk__buffer_size(&request->bytes)) < 0)
		lk__conn_must_break(conn, LK_ENOMEM, "out of memory");
	if (conn->must_break)
		return;
	request->appended = true;
	conn->used_ns = request->sent_ns = lk__now_ns();
	lk__conn_count_on(conn, request);
	atomic_fetch_add_explicit(&conn->node->counters.commands, 1, memory_order_relaxed);
	if (request->sends++)
		atomic_fetch_add_explicit(&conn->node->counters.resent, 1, memory_order_relaxed);
	atomic_store_explicit(&conn->left, true, memory_order_relaxed);
	lk__probe4(command__sent, request, request->bytes.bytes + request->bytes.start,
		   lk__buffer_size(&request->bytes), request->sends);
	lk__trace_request(conn, request);
}

/* Nobody waits for the answer to the first of the two. */
static void conn_append_before(struct lk__conn *conn, struct lk__request *request,
			       struct lk__request *call)
{
	request->finish = lk__request_forget;
	request->deadline_ns = call->deadline_ns;
	request->needed_ns = call->needed_ns;
	DL_PREPEND_ELEM(conn->in_flight, call, request);
	conn->in_flight_count++;
	conn_append(conn, request);
}

/* Makes the request that sends the script to the server. NULL when out of memory. */
static struct lk__request *load_request(int script, enum lk__messages told_by)
{
	const struct lk__script *sent = lk__script_of(script, told_by);
	struct lk__request *load = lk__request_new(
		3, (const char *[]){"SCRIPT", "LOAD", sent->text}, (size_t[]){6, 4, sent->size});
	if (load)
		load->is_load = true;
	return load;
}

/*
 * A script that the server lacks goes directly before its first call. Where SCRIPT LOAD is refused
 * the call goes alone, and with the script's text once NOSCRIPT was answered; also where that is in
 * vain. Without memory for either it goes as it is: NOSCRIPT is answered, and both are sent again.
 */
static void conn_append_script(struct lk__conn *conn, struct lk__request *call)
{
	enum lk__messages told_by = conn->node->told_by;
	bool refused = conn->load_refused || call->loads >= LOADS_VAIN;
	struct lk__request *load = refused ? NULL : load_request(call->script, told_by);
	if (load)
		conn_append_before(conn, load, call);
	else if (!refused || call->loads == 0 || !lk__request_spell_out(call, told_by))
		return;
	conn->scripts[call->script] = true;
	conn->loaded_ns[call->script] = lk__now_ns();
}

/* Tells whether it has to go before the call. One that has run over another connection of the node
 * is there. One that was merely sent there may come later than this call, whose repetition would
 * come behind what follows it. */
static bool conn_lacks(struct lk__conn *conn, int script)
{
	if (!conn->scripts[script] && atomic_load(&conn->node->script_there[script]))
		conn->scripts[script] = true;
	return !conn->scripts[script];
}

static void conn_forget(struct lk__conn *conn, int script)
{
	conn->scripts[script] = false;
	atomic_store(&conn->node->script_there[script], false);
}

static void conn_ran(struct lk__conn *conn, const struct lk__request *request)
{
	if (request->script == LK__NO_SCRIPT || request->spelled_out)
		return;
	_Atomic bool *there = &conn->node->script_there[request->script];
	if (!atomic_load_explicit(there, memory_order_relaxed))
		atomic_store(there, true);
}

/* Tells whether it is time to ask; then the caller does. */
static bool node_asks_time(struct lk__node *node)
{
	int64_t now_ns = lk__now_ns();
	int64_t asked_ns = atomic_load_explicit(&node->asked_ns, memory_order_relaxed);
	return now_ns - asked_ns >= ASK_TIME_NS &&
	       atomic_compare_exchange_strong(&node->asked_ns, &asked_ns, now_ns);
}

/* The server's clock may be set while we are connected: it is asked along with other commands.
 * Not with questions: they have no deadline by that clock, and a client that only waits sends few
 * others. */
static void conn_append_time(struct lk__conn *conn, struct lk__request *before)
{
	struct lk__request *request = lk__time_request(conn->node->config,
						       atomic_load(&conn->node->time_by_script));
	if (!request)
		return;
	request->tells_time = true;
	conn_append_before(conn, request, before);
}

/* The server is to serve the next command although it does not have the slot yet. */
static void conn_append_asking(struct lk__conn *conn, struct lk__request *call)
{
	struct lk__request *request = lk__request_new(1, (const char *[]){"ASKING"}, (size_t[]){6});
	if (!request) {
		lk__conn_must_break(conn, LK_ENOMEM, "out of memory");
		return;
	}
	conn_append_before(conn, request, call);
}

/* Writes a request that is queued, unless that is for the next connection. Its deadline is told by
 * the clock of the server that it goes to now, which may be another than the last time. */
void lk__conn_append(struct lk__conn *conn, struct lk__request *request)
{
	if (conn->drains)
		return;
	int64_t until_us = request->stamp_at ? lk__node_server_us(conn->node, request->deadline_ns)
					     : 0; /* it tells no deadline */
	lk__request_address(request, conn->node->told_by, until_us);
	if (conn->kind != LK__CONN_MESSAGES && !request->question && node_asks_time(conn->node))
		conn_append_time(conn, request);
	if (request->script != LK__NO_SCRIPT &&
	    (conn_lacks(conn, request->script) || request->loads >= LOADS_VAIN))
		conn_append_script(conn, request);
	if (request->asking && !request->batch)
		conn_append_asking(conn, request);
	conn_append(conn, request);
}

void lk__conn_enqueue(struct lk__conn *conn, struct lk__request *request)
{
	assert(conn->state != LK__CONN_CLOSED && !request->done);
	DL_APPEND(conn->in_flight, request);
	conn->in_flight_count++;
	if (conn->state == LK__CONN_UP)
		lk__conn_append(conn, request);
	else
		lk__conn_hasten(conn, request);
}

/*
 * Tells whether what comes now is left for the leader although it sleeps: the next answer wakes it,
 * and then all leaves in one write. Only where the server has work until then: what is in flight
 * takes it longer than a round trip.
 */
static bool conn_is_full(const struct lk__conn *conn)
{
	int64_t work_ns = (int64_t)conn->in_flight_count * COMMAND_NS;
	return conn->kind == LK__CONN_SCRIPTS && conn->in_flight_count > 1 && conn->least_ns > 0 &&
	       conn->least_ns < work_ns && !conn->must_break;
}

/* Has what was appended leave: by the leader if it is awake, or will be soon enough; else by us. */
void lk__conn_push(struct lk__conn *conn)
{
	bool later = conn->leader ? !atomic_load(&conn->asleep) : lk__conn_expects_leader(conn);
	bool sooner = conn->in_flight && conn->doubt_ns < conn->asleep_until_ns;
	if (conn->state != LK__CONN_UP || later || (conn->leader && !sooner && conn_is_full(conn)))
		return;
	lk__conn_flush(conn);
	if (conn->leader && (conn->must_break || sooner || lk__buffer_size(&conn->out) > 0))
		lk__conn_wake(conn);
}

static bool conn_is_closed_to(const struct lk__conn *conn, const struct lk__request *request)
{
	return conn->state == LK__CONN_CLOSED || (conn->closing && request->return_unsent);
}

void lk__conn_accept(struct lk__conn *conn, struct lk__request *request, struct lk__deferred *after)
{
	atomic_store(&request->conn, conn);
	atomic_store(&request->done, false); /* one that was redirected was */
	if (conn_is_closed_to(conn, request)) {
		lk__conn_done(conn, request, LK_ECLOSED, "the client is closed", after);
		return;
	}
	lk__conn_enqueue(conn, request);
	if (conn->state == LK__CONN_DOWN)
		lk__conn_start(conn, after);
}

/* Nobody will await it: it leaves now. */
static void conn_submit_unattended(struct lk__conn *conn, struct lk__request *request,
				   struct lk__deferred *after)
{
	lk__conn_accept(conn, request, after);
	lk__conn_push(conn);
	if (!lk__conn_is_led(conn))
		conn->node->events->attention(conn->node->context);
}

void lk__conn_submit(struct lk__conn *conn, struct lk__request *request)
{
	struct lk__deferred after;
	lk__conn_lock(conn, &after);
	if (request->thread)
		lk__conn_accept(conn, request, &after);
	else
		conn_submit_unattended(conn, request, &after);
	lk__conn_unlock_held(conn, &after);
}

void lk__conn_put(struct lk__conn *conn, struct lk__request *request)
{
	struct lk__deferred after;
	lk__conn_lock(conn, &after);
	lk__conn_accept(conn, request, &after);
	lk__conn_unlock_held(conn, &after);
}

void lk__conn_send_queued(struct lk__conn *conn)
{
	pthread_mutex_lock(&conn->mutex);
	lk__conn_push(conn);
	pthread_mutex_unlock(&conn->mutex);
}

void lk__conn_forgo(struct lk__conn *conn)
{
	pthread_mutex_lock(&conn->mutex);
	if (!lk__conn_is_led(conn) && conn->state == LK__CONN_UP)
		conn->node->events->attention(conn->node->context);
	pthread_mutex_unlock(&conn->mutex);
}

bool lk__conn_offer(struct lk__conn *conn, struct lk__request *request)
{
	struct lk__deferred after;
	lk__conn_lock(conn, &after);
	bool open = !conn_is_closed_to(conn, request);
	if (open)
		conn_submit_unattended(conn, request, &after);
	lk__conn_unlock_held(conn, &after);
	return open;
}

void lk__conn_tell(struct lk__conn *conn, struct lk__request *request)
{
	if (!request)
		return;
	request->finish = lk__request_forget;
	request->deadline_ns = lk__after_ms(lk__now_ns(), conn->node->config->command_timeout_ms);
	if (!lk__conn_offer(conn, request))
		lk__request_free(request);
}

void lk__conn_settle(struct lk__conn *conn)
{
	struct lk__deferred after;
	lk__conn_lock(conn, &after);
	lk__conn_unlock(conn, &after);
}

/* ---- what comes of it ---- */

static void after_wakes(struct lk__deferred *after)
{
	for (size_t i = 0; i < after->wake_count; i++)
		lk__thread_wake(after->wakes[i]);
	after->wake_count = 0;
}

/* In order: where there are more, the first are woken at once. */
void lk__after_wake(struct lk__deferred *after, struct lk__thread *thread)
{
	if (after->wake_count == LK__WAKES_MAX)
		after_wakes(after);
	after->wakes[after->wake_count++] = thread;
}

/* It is being made, nobody leads, and the loop does not know. It does from now on. */
static bool conn_is_untended(struct lk__conn *conn, const struct lk__deferred *after)
{
	if (conn->state != LK__CONN_CONNECTING || conn->tended || after->drives ||
	    lk__conn_is_led(conn))
		return false;
	conn->tended = true;
	return true;
}

void lk__conn_unlock(struct lk__conn *conn, struct lk__deferred *after)
{
	bool untended = conn_is_untended(conn, after);
	int64_t probe_ns = after->probe_ns;
	struct lk__request *request, *next, *finished = conn->finished;
	after->probe_ns = 0;
	conn->finished = NULL;
	DL_CONCAT(finished, after->finished);
	after->finished = NULL;
	if (finished)
		atomic_fetch_add(&conn->finishing, 1);
	pthread_mutex_unlock(&conn->mutex);
	after_wakes(after);
	if (untended)
		conn->node->events->connecting(conn->node->context);
	if (probe_ns)
		lk__node_try(conn->node, probe_ns);
	if (!finished)
		return;
	DL_FOREACH_SAFE(finished, request, next)
	if (!lk__conn_follow(request))
		request->finish(request);
	atomic_fetch_sub(&conn->finishing, 1);
}

void lk__conn_unlock_held(struct lk__conn *conn, struct lk__deferred *after)
{
	if (after->finished) {
		DL_CONCAT(conn->finished, after->finished);
		after->finished = NULL;
		conn->node->events->attention(conn->node->context);
	}
	bool untended = conn_is_untended(conn, after);
	pthread_mutex_unlock(&conn->mutex);
	after_wakes(after);
	if (untended)
		conn->node->events->connecting(conn->node->context);
}

void lk__conn_done(struct lk__conn *conn, struct lk__request *request, int code, const char *reason,
		   struct lk__deferred *after)
{
	assert(!request->done);
	request->code = code;
	if (code) {
		request->passing |= lk__conn_may_come(conn->node->config, code);
		strncpy(request->reason, reason, sizeof(request->reason) - 1);
		request->reason[sizeof(request->reason) - 1] = 0;
	}
	if (request->wait) {
		DL_DELETE(conn->waits, request->wait);
		request->wait->listed = false;
		request->wait = NULL;
	}
	if (request->thread)
		lk__after_wake(after, request->thread);
	else if (request->finish)
		DL_APPEND(after->finished, request);
	atomic_store_explicit(&request->done, true, memory_order_release);
}

void lk__conn_remove(struct lk__conn *conn, struct lk__request *request)
{
	if (request->postponed) {
		DL_DELETE(conn->postponed, request);
		request->postponed = false;
		return;
	}
	assert(conn->in_flight_count > 0);
	DL_DELETE(conn->in_flight, request);
	conn->in_flight_count--;
	request->appended = false;
}

/*
 * The server has lost the script: the text and the same call are sent again, at the end. That holds
 * for every request, also for those that nobody waits for; the copy has not run.
 */
static bool conn_reload(struct lk__conn *conn, struct lk__request *request,
			const struct lk__refusal *refusal)
{
	if (!refusal || !refusal->unscripted || request->script == LK__NO_SCRIPT || request->batch)
		return false;
	if (request->sent_ns >= conn->loaded_ns[request->script]) /* else it is on its way again */
		conn_forget(conn, request->script);
	if (lk__now_ns() >= request->deadline_ns || request->loads++ >= LOADS_MAX)
		return false;
	assert(request->sends > 0);
	request->sends--;
	lk__conn_enqueue(conn, request);
	return true;
}

/* A proxy refuses it in words of its own. */
static void conn_loaded(struct lk__conn *conn, const struct lk__refusal *refusal)
{
	int code = refusal ? refusal->code : 0;
	conn->load_refused = code == LK_EDENIED || code == LK_EMAYBEHELD;
}

/* ---- answers that lead elsewhere ---- */

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

/*
 * A master that has become a replica has refused this. Its connection breaks as soon as it has
 * answered what was sent behind that, and is made anew, to the next master. Unless an earlier copy
 * may have run, the request counts as never sent, and true: it waits in the connection for that
 * master. Without a finder that is whoever answers at the address of its name by then, and is asked
 * once more: false where that is a replica as well. `failures`: of the connection, before this
 * answer.
 */
static bool conn_demoted(struct lk__conn *conn, struct lk__request *request,
			 const struct lk__refusal *refusal, unsigned failures)
{
	struct lk__finder *finder = conn->node->finder;
	if (!refusal || !refusal->replica)
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

/* The answer that says that another node has the key; NULL: none does. All of a batch is about one
 * slot, so it goes there as a whole. */
static const redisReply *redirect_of(const struct lk__request *request, const redisReply *reply,
				     const struct lk__refusal *refusal)
{
	if (refusal && refusal->redirects)
		return reply;
	for (size_t i = 1; i < request->batch; i++) {
		const redisReply *other = request->reply->element[i];
		if (other->type == REDIS_REPLY_ERROR && lk__refusal(other->str).redirects)
			return other;
	}
	return NULL;
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

/* Another node has the key, as `reply` says: true, and the request is done, to be followed; or it
 * waits in the connection until that node is known; or it is done. */
static bool conn_redirected(struct lk__conn *conn, struct lk__request *request,
			    const redisReply *reply, struct lk__deferred *after)
{
	struct lk__finder *finder = conn->node->finder;
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
	bool copied = request->sends > 0 && !request->question;
	int code = copied ? LK_EMAYBEHELD : LK_EUNAVAILABLE;
	lk__conn_done(conn, request, request->elsewhere ? LK_EUNREACHABLE : code, reply->str,
		      after);
	return true;
}

/* Some of its keys have moved, and some have not: it has not run, and is sent again after a pause,
 * if it has the patience, and the time. */
static bool conn_postponed(struct lk__conn *conn, struct lk__request *request)
{
	if (!request->patient || request->batch || !request->parted ||
	    !conn_postpone(conn, request))
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

/* ---- answers ---- */

/* Notes a refusal: what is refused has not run; but an earlier copy may have. */
static void conn_refused(struct lk__conn *conn, struct lk__request *request, const char *words,
			 const struct lk__refusal *refusal, struct lk__deferred *after)
{
	char reason[sizeof(request->reason)];
	bool copied = request->sends > 1 && !request->question; /* that changes nothing */
	bool vain = request->spelled_out && refusal->code == LK_EDENIED;
	const char *hint = vain ? "SCRIPT LOAD is refused, too" : refusal->hint;
	if (vain) { /* the next call begins with SCRIPT LOAD: that right may have been given */
		conn->load_refused = false;
		conn_forget(conn, request->script);
	}
	request->lasting = refusal->lasting;
	request->passing = refusal->passes;
	request->ran = !copied && refusal->ran;
	snprintf(reason, sizeof(reason), "%s%s%s%.*s%s%s%s", conn->place, *conn->place ? ": " : "",
		 copied ? "refused, but an earlier copy may have run: " : "",
		 refusal->size < WORDS_MAX ? refusal->size : WORDS_MAX, words, *hint ? " (" : "",
		 hint, *hint ? ")" : "");
	lk__conn_done(conn, request, copied ? LK_EMAYBEHELD : refusal->code, reason, after);
}

struct lk__request *lk__conn_answered(struct lk__conn *conn)
{
	if (conn->in_flight && conn->in_flight->appended) {
		/* What the connection sends by itself, as the handshake, proves nothing. Nor does
		 * what a server has still to say that is left. */
		if (!conn->in_flight->is_load && !conn->drains) {
			conn->proved = true;
			conn->failures = 0;
			conn->next_connect_ns = 0;
		}
		return conn->in_flight;
	}
	lk__conn_must_break(conn, LK_EPROTOCOL, "unexpected reply: no command outstanding");
	return NULL;
}

static void conn_answered(struct lk__conn *conn, struct lk__request *request,
			  struct lk__deferred *after)
{
	conn_ran(conn, request);
	bool acked = request->durable && lk__node_is_acked(conn->node);
	if (!acked || !conn->node->acks_ops->await(conn, request, after))
		lk__conn_done(conn, request, 0, "", after);
}

/* The next answer of a batch; true when it was the last: `reply` of the request is the array. */
static bool request_collect(struct lk__request *batch, redisReply *reply)
{
	redisReply *parts = batch->parts;
	parts->element[parts->elements++] = reply;
	if (parts->elements < batch->batch)
		return false;
	batch->reply = parts;
	batch->parts = NULL;
	return true;
}

/* Takes an answer that is whole. `failures`: of the connection, before it. */
static void conn_take(struct lk__conn *conn, struct lk__request *request, redisReply *reply,
		      unsigned failures, struct lk__deferred *after)
{
	struct lk__refusal words, *refusal = NULL;
	if (reply->type == REDIS_REPLY_ERROR) {
		words = lk__refusal(reply->str);
		refusal = &words;
	}
	if (conn_reload(conn, request, refusal) || conn_demoted(conn, request, refusal, failures)) {
		freeReplyObject(reply);
		return;
	}
	if (!request->batch)
		request->reply = reply;
	const redisReply *redirect = redirect_of(request, reply, refusal);
	request->parted = request->batch ? redirect != NULL : refusal && refusal->parted;
	if (conn_redirected(conn, request, redirect, after) || conn_postponed(conn, request))
		return;
	if (request->asks_acks)
		conn->node->acks_ops->came(conn, request, after);
	if (request->is_load)
		conn_loaded(conn, refusal);
	if (request->tells_time)
		lk__node_hear_time(conn->node, lk__time_answer(reply), request->sent_ns,
				   lk__now_ns());
	if (refusal)
		conn_refused(conn, request, reply->str, refusal, after);
	else
		conn_answered(conn, request, after);
}

void lk__conn_take(struct lk__conn *conn, redisReply *reply, struct lk__deferred *after)
{
	/* "max number of clients reached" comes unasked, then the end of the stream. */
	if (!conn->in_flight && reply->type == REDIS_REPLY_ERROR)
		lk__conn_must_break(conn, LK_EUNAVAILABLE, reply->str);
	unsigned failures = conn->failures;
	struct lk__request *request = lk__conn_answered(conn);
	if (!request) {
		freeReplyObject(reply);
		return;
	}
	lk__trace_answer(conn, request, reply);
	lk__probe2(command__answer, request, reply->type);
	if (request->batch && !request_collect(request, reply))
		return;
	lk__conn_remove(conn, request);
	conn_take(conn, request, request->batch ? request->reply->element[0] : reply, failures,
		  after);
}
