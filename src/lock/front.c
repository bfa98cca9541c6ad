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
#include "sync/recipes.h"
#include "sync/script.h"

#define TURNS_PREFIX "lockkeeper_turns" /* sync/turns.lua */
#define AGAIN_NS (1000 * LK__MS)        /* between two questions, or looks */
#define RANKS "99"                      /* the last rank that is told apart */
#define QUIET_TIMES 12                  /* look_again_ms, where what ends the lock is told */
#define QUIET_MOST_MS 60000
#define BEHIND_NS (1000 * LK__MS)
#define PLACE_GRACE_MS 1000 /* beyond the next try, for a place in the order of turns */

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
	return has_place && lk__tracking_is_possible(entry->target.node);
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
	if (!has_asked(entry))
		return lk__after_ms(begun_ns, LK__TRACKED_AFTER_MS);
	return place->asks_next ? place->asked_ns + AGAIN_NS : LK__NEVER;
}

/* ---- until when it sleeps ---- */

/* How long a waiter sleeps where nobody tells it anything. A place in the order of turns ends. */
static int64_t look_ms(const struct lk__entry *entry)
{
	int64_t most_ms = entry->client->config->look_again_ms;
	bool turns = (entry->target.recipe->flags & LK__TURNS) != 0;
	return turns ? lk__earlier(most_ms, LK__TURN_MOST_MS) : most_ms;
}

static int64_t quiet_ms(const struct lk__entry *entry)
{
	int64_t least_ms = look_ms(entry);
	int64_t most_ms = lk__earlier(QUIET_TIMES * least_ms, QUIET_MOST_MS);
	if (is_fair(entry)) /* one that is silent for all of that is dead to Redisson */
		most_ms = lk__earlier(most_ms, entry->client->config->fair_wait_ms / 2);
	return most_ms > least_ms ? most_ms : least_ms;
}

/* Takes away a random part of up to a quarter, so that clients do not all look at once. The clock's
 * last digits are random enough: a random number would be a system call for each acquire. */
static int64_t about_ns(int64_t ms)
{
	int64_t most_ns = ms * LK__MS;
	/* The upper ten bits of a product mix them. */
	uint64_t part = (uint64_t)lk__now_ns() * UINT64_C(0x9e3779b97f4a7c15) >> 54;
	return most_ns - most_ns / 4 * (int64_t)part / 1024;
}

int64_t lk__front_look_ns(const struct lk__entry *entry)
{
	return about_ns(look_ms(entry));
}

/* Where another library releases without a message, and where readers stand back only for a writer
 * that comes again and again, a waiter looks often all the same. */
static bool is_quiet(const struct lk__entry *entry)
{
	const struct lk__recipe *recipe = entry->target.recipe;
	const struct lk__caller *head = lk__entry_head(entry);
	return ((recipe->flags & LK__TURNS) || is_fair(entry)) && !recipe->poll_ms && head &&
	       !(recipe == &lk__write_recipe && (head->settings.flags & LK__RW_PREFER_WRITERS));
}

int64_t lk__front_place_ms(struct lk__entry *entry)
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
	struct lk__request *look = lk__tracking_look();
	struct lk__words words = {0};
	if (!look)
		return NULL;
	lk__words_text(&words, "PTTL");
	lk__words_add(&words, target->key, target->key_size);
	if (lk__words_batch(look, &words))
		return look;
	lk__request_free(look);
	return NULL;
}

static bool front_look(struct lk__entry *entry)
{
	struct lk__front_place *place = &entry->waiting->place;
	struct lk__request *look = look_request(&entry->target);
	uint32_t generation;
	if (!look)
		return false;
	look->owner = entry;
	look->finish = look_finish;
	lk__entry_ref(entry);
	atomic_store(&place->looked, true);
	place->looked_ns = lk__now_ns();
	if (lk__tracking_send(place->node, look, &generation))
		return true;
	atomic_store(&place->looked, false);
	atomic_fetch_sub(&entry->refs,
			 1); /* never the last: its caller, or the question, has one */
	return false;
}

bool lk__front_hinted(struct lk__entry *entry, bool patient, int64_t *until_ns)
{
	struct lk__front_place *place = &entry->waiting->place;
	if (atomic_exchange(&place->all, false) && place->rank > 0) {
		place->rank = -1;
		*until_ns = lk__earlier(*until_ns, lk__now_ns() + about_ns(look_ms(entry)));
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

/* Tells whether no other kind and no other owner of this client can have the key: where one can,
 * the loop is told, too. */
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
	place->rank = -1;
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
	struct lk__request *request = ask_request(entry);
	if (!request)
		return;
	request->owner = entry;
	request->finish = ask_finish;
	request->question = request->return_unsent = true;
	request->deadline_ns = lk__after_ms(lk__now_ns(), node->config->command_timeout_ms);
	place->asks = true;
	place->asks_next = false;
	place->rank = -1;
	place->watches = false;
	place->asked_ns = lk__now_ns();
	place->number = entry->waiting->attempt.number;
	place->generation = atomic_load(&node->tracking.generation);
	lk__entry_ref(entry);
	if (lk__conn_offer(&node->work, request))
		return;
	place->asks = false;
	atomic_fetch_sub(&entry->refs, 1); /* never the last: the caller has one */
	lk__request_free(request);
}
