/* SPDX-License-Identifier: MIT */
/*
 * The two sides of the read/write lock, a recipe each. In Redis:
 *
 *   <name>                                            hash, PEXPIRE: the longest lease in it
 *     mode                        → "read" or "write"
 *     <uuid>:<number>             → 1, for each reader
 *     <uuid>:<number>:write       → 1, for the writer
 *   {<name>}:<uuid>:<number>:rwlock_timeout:1         "1", PX: the lease of that reader
 *   redisson_rwlock:{<name>}                          channel: "0" when the last reader leaves,
 *                                                     "1" when the writer does, or goes down
 *   lockkeeper_writers:{<name>}                       zset: writers that wait and are preferred,
 *                                                     by the server time (ms) until which
 *
 * A reader lives as long as its timeout key; a field without one keeps nothing. The last one is
 * ours alone, the rest is Redisson's.
 */
#ifndef LK__SYNC_RW_RW_H
#define LK__SYNC_RW_RW_H

#include "sync/recipe.h"

extern const struct lk__recipe lk__read_recipe, lk__write_recipe;

#define LK__RW_CHANNEL_PREFIX "redisson_rwlock"
#define LK__RW_WRITERS_PREFIX "lockkeeper_writers"
#define LK__RW_PREFER_WRITERS 1u /* a flag of the tries */

/* ---- for the two recipes ---- */

#define LK__RW_FIELD_SIZE 272 /* the longest field that a caller may name, and ":write" */

/* The key "{name}:field:rwlock_timeout:1"; NULL when out of memory. */
char *lk__rw_timeout_key(const struct lk__target *target, const char *field, size_t *size_out);

/* The key of the waiting writers; NULL when out of memory. */
char *lk__rw_writers_key(const struct lk__target *target, size_t *size_out);

struct lk__request *lk__rw_release(const struct lk__target *target, const char *field,
				   const char *message);
struct lk__request *lk__rw_keep(const struct lk__target *target, const char *field,
				const char *message, int64_t keep_ms);
struct lk__request *lk__rw_force(const struct lk__target *target, const char *side,
				 const char *message);
struct lk__request *lk__rw_is_locked(const struct lk__target *target, const char *side);

#endif
