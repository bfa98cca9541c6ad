/* SPDX-License-Identifier: MIT */
#include "lock/turns.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "conf/config.h"
#include "conn/channels.h"
#include "conn/node.h"
#include "lock/told.h"
#include "resp/reply.h"
#include "sync/recipes.h"
#include "sync/script.h"

#define TURN_MOST_MS 3600000 /* a place is kept for so long, though its client does not look */
#define PLACE_GRACE_MS 1000  /* and beyond the next try */
#define TURNS_PREFIX "lockkeeper_turns" /* sync/turns.lua */
#define AGAIN_NS (1000 * LK__MS)        /* between two questions, or looks */
#define RANKS "99"                      /* the last rank that is told apart */
#define QUIET_TIMES 12                  /* look_again_ms, where what ends the lock is told */
#define QUIET_MOST_MS 60000             /* but no longer than that */
#define BEHIND_NS (1000 * LK__MS)       /* past the end of the lease, for each who is before */

/* ---- its place in the order of turns ---- */

static bool has_turns(const struct lk__entry *entry)
{
	return entry->target.recipe->flags & LK__TURNS;
}

const char *lk__turn_begin(struct lk__entry *entry)
{
	struct lk__waiting *waiting = entry->waiting;
	if (!has_turns(entry))
		return NULL;
	if (!waiting->has_place)
		lk__field(entry, atomic_fetch_add(waiting->attempt.rules.numbers, 1) + 1,
			  waiting->turn);
	return waiting->turn;
}

const char *lk__turn_take(struct lk__entry *entry)
{
	struct lk__listening *channel = lk__entry_channel(entry);
	bool turns = channel &&
		     lk__channel_take_turns(lk__entry_messages(entry), channel, has_turns(entry));
	entry->waiting->has_place |= turns;
	return turns ? entry->waiting->turn : NULL;
}

int64_t lk__turn_since_us(struct lk__entry *entry, int64_t begun_ns)
{
	struct lk__waiting *waiting = entry->waiting;
	int64_t since_us = lk__node_server_us(entry->target.node, begun_ns);
	if (!waiting->since_us || since_us < waiting->since_us)
		waiting->since_us = since_us;
	return waiting->since_us;
}

void lk__turn_is_over(struct lk__entry *entry)
{
	entry->waiting->has_place = false;
	entry->waiting->since_us = 0;
}

void lk__turn_leave(struct lk__entry *entry)
{
	if (!entry->waiting || !entry->waiting->has_place)
		return;
	lk__turn_is_over(entry);
	lk__conn_tell(lk__entry_conn(entry), lk__turns_leave(&entry->target, entry->waiting->turn));
}

/* ---- at the front of the order of turns ---- */

/* Under the mutex of the connection for subscriptions. A waiter that has not looked at the key
 * heeds FLUSHED alone: TOUCHED may be about a hold that its client had. */
static void front_tell(struct lk__tracker *tracker, enum lk__tracking_news news,
		       struct lk__deferred *after)
{
	struct lk__front_place *place = (struct lk__front_place *)((char *)tracker -
								   offsetof(struct lk__front_place,
									    tracker));
	bool looked = atomic_exchange(&place->looked, false);
	if (looked && news != LK__TRACKING_TOUCHED && news != LK__TRACKING_FLUSHED) {
		lk__channel_touch(place->listening, after);
	} else if (looked || news == LK__TRACKING_FLUSHED) {
		atomic_store(&place->all, !looked);
		lk__channel_hint(place->listening, after);
	}
}

static bool is_fair(const struct lk__entry *entry)
{
	return entry->target.recipe == &lk__fair_recipe;
}

static bool entry_has_front(const struct lk__entry *entry)
{
	const struct lk__waiting *waiting = entry->waiting;
	if (entry->is_quorum || !waiting || !waiting->channel)
		return false;
	bool has_place = is_fair(entry) ? waiting->place.most_ns != 0 : waiting->has_place;
	return has_place && lk__node_may_track(entry->target.node);
}

/* Tells whether the last question still counts: its node has told of keys ever since, and it was
 * about the number of this attempt. */
static bool has_asked(const struct lk__entry *entry)
{
	const struct lk__front_place *place = &entry->waiting->place;
	return place->node && place->asked_ns &&
	       place->generation == atomic_load(&place->node->tracking.generation) &&
	       (!is_fair(entry) || place->number == entry->waiting->attempt.number);
}

/* When a head that has waited since then is to ask; or LK__NEVER. */
static int64_t front_due_ns(const struct lk__entry *entry, int64_t begun_ns)
{
	if (!entry_has_front(entry))
		return LK__NEVER;
	const struct lk__front_place *place = &entry->waiting->place;
	if (place->asks || atomic_load(&place->looked) ||
	    (place->node && lk__tracking_is_refused(&place->node->tracking)))
		return LK__NEVER;
	if (place->node && !lk__tracking_is_on(&place->node->tracking)) /* it comes soon */
		return lk__after_ms(lk__now_ns(), LK__TRACKED_AFTER_MS);
	if (!has_asked(entry))
		return lk__after_ms(begun_ns, LK__TRACKED_AFTER_MS);
	return place->asks_next ? place->asked_ns + AGAIN_NS : LK__NEVER;
}

/* ---- until when it sleeps ---- */

/* Takes away a random part of up to a quarter, so that clients do not all look at once. The clock's
 * last digits are random enough: a random number would be a system call for each acquire. */
static int64_t about_ns(int64_t ms)
{
	int64_t most_ns = ms * LK__MS;
	/* The upper ten bits of a product mix them. */
	uint64_t part = (uint64_t)lk__now_ns() * UINT64_C(0x9e3779b97f4a7c15) >> 54;
	return most_ns - most_ns / 4 * (int64_t)part / 1024;
}

/* How long a waiter sleeps where nobody tells it anything. A place in the order of turns ends. */
static int64_t look_ms(const struct lk__entry *entry)
{
	int64_t most_ms = entry->client->config->look_again_ms;
	return has_turns(entry) ? lk__earlier(most_ms, TURN_MOST_MS) : most_ms;
}

int64_t lk__turn_look_ns(const struct lk__entry *entry)
{
	return about_ns(look_ms(entry));
}

static int64_t quiet_ms(const struct lk__entry *entry)
{
	int64_t least_ms = look_ms(entry);
	int64_t most_ms = lk__earlier(QUIET_TIMES * least_ms, QUIET_MOST_MS);
	if (is_fair(entry)) /* one that is silent for all of that is dead to Redisson */
		most_ms = lk__earlier(most_ms, entry->client->config->fair_wait_ms / 2);
	return lk__later(most_ms, least_ms);
}

/* Where another library releases without a message, and where readers stand back only for a writer
 * that comes again and again, a waiter looks often all the same. */
static bool is_quiet(const struct lk__entry *entry)
{
	const struct lk__recipe *recipe = entry->target.recipe;
	const struct lk__caller *head = lk__entry_head(entry);
	return (has_turns(entry) || is_fair(entry)) && !recipe->poll_ms && head &&
	       !(recipe == &lk__write_recipe && (head->settings.flags & LK__RW_PREFER_WRITERS));
}

int64_t lk__turn_place_ms(struct lk__entry *entry)
{
	struct lk__front_place *place = &entry->waiting->place;
	place->lasts = is_quiet(entry) && place->node && place->node == entry->target.node &&
		       place->rank >= 0;
	return (place->lasts ? quiet_ms(entry) : look_ms(entry)) + PLACE_GRACE_MS;
}

void lk__front_busy(struct lk__entry *entry, int64_t ttl_ms)
{
	struct lk__front_place *place = &entry->waiting->place;
	int64_t now_ns = lk__now_ns();
	place->free_ns = ttl_ms < 0 ? 0 : lk__after_ms(now_ns, ttl_ms + 1);
	int64_t most_ns = place->lasts ? about_ns(quiet_ms(entry))
				       : entry->waiting->attempt.want.look_ns;
	place->most_ns = is_quiet(entry) ? now_ns + most_ns : 0;
	place->asks_next = true;
}

int64_t lk__front_quiet_ns(const struct lk__entry *entry)
{
	const struct lk__front_place *place = &entry->waiting->place;
	if (!entry_has_front(entry) || place->node != entry->target.node || !has_asked(entry) ||
	    !lk__tracking_is_on(&place->node->tracking) || place->rank < 0 || !place->free_ns)
		return 0;
	if (place->watches)
		return atomic_load(&place->looked) ? lk__earlier(place->most_ns, place->free_ns)
						   : 0;
	if (place->rank > 1 && !is_fair(entry))
		return place->most_ns;
	return lk__earlier(place->most_ns, place->free_ns + place->rank * BEHIND_NS);
}

/* ---- the look ---- */

/* The answer to a look: the key's time to live. False: the head is to try, since the key is gone,
 * or has lost its time to live, or nobody will tell. */
static bool look_take(struct lk__front_place *place, const struct lk__request *look)
{
	const redisReply *reply = look->reply;
	int64_t ttl_ms;
	if (look->code || reply->elements != 2 ||
	    !lk__reply_integer(reply->element[1], -2, INT64_MAX, &ttl_ms)) {
		atomic_store(&place->looked, false);
		return false;
	}
	if (ttl_ms < 0)
		return ttl_ms == -1 && !place->free_ns;
	place->free_ns = lk__after_ms(lk__now_ns(), ttl_ms + 1);
	return true;
}

static void look_finish(struct lk__request *look)
{
	struct lk__entry *entry = look->owner;
	lk__tracking_looked(look->conn->node, look);
	pthread_mutex_lock(&entry->mutex);
	struct lk__waiting *waiting = entry->waiting;
	if (waiting && !look_take(&waiting->place, look) && waiting->channel)
		lk__channel_wake(lk__entry_messages(entry), waiting->channel);
	pthread_mutex_unlock(&entry->mutex);
	lk__request_free(look);
	lk__entry_unref(entry);
}

static struct lk__request *look_request(const struct lk__target *target)
{
	struct lk__words words = {0};
	lk__words_text(&words, "PTTL");
	lk__words_add(&words, target->key, target->key_size);
	return lk__tracking_look(&words);
}

/* Sends a question or a look, with a reference of the entry. Returns false where `request` is NULL,
 * or cannot be sent. */
static bool front_send(struct lk__entry *entry, struct lk__request *request,
		       void (*finish)(struct lk__request *request))
{
	if (!request)
		return false;
	request->owner = entry;
	request->finish = finish;
	lk__entry_ref(entry);
	if (lk__tracking_send(entry->waiting->place.node, request))
		return true;
	atomic_fetch_sub(&entry->refs,
			 1); /* never the last: the caller, or the question, has one */
	return false;
}

static bool front_look(struct lk__entry *entry)
{
	struct lk__front_place *place = &entry->waiting->place;
	atomic_store(&place->looked, true);
	place->looked_ns = lk__now_ns();
	if (front_send(entry, look_request(&entry->target), look_finish))
		return true;
	atomic_store(&place->looked, false);
	return false;
}

bool lk__front_hinted(struct lk__entry *entry, bool patient, int64_t *until_ns)
{
	struct lk__front_place *place = &entry->waiting->place;
	if (atomic_exchange(&place->all, false) && place->rank > 0) {
		place->rank = -1;
		int64_t now_ns = lk__now_ns(), look_ns = now_ns + about_ns(look_ms(entry));
		*until_ns = *until_ns > now_ns ? lk__earlier(*until_ns, look_ns) : look_ns;
		return true;
	}
	return patient && place->node == entry->target.node && !atomic_load(&place->looked) &&
	       place->looked_ns && lk__now_ns() >= place->looked_ns + AGAIN_NS && front_look(entry);
}

/* ---- the question ---- */

/* -1: it is not in the order, or too far behind to tell. */
static int rank_of(const struct lk__entry *entry, const struct lk__request *request)
{
	const struct lk__waiting *waiting = entry->waiting;
	const redisReply *reply = request->reply;
	char field[LK__FIELD_SIZE];
	if (waiting->place.node != request->conn->node || request->code ||
	    reply->type != REDIS_REPLY_ARRAY)
		return -1;
	lk__field(entry, waiting->place.number, field);
	const char *own = is_fair(entry) ? field : waiting->turn;
	for (size_t i = 0; i < reply->elements; i++)
		if (strcmp(lk__element_text(reply, i), own) == 0)
			return (int)i;
	return -1;
}

/* The first in a fair lock's queue may be Java's, which does not look: the one behind it does,
 * unless that first one is of the same client. */
static bool is_to_watch(const struct lk__entry *entry, int rank, const redisReply *reply)
{
	const char *id = entry->client->id;
	return rank == 0 || (rank == 1 && is_fair(entry) &&
			     strncmp(lk__element_text(reply, 0), id, strlen(id)) != 0);
}

static void ask_finish(struct lk__request *request)
{
	struct lk__entry *entry = request->owner;
	pthread_mutex_lock(&entry->mutex);
	if (entry->waiting) {
		struct lk__front_place *place = &entry->waiting->place;
		place->asks = false;
		place->rank = rank_of(entry, request);
		place->watches = place->rank >= 0 &&
				 is_to_watch(entry, place->rank, request->reply);
		if (place->watches)
			front_look(entry);
	}
	pthread_mutex_unlock(&entry->mutex);
	lk__request_free(request);
	lk__entry_unref(entry);
}

static struct lk__request *ask_request(const struct lk__entry *entry)
{
	const struct lk__target *target = &entry->target;
	const char *prefix = is_fair(entry) ? LK__FAIR_QUEUE_PREFIX : TURNS_PREFIX;
	struct lk__words words = {0};
	size_t size = 0;
	char *order = lk__derived_name(prefix, target->key, target->key_size, &size);
	lk__words_text(&words, is_fair(entry) ? "LRANGE" : "ZRANGE");
	lk__words_own(&words, order, size);
	lk__words_text(&words, "0");
	lk__words_text(&words, RANKS);
	return lk__words_command(&words);
}

static bool front_begin(struct lk__entry *entry)
{
	struct lk__front_place *place = &entry->waiting->place;
	if (place->node)
		return true;
	place->tracker.tell = front_tell;
	/* Where another kind or owner of this client can have the key, the loop is told, too. */
	place->tracker.alone = entry->target.recipe->sharing == LK__ONE_QUEUE &&
			       !atomic_load(&entry->client->entries.mixed);
	place->listening = entry->waiting->channel;
	atomic_store(&place->looked, false);
	if (lk__tracker_begin(&place->tracker, entry->target.node, entry->target.key,
			      entry->target.key_size) != 0)
		return false;
	place->node = entry->target.node;
	place->rank = -1;
	return true;
}

static void front_ask(struct lk__entry *entry)
{
	struct lk__front_place *place = &entry->waiting->place;
	if (!front_begin(entry) || !lk__tracking_is_on(&place->node->tracking))
		return;
	place->asks_next = false;
	place->rank = -1;
	place->watches = false;
	place->asked_ns = lk__now_ns();
	place->number = entry->waiting->attempt.number;
	place->generation = atomic_load(&place->node->tracking.generation);
	place->asks = front_send(entry, ask_request(entry), ask_finish);
}

int64_t lk__front_ask_when_due(struct lk__entry *entry, int64_t begun_ns)
{
	int64_t due_ns = front_due_ns(entry, begun_ns);
	if (lk__now_ns() >= due_ns) {
		front_ask(entry);
		due_ns = front_due_ns(entry, begun_ns);
		if (lk__now_ns() >= due_ns) /* it could not ask */
			due_ns = LK__NEVER;
	}
	return entry->waiting->place.asks ? lk__earlier(due_ns, lk__now_ns() + AGAIN_NS) : due_ns;
}
