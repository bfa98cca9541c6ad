/* SPDX-License-Identifier: MIT */
/* Containers of bytes and nodes: a buffer, a heap, a list of what is ready, hash tables. */
#ifndef LK__BASE_CONTAINERS_H
#define LK__BASE_CONTAINERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * uthash, told not to end the process when memory runs out: an add that failed leaves the
 * element's hh.tbl NULL and the table as it was.
 */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "base/clock.h"

/* A growing run of bytes: appended at the end, taken from the front. */
struct lk__buffer {
	char *bytes;
	size_t start; /* first byte not yet taken */
	size_t end;   /* one past the last byte */
	size_t room;  /* allocated */
};

/* Appends so many bytes, which the caller writes; NULL, with the buffer unchanged, when out of
 * memory, or beyond 1 GiB. */
char *lk__buffer_extend(struct lk__buffer *buffer, size_t size);

/* Appends; 0, or LK_ENOMEM with the buffer unchanged. */
int lk__buffer_append(struct lk__buffer *buffer, const void *bytes, size_t size);

/* Drops `size` bytes from the front. */
void lk__buffer_take(struct lk__buffer *buffer, size_t size);

void lk__buffer_free(struct lk__buffer *buffer);

static inline size_t lk__buffer_size(const struct lk__buffer *buffer)
{
	return buffer->end - buffer->start;
}

static inline const char *lk__buffer_front(const struct lk__buffer *buffer)
{
	return buffer->bytes + buffer->start;
}

/*
 * A heap of nodes that live in their owners, least key first. Each has four children, whose keys
 * stand in a row: in a large heap, memory is what takes time. Not thread-safe.
 */

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

/*
 * A list of what is ready, in the order in which it became so. Any thread puts, without a mutex;
 * one takes (Vyukov's intrusive queue). Each costs the same, however long the list is.
 *
 * A thread that puts becomes the newest first, and is linked then. In between, neither it nor what
 * was put behind it can be taken: who puts wakes the taker afterwards, and finds it asleep.
 */

/* A place in the list; part of what is ready. */
struct lk__ready {
	struct lk__ready *_Atomic next; /* that came later */
};

struct lk__ready_list {
	struct lk__ready *_Atomic newest;
	struct lk__ready *oldest; /* the taker's */
	struct lk__ready none;    /* so that it is never empty */
};

static inline void lk__ready_init(struct lk__ready_list *list)
{
	atomic_store(&list->newest, &list->none);
	list->oldest = &list->none;
}

/* It must not be in the list. */
static inline void lk__ready_put(struct lk__ready_list *list, struct lk__ready *ready)
{
	atomic_store(&ready->next, NULL);
	struct lk__ready *before = atomic_exchange(&list->newest, ready);
	atomic_store(&before->next, ready);
}

/* Tells whether one can be taken. For the taker, which says before that it is asleep: a thread that
 * had not linked yet sees that, and wakes it. */
static inline bool lk__ready_any(const struct lk__ready_list *list)
{
	const struct lk__ready *oldest = list->oldest;
	return atomic_load(&oldest->next) ||
	       (oldest != &list->none && oldest == atomic_load(&list->newest));
}

/* The oldest; NULL: none can be taken. */
static inline struct lk__ready *lk__ready_take(struct lk__ready_list *list)
{
	if (list->oldest == &list->none && atomic_load(&list->none.next))
		list->oldest = atomic_load(&list->none.next);
	struct lk__ready *oldest = list->oldest;
	if (oldest == &list->none)
		return NULL;
	if (!atomic_load(&oldest->next) && oldest == atomic_load(&list->newest))
		lk__ready_put(list, &list->none);
	if (!atomic_load(&oldest->next))
		return NULL;
	list->oldest = atomic_load(&oldest->next);
	return oldest;
}

#endif
