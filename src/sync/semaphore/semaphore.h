/* SPDX-License-Identifier: MIT */
/*
 * The semaphore: a count of free permits. Takes and returns of one client are remembered by their
 * numbers, in keys of their own with a time to live, so that each counts once however often it is
 * sent.
 */
#ifndef LK__SYNC_SEMAPHORE_H
#define LK__SYNC_SEMAPHORE_H

#include "sync/recipe.h"

extern const struct lk__recipe lk__semaphore_recipe;

#define LK__SEMAPHORE_CHANNEL_PREFIX "redisson_sc"
#define LK__RECORD_PREFIX "lockkeeper_sc"

/* The key under which a request is remembered: "lockkeeper_sc:{name}:<field>". NULL when out of
 * memory. */
char *lk__record_key(const struct lk__target *target, const char *field, size_t *size_out);

/* The same for an earlier number of the client whose field is `field`. */
char *lk__record_key_of(const struct lk__target *target, const char *field, uint64_t number,
			size_t *size_out);

#endif
