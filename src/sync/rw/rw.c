/* SPDX-License-Identifier: MIT */
/* What both sides of the read/write lock share: names of keys, and the scripts that serve both. */
#include "sync/rw/rw.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sync/script.h"

#define TIMEOUT_SUFFIX ":rwlock_timeout:1"

char *lk__rw_timeout_key(const struct lk__target *target, const char *field, size_t *size_out)
{
	bool tagged = memchr(target->key, '{', target->key_size) != NULL;
	size_t field_size = strlen(field);
	char *key = malloc(target->key_size + field_size + sizeof(TIMEOUT_SUFFIX) + 3);
	char *end = key;
	if (!key)
		return NULL;
	if (!tagged)
		*end++ = '{';
	memcpy(end, target->key, target->key_size);
	end += target->key_size;
	if (!tagged)
		*end++ = '}';
	*end++ = ':';
	memcpy(end, field, field_size);
	memcpy(end + field_size, TIMEOUT_SUFFIX, sizeof(TIMEOUT_SUFFIX));
	*size_out = (size_t)(end - key) + field_size + sizeof(TIMEOUT_SUFFIX) - 1;
	assert(*size_out ==
	       strlen(field) + strlen(TIMEOUT_SUFFIX) + target->key_size + (tagged ? 1 : 3));
	return key;
}

char *lk__rw_writers_key(const struct lk__target *target, size_t *size_out)
{
	return lk__derived_name(LK__RW_WRITERS_PREFIX, target->key, target->key_size, size_out);
}

struct lk__request *lk__rw_release(const struct lk__target *target, const char *field,
				   const char *message)
{
	struct lk__words words = {0};
	size_t timeout_size = 0, writers_size = 0;
	char *timeout = lk__rw_timeout_key(target, field, &timeout_size);
	char *writers = lk__rw_writers_key(target, &writers_size);
	lk__words_add(&words, target->key, target->key_size);
	lk__words_own(&words, timeout, timeout_size);
	lk__words_own(&words, writers, writers_size);
	lk__words_text(&words, field);
	lk__words_channel(&words, target);
	lk__words_text(&words, message);
	return lk__words_script(&words, LK__SCRIPT_RW_RELEASE, 3);
}

struct lk__request *lk__rw_keep(const struct lk__target *target, const char *field,
				const char *message, int64_t keep_ms)
{
	struct lk__words words = {0};
	size_t timeout_size = 0, kept_size = 0, kept_timeout_size = 0;
	char *timeout = lk__rw_timeout_key(target, field, &timeout_size);
	char *kept = lk__kept_field(field, &kept_size);
	char *kept_timeout = kept ? lk__rw_timeout_key(target, kept, &kept_timeout_size) : NULL;
	lk__words_add(&words, target->key, target->key_size);
	lk__words_own(&words, timeout, timeout_size);
	lk__words_own(&words, kept_timeout, kept_timeout_size);
	lk__words_number(&words, keep_ms);
	lk__words_text(&words, field);
	lk__words_channel(&words, target);
	lk__words_own(&words, kept, kept_size);
	lk__words_text(&words, message);
	return lk__words_script(&words, LK__SCRIPT_RW_KEEP, 3);
}

struct lk__request *lk__rw_force(const struct lk__target *target, const char *side,
				 const char *message)
{
	struct lk__words words = {0};
	lk__words_add(&words, target->key, target->key_size);
	lk__words_text(&words, side);
	lk__words_channel(&words, target);
	lk__words_text(&words, message);
	return lk__words_script(&words, LK__SCRIPT_RW_FORCE_RELEASE, 1);
}

struct lk__request *lk__rw_is_locked(const struct lk__target *target, const char *side)
{
	struct lk__words words = {0};
	lk__words_add(&words, target->key, target->key_size);
	lk__words_text(&words, side);
	return lk__words_script(&words, LK__SCRIPT_RW_IS_LOCKED, 1);
}
