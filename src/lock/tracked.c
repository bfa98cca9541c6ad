/* SPDX-License-Identifier: MIT */
#include "lock/tracked.h"

#include <stdlib.h>

#include "base/clock.h"
#include "conf/config.h"
#include "conn/conn.h"
#include "conn/node.h"
#include "conn/tracking.h"
#include "resp/reply.h"
#include "sync/script.h"

#define TOGETHER 500           /* holds that are put in doubt at the same moment, */
#define APART_NS (10 * LK__MS) /* and the next so much later, where all are */
#define JITTER_NS (2 * LK__MS) /* of such a number: all clients are told at the same moment */

static bool is_tracked_kind(const struct lk__entry *entry)
{
	const struct lk__recipe *recipe = entry->target.recipe;
	return recipe->sharing != LK__NO_HOLD && !(recipe->flags & LK__SHARES);
}

static uint32_t generation_of(const struct lk__node *node)
{
	return atomic_load_explicit(&node->tracking.generation, memory_order_relaxed);
}

bool lk__tracked_has_room(const struct lk__entry *entry)
{
	return entry->counted || atomic_load(&entry->client->tracked) < LK__TRACKED_MAX;
}

int64_t lk__tracked_due_ns(const struct lk__entry *entry)
{
	int64_t first_ns = lk__after_ms(entry->hold->granted_ns, LK__TRACKED_AFTER_MS);
	if (!is_tracked_kind(entry) || !entry->client->config->chosen.tracks)
		return LK__NEVER;
	if (entry->is_quorum) /* of its members, at their nodes, by the renewal */
		return entry->tracked ? LK__NEVER : first_ns;
	const struct lk__node *node = lk__entry_node(entry);
	if (entry->tracked == generation_of(node) || !lk__tracked_has_room(entry) ||
	    !lk__node_may_track(node))
		return LK__NEVER;
	if (lk__tracking_is_wanted(&node->tracking) && !lk__tracking_is_on(&node->tracking))
		return LK__NEVER; /* it comes up when that begins */
	return first_ns;
}

bool lk__tracked_has_gap(const struct lk__entry *entry)
{
	return entry->tracked && !entry->is_quorum &&
	       entry->tracked != generation_of(lk__entry_node(entry));
}

/* One hold fewer than can be is no hold fewer: the rest is noticed by renewals. */
static void looks_put(struct lk__looks *looks, struct lk__entry *entry)
{
	bool counts = entry->hold && !entry->counted;
	if (counts && !lk__tracked_has_room(entry))
		return;
	if (counts)
		atomic_fetch_add(&entry->client->tracked, 1);
	entry->counted |= counts;
	entry->tracked = looks->generation;
	lk__entry_ref(entry);
	looks->of[looks->count++] = entry;
}

static struct lk__looks *looks_new(struct lk__node *node, uint16_t slot)
{
	struct lk__looks *looks = malloc(sizeof(*looks));
	if (!looks)
		return NULL;
	looks->node = node;
	looks->generation = generation_of(node);
	looks->slot = slot;
	looks->count = 0;
	return looks;
}

bool lk__looks_add(struct lk__looks **looks, struct lk__entry *entry)
{
	struct lk__node *node = lk__entry_node(entry);
	if (!is_tracked_kind(entry) || entry->is_quorum)
		return true;
	lk__tracking_want(node);
	if (!lk__tracking_is_on(&node->tracking))
		return true;
	if (*looks && ((*looks)->count == LK__LOOKS_MAX || (*looks)->node != node ||
		       (*looks)->slot != entry->target.slot))
		return false;
	if (!*looks)
		*looks = looks_new(node, entry->target.slot);
	if (*looks)
		looks_put(*looks, entry);
	return true;
}

static void looks_free(struct lk__looks *looks)
{
	for (size_t i = 0; i < looks->count; i++)
		lk__entry_unref(looks->of[i]);
	free(looks);
}

static void doubt(struct lk__entry *entry)
{
	lk__doubt(entry);
	pthread_mutex_lock(&entry->client->mutex);
	lk__doubt_fronts(entry);
	pthread_mutex_unlock(&entry->client->mutex);
}

/* One that is missing may have been so before the look: nobody tells of that. */
static void looks_finish(struct lk__request *look)
{
	struct lk__looks *looks = look->owner;
	const redisReply *reply = look->reply;
	int64_t there;
	lk__tracking_looked(looks->node, look);
	bool missing = !look->code && reply->elements == 2 &&
		       lk__reply_integer(reply->element[1], 0, INT64_MAX, &there) &&
		       there < (int64_t)looks->count;
	for (size_t i = 0; missing && i < looks->count; i++)
		doubt(looks->of[i]);
	lk__request_free(look);
	looks_free(looks);
}

static struct lk__request *looks_request(const struct lk__looks *looks)
{
	struct lk__words words = {0};
	lk__words_text(&words, "EXISTS");
	for (size_t i = 0; i < looks->count; i++)
		lk__words_add(&words, looks->of[i]->target.key, looks->of[i]->target.key_size);
	return lk__tracking_look(&words);
}

void lk__looks_send(struct lk__looks *looks)
{
	if (!looks)
		return;
	struct lk__request *look = looks->count ? looks_request(looks) : NULL;
	if (look) {
		look->owner = looks;
		look->finish = looks_finish;
	}
	if (!look || !lk__tracking_send(looks->node, look))
		looks_free(looks);
}

/* ---- the turn ---- */

/* By the number of locks: what a client with few asks keeps nobody else waiting. */
static int64_t jitter_ns(size_t locks)
{
	uint32_t random = 0;
	int64_t share = (int64_t)(locks < TOGETHER ? locks : TOGETHER);
	lk__random_bytes(&random, sizeof(random));
	return JITTER_NS * share / TOGETHER * (random % 1024) / 1024;
}

/* Every hold on the node: in doubt, or only to be looked at. */
static void tracked_all(lk_client *client, const struct lk__node *node, bool doubt)
{
	struct lk__entry *entry = NULL;
	size_t count = 0;
	pthread_mutex_lock(&client->mutex);
	int64_t at_ns = lk__now_ns() + (doubt ? jitter_ns(client->entries.count) : 0);
	while ((entry = lk__entries_next(&client->entries, entry))) {
		if (lk__entry_node(entry) != node)
			continue;
		lk__doubt_fronts(entry); /* whose look goes behind what they ask then */
		if (!atomic_load(&entry->hold))
			continue;
		if (doubt)
			atomic_store(&entry->doubt, true);
		lk__watch_at(entry, at_ns + (int64_t)(count++ / TOGETHER) * APART_NS);
	}
	pthread_mutex_unlock(&client->mutex);
}

static void tracked_take(lk_client *client, struct lk__node *node)
{
	struct lk__touched touched;
	const char *key;
	size_t size;
	if (!lk__tracking_take(node, &touched))
		return;
	while (!touched.all && (key = lk__touched_next(&touched, &size)))
		lk__doubt_key(client, key, size);
	lk__buffer_free(&touched.keys);
	if (touched.all || touched.lost)
		tracked_all(client, node, true);
	else if (touched.begins)
		tracked_all(client, node, false);
}

void lk__tracked_turn(lk_client *client)
{
	struct lk__topo *topo = client->topo;
	struct lk__node *node;
	for (size_t i = 0; (node = topo->ops->node_at(topo, i)); i++) {
		if (!lk__tracking_is_wanted(&node->tracking))
			continue;
		tracked_take(client, node);
		lk__tracking_turn(node);
	}
}
