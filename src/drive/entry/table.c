/* SPDX-License-Identifier: MIT */
#include "drive/entry/table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "drive/entry/entry.h"

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
