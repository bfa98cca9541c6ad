/* SPDX-License-Identifier: MIT */
/*
 * The entries of a client, by kind and words. A chain of one pointer each, where uthash takes 56
 * bytes: a program that holds 100,000 locks has as many entries. The client's mutex is held.
 */
#ifndef LK__LOCK_ENTRY_TABLE_H
#define LK__LOCK_ENTRY_TABLE_H

#include "lock/client.h"

struct lk__recipe;

/* NULL when there is none. */
struct lk__entry *lk__entries_find(const struct lk__entries *entries,
				   const struct lk__recipe *recipe, const char *words, size_t size);

/* Adds one that is not there: false, and nothing has changed, when out of memory. */
bool lk__entries_add(struct lk__entries *entries, struct lk__entry *entry);

/* Takes out one that is there. */
void lk__entries_remove(struct lk__entries *entries, struct lk__entry *entry);

/* The one after `entry`, the first after NULL; NULL at the end. The order is that of the table; it
 * stays while none is added, also when others are taken out. */
struct lk__entry *lk__entries_next(const struct lk__entries *entries,
				   const struct lk__entry *entry);

/* Frees the table, which is empty. */
void lk__entries_free(struct lk__entries *entries);

/* ---- the heap of deadlines ---- */

/* The heap of the watchdog's deadlines: when an entry needs attention. The loop takes them out. */

void lk__watch_init(lk_client *client);
void lk__watch_free(lk_client *client);

/* Makes room for the deadlines of so many entries: noting one of theirs then needs no memory. 0 or
 * LK_ENOMEM. */
int lk__watch_reserve(lk_client *client, size_t count);

/* Notes that an entry needs attention at `at_ns`, if not before. The entry cannot go meanwhile: its
 * mutex is held, or a reference. */
void lk__watch_at(struct lk__entry *entry, int64_t at_ns);

/* Takes an entry that goes away out of the heap. */
void lk__watch_forget(lk_client *client, struct lk__entry *entry);

#endif
