/*
 * The keys of a simulated server: pure data, no network and no commands.
 *
 * A key is a row of items. What an item is depends on the key's type:
 *
 *   string   one item, the string
 *   list     the elements, from left to right
 *   hash     the fields, each with its value, in the order in which they were made
 *   zset     the members, by score and then by their bytes
 *
 * A key without items does not exist: whoever takes the last item takes the key. The order of keys
 * and items depends on nothing but the calls, so that a seed repeats its run.
 *
 * A key whose time is over is gone: it is dropped when it is looked for, and by sim_keys_sweep().
 * As in Redis, that is so once the clock is past the millisecond in which it expires.
 */
#ifndef SIM_KEYSPACE_H
#define SIM_KEYSPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/containers.h"

#define SIM_KEPT INT64_MAX /* a key without a time to live */

enum sim_type { SIM_STRING, SIM_LIST, SIM_HASH, SIM_ZSET };

/* Bytes that belong to somebody else. */
struct sim_word {
	const char *bytes;
	size_t size;
};

#define SIM_NO_VALUE ((struct sim_word){0})

/* A NUL stands behind the bytes of each. */
struct sim_item {
	char *bytes, *value; /* a value has only a hash's field */
	size_t size, value_size;
	double score;
	int64_t since_us;
};

struct sim_key {
	UT_hash_handle hh;
	enum sim_type type;
	int64_t expires_ms;
	struct sim_item *items;
	size_t count, room;
	size_t name_size;
	char name[];
};

struct sim_keys {
	struct sim_key *table;
	int64_t now_us; /* whoever runs a command sets it */
	int64_t swept_ms;
	void (*made)(const struct sim_key *key, const struct sim_item *item); /* or NULL */
};

struct sim_word sim_word(const char *text);
bool sim_word_is(struct sim_word word, const char *text); /* whatever the case */
int64_t sim_keys_now_ms(const struct sim_keys *keys);

/* NULL: there is none, or none any more. */
struct sim_key *sim_key_find(struct sim_keys *keys, struct sim_word name);

/* There must be none. It has no items yet, and must get one. */
struct sim_key *sim_key_make(struct sim_keys *keys, struct sim_word name, enum sim_type type);
void sim_key_drop(struct sim_keys *keys, struct sim_key *key);

/* Drops all whose time is over, unless that was done within the last 100 ms. */
void sim_keys_sweep(struct sim_keys *keys);
void sim_keys_clear(struct sim_keys *keys);

/* Puts a copy there, in the place of the key of that name; nobody is told that it was made. One
 * without items stands for none. */
void sim_key_put(struct sim_keys *keys, const struct sim_key *key);

/* A number that says whether the key has changed; NULL: there is none. */
uint64_t sim_key_digest(const struct sim_key *key);

/* Where the item with these bytes is, or -1. */
ssize_t sim_item_find(const struct sim_key *key, struct sim_word bytes);

/* Puts a new item there; those from there on move up. A hash's field has a value, others
 * SIM_NO_VALUE. */
struct sim_item *sim_item_insert(struct sim_keys *keys, struct sim_key *key, size_t at,
				 struct sim_word bytes, struct sim_word value);

/* Where a member with that score belongs. */
size_t sim_item_place(const struct sim_key *key, double score, struct sim_word bytes);
void sim_item_set_bytes(struct sim_item *item, struct sim_word bytes);
void sim_item_set_value(struct sim_item *item, struct sim_word value);

/* False: it was the last one, and the key is gone. */
bool sim_item_remove(struct sim_keys *keys, struct sim_key *key, size_t at);

#endif
