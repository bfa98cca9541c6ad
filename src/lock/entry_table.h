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

/* The next entry of a key after `entry`, the first after NULL, of the kinds whose owners have one
 * entry in common. NULL at the end. */
struct lk__entry *lk__entries_next_of(const struct lk__entries *entries,
				      const struct lk__entry *entry, const char *key, size_t size);

/* Frees the table, which is empty. */
void lk__entries_free(struct lk__entries *entries);

/* ---- who holds a key, where each owner has an entry ---- */

/*
 * Where each owner has an entry, a key may have thousands of them, and a table by words does not
 * find them by their key. Those that are held have their place in a second table: of a key, the
 * kinds that exclude all others, and those that several owners hold at once (LK__SHARES).
 *
 * A hold begins and ends without memory, so the table grows if it can, and else its chains do.
 * Nothing is changed where all owners share an entry.
 */

void lk__holders_init(struct lk__holders *holders);
void lk__holders_free(struct lk__holders *holders);

/* The hold of an entry begins, and ends: with the entry's mutex held. */
void lk__holders_add(struct lk__entry *entry);
void lk__holders_remove(struct lk__entry *entry);

/* Calls `visit` with each entry of the key that is held, under the mutex of the table: it may take
 * note. `shared`: of the kinds that several hold at once, or of the others. */
void lk__holders_each(struct lk__holders *holders, const char *key, size_t size, bool shared,
		      void (*visit)(void *context, struct lk__entry *entry), void *context);

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
