/*
 * Looking at locks from outside: which there are, who holds them, for how long.
 *
 * What is read here is a picture of a moment and never a reason to believe that one holds a lock.
 */
#ifndef LOCKKEEPER_INSPECT_H
#define LOCKKEEPER_INSPECT_H

#include <stddef.h>
#include <stdint.h>

#include <lockkeeper/client.h>
#include <lockkeeper/error.h>

typedef struct lk_scan lk_scan;

typedef struct lk_holder {
	const char *field; /* the owner's wire field, with a NUL after its bytes */
	size_t field_size;
	int64_t hold_count;
} lk_holder;

typedef struct lk_lock_info {
	const char *type; /* "lock" */
	const char *name; /* with a NUL after its bytes; without the configured prefix */
	size_t name_size;
	int64_t ttl_ms;      /* -1: it has none */
	size_t holder_count; /* 0: not locked */
	const lk_holder *holders;
	int64_t waiting_clients; /* subscribers of the lock's channel, a hint */
} lk_lock_info;

LK_BEGIN_DECLS

/*
 * Begins to walk over the locks whose name matches a glob pattern (NULL: all), by SCAN, never
 * KEYS; keys that are no locks are passed over. Errors: LK_ENOMEM, LK_EINVAL, LK_ECLOSED,
 * LK_EFORKED. Since 0.1.
 */
LK_API int lk_scan_new(lk_scan **scan_out, lk_client *client, const char *pattern, lk_error *error);

/*
 * Writes the next lock and returns 1, or returns 0 at the end. A lock may come twice when the
 * key space changes meanwhile (SCAN's promise). What `info_out` points to lives until the next call
 * on `scan`. Blocks for a few round trips. One thread at a time. Since 0.1.
 */
LK_API int lk_scan_next(lk_scan *scan, lk_lock_info *info_out, lk_error *error);

/*
 * Writes the state of one lock (holder_count 0 when it is free) and returns 0. What `info_out`
 * points to lives until the next call on `scan`. Errors: LK_EWRONGTYPE when the key is no
 * lock, … Since 0.1.
 */
LK_API int lk_scan_show(lk_scan *scan, const void *name, size_t name_size, lk_lock_info *info_out,
			lk_error *error);

/* Ends the walk; NULL is fine. Returns NULL. Since 0.1. */
LK_API lk_scan *lk_scan_free(lk_scan *scan);

LK_END_DECLS

#endif
