/* SPDX-License-Identifier: MIT */
#include "lock/told.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "conf/config.h"
#include "conn/channels.h"
#include "conn/conn.h"
#include "conn/node.h"
#include "conn/tracking.h"
#include "lock/notice.h"
#include "sync/recipes.h"
#include "resp/reply.h"
#include "sync/script.h"

#define LOOKS_MAX 100          /* keys in one look */
#define TOGETHER 500           /* holds that are put in doubt at the same moment, */
#define APART_NS (10 * LK__MS) /* and the next so much later, where all are */
#define JITTER_NS (2 * LK__MS) /* of such a number: all clients are told at the same moment */

/* ---- looks ---- */

struct lk__looks {
	struct lk__node *node;
	uint32_t generation;
	uint16_t slot;
	size_t count;
	struct lk__entry *of[LOOKS_MAX]; /* with a reference each */
};

/* A hold beyond the limit is left out: its next renewal notices a loss. */
static void looks_put(struct lk__looks *looks, struct lk__entry *entry)
{
	bool counts = entry->hold && !entry->counted;
	if (counts && !lk__entry_may_be_tracked(entry))
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
	looks->generation = lk__tracking_generation(&node->tracking);
	looks->slot = slot;
	looks->count = 0;
	return looks;
}

bool lk__looks_add(struct lk__looks **looks, struct lk__entry *entry)
{
	struct lk__node *node = lk__entry_node(entry);
	if (!lk__entry_is_tracked_kind(entry) || entry->is_quorum ||
	    !lk__entry_may_be_tracked(entry))
		return true;
	lk__tracking_want(node);
	if (!lk__tracking_is_on(&node->tracking))
		return true;
	if (*looks && ((*looks)->count == LOOKS_MAX || (*looks)->node != node ||
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

void lk__told_turn(lk_client *client)
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

/* ---- requests to give it up ---- */

static struct lk__ear *entry_ear(const struct lk__entry *entry)
{
	return entry->hold ? lk__hold_extra(entry->hold)->ear : NULL;
}

/* The name of the key and of the channel; NULL when out of memory. */
static char *ask_name(const struct lk__entry *entry, size_t *size_out)
{
	return lk__derived_name("lockkeeper_ask", entry->target.key, entry->target.key_size,
				size_out);
}

void lk__ear_open(struct lk__entry *entry)
{
	struct lk__ear *ear = entry_ear(entry);
	size_t size;
	if (!ear || ear->listening)
		return;
	char *name = ask_name(entry, &size);
	ear->conn = lk__entry_messages(entry);
	if (name)
		ear->listening = lk__channel_open(ear->conn, name, size, NULL, entry);
	free(name);
}

void lk__ear_free(struct lk__ear *ear)
{
	if (ear && ear->listening)
		lk__channel_close(ear->conn, ear->listening);
	free(ear);
}

/* A question that is on its way. */
struct look {
	struct lk__entry *entry; /* a reference */
	uint64_t number;         /* of the grant */
};

/* Reads the request and why out of "<request>\n<field>\n…\n\n<why>\n…"; false where no field is
 * this one. */
static bool request_read(const redisReply *reply, const char *field, char request_out[40],
			 char why_out[LK_NOTE_SIZE_MAX + 1])
{
	char line[LK__FIELD_SIZE + 2];
	if (reply->type != REDIS_REPLY_STRING)
		return false;
	const char *fields = strchr(reply->str, '\n');
	const char *end = fields ? strstr(fields, "\n\n") : NULL;
	if (!end || fields - reply->str >= 40)
		return false;
	int size = snprintf(line, sizeof(line), "\n%s\n", field);
	const char *own = strstr(fields, line),
		   *all = strncmp(fields, "\n*\n", 3) == 0 ? fields : NULL;
	snprintf(request_out, 40, "%.*s", (int)(fields - reply->str), reply->str);
	snprintf(why_out, LK_NOTE_SIZE_MAX + 1, "%.*s", (int)strcspn(end + 2, "\n"), end + 2);
	return all || (own && own + size - 2 < end);
}

static bool was_heard(const struct lk__ear *ear, const char *request)
{
	for (size_t i = 0; i < LK__EAR_HEARD; i++)
		if (strcmp(ear->heard[i], request) == 0)
			return true;
	return false;
}

static void look_take(const struct look *look, const struct lk__request *request)
{
	struct lk__entry *entry = look->entry;
	struct lk__ear *ear = entry_ear(entry);
	char field[LK__FIELD_SIZE], heard[40], why[LK_NOTE_SIZE_MAX + 1];
	if (!ear || entry->grant.number != look->number || !request->reply)
		return;
	lk__field(entry, look->number, field);
	if (!request_read(request->reply, field, heard, why) || was_heard(ear, heard))
		return;
	memcpy(ear->heard[ear->hears++ % LK__EAR_HEARD], heard, sizeof(heard));
	lk__notices_ask(entry->client, entry->hold, why);
}

static void look_finish(struct lk__request *request)
{
	struct look *look = request->owner;
	pthread_mutex_lock(&look->entry->mutex);
	look_take(look, request);
	pthread_mutex_unlock(&look->entry->mutex);
	lk__entry_unref(look->entry);
	lk__request_free(request);
	free(look);
}

void lk__ear_look(struct lk__entry *entry)
{
	struct lk__words words = {.count = 0};
	size_t size = 0;
	if (!entry_ear(entry))
		return;
	struct look *look = malloc(sizeof(*look));
	lk__words_text(&words, "GET");
	char *name = ask_name(entry, &size);
	lk__words_own(&words, name, size);
	struct lk__request *request = lk__words_command(&words);
	if (!look || !request) { /* the next renewal looks again */
		lk__request_free(request);
		free(look);
		return;
	}
	lk__entry_ref(entry);
	*look = (struct look){entry, entry->grant.number};
	request->owner = look;
	request->finish = look_finish;
	request->question = request->resend = true; /* or a new connection would drop it */
	request->deadline_ns = lk__after_ms(lk__now_ns(),
					    entry->client->config->command_timeout_ms);
	lk__conn_submit(lk__node_work(lk__entry_node(entry)), request);
}
