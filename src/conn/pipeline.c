/* SPDX-License-Identifier: MIT */
/* The way of a command through a connection: submit, write, read, match, wake. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conn/channels.h"
#include "conn/classify.h"
#include "conn/conn.h"
#include "conn/handshake.h"
#include "conn/node.h"
#include "conn/redirect.h"
#include "net/stream.h"
#include "resp/reader.h"

#define LOADS_MAX 5  /* times a script is loaded for one request */
#define WORDS_MAX 90 /* of a refusal that are passed on */
#define SPIN_CREDIT_MAX 16
#define WAIT_SERVED 2  /* LK__WAIT_READY, and the mutex is not held */
#define SPIN_PAUSE 128 /* turns without a spin after it has not paid */

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
		 strerror_r(failed, text, sizeof(text)));
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
	if (request->batch)
		lk__request_drop_collected(request);
	request->sent_ns = lk__now_ns();
	atomic_fetch_add_explicit(&conn->node->counters.commands, 1, memory_order_relaxed);
	if (request->sends++)
		atomic_fetch_add_explicit(&conn->node->counters.resent, 1, memory_order_relaxed);
	atomic_store_explicit(&conn->left, true, memory_order_relaxed);
}

/* Nobody waits for the answer to the first of the two. */
static void conn_append_before(struct lk__conn *conn, struct lk__request *request,
			       struct lk__request *call)
{
	request->finish = lk__request_forget;
	DL_PREPEND_ELEM(conn->in_flight, call, request);
	conn->in_flight_count++;
	conn_append(conn, request);
}

/*
 * A script that the server lacks goes directly before its first call. Where SCRIPT LOAD is refused
 * the call goes alone, and with the script's text once NOSCRIPT was answered. Without memory for
 * either it goes as it is: NOSCRIPT is answered, and both are sent again.
 */
static void conn_append_script(struct lk__conn *conn, struct lk__request *call)
{
	enum lk__messages told_by = conn->node->told_by;
	bool refused = conn->load_refused;
	struct lk__request *load = refused ? NULL : lk__request_load(call->script, told_by);
	if (load)
		conn_append_before(conn, load, call);
	else if (!refused || call->loads == 0 || !lk__request_spell_out(call, told_by))
		return;
	conn->scripts[call->script] = true;
	conn->loaded_ns[call->script] = lk__now_ns();
}

/* The server's clock may be set while we are connected: it is asked along with other commands. */
static void conn_append_time(struct lk__conn *conn, struct lk__request *before)
{
	struct lk__request *request = lk__request_new(1, (const char *[]){"TIME"}, (size_t[]){4});
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

/* Writes a request that is queued. Its deadline is told by the clock of the server that it goes to
 * now, which may be another than the last time. */
void lk__conn_append(struct lk__conn *conn, struct lk__request *request)
{
	if (request->stamp_size)
		lk__request_stamp(request, lk__node_server_us(conn->node, request->deadline_ns));
	if (conn->node->told_by != LK__MESSAGES_PLAIN && request->script != LK__NO_SCRIPT)
		lk__request_tell(request, conn->node->told_by);
	if (conn->kind != LK__CONN_MESSAGES && lk__node_asks_time(conn->node))
		conn_append_time(conn, request);
	if (request->script != LK__NO_SCRIPT && !conn->scripts[request->script])
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
}

/* What was appended must leave: by the leader if it is awake, else by us. */
void lk__conn_push(struct lk__conn *conn)
{
	if (conn->state != LK__CONN_UP || (conn->leader && !atomic_load(&conn->asleep)))
		return;
	lk__conn_flush(conn);
	if (conn->leader && (conn->must_break || lk__buffer_size(&conn->out) > 0))
		lk__wake_fd(conn->wake_fd);
}

static bool conn_is_closed_to(const struct lk__conn *conn, const struct lk__request *request)
{
	return conn->state == LK__CONN_CLOSED || (conn->closing && request->return_unsent);
}

static void conn_submit(struct lk__conn *conn, struct lk__request *request,
			struct lk__deferred *after)
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
	conn_submit(conn, request, after);
	lk__conn_push(conn);
	if (!conn->leader)
		conn->node->events->attention(conn->node->context);
}

void lk__conn_submit(struct lk__conn *conn, struct lk__request *request)
{
	struct lk__deferred after = {.wake_count = 0};
	pthread_mutex_lock(&conn->mutex);
	if (request->thread)
		conn_submit(conn, request, &after);
	else
		conn_submit_unattended(conn, request, &after);
	lk__conn_unlock_held(conn, &after);
}

bool lk__conn_offer(struct lk__conn *conn, struct lk__request *request)
{
	struct lk__deferred after = {.wake_count = 0};
	pthread_mutex_lock(&conn->mutex);
	bool open = !conn_is_closed_to(conn, request);
	if (open)
		conn_submit_unattended(conn, request, &after);
	lk__conn_unlock_held(conn, &after);
	return open;
}

void lk__conn_queue(struct lk__conn *conn, struct lk__request *request)
{
	struct lk__deferred after = {.wake_count = 0};
	pthread_mutex_lock(&conn->mutex);
	conn_submit(conn, request, &after);
	lk__conn_unlock_held(conn, &after);
}

void lk__conn_settle(struct lk__conn *conn)
{
	struct lk__deferred after = {.wake_count = 0};
	pthread_mutex_lock(&conn->mutex);
	lk__conn_unlock(conn, &after);
}

/* ---- what comes of it ---- */

void lk__after_wake(struct lk__deferred *after, struct lk__thread *thread)
{
	if (after->wake_count < LK__WAKES_MAX)
		after->wakes[after->wake_count++] = thread;
	else
		lk__thread_wake(thread);
}

static void after_wakes(struct lk__deferred *after)
{
	for (size_t i = 0; i < after->wake_count; i++)
		lk__thread_wake(after->wakes[i]);
	after->wake_count = 0;
}

void lk__conn_unlock(struct lk__conn *conn, struct lk__deferred *after)
{
	struct lk__request *request, *next, *finished = conn->finished;
	conn->finished = NULL;
	DL_CONCAT(finished, after->finished);
	after->finished = NULL;
	if (finished)
		atomic_fetch_add(&conn->finishing, 1);
	pthread_mutex_unlock(&conn->mutex);
	after_wakes(after);
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
	pthread_mutex_unlock(&conn->mutex);
	after_wakes(after);
}

static void conn_unlist(struct lk__conn *conn, struct lk__wait *wait)
{
	if (wait->listed)
		DL_DELETE(conn->waits, wait);
	wait->listed = false;
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
		conn_unlist(conn, request->wait);
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
static bool conn_reload(struct lk__conn *conn, struct lk__request *request, redisReply *reply)
{
	bool lost = reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOSCRIPT", 8) == 0;
	if (!lost || request->script == LK__NO_SCRIPT)
		return false;
	if (request->sent_ns >= conn->loaded_ns[request->script]) /* else it is on its way again */
		conn->scripts[request->script] = false;
	if (lk__now_ns() >= request->deadline_ns || request->loads++ >= LOADS_MAX)
		return false;
	assert(request->sends > 0);
	request->sends--;
	lk__conn_enqueue(conn, request);
	return true;
}

/* A proxy refuses it in words of its own. */
static void conn_loaded(struct lk__conn *conn, const redisReply *reply)
{
	int code = reply->type == REDIS_REPLY_ERROR ? lk__classify(reply->str) : 0;
	conn->load_refused = code == LK_EDENIED || code == LK_EMAYBEHELD;
}

/* What the server has refused has not run; but an earlier copy may have. */
static void conn_refused(struct lk__conn *conn, struct lk__request *request, const char *words,
			 struct lk__deferred *after)
{
	char reason[sizeof(request->reason)];
	int code = lk__classify(words), size = lk__classify_size(words);
	bool copied = request->sends > 1, vain = request->spelled_out && code == LK_EDENIED;
	const char *hint = vain ? "SCRIPT LOAD is refused, too" : lk__classify_hint(words);
	if (vain) /* the next call begins with SCRIPT LOAD: that right may have been given */
		conn->load_refused = conn->scripts[request->script] = false;
	request->lasting = lk__classify_lasting(words);
	request->passing = lk__classify_passes(words);
	snprintf(reason, sizeof(reason), "%s%s%s%.*s%s%s%s", conn->place, *conn->place ? ": " : "",
		 copied ? "refused, but an earlier copy may have run: " : "",
		 size < WORDS_MAX ? size : WORDS_MAX, words, *hint ? " (" : "", hint,
		 *hint ? ")" : "");
	lk__conn_done(conn, request, copied ? LK_EMAYBEHELD : code, reason, after);
}

struct lk__request *lk__conn_answered(struct lk__conn *conn)
{
	if (conn->in_flight && conn->in_flight->appended) {
		/* What the connection sends by itself, as the handshake, proves nothing. */
		if (!conn->in_flight->is_load) {
			conn->proved = true;
			conn->failures = 0;
			conn->next_connect_ns = 0;
		}
		return conn->in_flight;
	}
	lk__conn_must_break(conn, LK_EPROTOCOL, "unexpected reply: no command outstanding");
	return NULL;
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
	if (request->batch && !lk__request_collect(request, reply))
		return;
	lk__conn_remove(conn, request);
	if (request->batch) {
		reply = request->reply->element[0];
		lk__conn_demoted(conn, request, reply, failures);
	} else if (conn_reload(conn, request, reply) ||
		   lk__conn_demoted(conn, request, reply, failures)) {
		freeReplyObject(reply);
		return;
	} else {
		request->reply = reply;
	}
	if (lk__conn_redirected(conn, request, reply, after) ||
	    lk__conn_postponed(conn, request, reply))
		return;
	if (request->asks_acks)
		lk__acks_came(conn, request, after);
	if (request->is_load)
		conn_loaded(conn, reply);
	if (request->tells_time)
		lk__node_hear_time(conn->node, lk__time_answer(reply), request->sent_ns,
				   lk__now_ns());
	if (reply->type == REDIS_REPLY_ERROR)
		conn_refused(conn, request, reply->str, after);
	else if (!lk__acks_await(conn, request, after))
		lk__conn_done(conn, request, 0, "", after);
}

/* ---- reading: the leader's turn ---- */

/* When the oldest answer is too late; a silent subscription is to be probed. */
int64_t lk__conn_limit_ns(const struct lk__conn *conn)
{
	const struct lk_config *config = conn->node->config;
	if (conn->in_flight)
		return lk__after_ms(conn->in_flight->sent_ns, config->command_timeout_ms);
	if (conn->kind == LK__CONN_MESSAGES && config->keepalive_s > 0)
		return lk__after_ms(conn->heard_ns, config->keepalive_s * 1000);
	return LK__NEVER;
}

int64_t lk__conn_next_ns(const struct lk__conn *conn)
{
	int64_t next_ns = lk__earlier(lk__conn_limit_ns(conn), lk__acks_next_ns(conn));
	return conn->postponed ? lk__earlier(next_ns, conn->postponed_until_ns) : next_ns;
}

static ssize_t conn_read(struct lk__conn *conn)
{
	bool ended = atomic_load(&conn->ended);
	if (ended)
		atomic_store(&conn->ended, false);
	if (conn->exclusive)
		pthread_mutex_lock(&conn->mutex);
	ssize_t got = lk__stream_read(conn->stream, conn->chunk, sizeof(conn->chunk));
	if (conn->exclusive)
		pthread_mutex_unlock(&conn->mutex);
	if (ended && got > 0) /* the end is still to be read */
		atomic_store(&conn->ended, true);
	return got == 0 ? -ECONNRESET : got;
}

/* Reads without sleeping for as long as that has paid lately: a lone caller's answer is near. */
static ssize_t conn_spin(struct lk__conn *conn, int64_t until_ns)
{
	struct lk__spin *spin = &conn->spin;
	ssize_t got;
	do {
		got = conn_read(conn);
		if (got != -EAGAIN && got != -EINTR) {
			spin->credit += spin->credit < SPIN_CREDIT_MAX;
			return got;
		}
	} while (!atomic_load_explicit(&conn->left, memory_order_relaxed) &&
		 lk__now_ns() < until_ns);
	/* No answer in time, or another caller came: we are not alone. */
	spin->credit -= 4;
	if (spin->credit < 0) {
		spin->credit = 0;
		spin->pause = SPIN_PAUSE;
	}
	return -EAGAIN;
}

static bool conn_may_spin(struct lk__conn *conn)
{
	bool alone = conn->waits && !conn->waits->next && conn->in_flight &&
		     !conn->in_flight->contended;
	if (!alone || conn->kind != LK__CONN_SCRIPTS || !conn->node->can_spin)
		return false;
	if (conn->spin.pause > 0) {
		conn->spin.pause--;
		return false;
	}
	return true;
}

static void conn_sleep(struct lk__conn *conn, short events, int64_t until_ns,
		       const lk_cancel *cancel)
{
	struct pollfd fds[3] = {
		{.fd = conn->stream->fd, .events = events},
		{.fd = conn->wake_fd, .events = POLLIN},
		{.fd = cancel ? cancel->fd : -1, .events = POLLIN},
	};
	int timeout_ms = until_ns == LK__NEVER ? 60000
					       : lk__ms_until(lk__now_ns(), until_ns, 60000);
	lk__poll(fds, cancel ? 3 : 2, timeout_ms);
	if (fds[1].revents)
		lk__wake_fd_clear(conn->wake_fd);
}

/* Takes whole replies out of what was read; true when the peer does not speak the protocol. */
static bool conn_parse(struct lk__conn *conn, ssize_t got, struct lk__deferred *after)
{
	int rc = lk__reader_feed(conn->reader, conn->chunk, (size_t)got);
	if (conn->kind == LK__CONN_MESSAGES)
		conn->heard_ns = lk__now_ns();
	redisReply *reply;
	while (rc >= 0 && conn->state == LK__CONN_UP &&
	       (rc = lk__reader_next(conn->reader, &reply)) == 1) {
		if (conn->kind == LK__CONN_MESSAGES)
			lk__channels_take(conn, reply, after);
		else
			lk__conn_take(conn, reply, after);
	}
	return rc < 0;
}

static void conn_took(struct lk__conn *conn, ssize_t got, struct lk__deferred *after)
{
	char reason[160];
	if (conn->state == LK__CONN_CLOSED) /* meanwhile; a lost connection would be opened again */
		return;
	if (conn->disowned) /* what was read is not looked at; it must break */
		got = -EAGAIN;
	if (got == -EAGAIN || got == -EINTR) {
		if (conn->must_break)
			lk__conn_break(conn, conn->fault.code, conn->fault.reason, after);
		else if (conn->in_flight && lk__now_ns() >= lk__conn_limit_ns(conn))
			lk__conn_break(conn, LK_EUNREACHABLE, "no answer within the command limit",
				       after);
	} else if (got < 0) {
		const char *text = got == -ECONNRESET
					   ? "the connection was closed"
					   : strerror_r((int)-got, reason, sizeof(reason));
		lk__conn_break(conn, LK_EUNREACHABLE, text, after);
	} else if (conn_parse(conn, got, after)) {
		lk__conn_break(conn, LK_EPROTOCOL, lk__reader_error(conn->reader), after);
	} else if (conn->must_break) {
		lk__conn_break(conn, conn->fault.code, conn->fault.reason, after);
	}
}

/* One turn of the leader: write, spin or sleep, read, hand out. Frees the mutex meanwhile. */
static void conn_turn(struct lk__conn *conn, int64_t until_ns, lk_cancel *cancel,
		      struct lk__deferred *after)
{
	assert(conn->leader && conn->state == LK__CONN_UP);
	if (conn->kind == LK__CONN_MESSAGES)
		lk__channels_probe(conn);
	if (conn->postponed && lk__now_ns() >= conn->postponed_until_ns)
		lk__conn_resume(conn);
	lk__acks_turn(conn, after);
	lk__conn_flush(conn);
	int64_t next_ns = lk__conn_next_ns(conn);
	bool spins = until_ns > 0 && conn_may_spin(conn);
	short events = conn->stream->wants | (lk__buffer_size(&conn->out) ? POLLOUT : 0);
	bool sleeps = until_ns > 0 && !spins && !conn->stream->buffered && !conn->must_break;
	atomic_store(&conn->asleep, sleeps);
	lk__conn_unlock(conn, after);
	ssize_t got;
	if (spins) {
		int64_t now_ns = lk__now_ns();
		got = conn_spin(conn, now_ns + conn->node->config->spin_us * LK__US);
	} else {
		if (sleeps)
			conn_sleep(conn, events, until_ns < next_ns ? until_ns : next_ns, cancel);
		atomic_store(&conn->asleep, false);
		got = conn_read(conn);
	}
	pthread_mutex_lock(&conn->mutex);
	conn_took(conn, got, after);
}

/* The leader goes, and the first who still waits is the next. False: there is none. */
static bool conn_pass_lead(struct lk__conn *conn, struct lk__deferred *after)
{
	struct lk__wait *wait;
	assert(conn->leader);
	conn->leader = NULL;
	if (conn->state != LK__CONN_UP)
		return false;
	DL_FOREACH(conn->waits, wait)
	{
		if (!wait->ready(wait->subject)) {
			conn->leader = wait->thread;
			atomic_store(&wait->appointed, true);
			lk__after_wake(after, wait->thread);
			return true;
		}
	}
	lk__conn_flush(conn);
	return false;
}

/* Whether somebody has to look again even if nothing more comes. */
static bool conn_is_unfinished(const struct lk__conn *conn)
{
	return conn->in_flight || conn->postponed || conn->unacked || conn->must_break ||
	       atomic_load(&conn->ended);
}

/*
 * A caller that leads goes: without a next one, the loop is told. Not when it goes because it has
 * heard its message: it tries now, and then listens again, leaves the channel, or tells the loop
 * (head_grant()). Waking the loop would be in the way of that try.
 */
static void conn_resign(struct lk__conn *conn, bool heard, struct lk__deferred *after)
{
	if (conn_pass_lead(conn, after) || conn->state != LK__CONN_UP)
		return;
	if (conn_is_unfinished(conn) || (conn->channels && !heard))
		conn->node->events->attention(conn->node->context);
}

/* Answered by another who led: out of the list already, and no business with the connection. */
static bool conn_served(const struct lk__wait *wait)
{
	return wait->request && atomic_load_explicit(&wait->request->done, memory_order_acquire) &&
	       !atomic_load(&wait->appointed);
}

/* Returns with the mutex, but for WAIT_SERVED. */
static int conn_wait(struct lk__conn *conn, struct lk__wait *wait, int64_t until_ns,
		     lk_cancel *cancel, struct lk__deferred *after)
{
	for (;;) {
		if (wait->ready(wait->subject))
			return LK__WAIT_READY;
		if (conn->state == LK__CONN_CLOSED)
			return LK_ECLOSED;
		if (lk__cancelled(cancel))
			return LK_ECANCELLED;
		if (until_ns != LK__NEVER && lk__now_ns() >= until_ns)
			return LK__WAIT_TIME_UP;
		if (conn->state == LK__CONN_UP && !conn->leader)
			conn->leader = wait->thread;
		if (conn->leader == wait->thread) {
			conn_turn(conn, until_ns, cancel, after);
		} else {
			lk__conn_push(conn);
			lk__conn_unlock(conn, after);
			lk__park_wait(&wait->thread->park, until_ns);
			if (conn_served(wait))
				return WAIT_SERVED;
			pthread_mutex_lock(&conn->mutex);
		}
	}
}

static int conn_wait_and_go(struct lk__conn *conn, struct lk__wait *wait, int64_t until_ns,
			    lk_cancel *cancel, struct lk__deferred *after)
{
	DL_APPEND(conn->waits, wait);
	wait->listed = true;
	if (wait->request)
		wait->request->wait = wait;
	int rc = conn_wait(conn, wait, until_ns, cancel, after);
	if (rc == WAIT_SERVED)
		return LK__WAIT_READY;
	conn_unlist(conn, wait);
	if (wait->request)
		wait->request->wait = NULL;
	if (conn->leader == wait->thread)
		conn_resign(conn, rc == LK__WAIT_READY, after);
	lk__conn_unlock(conn, after);
	return rc;
}

int lk__conn_wait(struct lk__conn *conn, struct lk__thread *thread,
		  bool (*ready)(const void *subject), const void *subject, int64_t until_ns,
		  lk_cancel *cancel)
{
	struct lk__deferred after = {.wake_count = 0};
	struct lk__wait wait = {.thread = thread, .ready = ready, .subject = subject};
	pthread_mutex_lock(&conn->mutex);
	return conn_wait_and_go(conn, &wait, until_ns, cancel, &after);
}

static bool request_ready(const void *subject)
{
	return atomic_load(&((const struct lk__request *)subject)->done);
}

int lk__conn_await(struct lk__request *request, struct lk__thread *thread, int64_t until_ns,
		   lk_cancel *cancel)
{
	int rc;
	do {
		struct lk__conn *conn = request->conn;
		struct lk__deferred after = {.wake_count = 0};
		struct lk__wait wait = {.thread = thread,
					.ready = request_ready,
					.subject = request,
					.request = request};
		pthread_mutex_lock(&conn->mutex);
		rc = conn_wait_and_go(conn, &wait, until_ns, cancel, &after);
	} while (rc == LK__WAIT_READY && lk__conn_follow(request));
	return rc;
}

int lk__conn_call(struct lk__conn *conn, struct lk__request *request, struct lk__thread *thread,
		  int64_t until_ns, lk_cancel *cancel)
{
	struct lk__deferred after = {.wake_count = 0};
	struct lk__wait wait = {
		.thread = thread, .ready = request_ready, .subject = request, .request = request};
	request->thread = thread;
	pthread_mutex_lock(&conn->mutex);
	conn_submit(conn, request, &after);
	int rc = conn_wait_and_go(conn, &wait, until_ns, cancel, &after);
	bool moved = rc == LK__WAIT_READY && lk__conn_follow(request);
	return moved ? lk__conn_await(request, thread, until_ns, cancel) : rc;
}

static bool conn_attend(struct lk__conn *conn, struct lk__thread *thread, bool event)
{
	struct lk__deferred after = {.wake_count = 0};
	bool armed = event && atomic_exchange(&conn->armed, false);
	if (pthread_mutex_trylock(&conn->mutex) != 0) {
		if (event)
			atomic_store(&conn->ended, true);
		return true; /* its holder may be stopped in a debugger: renewals go on */
	}
	if (event && (conn->leader || !armed)) /* whoever reads until there is nothing, finds it */
		atomic_store(&conn->ended, true);
	if (conn->state == LK__CONN_UP && !conn->leader) {
		conn->leader = thread;
		conn_turn(conn, 0, NULL, &after);
		if (conn->leader == thread)
			conn_pass_lead(conn, &after);
	}
	bool expected = !conn->leader && (conn_is_unfinished(conn) || conn->channels);
	lk__conn_unlock(conn, &after);
	return expected;
}

bool lk__conn_attend(struct lk__conn *conn, struct lk__thread *thread)
{
	return conn_attend(conn, thread, false);
}

bool lk__conn_attend_event(struct lk__conn *conn, struct lk__thread *thread)
{
	return conn_attend(conn, thread, true);
}
