/* SPDX-License-Identifier: MIT */
/* The two sides of the read/write lock. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sync/recipes.h"
#include "sync/script.h"

#define TIMEOUT_SUFFIX ":rwlock_timeout:1"
#define PREFERRED_MS 3000 /* a waiting writer that is not heard of for so long is dead */
#define FIELD_SIZE 272    /* the longest field that a caller may name, and ":write" */

static char *rw_timeout_key(const struct lk__target *target, const char *field, size_t *size_out)
{
	char suffix[FIELD_SIZE + sizeof(TIMEOUT_SUFFIX)];
	size_t size = strlen(field);
	assert(size < FIELD_SIZE);
	memcpy(mempcpy(suffix, field, size), TIMEOUT_SUFFIX, sizeof(TIMEOUT_SUFFIX));
	return lk__suffixed_name(target->key, target->key_size, suffix, size_out);
}

static void words_timeout(struct lk__words *words, const struct lk__target *target,
			  const char *field)
{
	size_t size = 0;
	char *key = rw_timeout_key(target, field, &size);
	lk__words_own(words, key, size);
}

static struct lk__request *rw_release(const struct lk__target *target, const char *field,
				      const char *message)
{
	struct lk__words words = {0};
	lk__words_key(&words, target);
	words_timeout(&words, target, field);
	lk__words_derived(&words, LK__RW_WRITERS_PREFIX, target);
	lk__words_text(&words, field);
	lk__words_channel(&words, target);
	lk__words_text(&words, message);
	return lk__words_script(&words, LK__SCRIPT_RW_RELEASE, 3);
}

static struct lk__request *rw_keep(const struct lk__target *target, const char *field,
				   const char *message, int64_t keep_ms)
{
	struct lk__words words = {0};
	size_t kept_size = 0, kept_timeout_size = 0;
	char *kept = lk__kept_field(field, &kept_size);
	char *kept_timeout = kept ? rw_timeout_key(target, kept, &kept_timeout_size) : NULL;
	lk__words_key(&words, target);
	words_timeout(&words, target, field);
	lk__words_own(&words, kept_timeout, kept_timeout_size);
	lk__words_number(&words, keep_ms);
	lk__words_text(&words, field);
	lk__words_channel(&words, target);
	lk__words_own(&words, kept, kept_size);
	lk__words_text(&words, message);
	return lk__words_script(&words, LK__SCRIPT_RW_KEEP, 3);
}

static struct lk__request *rw_force(const struct lk__target *target, const char *side,
				    const char *message)
{
	struct lk__words words = {0};
	lk__words_key(&words, target);
	lk__words_text(&words, side);
	lk__words_channel(&words, target);
	lk__words_text(&words, message);
	return lk__words_script(&words, LK__SCRIPT_RW_FORCE_RELEASE, 1);
}

static struct lk__request *rw_is_locked(const struct lk__target *target, const char *side)
{
	struct lk__words words = {0};
	lk__words_key(&words, target);
	lk__words_text(&words, side);
	return lk__words_script(&words, LK__SCRIPT_RW_IS_LOCKED, 1);
}

/* ---- the read side: shared by any number of owners, and by one that has the write side ---- */

/* The field that the same client's write side has under another number; "" for number 0. */
static void other_field(char field_out[FIELD_SIZE], const char *field, uint64_t number)
{
	const char *colon = strrchr(field, ':');
	assert(colon);
	field_out[0] = 0;
	if (number)
		snprintf(field_out, FIELD_SIZE, "%.*s:%" PRIu64 ":write", (int)(colon - field),
			 field, number);
}

static struct lk__request *read_acquire(const struct lk__try *wanted)
{
	const struct lk__target *target = wanted->target;
	struct lk__words words = {0};
	char write_side[FIELD_SIZE];
	other_field(write_side, wanted->field, wanted->other_number);
	lk__words_key(&words, target);
	words_timeout(&words, target, wanted->field);
	lk__words_derived(&words, LK__RW_WRITERS_PREFIX, target);
	lk__words_text(&words, wanted->field);
	lk__words_number(&words, wanted->lease_ms);
	lk__words_deadline(&words);
	lk__words_text(&words, write_side);
	lk__words_number(&words, (wanted->flags & LK__RW_PREFER_WRITERS) != 0);
	return lk__words_script(&words, LK__SCRIPT_RW_READ_ACQUIRE, 3);
}

static struct lk__request *read_release(const struct lk__target *target, const char *field)
{
	return rw_release(target, field, "0");
}

static struct lk__request *read_keep(const struct lk__target *target, const char *field,
				     int64_t keep_ms)
{
	return rw_keep(target, field, "0", keep_ms);
}

static struct lk__request *read_force(const struct lk__target *target)
{
	return rw_force(target, "read", "0");
}

static struct lk__request *read_renew(const struct lk__renewal *renewals, size_t count)
{
	struct lk__words words = {0};
	assert(count > 0);
	lk__words_many(&words, 4 * count);
	for (size_t i = 0; i < count; i++) {
		lk__words_key(&words, renewals[i].target);
		words_timeout(&words, renewals[i].target, renewals[i].field);
	}
	for (size_t i = 0; i < count; i++) {
		lk__words_text(&words, renewals[i].field);
		lk__words_number(&words, renewals[i].lease_ms);
	}
	return lk__words_script(&words, LK__SCRIPT_RW_READ_RENEW, 2 * count);
}

static struct lk__request *read_is_locked(const struct lk__target *target)
{
	return rw_is_locked(target, "read");
}

const struct lk__recipe lk__read_recipe = {
	.type = "read lock",
	.channel_prefix = LK__RW_CHANNEL_PREFIX,
	.sharing = LK__EACH_OWNER,
	.flags = LK__NO_TERMS | LK__DOWNGRADES | LK__SHARES,
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

/* ---- the write side: one owner alone, who may read as well. Its field has ":write". ---- */

struct field {
	char text[FIELD_SIZE];
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
	lk__words_key(&words, target);
	lk__words_derived(&words, LK__RW_WRITERS_PREFIX, target);
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
	return rw_release(target, write_field(&field, owner), "1");
}

static struct lk__request *write_keep(const struct lk__target *target, const char *owner,
				      int64_t keep_ms)
{
	struct field field;
	return rw_keep(target, write_field(&field, owner), "1", keep_ms);
}

static struct lk__request *write_force(const struct lk__target *target)
{
	return rw_force(target, "write", "1");
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

static struct lk__request *write_is_locked(const struct lk__target *target)
{
	return rw_is_locked(target, "write");
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
