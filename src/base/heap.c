/* SPDX-License-Identifier: MIT */
#include "base/containers.h"

#include <assert.h>
#include <stdlib.h>

#include <lockkeeper/error.h>

#define CHILDREN 4

static void heap_set(struct lk__heap *heap, size_t index, struct lk__heap_item item)
{
	heap->items[index] = item;
	item.node->place = (uint32_t)(index + 1); /* lk__heap_reserve() sees to it */
}

static void heap_rise(struct lk__heap *heap, size_t index)
{
	struct lk__heap_item item = heap->items[index];
	while (index > 0) {
		size_t parent = (index - 1) / CHILDREN;
		if (heap->items[parent].key <= item.key)
			break;
		heap_set(heap, index, heap->items[parent]);
		index = parent;
	}
	heap_set(heap, index, item);
}

/* The child with the least key; `count` when it has none. */
static size_t heap_least_child(const struct lk__heap *heap, size_t index)
{
	size_t first = CHILDREN * index + 1, least = first;
	if (first >= heap->count)
		return heap->count;
	for (size_t i = first + 1; i < first + CHILDREN && i < heap->count; i++)
		if (heap->items[i].key < heap->items[least].key)
			least = i;
	return least;
}

static void heap_sink(struct lk__heap *heap, size_t index)
{
	struct lk__heap_item item = heap->items[index];
	size_t child = heap_least_child(heap, index);
	while (child < heap->count && heap->items[child].key < item.key) {
		heap_set(heap, index, heap->items[child]);
		index = child;
		child = heap_least_child(heap, index);
	}
	heap_set(heap, index, item);
}

int lk__heap_reserve(struct lk__heap *heap, size_t count)
{
	size_t room = heap->room ? heap->room : 64;
	if (count <= heap->room)
		return 0;
	if (count > UINT32_MAX)
		return LK_ENOMEM;
	while (room < count)
		room *= 2;
	struct lk__heap_item *items = realloc(heap->items, room * sizeof(*items));
	if (!items)
		return LK_ENOMEM;
	heap->items = items;
	heap->room = room;
	return 0;
}

/* Its key has changed. */
static void heap_move(struct lk__heap *heap, size_t index)
{
	const struct lk__heap_node *node = heap->items[index].node;
	heap_rise(heap, index);
	heap_sink(heap, node->place - 1);
}

int lk__heap_put(struct lk__heap *heap, struct lk__heap_node *node, int64_t key)
{
	if (!node->place) {
		int rc = lk__heap_reserve(heap, heap->count + 1);
		if (rc < 0)
			return rc;
		node->place = ++heap->count;
	}
	heap->items[node->place - 1] = (struct lk__heap_item){key, node};
	heap_move(heap, node->place - 1);
	return 0;
}

void lk__heap_remove(struct lk__heap *heap, struct lk__heap_node *node)
{
	if (!node->place)
		return;
	size_t index = node->place - 1;
	assert(index < heap->count && heap->items[index].node == node);
	struct lk__heap_item last = heap->items[--heap->count];
	node->place = 0;
	if (last.node == node)
		return;
	heap_set(heap, index, last);
	heap_move(heap, index);
}

void lk__heap_free(struct lk__heap *heap)
{
	free(heap->items);
	*heap = (struct lk__heap){0};
}
