/* SPDX-License-Identifier: MIT */
/* News of tracked keys from a node's connections. This calls none of them. */
#include <string.h>
#include <stdlib.h>
#include <utlist.h>

#include "conn/conn.h"
#include "conn/node.h"
#include "conn/request.h"
#include "conn/tracking.h"

#define TOUCHED_MAX ((size_t)1 << 20) /* bytes of keys that wait for the loop */

void lk__tracking_tell_loop(struct lk__node *node)
{
	atomic_store(&node->tracking.told, true);
	if (node->events->told)
		node->events->told(node->context);
}

struct lk__tracked_key *lk__tracked_key_find(struct lk__node *node, const char *key, size_t size)
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

void lk__tracked_keys_tell(struct lk__node *node, enum lk__tracking_news news,
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
	struct lk__tracked_key *of = lk__tracked_key_find(node, key->str, key->len);
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
		lk__tracked_keys_tell(node, LK__TRACKING_FLUSHED, after);
	}
	if (tells)
		lk__tracking_tell_loop(node);
}

/* ---- connections ---- */

void lk__tracking_conn_made(struct lk__conn *conn, int64_t id)
{
	if (conn->kind == LK__CONN_MESSAGES)
		atomic_store(&conn->node->tracking.redirect, id);
}

/* Questions and looks from before are of an older generation now. */
void lk__tracking_conn_lost(struct lk__conn *conn)
{
	struct lk__tracking *tracking = &conn->node->tracking;
	if (conn->kind != LK__CONN_MESSAGES && conn->kind != LK__CONN_WORK)
		return;
	if (conn->kind == LK__CONN_MESSAGES)
		atomic_store(&tracking->redirect, 0);
	int was = atomic_exchange(&tracking->state, LK__TRACKING_OFF);
	if (was == LK__TRACKING_OFF)
		return;
	if (atomic_fetch_add(&tracking->generation, 1) == UINT32_MAX)
		atomic_fetch_add(&tracking->generation, 1);
	if (was == LK__TRACKING_ON)
		atomic_store(&tracking->lost, true);
	lk__tracking_tell_loop(conn->node);
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
