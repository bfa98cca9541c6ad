/* SPDX-License-Identifier: MIT */
#include "base/heap.h"

#include <assert.h>
#include <stdlib.h>

#include <lockkeeper/error.h>

static void heap_set(struct lk__heap *heap, size_t index, struct lk__heap_node *node)
{
	heap->nodes[index] = node;
	node->place = index + 1;
}

static void heap_rise(struct lk__heap *heap, size_t index)
{
	struct lk__heap_node *node = heap->nodes[index];
	while (index > 0) {
		size_t parent = (index - 1) / 2;
		if (heap->nodes[parent]->key <= node->key)
			break;
		heap_set(heap, index, heap->nodes[parent]);
		index = parent;
	}
	heap_set(heap, index, node);
}

static void heap_sink(struct lk__heap *heap, size_t index)
{
	struct lk__heap_node *node = heap->nodes[index];
	for (;;) {
		size_t child = 2 * index + 1;
		if (child >= heap->count)
			break;
		if (child + 1 < heap->count &&
		    heap->nodes[child + 1]->key < heap->nodes[child]->key)
			child++;
		if (node->key <= heap->nodes[child]->key)
			break;
		heap_set(heap, index, heap->nodes[child]);
		index = child;
	}
	heap_set(heap, index, node);
}

int lk__heap_reserve(struct lk__heap *heap, size_t count)
{
	size_t room = heap->room ? heap->room : 64;
	if (count <= heap->room)
		return 0;
	while (room < count)
		room *= 2;
	struct lk__heap_node **nodes = realloc(heap->nodes, room * sizeof(*nodes));
	if (!nodes)
		return LK_ENOMEM;
	heap->nodes = nodes;
	heap->room = room;
	return 0;
}

int lk__heap_put(struct lk__heap *heap, struct lk__heap_node *node, int64_t key)
{
	if (!node->place) {
		int rc = lk__heap_reserve(heap, heap->count + 1);
		if (rc < 0)
			return rc;
		heap_set(heap, heap->count++, node);
	}
	node->key = key;
	heap_rise(heap, node->place - 1);
	heap_sink(heap, node->place - 1);
	return 0;
}

void lk__heap_remove(struct lk__heap *heap, struct lk__heap_node *node)
{
	if (!node->place)
		return;
	size_t index = node->place - 1;
	assert(index < heap->count && heap->nodes[index] == node);
	struct lk__heap_node *last = heap->nodes[--heap->count];
	node->place = 0;
	if (last == node)
		return;
	heap_set(heap, index, last);
	heap_rise(heap, index);
	heap_sink(heap, last->place - 1);
}

void lk__heap_free(struct lk__heap *heap)
{
	free(heap->nodes);
	*heap = (struct lk__heap){0};
}
