/* SPDX-License-Identifier: MIT */
/* A binary heap of nodes that live in their owners, least key first. Not thread-safe. */
#ifndef LK__BASE_HEAP_H
#define LK__BASE_HEAP_H

#include <stddef.h>
#include <stdint.h>

struct lk__heap_node {
	int64_t key;
	size_t place; /* index + 1 in the heap; 0: not in it */
};

struct lk__heap {
	struct lk__heap_node **nodes;
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

static inline struct lk__heap_node *lk__heap_first(const struct lk__heap *heap)
{
	return heap->count ? heap->nodes[0] : NULL;
}

#endif
