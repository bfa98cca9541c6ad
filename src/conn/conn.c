/* SPDX-License-Identifier: MIT */
/* The life of a connection: down, connecting, up, broken, closed. */
#include "conn/conn.h"

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
#include "conn/connector.h"
#include "conn/node.h"
#include "conn/trace.h"
#include "net/stream.h"
#include "resp/reply.h"

#define REST_NS (30000 * LK__MS)      /* without use, and a connection for a crowd is closed */
#define FIRST_PAUSE_NS (100 * LK__MS) /* the longest before an attempt, until one has succeeded */

int lk__conn_init(struct lk__conn *conn, struct lk__node *node, enum lk__conn_kind kind,
		  lk_error *error)
{
	conn->node = node;
	conn->kind = kind;
	conn->exclusive = node->config->scheme == LK__SCHEME_TLS;
	conn->wake_fd = kind == LK__CONN_PROBE ? -1 : lk__wake_fd_new();
	if (conn->wake_fd < 0 && kind != LK__CONN_PROBE)
		return lk__fail_system(error, errno, "eventfd");
	pthread_mutex_init(&conn->mutex, NULL);
	return 0;
}

void lk__conn_watch(struct lk__conn *conn, int set_fd)
{
	pthread_mutex_lock(&conn->mutex);
	if (conn->state == LK__CONN_UP && !conn->watched)
		conn->watched = lk__set_add(set_fd, conn->stream->fd, LK__SET_ENDED, conn) == 0;
	pthread_mutex_unlock(&conn->mutex);
}

bool lk__conn_is_up(struct lk__conn *conn)
{
	pthread_mutex_lock(&conn->mutex);
	bool up = conn->state == LK__CONN_UP;
	pthread_mutex_unlock(&conn->mutex);
	return up;
}

void lk__conn_place(struct lk__conn *conn, char place_out[LK__CONN_PLACE_SIZE])
{
	pthread_mutex_lock(&conn->mutex);
	memcpy(place_out, conn->place, LK__CONN_PLACE_SIZE);
	pthread_mutex_unlock(&conn->mutex);
}

bool lk__conn_poll(struct lk__conn *conn, struct pollfd *poll_out)
{
	*poll_out = (struct pollfd){.fd = -1};
	pthread_mutex_lock(&conn->mutex);
	bool up = conn->state == LK__CONN_UP, led = conn->leader != NULL;
	bool writes = up && !led && lk__buffer_size(&conn->out) > 0;
	if (up) {
		poll_out->fd = conn->stream->fd;
		poll_out->events = conn->stream->wants | (writes ? POLLOUT : 0);
	}
	bool now = !up || (!led && (conn->stream->buffered || conn->must_break));
	pthread_mutex_unlock(&conn->mutex);
	return now;
}

/* ---- silence ---- */

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

/* When the oldest answer is too late; a silent subscription is to be probed. */
static int64_t conn_limit_ns(const struct lk__conn *conn)
{
	const struct lk_config *config = conn->node->config;
	if (conn->in_flight)
		return lk__after_ms(conn->in_flight->sent_ns, config->command_timeout_ms);
	if (conn->kind == LK__CONN_MESSAGES && config->keepalive_s > 0)
		return lk__after_ms(conn->heard_ns, config->keepalive_s * 1000);
	return LK__NEVER;
}

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

/* When the silence of one that owes answers is to be doubted; 0: at once, by one more look. */
static int64_t conn_doubt_ns(const struct lk__conn *conn)
{
	if (!conn->in_flight || !conn->in_flight->appended || conn->drains)
		return LK__NEVER;
	bool doubted = conn->doubted_ns > silent_since_ns(conn);
	return doubted && conn_is_outlived(conn) ? 0 : conn->doubt_ns;
}

int64_t lk__conn_next_ns(const struct lk__conn *conn)
{
	int64_t ask_ns = conn->unacked && !conn->asks_acks ? conn->ask_ns : LK__NEVER;
	int64_t next_ns = conn->drains ? conn->drain_until_ns : ask_ns;
	next_ns = lk__earlier(conn_limit_ns(conn), next_ns);
	next_ns = lk__earlier(conn_doubt_ns(conn), next_ns);
	return conn->postponed ? lk__earlier(next_ns, conn->postponed_until_ns) : next_ns;
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

/* It must break for its silence: so may others, which the loop's turn looks at. */
static void conn_fell_silent(struct lk__conn *conn)
{
	struct lk__node *node = conn->node;
	conn->silent = true;
	atomic_store(&node->silent_ns, silent_since_ns(conn));
	if (conn->kind == LK__CONN_SCRIPTS)
		atomic_store(&node->mute_ns, silent_since_ns(conn));
	atomic_store(&node->judges, true);
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
		conn_fell_silent(conn);
	}
}

void lk__conn_heard_nothing(struct lk__conn *conn, struct lk__deferred *after)
{
	int64_t now_ns = lk__now_ns();
	if (now_ns >= conn_limit_ns(conn)) {
		lk__conn_must_break(conn, LK_EUNREACHABLE, "no answer within the command limit");
		conn_fell_silent(conn);
		return;
	}
	int64_t doubt_ns = conn_doubt_ns(conn);
	if (doubt_ns > 0 && now_ns >= doubt_ns) /* of one that may have been answered since */
		doubt_ns = conn->doubt_ns = conn_soonest_ns(conn);
	if (now_ns >= doubt_ns)
		conn_doubt(conn, after);
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

static void conn_hasten_all(struct lk__conn *conn)
{
	conn_hasten(conn, conn_until_ns(conn, lk__now_ns()));
}

/* ---- its life ---- */

static void conn_drop_stream(struct lk__conn *conn)
{
	if (conn->stream && conn->silent) /* a copy that comes late is one more to be given back */
		lk__socket_discard(conn->stream->fd);
	if (conn->stream)
		lk__socket_shutdown(conn->stream->fd);
	conn->watched = false;
	atomic_store(&conn->armed, false);
	lk__stream_close(conn->stream);
	lk__reader_free(conn->reader);
	conn->stream = NULL;
	conn->reader = NULL;
	lk__buffer_take(&conn->out, lk__buffer_size(&conn->out));
	atomic_store(&conn->left, false);
	atomic_store(&conn->ended, false);
	conn->must_break = conn->drains = conn->disowned = false;
	conn->outlived = conn->silent = false;
	conn->spin = (struct lk__spin){0};
}

/* Takes back what was still to be written, in whole or in part: it cannot have run. */
static void conn_recall_unwritten(struct lk__conn *conn)
{
	size_t left = lk__buffer_size(&conn->out);
	struct lk__request *request = conn->in_flight ? conn->in_flight->prev : NULL;
	while (left > 0 && request) {
		size_t size = request->appended ? lk__buffer_size(&request->bytes) : 0;
		assert(size == 0 || request->sends > 0);
		left -= size < left ? size : left;
		request->sends -= size > 0;
		request = request == conn->in_flight ? NULL : request->prev;
	}
}

/* Keeps what may be sent again for the next connection; the rest is done. */
static void conn_sort_out(struct lk__conn *conn, bool all, int code, const char *reason,
			  struct lk__deferred *after)
{
	struct lk__request *request, *next;
	int64_t now_ns = lk__now_ns();
	conn->node->acks_ops->lost(conn);
	lk__conn_resume(conn);
	DL_FOREACH_SAFE(conn->in_flight, request, next)
	{
		bool ends = request->sends ? request->once : request->return_unsent;
		request->appended = false;
		if (!all && request->resend && now_ns < request->deadline_ns && !ends)
			continue;
		DL_DELETE(conn->in_flight, request);
		conn->in_flight_count--;
		lk__conn_done(conn, request, request->sends ? LK_EMAYBEHELD : code, reason, after);
	}
}

static bool conn_demand(const struct lk__conn *conn)
{
	return conn->in_flight || conn->postponed || conn->channels || conn->wanted > 0;
}

/* Doubled with each failure up to the most, then a random half of it added or not. */
static int64_t conn_backoff_ns(const struct lk__conn *conn)
{
	const struct lk_config *config = conn->node->config;
	int64_t pause_ms = config->backoff_min_ms;
	for (unsigned i = 1; i < conn->failures && pause_ms < config->backoff_max_ms; i++)
		pause_ms *= 2;
	if (pause_ms > config->backoff_max_ms)
		pause_ms = config->backoff_max_ms;
	uint32_t random = 0;
	lk__random_bytes(&random, sizeof(random));
	int64_t half_ns = pause_ms * LK__MS / 2;
	return half_ns + (int64_t)(random % 1024) * half_ns / 1024;
}

/* Returns the pause before the next attempt. */
static int64_t conn_failed(struct lk__conn *conn)
{
	conn->failures++;
	int64_t pause_ns = conn_backoff_ns(conn);
	conn->next_connect_ns = lk__now_ns() + pause_ns;
	return pause_ns;
}

/* Another may be the master now. */
static void conn_suspect(struct lk__conn *conn)
{
	struct lk__finder *finder = conn->node->finder;
	if (finder)
		finder->ops->suspect(finder);
}

void lk__conn_break(struct lk__conn *conn, int code, const char *reason, struct lk__deferred *after)
{
	struct lk__node *node = conn->node;
	conn_suspect(conn);
	lk__fail(&conn->last_error, code, "%s%s%s: %s", conn->place, *conn->place ? " of " : "",
		 node->config->url, reason);
	lk__log(&node->log, LK_LOG_WARNING, "connection lost: %s", conn->last_error.message);
	if (!conn->proved && !conn->outlived && conn_demand(conn)) /* as bad as no connection */
		conn_failed(conn);
	conn_recall_unwritten(conn);
	conn_drop_stream(conn);
	conn->state = LK__CONN_DOWN;
	conn->leader = NULL;
	atomic_fetch_add(&node->epoch, 1);
	atomic_fetch_add_explicit(&node->counters.disconnects, 1, memory_order_relaxed);
	conn->node->channels_ops->lost(conn);
	conn_sort_out(conn, false, code, conn->last_error.message, after);
	node->events->lost(node->context);
	if (conn_demand(conn))
		lk__conn_start(conn, after);
}

static void standbys_wake(struct lk__conn *conn, struct lk__deferred *after)
{
	const struct lk__standby *standby;
	DL_FOREACH(conn->standbys, standby)
	lk__after_wake(after, standby->thread);
}

static void conn_wake_all(struct lk__conn *conn, struct lk__deferred *after)
{
	struct lk__wait *wait;
	DL_FOREACH(conn->waits, wait)
	lk__after_wake(after, wait->thread);
	standbys_wake(conn, after);
}

/* Nothing will come of what is waiting here: not sent is not done, sent is unknown. */
static void conn_give_up(struct lk__conn *conn, const lk_error *error, struct lk__deferred *after)
{
	conn->state = LK__CONN_DOWN;
	conn_sort_out(conn, true, error->code, error->message, after);
	conn_wake_all(conn, after);
}

/*
 * Tries again what failed a moment ago, and does not answer from memory: the server may be back.
 * Without a storm of attempts: a pause comes first. A caller who would be told of a refused port at
 * once is not kept longer than FIRST_PAUSE_NS by those who came before; a password that is refused
 * too often may lock the account.
 */
static int64_t conn_pause_ns(const struct lk__conn *conn)
{
	int64_t now_ns = lk__now_ns();
	int64_t pause_ns = conn->next_connect_ns > now_ns ? conn->next_connect_ns - now_ns : 0;
	bool patient = atomic_load(&conn->node->was_up) || lk_error_is_fatal(conn->last_error.code);
	return patient ? pause_ns : lk__earlier(pause_ns, FIRST_PAUSE_NS);
}

static bool conn_install(struct lk__conn *conn, struct lk__stream *stream,
			 struct lk__reader *reader, const struct lk__greeting *greeting,
			 bool watched);
static int64_t conn_connect_failed(struct lk__conn *conn, const lk_error *error);

void lk__conn_start(struct lk__conn *conn, struct lk__deferred *after)
{
	static const struct lk__connector_ops connector_ops = {
		.made = conn_install, .failed = conn_connect_failed, .doubts = lk__node_try};
	lk_error error;
	conn->state = LK__CONN_CONNECTING;
	conn->tended = false;
	lk__trace_conn(conn, "connecting");
	if (lk__connector_start(conn, &connector_ops, conn_pause_ns(conn), &error) < 0) {
		conn->last_error = error;
		conn->failure_count++;
		conn_give_up(conn, &error, after);
	}
	conn_hasten_all(conn);
}

static bool conn_is_past(const struct lk__conn *conn)
{
	struct lk__finder *finder = conn->node->finder;
	return finder && atomic_load(&finder->generation) != conn->generation;
}

static void conn_disown(struct lk__conn *conn, const char *reason)
{
	struct lk__deferred after;
	lk__conn_lock(conn, &after);
	if (conn->state == LK__CONN_UP && conn_is_past(conn)) {
		lk__conn_must_break(conn, LK_EUNREACHABLE, reason);
		conn->disowned = true;
		if (conn->leader) /* it may be reading: it breaks before it believes a word */
			lk__conn_wake(conn);
		else
			lk__conn_break(conn, LK_EUNREACHABLE, reason, &after);
	} else if (conn->state == LK__CONN_CONNECTING && conn->connector) {
		lk__connector_hurry(conn->connector);
		conn->tended = false;
		if (conn->leader)
			lk__conn_wake(conn);
	} else if (conn->state == LK__CONN_DOWN) { /* its pause is for another server */
		conn->next_connect_ns = 0;
	}
	lk__conn_unlock(conn, &after);
}

void lk__node_disown(struct lk__node *node, const char *reason)
{
	struct lk__conn *conn;
	for (size_t i = 0; (conn = lk__node_conn(node, i)); i++)
		conn_disown(conn, reason);
}

/* A handshake that was sent then was answered. */
static void conn_note_greeting(struct lk__node *node, int64_t sent_ns)
{
	int64_t last_ns = atomic_load(&node->greeted_ns);
	while (last_ns < sent_ns &&
	       !atomic_compare_exchange_weak(&node->greeted_ns, &last_ns, sent_ns))
		continue;
	atomic_store(&node->judges, true);
}

static bool conn_install(struct lk__conn *conn, struct lk__stream *stream,
			 struct lk__reader *reader, const struct lk__greeting *greeting,
			 bool watched)
{
	struct lk__deferred after;
	lk__conn_lock(conn, &after);
	if (conn->state == LK__CONN_CLOSED) {
		pthread_mutex_unlock(&conn->mutex);
		return false;
	}
	assert(!conn->stream && !conn->reader);
	conn->connector = NULL;
	conn->stream = stream;
	conn->reader = reader;
	conn->greeted_ns = greeting->sent_ns;
	conn_note_greeting(conn->node, greeting->sent_ns);
	lk__node_hear_time(conn->node, greeting->server_us, greeting->sent_ns,
			   greeting->received_ns);
	conn->generation = greeting->generation;
	memcpy(conn->place, greeting->place, sizeof(conn->place));
	lk__node_note_place(conn->node, conn->place);
	memcpy(conn->scripts, greeting->scripts, sizeof(conn->scripts));
	atomic_store(&conn->node->time_by_script, greeting->time_by_script);
	if (conn->kind != LK__CONN_MESSAGES && !atomic_load(&conn->node->no_hello)) {
		atomic_store(&conn->node->spreads, greeting->spreads);
		atomic_store(&conn->node->no_hello, greeting->no_hello);
	}
	for (size_t i = 0; i < LK__SCRIPT_COUNT; i++)
		atomic_store(&conn->node->script_there[i], conn->scripts[i]);
	conn->load_refused = false;
	conn->state = LK__CONN_UP;
	conn->heard_ns = conn->used_ns = lk__now_ns();
	conn->least_ns = 0;
	conn->watched = watched;
	atomic_store(&conn->armed, watched);
	atomic_store(&conn->node->was_up, true);
	atomic_store(&conn->node->replicas.look_ns, 0);
	conn->proved = false;
	conn->last_error.code = 0;
	lk__trace_conn(conn, "connected");
	atomic_fetch_add_explicit(&conn->node->counters.connects, 1, memory_order_relaxed);
	if (conn_is_past(conn)) { /* found before another became the master */
		lk__conn_break(conn, LK_EUNREACHABLE, "it is the master no more", &after);
		lk__conn_unlock(conn, &after);
		return true;
	}
	conn_sort_out(conn, false, LK_EUNREACHABLE, "the server could not be reached in time",
		      &after);
	struct lk__request *request;
	DL_FOREACH(conn->in_flight, request)
	lk__conn_append(conn, request);
	conn->node->channels_ops->made(conn, greeting->client_id);
	lk__conn_flush(conn);
	conn_wake_all(conn, &after);
	conn->node->events->up(conn->node->context);
	if (!conn->waits && conn_demand(conn))
		conn->node->events->attention(conn->node->context);
	lk__conn_unlock(conn, &after);
	return true;
}

static int64_t conn_connect_failed(struct lk__conn *conn, const lk_error *error)
{
	struct lk__deferred after;
	lk__conn_lock(conn, &after);
	if (conn->state == LK__CONN_CLOSED) {
		pthread_mutex_unlock(&conn->mutex);
		return FIRST_PAUSE_NS; /* who leads will notice */
	}
	conn_suspect(conn);
	conn->failure_count++;
	conn->last_error = *error;
	int64_t pause_ns = conn_failed(conn);
	lk__log(&conn->node->log, LK_LOG_WARNING, "cannot connect: %s", error->message);
	if (!atomic_load(&conn->node->was_up) || lk_error_is_fatal(error->code)) {
		conn_give_up(conn, error, &after);
		pause_ns = -1;
	} else {
		/* The background's work goes over another connection meanwhile: lk__node_work(). */
		conn_sort_out(conn, conn->kind == LK__CONN_WORK, error->code, error->message,
			      &after);
		conn_wake_all(conn, &after);
		if (!conn_demand(conn)) {
			conn->state = LK__CONN_DOWN;
			pause_ns = -1;
		}
		conn_hasten_all(conn);
	}
	if (pause_ns < 0) {
		conn->connector = NULL;
		conn->leader = NULL;
	}
	lk__conn_unlock(conn, &after);
	return pause_ns;
}

bool lk__conn_may_come(const struct lk_config *config, int code)
{
	return code == LK_EUNREACHABLE || code == LK_EUNAVAILABLE || code == LK_EPROTOCOL ||
	       (code == LK_EAUTH && lk__credentials_change(config)) ||
	       (code == LK_ETLS && lk__certificates_change(config));
}

void lk__conn_open(struct lk__conn *conn)
{
	struct lk__deferred after;
	lk__conn_lock(conn, &after);
	if (conn->state == LK__CONN_DOWN && lk__now_ns() >= conn->next_connect_ns)
		lk__conn_start(conn, &after);
	lk__conn_unlock_held(conn, &after);
}

static bool conn_is_at_rest(const struct lk__conn *conn)
{
	return lk__conn_is_idle(conn) && !lk__conn_is_led(conn) && !conn->waits &&
	       !conn->standbys && conn->wanted == 0 && !conn->must_break &&
	       lk__buffer_size(&conn->out) == 0;
}

/* A caller counts itself first, and then looks whether it is up. */
static bool conn_retire(struct lk__conn *conn)
{
	if (!conn_is_at_rest(conn))
		return false;
	conn->state = LK__CONN_DOWN;
	if (atomic_load(&conn->callers) > 0) {
		conn->state = LK__CONN_UP;
		return false;
	}
	conn_drop_stream(conn);
	conn->node->channels_ops->lost(conn);
	return true;
}

/* Closes it if it is at rest and has sent nothing for so long; else when to look again. */
static int64_t conn_rest(struct lk__conn *conn, int64_t now_ns, int64_t rest_ns)
{
	int64_t next_ns = LK__NEVER;
	pthread_mutex_lock(&conn->mutex);
	if (conn->state == LK__CONN_UP) {
		next_ns = conn->used_ns + rest_ns;
		if (now_ns >= next_ns)
			next_ns = conn_retire(conn) ? LK__NEVER : now_ns + rest_ns;
	}
	pthread_mutex_unlock(&conn->mutex);
	return next_ns;
}

/* Another of its node was silent since `since_ns`, and is lost. If this one has been idle since
 * before, it is closed, or made anew where somebody listens. */
static void conn_desert(struct lk__conn *conn, int64_t since_ns)
{
	struct lk__deferred after;
	lk__conn_lock(conn, &after);
	bool idle = conn->state == LK__CONN_UP && !conn->in_flight && conn->heard_ns < since_ns;
	if (idle && conn->channels) {
		lk__conn_must_break(conn, LK_EUNREACHABLE, "another connection fell silent");
		if (conn->leader)
			lk__conn_wake(conn);
		else
			lk__conn_break(conn, conn->fault.code, conn->fault.reason, &after);
	} else if (idle) {
		conn_retire(conn);
	}
	lk__conn_unlock(conn, &after);
}

bool lk__conn_greeted_since(struct lk__conn *conn, int64_t since_ns)
{
	pthread_mutex_lock(&conn->mutex);
	bool greeted = conn->state == LK__CONN_UP && conn->greeted_ns >= since_ns;
	pthread_mutex_unlock(&conn->mutex);
	return greeted;
}

/* Tells whether it cannot be had at present: it is down, or the last attempts have failed. */
static bool conn_fails(struct lk__conn *conn)
{
	pthread_mutex_lock(&conn->mutex);
	bool fails = conn->state == LK__CONN_DOWN ||
		     (conn->state == LK__CONN_CONNECTING && conn->failures > 0);
	pthread_mutex_unlock(&conn->mutex);
	return fails;
}

void lk__conn_fault(struct lk__conn *conn, struct lk__fault *fault_out)
{
	*fault_out = (struct lk__fault){.code = LK_EUNREACHABLE, .reason = "no answer yet"};
	if (pthread_mutex_trylock(&conn->mutex) != 0)
		return; /* its holder may be stopped in a debugger */
	const char *awaits = lk__connector_awaits(conn->connector);
	if (conn->state != LK__CONN_UP && conn->last_error.code) {
		fault_out->code = conn->last_error.code;
		snprintf(fault_out->reason, sizeof(fault_out->reason), "%.159s",
			 conn->last_error.message);
	} else if (awaits) {
		snprintf(fault_out->reason, sizeof(fault_out->reason), "%s", awaits);
	}
	pthread_mutex_unlock(&conn->mutex);
}

/* Tells whether it is up; false also where another thread keeps the mutex. A hint. */
static bool conn_seems_up(struct lk__conn *conn)
{
	if (pthread_mutex_trylock(&conn->mutex) != 0)
		return false;
	bool up = conn->state == LK__CONN_UP;
	pthread_mutex_unlock(&conn->mutex);
	return up;
}

void lk__conn_close_to_tries(struct lk__conn *conn)
{
	pthread_mutex_lock(&conn->mutex);
	if (!conn->closing)
		conn->ask_ns = 0;
	conn->closing = true;
	pthread_mutex_unlock(&conn->mutex);
}

/* A question to replicas that no answer waits for any more does not count. */
static bool conn_expects(const struct lk__conn *conn)
{
	const struct lk__request *request;
	DL_FOREACH(conn->in_flight, request)
	if (!request->asks_acks || conn->unacked)
		return true;
	return false;
}

bool lk__conn_is_idle(const void *subject)
{
	const struct lk__conn *conn = subject;
	return !conn_expects(conn) && !conn->postponed && !conn->unacked && !conn->finished &&
	       atomic_load(&conn->finishing) == 0;
}

void lk__conn_pin(struct lk__conn *conn)
{
	atomic_fetch_add(&conn->finishing, 1);
}

void lk__conn_unpin(struct lk__conn *conn)
{
	atomic_fetch_sub(&conn->finishing, 1);
}

void lk__conn_close(struct lk__conn *conn)
{
	struct lk__deferred after;
	lk__conn_lock(conn, &after);
	if (conn->state != LK__CONN_CLOSED)
		lk__trace_conn(conn, "closed");
	conn->state = LK__CONN_CLOSED;
	conn->node->channels_ops->lost(conn);
	conn_sort_out(conn, true, LK_ECLOSED, "the client is closed", &after);
	conn_wake_all(conn, &after);
	lk__conn_wake(conn);
	/* The leader, if there is one, still looks at the stream: it goes when it is gone. */
	while (conn->leader) {
		lk__conn_unlock(conn, &after);
		struct lk__park nap = {0};
		lk__park_wait(&nap, lk__now_ns() + LK__MS);
		pthread_mutex_lock(&conn->mutex);
	}
	conn_drop_stream(conn);
	struct lk__connector *connector = conn->connector;
	conn->connector = NULL;
	lk__conn_unlock(conn, &after);
	lk__connector_free(connector);
}

/* ---- all connections of a node ---- */

void lk__node_try(struct lk__node *node, int64_t until_ns)
{
	struct lk__deferred after;
	lk__conn_open(&node->probe);
	lk__conn_lock(&node->probe, &after);
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

/* Has one that is in doubt looked at again, now that another has been greeted; and one whose
 * handshake may be. */
static void conn_look_again(struct lk__conn *conn)
{
	struct lk__deferred after;
	lk__conn_lock(conn, &after);
	if (conn->state == LK__CONN_CONNECTING)
		conn_step_on(conn);
	if (conn->state == LK__CONN_UP && conn_doubt_ns(conn) == 0) {
		if (conn->leader)
			lk__conn_wake(conn);
		else
			conn->node->events->attention(conn->node->context);
	}
	lk__conn_unlock_held(conn, &after);
}

static void node_judge(struct lk__node *node)
{
	struct lk__conn *conn;
	conn_rest(&node->probe, lk__now_ns(), 0);
	for (size_t i = 0; (conn = lk__node_conn(node, i)); i++)
		conn_look_again(conn);
	int64_t silent_ns = atomic_load(&node->silent_ns);
	if (silent_ns > 0 && silent_ns < atomic_load(&node->greeted_ns)) {
		atomic_store(&node->silent_ns, 0);
		for (size_t i = 0; (conn = lk__node_conn(node, i)); i++)
			conn_desert(conn, silent_ns);
	}
}

int64_t lk__node_turn(struct lk__node *node, int64_t now_ns)
{
	size_t count = atomic_load(&node->script_count);
	int64_t next_ns = LK__NEVER;
	if (atomic_exchange(&node->opens_work, false))
		lk__conn_open(&node->work);
	if (atomic_exchange(&node->judges, false))
		node_judge(node);
	for (size_t i = 1; i < count; i++)
		if (node->scripts[i]->state == LK__CONN_UP)
			next_ns = lk__earlier(next_ns,
					      conn_rest(node->scripts[i], now_ns, REST_NS));
	return next_ns;
}

struct lk__conn *lk__node_work(struct lk__node *node)
{
	if (conn_seems_up(&node->work))
		return &node->work;
	lk__conn_open(&node->work);
	if (!conn_fails(&node->work))
		return &node->work;
	for (size_t i = 0; i < node->script_count; i++)
		if (conn_seems_up(node->scripts[i]))
			return node->scripts[i];
	return &node->work;
}

/* ---- the loop that reads for those who do not ---- */

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

/* The server's tracking for us ends with it, and then nobody tells. */
static bool conn_carries_tracking(const struct lk__conn *conn)
{
	return conn->kind == LK__CONN_WORK && lk__tracking_is_on(&conn->node->tracking);
}

int64_t lk__conn_arm(struct lk__conn *conn, int set_fd)
{
	int64_t at_ns = LK__NEVER;
	pthread_mutex_lock(&conn->mutex);
	bool expects = conn->in_flight || conn->postponed || conn->unacked || conn->channels ||
		       conn_carries_tracking(conn) || conn_is_urgent(conn);
	if (conn->state == LK__CONN_UP && !lk__conn_is_led(conn) && expects)
		at_ns = conn_arm(conn, set_fd);
	if (conn->finished) /* left to us by one who could not */
		at_ns = 0;
	pthread_mutex_unlock(&conn->mutex);
	return at_ns;
}
