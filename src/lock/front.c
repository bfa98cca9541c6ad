/* SPDX-License-Identifier: MIT */
#include "lock/front.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "conf/config.h"
#include "conn/node.h"
#include "lock/tracked.h"
#include "resp/reply.h"
#include "sync/script.h"

#define TURNS_PREFIX "lockkeeper_turns" /* sync/turns.lua */
#define AGAIN_NS (1000 * LK__MS)        /* between two questions */

/* Under the mutex of the connection for subscriptions. */
static void front_tell(struct lk__tracker *tracker, enum lk__tracking_news news,
		       struct lk__deferred *after)
{
	struct lk__front_place *place = (struct lk__front_place *)((char *)tracker -
								   offsetof(struct lk__front_place,
									    tracker));
	(void)news;
	if (atomic_exchange(&place->looked, false))
		lk__channel_touch(place->listening, after);
}

static bool entry_has_front(const struct lk__entry *entry)
{
	const struct lk__waiting *waiting = entry->waiting;
	return (entry->target.recipe->flags & LK__TURNS) && !entry->is_quorum && waiting &&
	       waiting->channel && waiting->has_place &&
	       lk__tracking_is_possible(entry->target.node);
}

/* A question whose answer has led to a look that counts no more is to be asked again. */
static bool has_asked(const struct lk__front_place *place)
{
	return place->node && place->asked_ns &&
	       place->generation == atomic_load(&place->node->tracking.generation);
}

int64_t lk__front_due_ns(const struct lk__entry *entry, int64_t begun_ns)
{
	if (!entry_has_front(entry))
		return LK__NEVER;
	const struct lk__front_place *place = &entry->waiting->place;
	if (place->asks || atomic_load(&place->looked) ||
	    (place->node && lk__tracking_is_refused(&place->node->tracking)))
		return LK__NEVER;
	if (place->node && !lk__tracking_is_on(&place->node->tracking)) /* it comes soon */
		return lk__after_ms(lk__now_ns(), LK__TRACKED_AFTER_MS);
	if (!has_asked(place))
		return lk__after_ms(begun_ns, LK__TRACKED_AFTER_MS);
	/* Once a wait: it looks again by itself. */
	return lk__now_ns() >= place->asked_ns + AGAIN_NS ? 0 : LK__NEVER;
}

/* ---- the look ---- */

/* Its key was gone before the look: the head is woken as by a message. */
static void look_finish(struct lk__request *look)
{
	struct lk__entry *entry = look->owner;
	const redisReply *reply = look->reply;
	lk__tracking_looked(look->conn->node, look);
	int64_t there = 1;
	bool told = !look->code && reply->elements == 2 &&
		    lk__reply_integer(reply->element[1], 0, 1, &there);
	pthread_mutex_lock(&entry->mutex);
	struct lk__waiting *waiting = entry->waiting;
	if (waiting && !told)
		atomic_store(&waiting->place.looked, false);
	if (waiting && waiting->channel && there == 0)
		lk__channel_wake(lk__entry_messages(entry), waiting->channel);
	pthread_mutex_unlock(&entry->mutex);
	lk__request_free(look);
	lk__entry_unref(entry);
}

static struct lk__request *look_request(const struct lk__target *target)
{
	struct lk__request *look = lk__tracking_look();
	struct lk__words words = {0};
	if (!look)
		return NULL;
	lk__words_text(&words, "EXISTS");
	lk__words_add(&words, target->key, target->key_size);
	if (lk__words_batch(look, &words))
		return look;
	lk__request_free(look);
	return NULL;
}

static void front_look(struct lk__entry *entry)
{
	struct lk__front_place *place = &entry->waiting->place;
	struct lk__request *look = look_request(&entry->target);
	uint32_t generation;
	if (!look)
		return;
	look->owner = entry;
	look->finish = look_finish;
	lk__entry_ref(entry);
	atomic_store(&place->looked, true);
	if (lk__tracking_send(place->node, look, &generation))
		return;
	atomic_store(&place->looked, false);
	atomic_fetch_sub(&entry->refs, 1); /* never the last: the question has one */
}

/* ---- the question ---- */

static bool is_front(const struct lk__waiting *waiting, const struct lk__request *request)
{
	const redisReply *reply = request->reply;
	return waiting && waiting->place.node == request->conn->node && !request->code &&
	       reply->type == REDIS_REPLY_ARRAY && reply->elements == 1 &&
	       strcmp(lk__element_text(reply, 0), waiting->turn) == 0;
}

static void ask_finish(struct lk__request *request)
{
	struct lk__entry *entry = request->owner;
	pthread_mutex_lock(&entry->mutex);
	if (entry->waiting)
		entry->waiting->place.asks = false;
	if (is_front(entry->waiting, request))
		front_look(entry);
	pthread_mutex_unlock(&entry->mutex);
	lk__request_free(request);
	lk__entry_unref(entry);
}

static struct lk__request *ask_request(const struct lk__target *target)
{
	struct lk__words words = {0};
	size_t size = 0;
	char *turns = lk__derived_name(TURNS_PREFIX, target->key, target->key_size, &size);
	lk__words_text(&words, "ZRANGE");
	lk__words_own(&words, turns, size);
	lk__words_text(&words, "0");
	lk__words_text(&words, "0");
	return lk__words_command(&words);
}

/* Another kind, or another owner, may have the key in this client: the loop looks after that. */
static bool is_alone(const struct lk__entry *entry)
{
	return entry->target.recipe->sharing == LK__ONE_QUEUE &&
	       !atomic_load(&entry->client->entries.mixed);
}

static bool front_begin(struct lk__entry *entry)
{
	struct lk__front_place *place = &entry->waiting->place;
	if (place->node)
		return true;
	place->tracker.tell = front_tell;
	place->tracker.alone = is_alone(entry);
	place->listening = entry->waiting->channel;
	atomic_store(&place->looked, false);
	if (lk__tracker_begin(&place->tracker, entry->target.node, entry->target.key,
			      entry->target.key_size) != 0)
		return false;
	place->node = entry->target.node;
	return true;
}

void lk__front_ask(struct lk__entry *entry)
{
	if (!entry_has_front(entry) || !front_begin(entry))
		return;
	struct lk__front_place *place = &entry->waiting->place;
	struct lk__node *node = place->node;
	if (place->asks || atomic_load(&place->looked) || !lk__tracking_is_on(&node->tracking))
		return;
	struct lk__request *request = ask_request(&entry->target);
	if (!request)
		return;
	request->owner = entry;
	request->finish = ask_finish;
	request->question = request->return_unsent = true;
	request->deadline_ns = lk__after_ms(lk__now_ns(), node->config->command_timeout_ms);
	place->asks = true;
	place->asked_ns = lk__now_ns();
	place->generation = atomic_load(&node->tracking.generation);
	lk__entry_ref(entry);
	if (lk__conn_offer(&node->work, request))
		return;
	place->asks = false;
	atomic_fetch_sub(&entry->refs, 1); /* never the last: the caller has one */
	lk__request_free(request);
}
