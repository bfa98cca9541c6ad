/* SPDX-License-Identifier: MIT */
#include "lock/entry_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/containers.h"
#include "lock/entry.h"
#include "lock/loop.h"

#define ROOM_LEAST 64
#define CHAIN 2 /* entries a chain, on average, when the table grows */

/* The chain that starts with these words, whose first link is returned. */
static struct lk__entry **entries_chain(const struct lk__entries *entries, const char *words,
					size_t size)
{
	unsigned hash;
	HASH_VALUE(words, size, hash);
	return &entries->chain[hash & (entries->room - 1)];
}

static struct lk__entry **entries_chain_of(const struct lk__entries *entries,
					   const struct lk__entry *entry)
{
	return entries_chain(entries, entry->words, lk__entry_words_size(entry));
}

struct lk__entry *lk__entries_find(const struct lk__entries *entries,
				   const struct lk__recipe *recipe, const char *words, size_t size)
{
	if (!entries->count)
		return NULL;
	struct lk__entry *entry = *entries_chain(entries, words, size);
	while (entry && (entry->target.recipe != recipe || lk__entry_words_size(entry) != size ||
			 memcmp(entry->words, words, size) != 0))
		entry = entry->next;
	return entry;
}

static void entries_put(struct lk__entries *entries, struct lk__entry *entry)
{
	struct lk__entry **chain = entries_chain_of(entries, entry);
	entry->next = *chain;
	*chain = entry;
	entries->count++;
}

/* False when out of memory: then the chains that are there grow longer. */
static bool entries_grow(struct lk__entries *entries)
{
	struct lk__entries grown = {.room = entries->room ? 2 * entries->room : ROOM_LEAST};
	grown.chain = calloc(grown.room, sizeof(struct lk__entry *));
	if (!grown.chain)
		return false;
	for (size_t i = 0; i < entries->room; i++)
		for (struct lk__entry *entry = entries->chain[i], *next; entry; entry = next) {
			next = entry->next;
			entries_put(&grown, entry);
		}
	free(entries->chain);
	*entries = grown;
	return true;
}

bool lk__entries_add(struct lk__entries *entries, struct lk__entry *entry)
{
	if (entries->count >= CHAIN * entries->room && !entries_grow(entries) && !entries->room)
		return false;
	entries_put(entries, entry);
	return true;
}

void lk__entries_remove(struct lk__entries *entries, struct lk__entry *entry)
{
	struct lk__entry **link = entries_chain_of(entries, entry);
	while (*link != entry)
		link = &(*link)->next;
	*link = entry->next;
	entries->count--;
}

struct lk__entry *lk__entries_next(const struct lk__entries *entries, const struct lk__entry *entry)
{
	size_t next = 0;
	if (entry && entry->next)
		return entry->next;
	if (entry)
		next = (size_t)(entries_chain_of(entries, entry) - entries->chain) + 1;
	while (next < entries->room && !entries->chain[next])
		next++;
	return next < entries->room ? entries->chain[next] : NULL;
}

void lk__entries_free(struct lk__entries *entries)
{
	assert(!entries->count);
	free(entries->chain);
}

/* ---- the heap of deadlines ---- */

void lk__watch_init(lk_client *client)
{
	pthread_mutex_init(&client->watch.mutex, NULL);
	client->watch.armed_ns = LK__NEVER;
}

void lk__watch_free(lk_client *client)
{
	lk__heap_free(&client->watch.heap);
	pthread_mutex_destroy(&client->watch.mutex);
}

int lk__watch_reserve(lk_client *client, size_t count)
{
	pthread_mutex_lock(&client->watch.mutex);
	int rc = lk__heap_reserve(&client->watch.heap, count);
	pthread_mutex_unlock(&client->watch.mutex);
	return rc;
}

void lk__watch_at(struct lk__entry *entry, int64_t at_ns)
{
	lk_client *client = entry->client;
	struct lk__watch *watch = &client->watch;
	bool sooner = false;
	pthread_mutex_lock(&watch->mutex);
	if (at_ns < lk__heap_key(&watch->heap, &entry->watch)) {
		lk__heap_put(&watch->heap, &entry->watch, at_ns);
		sooner = at_ns < watch->armed_ns;
		if (sooner)
			watch->armed_ns = at_ns;
	}
	pthread_mutex_unlock(&watch->mutex);
	if (sooner)
		lk__loop_wake(client);
}

void lk__watch_forget(lk_client *client, struct lk__entry *entry)
{
	pthread_mutex_lock(&client->watch.mutex);
	lk__heap_remove(&client->watch.heap, &entry->watch);
	pthread_mutex_unlock(&client->watch.mutex);
}
