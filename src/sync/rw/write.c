/* SPDX-License-Identifier: MIT */
/* The write side: one owner alone, who may read as well. Its field is the owner's with ":write". */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sync/lock/lock.h"
#include "sync/rw/rw.h"
#include "sync/script.h"

#define SIDE "write"
#define MESSAGE "1"
#define PREFERRED_MS 3000 /* a waiting writer that is not heard of for so long is dead */

struct field {
	char text[LK__RW_FIELD_SIZE];
};

static const char *write_field(struct field *field, const char *owner)
{
	snprintf(field->text, sizeof(field->text), "%s:write", owner);
	return field->text;
}

static struct lk__request *write_acquire(const struct lk__try *wanted)
{
	const struct lk__target *target = wanted->target;
	bool preferred = (wanted->flags & LK__RW_PREFER_WRITERS) && !wanted->once;
	struct lk__words words = {0};
	struct field field;
	size_t writers_size = 0;
	char *writers = lk__rw_writers_key(target, &writers_size);
	lk__words_add(&words, target->key, target->key_size);
	lk__words_own(&words, writers, writers_size);
	lk__words_text(&words, write_field(&field, wanted->field));
	lk__words_number(&words, wanted->lease_ms);
	lk__words_deadline(&words);
	lk__words_number(&words, preferred ? PREFERRED_MS : 0);
	lk__words_turn(&words, wanted);
	return lk__words_script(&words, LK__SCRIPT_RW_WRITE_ACQUIRE, 2);
}

static struct lk__request *write_release(const struct lk__target *target, const char *owner)
{
	struct field field;
	return lk__rw_release(target, write_field(&field, owner), MESSAGE);
}

static struct lk__request *write_keep(const struct lk__target *target, const char *owner,
				      int64_t keep_ms)
{
	struct field field;
	return lk__rw_keep(target, write_field(&field, owner), MESSAGE, keep_ms);
}

static struct lk__request *write_force(const struct lk__target *target)
{
	return lk__rw_force(target, SIDE, MESSAGE);
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
		request = lk__renew_script(LK__SCRIPT_LOCK_RENEW, own, count);
	}
	free(own);
	free(fields);
	return request;
}

static struct lk__request *write_is_locked(const struct lk__target *target)
{
	return lk__rw_is_locked(target, SIDE);
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
	.acquire = write_acquire,
	.release = write_release,
	.keep = write_keep,
	.force = write_force,
	.renew = write_renew,
	.is_locked = write_is_locked,
	.is_held_by = write_is_held_by,
	.read_acquire = lk__reply_acquired,
	.read_release = lk__reply_released,
	.read_keep = lk__reply_released,
};
