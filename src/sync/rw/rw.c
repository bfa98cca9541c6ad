/* SPDX-License-Identifier: MIT */
/* The two sides of the read/write lock. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "sync/recipes.h"
#include "sync/script.h"

/* ---- the read side: shared by any number of owners, and by one that has the write side ---- */

const struct lk__recipe lk__read_recipe = {
	.type = "read lock",
	.channel_prefix = LK__RW_CHANNEL_PREFIX,
	.sharing = LK__EACH_OWNER,
	.flags = LK__NO_TERMS | LK__DOWNGRADES | LK__SHARES,
	.other_side = &lk__write_recipe,
	.acquire = lk__rw_read_acquire,
	.release = lk__rw_release,
	.keep = lk__rw_keep,
	.force = lk__rw_force,
	.renew = lk__rw_read_renew,
	.is_locked = lk__rw_is_locked,
	.is_held_by = lk__lock_is_held_by,
	.read_acquire = lk__reply_acquired,
	.read_release = lk__reply_released,
};

/* ---- the write side: one owner alone, who may read as well. Its field has ":write". ---- */

struct field {
	char text[LK__RW_FIELD_SIZE];
};

static const char *write_field(struct field *field, const char *owner)
{
	snprintf(field->text, sizeof(field->text), "%s:write", owner);
	return field->text;
}

static struct lk__request *write_release(const struct lk__target *target, const char *owner)
{
	struct field field;
	return lk__rw_release(target, write_field(&field, owner));
}

static struct lk__request *write_keep(const struct lk__target *target, const char *owner,
				      int64_t keep_ms)
{
	struct field field;
	return lk__rw_keep(target, write_field(&field, owner), keep_ms);
}

/* The reentrant lock's script does it: a field of the hash, and the hash's time to live. */
static struct lk__request *write_renew(const struct lk__renewal *renewals, size_t count)
{
	struct lk__renewal *own = calloc(count, sizeof(*own));
	struct field *fields = calloc(count, sizeof(*fields));
	struct lk__request *request = NULL;
	assert(count > 0);
	if (own && fields) {
		for (size_t i = 0; i < count; i++) {
			own[i] = renewals[i];
			own[i].field = write_field(&fields[i], renewals[i].field);
		}
		request = lk__lock_renew(own, count);
	}
	free(own);
	free(fields);
	return request;
}

static struct lk__request *write_is_held_by(const struct lk__target *target, const char *owner)
{
	struct field field;
	return lk__lock_is_held_by(target, write_field(&field, owner));
}

const struct lk__recipe lk__write_recipe = {
	.type = "write lock",
	.channel_prefix = LK__RW_CHANNEL_PREFIX,
	.sharing = LK__EACH_OWNER,
	.flags = LK__NO_TERMS | LK__QUEUES | LK__TURNS,
	.other_side = &lk__read_recipe,
	.acquire = lk__rw_write_acquire,
	.release = write_release,
	.keep = write_keep,
	.force = lk__rw_force,
	.renew = write_renew,
	.is_locked = lk__rw_is_locked,
	.is_held_by = write_is_held_by,
	.read_acquire = lk__reply_acquired,
	.read_release = lk__reply_released,
};
