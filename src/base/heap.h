/* SPDX-License-Identifier: MIT */
/*
 * A heap of nodes that live in their owners, least key first. Each has four children, whose keys
 * stand in a row: in a large heap, memory is what takes time. Not thread-safe.
 */
#ifndef LK__BASE_HEAP_H
#define LK__BASE_HEAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

struct lk__heap_node {
	uint32_t place; /* index + 1 in the heap; 0: not in it */
};

struct lk__heap_item {
	int64_t key;
	struct lk__heap_node *node;
};

struct lk__heap {
	struct lk__heap_item *items;
	size_t count;
	size_t room;
};

/* Makes room for so many nodes in all: until then lk__heap_put() cannot fail. 0 or LK_ENOMEM. */
int lk__heap_reserve(struct lk__heap *heap, size_t count);

/* Puts a node in, or moves it to its new key. 0, or LK_ENOMEM where no room was made for it. */
int lk__heap_put(struct lk__heap *heap, struct lk__heap_node *node, int64_t key);

/* Takes a node out, wherever it stands; one that is not in is fine. */
void lk__heap_remove(struct lk__heap *heap, struct lk__heap_node *node);

void lk__heap_free(struct lk__heap *heap);

/* LK__NEVER for one that is not in. */
static inline int64_t lk__heap_key(const struct lk__heap *heap, const struct lk__heap_node *node)
{
	return node->place ? heap->items[node->place - 1].key : LK__NEVER;
}

/* LK__NEVER when it is empty. */
static inline int64_t lk__heap_first_key(const struct lk__heap *heap)
{
	return heap->count ? heap->items[0].key : LK__NEVER;
}

/* The node with the least key; NULL when it is empty, or that key is greater than `most`. */
static inline struct lk__heap_node *lk__heap_first(const struct lk__heap *heap, int64_t most)
{
	return heap->count && heap->items[0].key <= most ? heap->items[0].node : NULL;
}

#endif
