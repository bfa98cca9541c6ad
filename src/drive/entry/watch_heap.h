/* SPDX-License-Identifier: MIT */
/* The heap of the watchdog's deadlines: when an entry needs attention. The loop takes them out. */
#ifndef LK__DRIVE_ENTRY_WATCH_HEAP_H
#define LK__DRIVE_ENTRY_WATCH_HEAP_H

#include "drive/client/client.h"

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
