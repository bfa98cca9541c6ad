/* SPDX-License-Identifier: MIT */
/*
 * The permit semaphore: a count of free permits, and a sorted set of those in use with their ends.
 *
 * Two recipes: callers wait in the queue of one, which leaves no hold behind; each permit that it
 * was granted becomes an entry of the other, renewed and released by itself.
 *
 *   permit id   16 bytes: 8 of the client's UUID, 6 of the number of the acquire, 2 of the permit
 *               in it. As text, 32 hexadecimal digits, as Java shows it: that is the field.
 */
#ifndef LK__SYNC_PERMITS_H
#define LK__SYNC_PERMITS_H

#include <stdbool.h>

#include "sync/recipe.h"

#define LK__PERMIT_ID_BYTES 16
#define LK__PERMITS_MAX 1000 /* in one acquire or release */

extern const struct lk__recipe lk__permit_queue_recipe; /* numbers: of acquires */
extern const struct lk__recipe lk__permit_recipe;       /* numbers: lk__permit_number() */

/* The number of a permit: the one of its acquire, and its place in that. */
uint64_t lk__permit_number(uint64_t acquire_number, size_t index);

/* The id of a permit of an acquire, whose first one has the id `first`; false when that is none. */
bool lk__permit_id_at(const char *first, size_t index, char id_out[2 * LK__PERMIT_ID_BYTES + 1]);

/* The 16 bytes of an id in hexadecimal; false when it is not an id. */
bool lk__permit_bytes(const char *id, unsigned char bytes_out[LK__PERMIT_ID_BYTES]);

/* The key of the permits in use: "{name}:timeout". NULL when out of memory. */
char *lk__permits_key(const struct lk__target *target, size_t *size_out);

/* Gives back `count` permits (at most LK__PERMITS_MAX), whose ids are 16 bytes each. */
struct lk__request *lk__permits_release(const struct lk__target *target, const unsigned char *ids,
					size_t count);

#endif
