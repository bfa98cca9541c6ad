/* SPDX-License-Identifier: MIT */
/*
 * An answer or a message contradicts a hold of ours: the loop asks the server at once, by owner id.
 *
 * No such answer ends a hold by itself: it may be older than the grant, or be about something else
 * that has the same key. The holds of a key are found by tables (entry_table.h), so a client that
 * has 100,000 of them finds those of one key as fast as one that has a few.
 */
#ifndef LK__LOCK_DOUBT_H
#define LK__LOCK_DOUBT_H

#include "lock/client.h"

/* Puts the entry's grant in doubt: what we believe of it may be out of date. The entry cannot go
 * meanwhile. */
void lk__doubt(struct lk__entry *entry);

/* Puts the red locks in doubt that have the entry among their nodes. The mutex of its client is
 * held. */
void lk__doubt_fronts(const struct lk__entry *entry);

/* An answer says that nobody, or somebody else, has the key: all holds of this client under it are
 * in doubt, whatever their kind and owner, and the callers that wait for them try. No mutex is
 * held. */
void lk__doubt_key(lk_client *client, const char *key, size_t key_size);

/* The server has granted the entry's lock: other holds of its key that it excludes are in doubt.
 * The entry's mutex is held. */
void lk__doubt_others(struct lk__entry *entry);

#endif
