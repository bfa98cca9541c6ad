/* SPDX-License-Identifier: MIT */
/* Names that are derived from a lock's name, as Redisson does, and from an owner's field. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "resp/reply.h"
#include "sync/foreign/foreign.h"
#include "sync/recipe.h"

char *lk__name_with(const char *prefix, const char *name, size_t name_size, const char *suffix,
		    size_t *size_out)
{
	size_t prefix_size = prefix ? strlen(prefix) : 0, suffix_size = suffix ? strlen(suffix) : 0;
	bool braces = !memchr(name, '{', name_size);
	char *made = malloc(prefix_size + name_size + suffix_size + sizeof(":{}:"));
	char *end = made;
	if (!made)
		return NULL;
	if (prefix) {
		end = mempcpy(end, prefix, prefix_size);
		*end++ = ':';
	}
	if (braces)
		*end++ = '{';
	end = mempcpy(end, name, name_size);
	if (braces)
		*end++ = '}';
	if (suffix) {
		*end++ = ':';
		end = mempcpy(end, suffix, suffix_size);
	}
	*end = '\0';
	*size_out = (size_t)(end - made);
	return made;
}

char *lk__derived_name(const char *prefix, const char *name, size_t name_size, size_t *size_out)
{
	return lk__name_with(prefix, name, name_size, NULL, size_out);
}

char *lk__suffixed_name(const char *name, size_t name_size, const char *suffix, size_t *size_out)
{
	return lk__name_with(NULL, name, name_size, suffix, size_out);
}

char *lk__braced_name(const char *prefix, const char *name, size_t name_size, size_t *size_out)
{
	size_t prefix_size = strlen(prefix);
	*size_out = prefix_size + name_size + 2;
	char *made = malloc(*size_out + 1);
	char *end = made;
	if (!made)
		return NULL;
	end = mempcpy(end, prefix, prefix_size);
	*end++ = '{';
	end = mempcpy(end, name, name_size);
	memcpy(end, "}", sizeof("}"));
	return made;
}

char *lk__channel_name(const struct lk__recipe *recipe, const char *key, size_t key_size,
		       size_t *size_out)
{
	*size_out = 0;
	if (!recipe->channel_prefix)
		return calloc(1, 1);
	return (recipe->flags & LK__BRACED ? lk__braced_name : lk__derived_name)(
		recipe->channel_prefix, key, key_size, size_out);
}

char *lk__target_channel(const struct lk__target *target, size_t *size_out)
{
	const struct lk__notify *notify = atomic_load(&target->notify);
	if (!notify || notify->keep_ms)
		return lk__channel_name(target->recipe, target->key, target->key_size, size_out);
	char *name = malloc(notify->target_size + 1);
	if (name)
		memcpy(name, notify->target, notify->target_size + 1);
	*size_out = notify->target_size;
	return name;
}

void lk__field_of(const char *client_id, uint64_t number, char field_out[LK__FIELD_SIZE])
{
	size_t size = strlen(client_id);
	assert(size + 1 + LK__NUMBER_SIZE < LK__FIELD_SIZE);
	char *end = mempcpy(field_out, client_id, size);
	*end++ = ':';
	end[lk__number_write(end, number)] = '\0';
}
