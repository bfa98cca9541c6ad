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
	entries->chain = grown.chain;
	entries->room = grown.room;
	return true;
}

static void entries_note_recipe(struct lk__entries *entries, const struct lk__recipe *recipe)
{
	if (recipe->sharing == LK__NO_HOLD)
		return;
	if (!entries->recipe)
		entries->recipe = recipe;
	else if (entries->recipe != recipe)
		atomic_store(&entries->mixed, true);
}

bool lk__entries_add(struct lk__entries *entries, struct lk__entry *entry)
{
	if (entries->count >= CHAIN * entries->room && !entries_grow(entries) && !entries->room)
		return false;
	entries_put(entries, entry);
	entries_note_recipe(entries, entry->target.recipe);
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

static bool is_of_key(const struct lk__entry *entry, const char *key, size_t size)
{
	return entry->target.key_size == size && memcmp(entry->target.key, key, size) == 0;
}

struct lk__entry *lk__entries_next_of(const struct lk__entries *entries,
				      const struct lk__entry *entry, const char *key, size_t size)
{
	struct lk__entry *next;
	if (entry)
		next = entry->next;
	else
		next = entries->count ? *entries_chain(entries, key, size) : NULL;
	while (next && (lk__entry_words_size(next) != size || !is_of_key(next, key, size)))
		next = next->next;
	return next;
}

void lk__entries_free(struct lk__entries *entries)
{
	assert(!entries->count);
	free(entries->chain);
}

/* ---- who holds a key, where each owner has an entry ---- */

static struct lk__entry *entry_of(struct lk__holder *holder)
{
	return (struct lk__entry *)(holder + 1);
}

static bool is_shared(const struct lk__entry *entry)
{
	return entry->target.recipe->flags & LK__SHARES;
}

static struct lk__holder **holders_chain(struct lk__holders *holders, const char *key, size_t size,
					 bool shared)
{
	unsigned hash;
	if (!holders->room)
		return &holders->only;
	HASH_VALUE(key, size, hash);
	return &holders->chain[(hash + shared) & (holders->room - 1)];
}

static void holders_put(struct lk__holders *holders, struct lk__holder *holder)
{
	const struct lk__entry *entry = entry_of(holder);
	struct lk__holder **chain = holders_chain(holders, entry->target.key,
						  entry->target.key_size, is_shared(entry));
	holder->next = *chain;
	holder->link = chain;
	if (holder->next)
		holder->next->link = &holder->next;
	*chain = holder;
}

static void holders_move(struct lk__holders *grown, struct lk__holder *first)
{
	for (struct lk__holder *next; first; first = next) {
		next = first->next;
		holders_put(grown, first);
	}
}

static void holders_grow(struct lk__holders *holders)
{
	struct lk__holders grown = {.room = holders->room ? 2 * holders->room : ROOM_LEAST};
	grown.chain = calloc(grown.room, sizeof(struct lk__holder *));
	if (!grown.chain)
		return;
	holders_move(&grown, holders->only);
	for (size_t i = 0; i < holders->room; i++)
		holders_move(&grown, holders->chain[i]);
	free(holders->chain);
	holders->chain = grown.chain;
	holders->room = grown.room;
	holders->only = NULL;
}

void lk__holders_init(struct lk__holders *holders)
{
	pthread_mutex_init(&holders->mutex, NULL);
}

void lk__holders_free(struct lk__holders *holders)
{
	free(holders->chain);
	pthread_mutex_destroy(&holders->mutex);
}

void lk__holders_add(struct lk__entry *entry)
{
	struct lk__holders *holders = &entry->client->holders;
	if (entry->target.recipe->sharing != LK__EACH_OWNER)
		return;
	pthread_mutex_lock(&holders->mutex);
	if (holders->count >= CHAIN * holders->room)
		holders_grow(holders);
	holders_put(holders, lk__entry_holder(entry));
	holders->count++;
	pthread_mutex_unlock(&holders->mutex);
}

void lk__holders_remove(struct lk__entry *entry)
{
	struct lk__holders *holders = &entry->client->holders;
	if (entry->target.recipe->sharing != LK__EACH_OWNER)
		return;
	struct lk__holder *holder = lk__entry_holder(entry);
	pthread_mutex_lock(&holders->mutex);
	*holder->link = holder->next;
	if (holder->next)
		holder->next->link = holder->link;
	*holder = (struct lk__holder){.next = NULL};
	holders->count--;
	pthread_mutex_unlock(&holders->mutex);
}

void lk__holders_each(struct lk__holders *holders, const char *key, size_t size, bool shared,
		      void (*visit)(void *context, struct lk__entry *entry), void *context)
{
	if (atomic_load(&holders->count) == 0)
		return;
	pthread_mutex_lock(&holders->mutex);
	for (struct lk__holder *holder = *holders_chain(holders, key, size, shared); holder;
	     holder = holder->next) {
		struct lk__entry *entry = entry_of(holder);
		if (is_shared(entry) == shared && is_of_key(entry, key, size))
			visit(context, entry);
	}
	pthread_mutex_unlock(&holders->mutex);
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
