/*
 * A kind of lock, as the drivers see it: how its commands are made and how its answers are read.
 * One table a noun, in src/sync/<noun>/.
 */
#ifndef LK__SYNC_RECIPE_H
#define LK__SYNC_RECIPE_H

#include <stddef.h>
#include <stdint.h>

#include "conn/request.h"
#include "sync/acquire.h"

#define LK__FIELD_SIZE 64 /* "<uuid>:<number>" with its NUL */

/* Where a lock is in Redis. */
struct lk__target {
	char *key;
	size_t key_size;
	char *channel;
	size_t channel_size;
};

/* One lock of a batch of renewals. */
struct lk__renewal {
	const struct lk__target *target;
	const char *field;
	int64_t lease_ms;
};

enum lk__released { LK__RELEASED, LK__RELEASED_NOT_OWNER, LK__RELEASED_FAILED };
enum lk__exchanged {
	LK__EXCHANGED,
	LK__EXCHANGE_FREED, /* given up, not taken */
	LK__EXCHANGE_NOT_OWNER,
	LK__EXCHANGE_NOT_DONE,
	LK__EXCHANGE_UNKNOWN,
};

struct lk__recipe {
	const char *type;
	struct lk__request *(*acquire)(const struct lk__target *target, const char *field,
				       int64_t lease_ms, int64_t deadline_us);
	struct lk__request *(*release)(const struct lk__target *target, const char *field);
	struct lk__request *(*exchange)(const struct lk__target *target, const char *from,
					const char *to, int64_t lease_ms, int64_t deadline_us);
	struct lk__request *(*force)(const struct lk__target *target);
	struct lk__request *(*renew)(const struct lk__renewal *renewals, size_t count);

	/* `server_us` is set for LATE. */
	struct lk__acquire_event (*read_acquire)(const struct lk__request *request,
						 int64_t *server_us);
	/* `listeners`: subscribers that heard of it. */
	enum lk__released (*read_release)(const struct lk__request *request, int64_t *listeners);
	enum lk__exchanged (*read_exchange)(const struct lk__request *request);
};

/* The name of the channel or key that Redisson derives: "prefix:{name}", or "prefix:name" for a
 * name with a "{". NULL when out of memory. */
char *lk__derived_name(const char *prefix, const char *name, size_t name_size, size_t *size_out);

#endif
