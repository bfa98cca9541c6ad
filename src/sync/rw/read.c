/* SPDX-License-Identifier: MIT */
/* The read side: shared by any number of owners, and open to an owner that has the write side. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sync/lock/lock.h"
#include "sync/rw/rw.h"
#include "sync/script.h"

#define SIDE "read"
#define MESSAGE "0"

/* The field that the same client's write side has under another number; "" for number 0. */
static void write_field(char field_out[LK__RW_FIELD_SIZE], const char *field, uint64_t number)
{
	const char *colon = strrchr(field, ':');
	assert(colon);
	field_out[0] = 0;
	if (number)
		snprintf(field_out, LK__RW_FIELD_SIZE, "%.*s:%" PRIu64 ":write",
			 (int)(colon - field), field, number);
}

static struct lk__request *read_acquire(const struct lk__try *wanted)
{
	const struct lk__target *target = wanted->target;
	struct lk__words words = {0};
	size_t timeout_size = 0, writers_size = 0;
	char *timeout = lk__rw_timeout_key(target, wanted->field, &timeout_size);
	char *writers = lk__rw_writers_key(target, &writers_size);
	char write_side[LK__RW_FIELD_SIZE];
	write_field(write_side, wanted->field, wanted->other_number);
	lk__words_add(&words, target->key, target->key_size);
	lk__words_own(&words, timeout, timeout_size);
	lk__words_own(&words, writers, writers_size);
	lk__words_text(&words, wanted->field);
	lk__words_number(&words, wanted->lease_ms);
	lk__words_deadline(&words);
	lk__words_text(&words, write_side);
	lk__words_number(&words, (wanted->flags & LK__RW_PREFER_WRITERS) != 0);
	return lk__words_script(&words, LK__SCRIPT_RW_READ_ACQUIRE, 3);
}

static struct lk__request *read_release(const struct lk__target *target, const char *field)
{
	return lk__rw_release(target, field, MESSAGE);
}

static struct lk__request *read_keep(const struct lk__target *target, const char *field,
				     int64_t keep_ms)
{
	return lk__rw_keep(target, field, MESSAGE, keep_ms);
}

static struct lk__request *read_force(const struct lk__target *target)
{
	return lk__rw_force(target, SIDE, MESSAGE);
}

static struct lk__request *read_renew(const struct lk__renewal *renewals, size_t count)
{
	struct lk__words words = {0};
	assert(count > 0);
	lk__words_many(&words, 4 * count);
	for (size_t i = 0; i < count; i++) {
		const struct lk__target *target = renewals[i].target;
		size_t size = 0;
		char *timeout = lk__rw_timeout_key(target, renewals[i].field, &size);
		lk__words_add(&words, target->key, target->key_size);
		lk__words_own(&words, timeout, size);
	}
	for (size_t i = 0; i < count; i++) {
		lk__words_text(&words, renewals[i].field);
		lk__words_number(&words, renewals[i].lease_ms);
	}
	return lk__words_script(&words, LK__SCRIPT_RW_READ_RENEW, 2 * count);
}

static struct lk__request *read_is_locked(const struct lk__target *target)
{
	return lk__rw_is_locked(target, SIDE);
}

const struct lk__recipe lk__read_recipe = {
	.type = "read lock",
	.channel_prefix = LK__RW_CHANNEL_PREFIX,
	.sharing = LK__EACH_OWNER,
	.flags = LK__NO_TERMS | LK__DOWNGRADES,
	.other_side = &lk__write_recipe,
	.acquire = read_acquire,
	.release = read_release,
	.keep = read_keep,
	.force = read_force,
	.renew = read_renew,
	.is_locked = read_is_locked,
	.is_held_by = lk__lock_is_held_by,
	.read_acquire = lk__reply_acquired,
	.read_release = lk__reply_released,
	.read_keep = lk__reply_released,
};
