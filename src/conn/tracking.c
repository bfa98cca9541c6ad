/* SPDX-License-Identifier: MIT */
#include "conn/tracking.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include <lockkeeper/error.h>

#include "base/clock.h"
#include "conf/config.h"
#include "conn/channels.h"
#include "conn/conn.h"
#include "conn/node.h"
#include "conn/request.h"

#define TOUCHED_MAX ((size_t)1 << 20) /* bytes of keys that wait for the loop */

void lk__tracking_tell_loop(struct lk__node *node)
{
	atomic_store(&node->tracking.told, true);
	if (node->events->told)
		node->events->told(node->context);
}

static struct lk__tracked_key *key_find(struct lk__node *node, const char *key, size_t size)
{
	struct lk__tracked_key *found;
	HASH_FIND(hh, node->tracking.keys, key, size, found);
	return found;
}

/* Tells whether all of them are alone. */
static bool key_tell(struct lk__tracked_key *of, enum lk__tracking_news news,
		     struct lk__deferred *after)
{
	struct lk__tracker *tracker, *next;
	bool alone = true;
	DL_FOREACH_SAFE(of->trackers, tracker, next)
	{
		alone &= tracker->alone;
		tracker->tell(tracker, news, after);
	}
	return alone;
}

static void keys_tell(struct lk__node *node, enum lk__tracking_news news,
		      struct lk__deferred *after)
{
	struct lk__tracked_key *of, *next;
	HASH_ITER(hh, node->tracking.keys, of, next)
	key_tell(of, news, after);
}

/* ---- messages ---- */

static void touched_add(struct lk__tracking *tracking, const char *key, size_t size)
{
	uint32_t bytes = (uint32_t)size;
	bool fits = lk__buffer_size(&tracking->touched) + sizeof(bytes) + size <= TOUCHED_MAX;
	char *room = fits ? lk__buffer_extend(&tracking->touched, sizeof(bytes) + size) : NULL;
	if (!room) {
		tracking->all = true;
		return;
	}
	memcpy(room, &bytes, sizeof(bytes));
	memcpy(room + sizeof(bytes), key, size);
}

/* Tells whether the loop has to know. */
static bool message_key(struct lk__node *node, const redisReply *key, struct lk__deferred *after)
{
	if (key->type != REDIS_REPLY_STRING)
		return false;
	struct lk__tracked_key *of = key_find(node, key->str, key->len);
	if (of && key_tell(of, LK__TRACKING_TOUCHED, after))
		return false;
	touched_add(&node->tracking, key->str, key->len);
	return true;
}

void lk__tracking_message(struct lk__conn *conn, const redisReply *keys, struct lk__deferred *after)
{
	struct lk__node *node = conn->node;
	bool tells = false;
	if (keys->type == REDIS_REPLY_ARRAY) {
		for (size_t i = 0; i < keys->elements; i++)
			tells |= message_key(node, keys->element[i], after);
	} else {
		node->tracking.all = tells = true;
		keys_tell(node, LK__TRACKING_FLUSHED, after);
	}
	if (tells)
		lk__tracking_tell_loop(node);
}

/* ---- connections ---- */

/* Questions and looks from before are of an older generation now. */
static void tracking_lost(struct lk__node *node)
{
	struct lk__tracking *tracking = &node->tracking;
	int was = atomic_exchange(&tracking->state, LK__TRACKING_OFF);
	if (was == LK__TRACKING_OFF)
		return;
	if (atomic_fetch_add(&tracking->generation, 1) == UINT32_MAX)
		atomic_fetch_add(&tracking->generation, 1);
	if (was == LK__TRACKING_ON)
		atomic_store(&tracking->lost, true);
	lk__tracking_tell_loop(node);
}

void lk__tracking_conn(struct lk__conn *conn, int64_t id)
{
	if (conn->kind == LK__CONN_MESSAGES)
		atomic_store(&conn->node->tracking.redirect, id);
	if (id == 0 && (conn->kind == LK__CONN_MESSAGES || conn->kind == LK__CONN_WORK))
		tracking_lost(conn->node);
}

/* ---- who wants to hear ---- */

void lk__tracking_want(struct lk__node *node)
{
	struct lk__tracking *tracking = &node->tracking;
	if (!lk__node_may_track(node) || atomic_exchange(&tracking->wanted, true))
		return;
	struct lk__listening *channel = lk__channel_open(&node->messages, LK__CHANNEL_TRACKED,
							 strlen(LK__CHANNEL_TRACKED), NULL, NULL);
	pthread_mutex_lock(&node->messages.mutex);
	tracking->channel = channel;
	pthread_mutex_unlock(&node->messages.mutex);
	if (!channel)
		atomic_store(&tracking->wanted, false); /* out of memory: the next one tries */
	lk__tracking_tell_loop(node);
}

static struct lk__tracked_key *key_get(struct lk__node *node, const char *key, size_t size)
{
	struct lk__tracked_key *of = key_find(node, key, size);
	if (of)
		return of;
	of = calloc(1, sizeof(*of) + size);
	if (!of)
		return NULL;
	memcpy(of->key, key, size);
	of->size = size;
	HASH_ADD_KEYPTR(hh, node->tracking.keys, of->key, of->size, of);
	if (of->hh.tbl)
		return of;
	free(of);
	return NULL;
}

int lk__tracker_begin(struct lk__tracker *tracker, struct lk__node *node, const char *key,
		      size_t size)
{
	lk__tracking_want(node);
	pthread_mutex_lock(&node->messages.mutex);
	tracker->of = key_get(node, key, size);
	if (tracker->of)
		DL_APPEND(tracker->of->trackers, tracker);
	pthread_mutex_unlock(&node->messages.mutex);
	return tracker->of ? 0 : LK_ENOMEM;
}

void lk__tracker_end(struct lk__tracker *tracker, struct lk__node *node)
{
	struct lk__tracked_key *of = tracker->of;
	pthread_mutex_lock(&node->messages.mutex);
	DL_DELETE(of->trackers, tracker);
	if (!of->trackers) {
		HASH_DEL(node->tracking.keys, of);
		free(of);
	}
	pthread_mutex_unlock(&node->messages.mutex);
	tracker->of = NULL;
}

/* ---- for the loop ---- */

bool lk__tracking_take(struct lk__node *node, struct lk__touched *touched_out)
{
	struct lk__tracking *tracking = &node->tracking;
	struct lk__deferred after;
	if (!atomic_exchange(&tracking->told, false))
		return false;
	lk__conn_lock(&node->messages, &after);
	*touched_out = (struct lk__touched){.keys = tracking->touched,
					    .all = tracking->all,
					    .begins = atomic_exchange(&tracking->begins, false),
					    .lost = atomic_exchange(&tracking->lost, false)};
	tracking->touched = (struct lk__buffer){0};
	tracking->all = false;
	if (touched_out->lost)
		keys_tell(node, LK__TRACKING_LOST, &after);
	if (touched_out->begins)
		keys_tell(node, LK__TRACKING_BEGINS, &after);
	if (node->messages.leader) /* it may be one who was told, and sleeps on the socket */
		lk__conn_wake(&node->messages);
	lk__conn_unlock(&node->messages, &after);
	return true;
}

const char *lk__touched_next(struct lk__touched *touched, size_t *size_out)
{
	uint32_t bytes;
	if (lk__buffer_size(&touched->keys) < sizeof(bytes))
		return NULL;
	memcpy(&bytes, lk__buffer_front(&touched->keys), sizeof(bytes));
	lk__buffer_take(&touched->keys, sizeof(bytes));
	const char *key = lk__buffer_front(&touched->keys);
	lk__buffer_take(&touched->keys, bytes);
	*size_out = bytes;
	return key;
}

/* ---- on and off ---- */

/* False: that was of a generation that is over. */
static bool tracking_becomes(struct lk__node *node, uint32_t generation, int was, int state)
{
	struct lk__tracking *tracking = &node->tracking;
	return atomic_load(&tracking->generation) == generation &&
	       atomic_compare_exchange_strong(&tracking->state, &was, state);
}

static void tracking_refused(struct lk__node *node, const char *verb, const char *reason)
{
	struct lk__tracking *tracking = &node->tracking;
	pthread_mutex_lock(&node->messages.mutex);
	snprintf(tracking->reason, sizeof(tracking->reason), "%s: %.120s", verb, reason);
	pthread_mutex_unlock(&node->messages.mutex);
	if (!tracking->said)
		lk__log(&node->log, LK_LOG_INFO,
			"nobody tells who has a lock that it is gone: %s: %.120s", verb, reason);
	tracking->said = true;
}

struct asked {
	struct lk__node *node;
	uint32_t generation;
};

/* A connection that the server does not know any more is about to end here, too. */
static bool is_of_lost_connection(const struct lk__request *request)
{
	return strstr(request->reason, "redirect to does not exist") != NULL;
}

static void asked_finish(struct lk__request *request)
{
	struct asked *asked = request->owner;
	struct lk__node *node = asked->node;
	struct lk__tracking *tracking = &node->tracking;
	const redisReply *reply = request->reply;
	bool refused = reply && reply->type == REDIS_REPLY_ERROR;
	int state = request->code ? LK__TRACKING_OFF : LK__TRACKING_ON;
	if (refused && !is_of_lost_connection(request))
		state = LK__TRACKING_REFUSED;
	if (refused && state == LK__TRACKING_OFF)
		atomic_store(&tracking->redirect, 0);
	if (tracking_becomes(node, asked->generation, LK__TRACKING_ASKED, state)) {
		if (state == LK__TRACKING_REFUSED)
			tracking_refused(node, "CLIENT TRACKING", request->reason);
		atomic_store(&tracking->begins, state == LK__TRACKING_ON);
		lk__tracking_tell_loop(node);
	}
	lk__request_free(request);
	free(asked);
}

static void tracking_ask(struct lk__node *node, int64_t redirect)
{
	char id[24];
	snprintf(id, sizeof(id), "%lld", (long long)redirect);
	const char *argv[] = {"CLIENT", "TRACKING", "ON", "REDIRECT", id, "OPTIN", "NOLOOP"};
	size_t sizes[] = {6, 8, 2, 8, strlen(id), 5, 6};
	struct lk__request *request = lk__request_new(7, argv, sizes);
	struct asked *asked = malloc(sizeof(*asked));
	if (!request || !asked) {
		lk__request_free(request);
		free(asked);
		return;
	}
	asked->node = node;
	asked->generation = atomic_load(&node->tracking.generation);
	request->owner = asked;
	request->finish = asked_finish;
	request->question = request->return_unsent = true;
	request->deadline_ns = lk__after_ms(lk__now_ns(), node->config->command_timeout_ms);
	int off = LK__TRACKING_OFF;
	if (atomic_compare_exchange_strong(&node->tracking.state, &off, LK__TRACKING_ASKED) &&
	    lk__conn_offer(&node->work, request))
		return;
	lk__request_free(request);
	free(asked);
}

/* The subscription stands: 1; not yet: 0; or it is refused. */
static int channel_look(struct lk__node *node, char *reason, size_t size)
{
	struct lk__conn *messages = &node->messages;
	pthread_mutex_lock(&messages->mutex);
	const struct lk__listening *own = node->tracking.channel; /* NULL: it comes soon */
	int code = own ? own->channel->code : 0;
	snprintf(reason, size, "%s", own ? own->channel->reason : "");
	bool stands = own && messages->state == LK__CONN_UP && own->channel->unconfirmed == 0;
	pthread_mutex_unlock(&messages->mutex);
	return code ? code : stands;
}

/* A number of one server says nothing to another. */
static bool is_one_server(struct lk__node *node)
{
	char messages[LK__CONN_PLACE_SIZE], work[LK__CONN_PLACE_SIZE];
	lk__conn_place(&node->messages, messages);
	lk__conn_place(&node->work, work);
	return strcmp(messages, work) == 0;
}

void lk__tracking_turn(struct lk__node *node)
{
	struct lk__tracking *tracking = &node->tracking;
	char reason[160];
	if (!lk__tracking_is_wanted(tracking) || atomic_load(&tracking->state) != LK__TRACKING_OFF)
		return;
	uint32_t generation = atomic_load(&tracking->generation);
	int listens = channel_look(node, reason, sizeof(reason));
	int64_t redirect = atomic_load(&tracking->redirect);
	if (listens < 0 || (listens && redirect < 0)) {
		const char *verb = listens < 0 ? "SUBSCRIBE" : "CLIENT ID";
		if (tracking_becomes(node, generation, LK__TRACKING_OFF, LK__TRACKING_REFUSED))
			tracking_refused(node, verb, listens < 0 ? reason : "it is not answered");
	} else if (listens == 0) {
		lk__conn_open(&node->messages);
	} else if (!lk__conn_is_up(&node->work)) {
		lk__conn_open(&node->work);
	} else if (redirect > 0 && is_one_server(node)) {
		tracking_ask(node, redirect);
	}
}

/* ---- looks ---- */

struct lk__request *lk__tracking_look(struct lk__words *words)
{
	struct lk__request *look = lk__request_batch(2);
	struct lk__words caching = {0};
	lk__words_text(&caching, "CLIENT");
	lk__words_text(&caching, "CACHING");
	lk__words_text(&caching, "YES");
	bool tracks = lk__words_batch(look, &caching);
	if (lk__words_batch(tracks ? look : NULL, words))
		return look;
	lk__request_free(look);
	return NULL;
}

bool lk__tracking_send(struct lk__node *node, struct lk__request *request)
{
	request->question = request->return_unsent = true;
	request->deadline_ns = lk__after_ms(lk__now_ns(), node->config->command_timeout_ms);
	if (lk__tracking_is_on(&node->tracking) && lk__conn_offer(&node->work, request))
		return true;
	lk__request_free(request);
	return false;
}

void lk__tracking_looked(struct lk__node *node, const struct lk__request *look)
{
	const redisReply *reply = look->reply;
	if (!reply || reply->elements == 0 || reply->element[0]->type != REDIS_REPLY_ERROR)
		return;
	uint32_t generation = atomic_load(&node->tracking.generation);
	if (tracking_becomes(node, generation, LK__TRACKING_ON, LK__TRACKING_REFUSED))
		tracking_refused(node, "CLIENT CACHING", reply->element[0]->str);
}

void lk__tracking_free(struct lk__node *node)
{
	struct lk__tracked_key *of, *next;
	HASH_ITER(hh, node->tracking.keys, of, next)
	{
		HASH_DEL(node->tracking.keys, of);
		free(of);
	}
	lk__buffer_free(&node->tracking.touched);
}
