#include "keyspace.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SWEEP_MS 100

struct sim_word sim_word(const char *text)
{
	return (struct sim_word){text, strlen(text)};
}

bool sim_word_is(struct sim_word word, const char *text)
{
	return word.size == strlen(text) && strncasecmp(word.bytes, text, word.size) == 0;
}

int64_t sim_keys_now_ms(const struct sim_keys *keys)
{
	return keys->now_us / 1000;
}

/* ---- keys ---- */

static bool is_over(const struct sim_keys *keys, const struct sim_key *key)
{
	return key->expires_ms != SIM_KEPT && sim_keys_now_ms(keys) > key->expires_ms;
}

static void item_end(struct sim_item *item)
{
	free(item->bytes);
	free(item->value);
}

void sim_key_drop(struct sim_keys *keys, struct sim_key *key)
{
	HASH_DEL(keys->table, key);
	for (size_t i = 0; i < key->count; i++)
		item_end(&key->items[i]);
	free(key->items);
	free(key);
}

struct sim_key *sim_key_find(struct sim_keys *keys, struct sim_word name)
{
	struct sim_key *key = NULL;
	HASH_FIND(hh, keys->table, name.bytes, name.size, key);
	if (!key || !is_over(keys, key))
		return key;
	sim_key_drop(keys, key);
	return NULL;
}

struct sim_key *sim_key_make(struct sim_keys *keys, struct sim_word name, enum sim_type type)
{
	struct sim_key *key = calloc(1, sizeof(*key) + name.size + 1);
	key->type = type;
	key->expires_ms = SIM_KEPT;
	key->name_size = name.size;
	memcpy(key->name, name.bytes, name.size);
	HASH_ADD_KEYPTR(hh, keys->table, key->name, key->name_size, key);
	return key;
}

void sim_keys_sweep(struct sim_keys *keys)
{
	struct sim_key *key, *next;
	if (sim_keys_now_ms(keys) < keys->swept_ms + SWEEP_MS)
		return;
	keys->swept_ms = sim_keys_now_ms(keys);
	HASH_ITER(hh, keys->table, key, next)
	if (is_over(keys, key))
		sim_key_drop(keys, key);
}

void sim_keys_clear(struct sim_keys *keys)
{
	struct sim_key *key, *next;
	HASH_ITER(hh, keys->table, key, next)
	sim_key_drop(keys, key);
}

/* ---- items ---- */

static char *copy_of(struct sim_word word)
{
	char *copy = malloc(word.size + 1);
	if (word.size > 0)
		memcpy(copy, word.bytes, word.size);
	copy[word.size] = '\0';
	return copy;
}

ssize_t sim_item_find(const struct sim_key *key, struct sim_word bytes)
{
	for (size_t i = 0; i < key->count; i++)
		if (key->items[i].size == bytes.size &&
		    memcmp(key->items[i].bytes, bytes.bytes, bytes.size) == 0)
			return (ssize_t)i;
	return -1;
}

void sim_item_set_value(struct sim_item *item, struct sim_word value)
{
	char *copy = copy_of(value);
	free(item->value);
	item->value = copy;
	item->value_size = value.size;
}

struct sim_item *sim_item_insert(struct sim_keys *keys, struct sim_key *key, size_t at,
				 struct sim_word bytes, struct sim_word value)
{
	if (key->count == key->room) {
		key->room = key->room ? 2 * key->room : 2;
		key->items = realloc(key->items, key->room * sizeof(*key->items));
	}
	struct sim_item *item = &key->items[at];
	memmove(item + 1, item, (key->count++ - at) * sizeof(*item));
	*item = (struct sim_item){
		.bytes = copy_of(bytes), .size = bytes.size, .since_us = keys->now_us};
	if (value.bytes)
		sim_item_set_value(item, value);
	if (keys->made)
		keys->made(key, item);
	return item;
}

static int compare(const struct sim_item *item, double score, struct sim_word bytes)
{
	size_t common = item->size < bytes.size ? item->size : bytes.size;
	if (item->score != score)
		return item->score < score ? -1 : 1;
	int order = memcmp(item->bytes, bytes.bytes, common);
	if (order != 0 || item->size == bytes.size)
		return order;
	return item->size < bytes.size ? -1 : 1;
}

size_t sim_item_place(const struct sim_key *key, double score, struct sim_word bytes)
{
	size_t at = 0;
	while (at < key->count && compare(&key->items[at], score, bytes) < 0)
		at++;
	return at;
}

void sim_item_set_bytes(struct sim_item *item, struct sim_word bytes)
{
	char *copy = copy_of(bytes);
	free(item->bytes);
	item->bytes = copy;
	item->size = bytes.size;
}

bool sim_item_remove(struct sim_keys *keys, struct sim_key *key, size_t at)
{
	item_end(&key->items[at]);
	memmove(&key->items[at], &key->items[at + 1], (--key->count - at) * sizeof(key->items[at]));
	if (key->count > 0)
		return true;
	sim_key_drop(keys, key);
	return false;
}

/* ---- copies ---- */

static struct sim_item item_copy(const struct sim_item *item)
{
	struct sim_item copy = *item;
	copy.bytes = copy_of((struct sim_word){item->bytes, item->size});
	if (item->value)
		copy.value = copy_of((struct sim_word){item->value, item->value_size});
	return copy;
}

void sim_key_put(struct sim_keys *keys, const struct sim_key *key)
{
	struct sim_word name = {key->name, key->name_size};
	struct sim_key *old = NULL;
	HASH_FIND(hh, keys->table, key->name, key->name_size, old);
	if (old)
		sim_key_drop(keys, old);
	if (key->count == 0)
		return;
	struct sim_key *copy = sim_key_make(keys, name, key->type);
	copy->expires_ms = key->expires_ms;
	copy->count = copy->room = key->count;
	copy->items = malloc(key->count * sizeof(*copy->items));
	for (size_t i = 0; i < key->count; i++)
		copy->items[i] = item_copy(&key->items[i]);
}

static uint64_t mix(uint64_t digest, const void *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		digest = (digest ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
	return digest;
}

uint64_t sim_key_digest(const struct sim_key *key)
{
	uint64_t digest = key ? UINT64_C(0xcbf29ce484222325) : 0;
	if (key)
		digest = mix(digest, &key->expires_ms, sizeof(key->expires_ms));
	for (size_t i = 0; key && i < key->count; i++) {
		const struct sim_item *item = &key->items[i];
		digest = mix(digest, item->bytes, item->size + 1);
		digest = mix(digest, item->value, item->value_size);
		digest = mix(digest, &item->score, sizeof(item->score));
	}
	return digest;
}
