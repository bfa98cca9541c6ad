/* SPDX-License-Identifier: MIT */
/*
 * A list of what is ready, in the order in which it became so. Any thread puts, without a mutex;
 * one takes (Vyukov's intrusive queue). Each costs the same, however long the list is.
 *
 * A thread that puts becomes the newest first, and is linked then. In between, neither it nor what
 * was put behind it can be taken: who puts wakes the taker afterwards, and finds it asleep.
 */
#ifndef LK__BASE_READY_H
#define LK__BASE_READY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

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

/* Whether one can be taken. For the taker, which says before that it is asleep: a thread that had
 * not linked yet sees that, and wakes it. */
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
