/* SPDX-License-Identifier: MIT */
#include "conn/channels.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conn/request.h"
#include "conn/node.h"
#include "conn/trace.h"
#include "net/stream.h"
#include "resp/reply.h"

/* Begins a subscription, or ends it. */
static void channel_send(struct lk__conn *conn, struct lk__channel *channel, bool sharded,
			 bool leaves)
{
	static const char *const verbs[2][2] = {{"SUBSCRIBE", "UNSUBSCRIBE"},
						{"SSUBSCRIBE", "SUNSUBSCRIBE"}};
	const char *verb = verbs[sharded][leaves];
	struct lk__request *request = lk__request_new(2, (const char *[]){verb, channel->name},
						      (size_t[]){strlen(verb), channel->name_size});
	if (!request) {
		/* The next connection subscribes to what is wanted. */
		lk__conn_must_break(conn, LK_ENOMEM, "out of memory");
		return;
	}
	request->owner = channel;
	request->sharded = sharded;
	request->leaves = leaves;
	channel->unconfirmed++;
	lk__conn_enqueue(conn, request);
}

/* To the kinds of messages that the node has. */
static void channel_command(struct lk__conn *conn, struct lk__channel *channel, bool wanted)
{
	if (conn->node->told_by != LK__MESSAGES_SHARDED || channel->tracks)
		channel_send(conn, channel, false, !wanted);
	if (conn->node->told_by != LK__MESSAGES_PLAIN && !channel->tracks)
		channel_send(conn, channel, true, !wanted);
}

static void channel_want(struct lk__conn *conn, struct lk__channel *channel, bool wanted)
{
	channel->wanted = wanted;
	if (conn->state == LK__CONN_UP)
		channel_command(conn, channel, wanted);
}

static void channel_drop_if_unused(struct lk__conn *conn, struct lk__channel *channel)
{
	if (channel->listenings || channel->own_of || channel->unconfirmed > 0)
		return;
	HASH_DEL(conn->channels, channel);
	free(channel);
}

static struct lk__channel *channel_new(struct lk__conn *conn, const char *name, size_t size)
{
	struct lk__channel *channel = calloc(1, sizeof(*channel) + size + 1);
	if (!channel)
		return NULL;
	memcpy(channel->name, name, size);
	channel->name_size = size;
	channel->tracks = strcmp(channel->name, LK__CHANNEL_TRACKED) == 0;
	HASH_ADD_KEYPTR(hh, conn->channels, channel->name, channel->name_size, channel);
	if (!channel->hh.tbl) {
		free(channel);
		return NULL;
	}
	return channel;
}

static struct lk__channel *channel_get(struct lk__conn *conn, const char *name, size_t size)
{
	struct lk__channel *channel;
	HASH_FIND(hh, conn->channels, name, size, channel);
	return channel ? channel : channel_new(conn, name, size);
}

static void channel_begin(struct lk__conn *conn, struct lk__channel *channel)
{
	channel->code = 0;
	channel->astray = false;
	channel_want(conn, channel, true);
}

/* Without memory for it each release wakes us, as where nobody has turns. */
static void listening_begin_own(struct lk__conn *conn, struct lk__listening *listening,
				const char *turn)
{
	const struct lk__channel *channel = listening->channel;
	size_t size = channel->name_size + 1 + strlen(turn);
	char *name = malloc(size + 1);
	if (!name)
		return;
	char *end = mempcpy(name, channel->name, channel->name_size);
	sprintf(end, ":%s", turn);
	listening->own = channel_get(conn, name, size);
	free(name);
	if (!listening->own)
		return;
	assert(!listening->own->own_of);
	listening->own->own_of = listening;
	channel_begin(conn, listening->own);
}

/* Asks for its own first: that is confirmed when the channel itself is. */
static void channel_add(struct lk__conn *conn, struct lk__channel *channel,
			struct lk__listening *listening, const char *turn)
{
	bool first = !channel->listenings;
	listening->channel = channel;
	DL_APPEND(channel->listenings, listening);
	if (turn)
		listening_begin_own(conn, listening, turn);
	if (first)
		channel_begin(conn, channel);
}

struct lk__listening *lk__channel_open(struct lk__conn *conn, const char *name, size_t size,
				       const char *turn, void *owner)
{
	struct lk__deferred after;
	struct lk__listening *listening = calloc(1, sizeof(*listening));
	if (!listening)
		return NULL;
	listening->owner = owner;
	lk__conn_lock(conn, &after);
	struct lk__channel *channel = channel_get(conn, name, size);
	if (channel) {
		channel_add(conn, channel, listening, turn);
		if (conn->state == LK__CONN_DOWN)
			lk__conn_start(conn, &after);
		lk__conn_push(conn);
	}
	lk__conn_unlock_held(conn, &after);
	if (channel)
		return listening;
	free(listening);
	return NULL;
}

/* Nobody listens any more. */
static void channel_end(struct lk__conn *conn, struct lk__channel *channel)
{
	channel_want(conn, channel, false);
	channel_drop_if_unused(conn, channel);
}

void lk__channel_close(struct lk__conn *conn, struct lk__listening *listening)
{
	struct lk__deferred after;
	struct lk__channel *channel = listening->channel;
	struct lk__channel *own = listening->own;
	lk__conn_lock(conn, &after);
	assert(channel->listenings);
	DL_DELETE(channel->listenings, listening);
	bool last = !channel->listenings;
	if (own) {
		own->own_of = NULL;
		channel_end(conn, own);
	}
	if (last)
		channel_end(conn, channel);
	if (own || last) {
		/* No hurry: without a reader the loop sends it; our caller has its lock sooner. */
		if (lk__conn_is_led(conn))
			lk__conn_push(conn);
		else if (conn->in_flight)
			conn->node->events->attention(conn->node->context);
	}
	lk__conn_unlock_held(conn, &after);
	free(listening);
}

static bool channel_is_on(const struct lk__conn *conn, const struct lk__channel *channel)
{
	return conn->state == LK__CONN_UP && channel->wanted && channel->unconfirmed == 0 &&
	       channel->code == 0 && !channel->astray;
}

enum lk__channel_role lk__channel_role(struct lk__conn *conn, const char *name, size_t size)
{
	struct lk__channel *channel;
	enum lk__channel_role role = LK__CHANNEL_STRANGER;
	pthread_mutex_lock(&conn->mutex);
	HASH_FIND(hh, conn->channels, name, size, channel);
	if (channel && channel->listenings && channel_is_on(conn, channel))
		role = LK__CHANNEL_LISTENER;
	else if (channel && !channel->listenings && lk__buffer_size(&conn->out) > 0)
		role = LK__CHANNEL_LEAVES;
	pthread_mutex_unlock(&conn->mutex);
	return role;
}

static void channel_mark(const struct lk__conn *conn, const struct lk__listening *listening,
			 struct lk__heard *heard)
{
	heard->listening = listening;
	heard->conn = conn;
	heard->generation = listening->channel->generation;
	heard->heard = listening->heard;
	heard->news = listening->news;
	heard->hints = listening->hints;
	heard->failures = conn->failure_count;
	heard->on = channel_is_on(conn, listening->channel);
}

void lk__channel_mark(struct lk__conn *conn, struct lk__listening *listening,
		      struct lk__heard *heard)
{
	pthread_mutex_lock(&conn->mutex);
	channel_mark(conn, listening, heard);
	pthread_mutex_unlock(&conn->mutex);
}

static void channel_retry(struct lk__conn *conn, struct lk__channel *channel)
{
	bool ended = channel->astray || channel->code;
	if (ended && channel->unconfirmed == 0 && conn->state == LK__CONN_UP) {
		channel_begin(conn, channel);
		lk__conn_push(conn);
	}
}

void lk__channel_retry(struct lk__conn *conn, struct lk__listening *listening)
{
	struct lk__deferred after;
	struct lk__channel *channel = listening->channel;
	lk__conn_lock(conn, &after);
	if (listening->own)
		channel_retry(conn, listening->own);
	channel_retry(conn, channel);
	lk__conn_unlock_held(conn, &after);
}

bool lk__channel_take_turns(struct lk__conn *conn, struct lk__listening *listening, bool wanted)
{
	pthread_mutex_lock(&conn->mutex);
	const struct lk__channel *channel = listening->channel;
	listening->turns = wanted && channel_is_on(conn, channel) && listening->own &&
			   channel_is_on(conn, listening->own);
	bool turns = listening->turns;
	pthread_mutex_unlock(&conn->mutex);
	return turns;
}

void lk__channel_listener(struct lk__conn *conn, struct lk__listening *listening,
			  struct lk__thread *thread)
{
	pthread_mutex_lock(&conn->mutex);
	listening->listener = thread;
	pthread_mutex_unlock(&conn->mutex);
}

bool lk__channel_sync(struct lk__conn *conn, struct lk__listening *listening)
{
	struct lk__deferred after;
	lk__conn_lock(conn, &after);
	bool on = channel_is_on(conn, listening->channel);
	if (on) {
		channel_command(conn, listening->channel, true);
		lk__conn_push(conn);
	}
	lk__conn_unlock_held(conn, &after);
	return on;
}

bool lk__channel_listens(struct lk__conn *conn, struct lk__listening *listening)
{
	pthread_mutex_lock(&conn->mutex);
	bool on = channel_is_on(conn, listening->channel);
	pthread_mutex_unlock(&conn->mutex);
	return on;
}

void lk__channel_expect_echo(struct lk__conn *conn, struct lk__listening *listening,
			     struct lk__heard *heard)
{
	pthread_mutex_lock(&conn->mutex);
	channel_mark(conn, listening, heard);
	if (channel_is_on(conn, listening->channel))
		listening->echoes += lk__node_tellings(conn->node);
	pthread_mutex_unlock(&conn->mutex);
}

void lk__channel_drop_echo(struct lk__conn *conn, struct lk__listening *listening)
{
	pthread_mutex_lock(&conn->mutex);
	unsigned each = lk__node_tellings(conn->node);
	listening->echoes -= listening->echoes < each ? listening->echoes : each;
	pthread_mutex_unlock(&conn->mutex);
}

/* A process that lacks a descriptor may lack it for long, so that is told at once; so is a first
 * failure. Of two who listen to one channel, the second one waits for its own alone. */
static bool heard_on_or_failed(const void *subject)
{
	const struct lk__heard *heard = subject;
	const struct lk__conn *conn = heard->conn;
	const struct lk__channel *channel = heard->listening->channel;
	const struct lk__channel *own = heard->listening->own_first ? heard->listening->own : NULL;
	bool failed = conn->failure_count != heard->failures;
	bool tells = !atomic_load(&conn->node->was_up) || conn->last_error.code == LK_ESYSTEM;
	bool own_comes = own && own->unconfirmed > 0;
	return (channel_is_on(conn, channel) && !own_comes) || channel->code || channel->astray ||
	       (failed && tells) || conn->state == LK__CONN_DOWN;
}

/* The wait for a subscription is over: it stands, or why not. */
static int channel_awaited(const struct lk__conn *conn, const struct lk__channel *channel,
			   lk_error *error)
{
	if (channel->code)
		return lk__fail(error, channel->code, "%s: SUBSCRIBE: %s", conn->node->config->url,
				channel->reason);
	if (channel_is_on(conn, channel))
		return LK__WAIT_READY;
	if (channel->astray)
		return lk__fail(error, LK_EUNAVAILABLE, "%s: SSUBSCRIBE: another node has the slot",
				conn->node->config->url);
	if (error)
		*error = conn->last_error;
	return conn->last_error.code ? conn->last_error.code : LK_EUNREACHABLE;
}

static bool heard_something(const void *subject)
{
	const struct lk__heard *heard = subject;
	const struct lk__listening *listening = heard->listening;
	bool message = heard->news_only ? listening->news != heard->news
					: listening->heard != heard->heard;
	bool lost = heard->on && !channel_is_on(heard->conn, listening->channel);
	bool hint = listening->hints != heard->hints;
	return message || hint || lost || listening->channel->generation != heard->generation;
}

/* After a new subscription there may have been others that were missed. What was heard is behind
 * the mark then. */
static void heard_payload(struct lk__heard *heard)
{
	const struct lk__listening *listening = heard->listening;
	bool same = listening->channel->generation == heard->generation;
	bool lost = heard->on && !channel_is_on(heard->conn, listening->channel);
	heard->hinted = listening->heard == heard->heard && same && !lost;
	heard->payload[0] = 0;
	if (listening->heard != heard->heard && same)
		memcpy(heard->payload, listening->payload, sizeof(heard->payload));
	channel_mark(heard->conn, listening, heard);
}

static bool heard_what(const struct lk__heard *heard, bool subscribes)
{
	return subscribes ? heard_on_or_failed(heard) : heard_something(heard);
}

/* Somebody waits until then for the answer to the last one. */
static void conn_need(struct lk__conn *conn, int64_t until_ns)
{
	struct lk__request *last = conn->in_flight ? conn->in_flight->prev : NULL;
	if (!last || !last->appended || (last->needed_ns && last->needed_ns <= until_ns))
		return;
	last->needed_ns = until_ns;
	lk__conn_count_on(conn, last);
}

bool lk__channel_stand_by(struct lk__conn *conn, const struct lk__heard *heard, bool subscribes,
			  struct lk__standby *standby, struct lk__thread *thread, int64_t until_ns)
{
	/* `listening` is const for the waiting, not for us: it is ours. */
	struct lk__listening *listening = (struct lk__listening *)heard->listening;
	pthread_mutex_lock(&conn->mutex);
	listening->listener = thread;
	standby->thread = thread;
	DL_APPEND(conn->standbys, standby);
	if (subscribes && listening->channel->unconfirmed > 0)
		conn_need(conn, until_ns);
	bool ready = conn->state == LK__CONN_CLOSED || heard_what(heard, subscribes);
	pthread_mutex_unlock(&conn->mutex);
	return ready;
}

void lk__channel_sleep(struct lk__conn *conn, const struct lk__heard *heard, bool subscribes,
		       struct lk__thread *thread, int64_t until_ns, lk_cancel *cancel)
{
	lk__conn_wait(conn, thread, subscribes ? heard_on_or_failed : heard_something, heard,
		      until_ns, cancel);
}

void lk__channel_stand_down(struct lk__conn *conn, const struct lk__heard *heard,
			    struct lk__standby *standby)
{
	struct lk__listening *listening = (struct lk__listening *)heard->listening;
	pthread_mutex_lock(&conn->mutex);
	listening->listener = NULL;
	DL_DELETE(conn->standbys, standby);
	pthread_mutex_unlock(&conn->mutex);
}

int lk__channel_look(struct lk__conn *conn, struct lk__heard *heard, bool subscribes,
		     lk_error *error)
{
	int rc = LK__WAIT_TIME_UP;
	pthread_mutex_lock(&conn->mutex);
	if (conn->state == LK__CONN_CLOSED) {
		rc = LK_ECLOSED;
	} else if (heard_what(heard, subscribes) && subscribes) {
		rc = channel_awaited(conn, heard->listening->channel, error);
	} else if (heard_what(heard, subscribes)) {
		rc = LK__WAIT_READY;
		heard_payload(heard);
	}
	pthread_mutex_unlock(&conn->mutex);
	return rc;
}

int lk__channel_await(struct lk__conn *conn, struct lk__listening *listening,
		      struct lk__thread *thread, int64_t until_ns, lk_error *error)
{
	struct lk__standby standby;
	struct lk__heard heard;
	int rc;
	lk__channel_mark(conn, listening, &heard);
	lk__channel_stand_by(conn, &heard, true, &standby, thread, until_ns);
	while ((rc = lk__channel_look(conn, &heard, true, error)) == LK__WAIT_TIME_UP &&
	       lk__now_ns() < until_ns)
		lk__channel_sleep(conn, &heard, true, thread, until_ns, NULL);
	lk__channel_stand_down(conn, &heard, &standby);
	return rc;
}

static void listening_wake(const struct lk__listening *listening, struct lk__deferred *after)
{
	if (listening->listener)
		lk__after_wake(after, listening->listener);
}

static void channel_wake(const struct lk__channel *channel, struct lk__deferred *after)
{
	const struct lk__listening *listening;
	DL_FOREACH(channel->listenings, listening)
	listening_wake(listening, after);
	if (channel->own_of)
		listening_wake(channel->own_of, after);
}

void lk__channels_wake(struct lk__conn *conn, lk__channel_test *test, const void *context)
{
	struct lk__deferred after;
	struct lk__channel *channel, *next;
	bool woken = false;
	lk__conn_lock(conn, &after);
	HASH_ITER(hh, conn->channels, channel, next)
	{
		if (!test(context, channel->name, channel->name_size))
			continue;
		channel->generation++;
		channel_wake(channel, &after);
		woken = true;
	}
	if (woken && conn->leader) /* it may be one of them, and sleeps on the socket */
		lk__conn_wake(conn);
	lk__conn_unlock_held(conn, &after);
}

void lk__channel_touch(struct lk__listening *listening, struct lk__deferred *after)
{
	listening->heard++;
	listening->news++;
	listening->payload[0] = '\0';
	listening_wake(listening, after);
}

void lk__channel_hint(struct lk__listening *listening, struct lk__deferred *after)
{
	listening->hints++;
	listening_wake(listening, after);
}

void lk__channel_wake(struct lk__conn *conn, struct lk__listening *listening)
{
	struct lk__deferred after;
	lk__conn_lock(conn, &after);
	lk__channel_touch(listening, &after);
	if (conn->leader) /* it may be the listener, and sleeps on the socket */
		lk__conn_wake(conn);
	lk__conn_unlock_held(conn, &after);
}

/* Tells whether it tells of a channel: [what, channel, …]. */
static bool is_about(const redisReply *reply, const char *what)
{
	return reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 &&
	       reply->element[0]->type == REDIS_REPLY_STRING &&
	       reply->element[1]->type == REDIS_REPLY_STRING &&
	       strcmp(reply->element[0]->str, what) == 0;
}

static struct lk__channel *channel_named(struct lk__conn *conn, const redisReply *reply)
{
	struct lk__channel *channel;
	HASH_FIND(hh, conn->channels, reply->element[1]->str, (size_t)reply->element[1]->len,
		  channel);
	return channel;
}

/* `own`: on its own channel. */
static void listening_hears(struct lk__conn *conn, struct lk__listening *listening,
			    const char *payload, bool own, struct lk__deferred *after)
{
	bool others = payload[0] == LK__TOLD_OTHERS && payload[1] != '\0';
	bool wakes = !listening->turns || !others;
	listening->heard += wakes;
	if (wakes) {
		snprintf(listening->payload, sizeof(listening->payload), "%s", payload);
		listening_wake(listening, after);
	}
	if (listening->echoes > 0 && !own) {
		listening->echoes--;
	} else {
		listening->news += wakes;
		if (listening->owner)
			conn->node->events->doubt(conn->node->context, listening->owner);
	}
}

static void channel_message(struct lk__conn *conn, const redisReply *reply,
			    struct lk__deferred *after)
{
	struct lk__channel *channel = channel_named(conn, reply);
	struct lk__listening *listening;
	const char *payload = lk__element_text(reply, 2);
	atomic_fetch_add_explicit(&conn->node->counters.messages, 1, memory_order_relaxed);
	if (!channel)
		return;
	if (channel->tracks) {
		lk__tracking_message(conn, reply->element[2], after);
		return;
	}
	if (channel->own_of)
		listening_hears(conn, channel->own_of, payload, true, after);
	DL_FOREACH(channel->listenings, listening)
	listening_hears(conn, listening, payload, false, after);
}

/* Its slot is elsewhere: a listener tries again, and follows it. */
static void channel_strays(struct lk__conn *conn, struct lk__channel *channel,
			   struct lk__deferred *after)
{
	channel->astray = true;
	channel->generation++;
	if (conn->node->finder)
		conn->node->finder->ops->suspect(conn->node->finder);
	channel_wake(channel, after);
}

static void channel_forget_echoes(struct lk__channel *channel)
{
	struct lk__listening *listening;
	DL_FOREACH(channel->listenings, listening)
	listening->echoes = 0;
}

/* The server has ended a subscription: the slot is not its own any more. */
static bool channel_ended(struct lk__conn *conn, const redisReply *reply,
			  struct lk__deferred *after)
{
	if (!is_about(reply, "sunsubscribe"))
		return false;
	const struct lk__request *oldest = conn->in_flight;
	struct lk__channel *channel = channel_named(conn, reply);
	if (oldest && oldest->sharded && oldest->leaves && oldest->owner == channel)
		return false;
	if (channel)
		channel_strays(conn, channel, after);
	return true;
}

/*
 * A subscription that the server ends unasked, while our own SUNSUBSCRIBE is on its way, looks like
 * the answer to that. Then the real one, an error, is one too many: it would be taken for the next
 * request's, and each answer behind it too.
 */
static bool is_answer_to(const struct lk__request *request, const redisReply *reply)
{
	const struct lk__channel *channel = request->owner;
	if (reply->type == REDIS_REPLY_ERROR)
		return true; /* it names no channel: the next answer tells */
	if (!channel)        /* PING */
		return reply->type != REDIS_REPLY_ARRAY || reply->elements != 3;
	return reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 &&
	       reply->element[1]->type == REDIS_REPLY_STRING &&
	       (size_t)reply->element[1]->len == channel->name_size &&
	       memcmp(reply->element[1]->str, channel->name, channel->name_size) == 0;
}

/*
 * The server will not do what the oldest command asked. A SUBSCRIBE is refused in whatever words:
 * it cannot be done here, and nothing is held by it. Where UNSUBSCRIBE is, the messages go on, and
 * nobody listens.
 */
static void channel_refused(struct lk__conn *conn, struct lk__channel *channel, bool leaves,
			    const char *reason)
{
	if (leaves || !channel->wanted)
		return;
	int code = lk__refusal(reason).code;
	channel->code = code == LK_EMAYBEHELD ? LK_EDENIED : code;
	strncpy(channel->reason, reason, sizeof(channel->reason) - 1);
	atomic_fetch_add_explicit(&conn->node->counters.unheard, 1, memory_order_relaxed);
}

/* The answer to the oldest SUBSCRIBE or UNSUBSCRIBE. */
static void channel_confirmed(struct lk__conn *conn, const redisReply *reply,
			      struct lk__deferred *after)
{
	const struct lk__request *oldest = conn->in_flight;
	if (oldest && oldest->appended && !is_answer_to(oldest, reply)) {
		lk__conn_must_break(conn, LK_EPROTOCOL, "unexpected reply: of another channel");
		return;
	}
	struct lk__request *request = lk__conn_answered(conn);
	if (!request)
		return;
	struct lk__channel *channel = request->owner;
	bool leaves = request->leaves;
	lk__conn_remove(conn, request);
	lk__request_free(request);
	if (!channel)
		return; /* PING */
	channel->unconfirmed--;
	channel_forget_echoes(channel);
	if (reply->type == REDIS_REPLY_ERROR && lk__refusal(reply->str).redirects) {
		channel_strays(conn, channel, after);
	} else if (reply->type == REDIS_REPLY_ERROR) {
		channel_refused(conn, channel, leaves, reply->str);
	} else if (channel->unconfirmed == 0 && channel->wanted) {
		channel->generation++;
	}
	if (channel->tracks)
		lk__tracking_tell_loop(conn->node);
	channel_wake(channel, after);
	channel_drop_if_unused(conn, channel);
}

static void channels_probe(struct lk__conn *conn)
{
	int64_t keepalive_s = conn->node->config->keepalive_s;
	if (keepalive_s == 0 || conn->in_flight ||
	    lk__now_ns() < lk__after_ms(conn->heard_ns, keepalive_s * 1000))
		return;
	struct lk__request *request = lk__request_new(1, (const char *[]){"PING"}, (size_t[]){4});
	if (request)
		lk__conn_enqueue(conn, request);
}

static void channels_take(struct lk__conn *conn, redisReply *reply, struct lk__deferred *after)
{
	lk__trace_answer(conn, NULL, reply);
	if (is_about(reply, "message") || is_about(reply, "smessage"))
		channel_message(conn, reply, after);
	else if (!channel_ended(conn, reply, after))
		channel_confirmed(conn, reply, after);
	freeReplyObject(reply);
}

static void channels_lost(struct lk__conn *conn)
{
	struct lk__channel *channel, *next;
	lk__tracking_conn(conn, 0);
	if (conn->kind != LK__CONN_MESSAGES)
		return;
	while (conn->in_flight) {
		struct lk__request *request = conn->in_flight;
		lk__conn_remove(conn, request);
		lk__request_free(request);
	}
	HASH_ITER(hh, conn->channels, channel, next)
	{
		channel->unconfirmed = 0;
		channel_forget_echoes(channel);
		channel_drop_if_unused(conn, channel);
	}
}

static void channels_made(struct lk__conn *conn, int64_t id)
{
	struct lk__channel *channel, *next;
	lk__tracking_conn(conn, id);
	HASH_ITER(hh, conn->channels, channel, next)
	{
		channel->code = 0;
		channel->astray = false;
		if (channel->wanted)
			channel_command(conn, channel, true);
	}
}

void lk__channels_free(struct lk__conn *conn)
{
	struct lk__channel *channel, *next;
	struct lk__listening *listening, *next_listening;
	HASH_ITER(hh, conn->channels, channel, next)
	{
		HASH_DEL(conn->channels, channel);
		DL_FOREACH_SAFE(channel->listenings, listening, next_listening)
		free(listening);
		free(channel);
	}
}

const struct lk__channels_ops lk__channels_ops = {
	.take = channels_take,
	.probe = channels_probe,
	.lost = channels_lost,
	.made = channels_made,
};
