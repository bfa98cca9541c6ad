/* Commands of hashes, lists and sorted sets. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands_inside.h"
#include "resp.h"

static struct sim_word word_of(const struct sim_item *item)
{
	return (struct sim_word){item->bytes, item->size};
}

static struct sim_word value_of(const struct sim_item *item)
{
	return (struct sim_word){item->value, item->value_size};
}

/* Takes the items that the words from `first` on name: how many there were. */
static void remove_named(const struct sim_asked *asked, struct sim_key *key)
{
	int64_t removed = 0;
	for (size_t i = 2; key && i < asked->count; i++) {
		ssize_t at = sim_item_find(key, asked->words[i]);
		if (at < 0)
			continue;
		removed++;
		if (!sim_item_remove(&asked->redis->keys, key, (size_t)at))
			key = NULL;
	}
	sim_say_integer(asked->out, removed);
}

static void say_count(const struct sim_asked *asked, enum sim_type type)
{
	struct sim_key *key;
	if (sim_key_of(asked, type, &key))
		sim_say_integer(asked->out, key ? (int64_t)key->count : 0);
}

/* From Redis' indexes, which count from the end below zero, to ours: false, there is nothing. */
static bool range_of(const struct sim_key *key, int64_t *first, int64_t *last)
{
	int64_t count = key ? (int64_t)key->count : 0;
	*first += *first < 0 ? count : 0;
	*last += *last < 0 ? count : 0;
	*first = *first < 0 ? 0 : *first;
	*last = *last >= count ? count - 1 : *last;
	return *first <= *last;
}

/* ---- hashes ---- */

void sim_do_hset(const struct sim_asked *asked)
{
	struct sim_keys *keys = &asked->redis->keys;
	int64_t made = 0;
	if (asked->count % 2 != 0) {
		sim_say_error(asked->out, "ERR wrong number of arguments for 'hset' command");
		return;
	}
	struct sim_key *key = sim_key_for(asked, SIM_HASH);
	for (size_t i = 2; key && i < asked->count; i += 2) {
		ssize_t at = sim_item_find(key, asked->words[i]);
		if (at < 0)
			sim_item_insert(keys, key, key->count, asked->words[i],
					asked->words[i + 1]);
		else
			sim_item_set_value(&key->items[at], asked->words[i + 1]);
		made += at < 0;
	}
	if (key)
		sim_say_integer(asked->out, made);
}

void sim_do_hget(const struct sim_asked *asked)
{
	struct sim_key *key;
	if (!sim_key_of(asked, SIM_HASH, &key))
		return;
	ssize_t at = key ? sim_item_find(key, asked->words[2]) : -1;
	if (at < 0)
		sim_say_nil(asked->out);
	else
		sim_say_bulk(asked->out, value_of(&key->items[at]));
}

void sim_do_hdel(const struct sim_asked *asked)
{
	struct sim_key *key;
	if (sim_key_of(asked, SIM_HASH, &key))
		remove_named(asked, key);
}

void sim_do_hexists(const struct sim_asked *asked)
{
	struct sim_key *key;
	if (sim_key_of(asked, SIM_HASH, &key))
		sim_say_integer(asked->out, key && sim_item_find(key, asked->words[2]) >= 0);
}

void sim_do_hlen(const struct sim_asked *asked)
{
	say_count(asked, SIM_HASH);
}

void sim_do_hgetall(const struct sim_asked *asked)
{
	struct sim_key *key;
	if (!sim_key_of(asked, SIM_HASH, &key))
		return;
	sim_say_array(asked->out, key ? 2 * key->count : 0);
	for (size_t i = 0; key && i < key->count; i++) {
		sim_say_bulk(asked->out, word_of(&key->items[i]));
		sim_say_bulk(asked->out, value_of(&key->items[i]));
	}
}

/* All of it in one page, as Redis does with a small hash. */
void sim_do_hscan(const struct sim_asked *asked)
{
	struct sim_key *key;
	if (!sim_key_of(asked, SIM_HASH, &key))
		return;
	sim_say_array(asked->out, 2);
	sim_say_bulk(asked->out, sim_word("0"));
	sim_do_hgetall(asked);
}

void sim_do_hrandfield(const struct sim_asked *asked)
{
	struct sim_key *key;
	if (!sim_key_of(asked, SIM_HASH, &key))
		return;
	if (asked->count > 2) /* HRANDFIELD key 1 WITHVALUES */
		sim_say_array(asked->out, key ? 2 : 0);
	else if (!key)
		sim_say_nil(asked->out);
	if (!key)
		return;
	const struct sim_item *item =
		&key->items[key->count > 1 ? asked->redis->random(key->count) : 0];
	sim_say_bulk(asked->out, word_of(item));
	if (asked->count > 2)
		sim_say_bulk(asked->out, value_of(item));
}

/* ---- lists ---- */

/* LPUSH, RPUSH */
void sim_do_push(const struct sim_asked *asked)
{
	bool left = sim_word_is(asked->words[0], "LPUSH");
	struct sim_key *key = sim_key_for(asked, SIM_LIST);
	for (size_t i = 2; key && i < asked->count; i++)
		sim_item_insert(&asked->redis->keys, key, left ? 0 : key->count, asked->words[i],
				SIM_NO_VALUE);
	if (key)
		sim_say_integer(asked->out, (int64_t)key->count);
}

void sim_do_lpop(const struct sim_asked *asked)
{
	struct sim_key *key;
	if (!sim_key_of(asked, SIM_LIST, &key))
		return;
	if (!key) {
		sim_say_nil(asked->out);
		return;
	}
	sim_say_bulk(asked->out, word_of(&key->items[0]));
	sim_item_remove(&asked->redis->keys, key, 0);
}

void sim_do_llen(const struct sim_asked *asked)
{
	say_count(asked, SIM_LIST);
}

void sim_do_lindex(const struct sim_asked *asked)
{
	struct sim_key *key;
	int64_t at = 0;
	if (!sim_key_of(asked, SIM_LIST, &key))
		return;
	if (key && !sim_integer_at(asked, 2, &at))
		return;
	if (key && at < 0)
		at += (int64_t)key->count;
	if (!key || at < 0 || at >= (int64_t)key->count)
		sim_say_nil(asked->out);
	else
		sim_say_bulk(asked->out, word_of(&key->items[at]));
}

void sim_do_lrange(const struct sim_asked *asked)
{
	struct sim_key *key;
	int64_t first, last;
	if (!sim_integer_at(asked, 2, &first) || !sim_integer_at(asked, 3, &last) ||
	    !sim_key_of(asked, SIM_LIST, &key))
		return;
	if (!range_of(key, &first, &last)) {
		sim_say_array(asked->out, 0);
		return;
	}
	sim_say_array(asked->out, (size_t)(last - first) + 1);
	for (int64_t i = first; i <= last; i++)
		sim_say_bulk(asked->out, word_of(&key->items[i]));
}

/* All of them, as the library asks: a count of 0. */
void sim_do_lrem(const struct sim_asked *asked)
{
	struct sim_key *key;
	int64_t most, removed = 0;
	ssize_t at;
	if (!sim_integer_at(asked, 2, &most) || !sim_key_of(asked, SIM_LIST, &key))
		return;
	while (key && (at = sim_item_find(key, asked->words[3])) >= 0) {
		removed++;
		if (!sim_item_remove(&asked->redis->keys, key, (size_t)at))
			key = NULL;
	}
	sim_say_integer(asked->out, removed);
}

/* ---- sorted sets ---- */

struct adding {
	bool only_there, only_new, adds;
	size_t first; /* word of the first score */
};

static struct adding adding_of(const struct sim_asked *asked)
{
	struct adding how = {.first = 2};
	for (;; how.first++) {
		struct sim_word word = asked->words[how.first];
		if (sim_word_is(word, "XX"))
			how.only_there = true;
		else if (sim_word_is(word, "NX"))
			how.only_new = true;
		else if (sim_word_is(word, "INCR"))
			how.adds = true;
		else
			return how;
		if (how.first + 1 == asked->count)
			return how;
	}
}

/* The member has that score from now on. */
static void put_member(struct sim_keys *keys, struct sim_key *key, ssize_t at, double score,
		       struct sim_word member)
{
	struct sim_item old = {.since_us = keys->now_us};
	if (at >= 0) {
		old = key->items[at];
		memmove(&key->items[at], &key->items[at + 1],
			(--key->count - (size_t)at) * sizeof(old));
	}
	size_t place = sim_item_place(key, score, member);
	struct sim_item *item = sim_item_insert(keys, key, place, member, SIM_NO_VALUE);
	item->score = score;
	item->since_us = old.since_us;
	free(old.bytes);
}

static bool scores_are_fine(const struct sim_asked *asked, const struct adding *how)
{
	double score;
	size_t left = asked->count - how->first;
	if (left == 0 || left % 2 != 0 || (how->only_there && how->only_new)) {
		sim_say_error(asked->out, SIM_SYNTAX);
		return false;
	}
	for (size_t i = how->first; i < asked->count; i += 2) {
		if (sim_read_score(asked->words[i], &score))
			continue;
		sim_say_error(asked->out, SIM_NOT_FLOAT);
		return false;
	}
	return true;
}

void sim_do_zadd(const struct sim_asked *asked)
{
	struct adding how = adding_of(asked);
	struct sim_key *key;
	int64_t added = 0;
	double score = NAN;
	if (!scores_are_fine(asked, &how) || !sim_key_of(asked, SIM_ZSET, &key))
		return;
	if (!key && !how.only_there)
		key = sim_key_for(asked, SIM_ZSET);
	for (size_t i = how.first; key && i < asked->count; i += 2) {
		ssize_t at = sim_item_find(key, asked->words[i + 1]);
		if (at < 0 ? how.only_there : how.only_new)
			continue;
		sim_read_score(asked->words[i], &score);
		if (how.adds && at >= 0)
			score += key->items[at].score;
		put_member(&asked->redis->keys, key, at, score, asked->words[i + 1]);
		added += at < 0;
	}
	if (!how.adds)
		sim_say_integer(asked->out, added);
	else if (isnan(score))
		sim_say_nil(asked->out);
	else
		sim_say_score(asked->out, score);
}

void sim_do_zrem(const struct sim_asked *asked)
{
	struct sim_key *key;
	if (sim_key_of(asked, SIM_ZSET, &key))
		remove_named(asked, key);
}

void sim_do_zcard(const struct sim_asked *asked)
{
	say_count(asked, SIM_ZSET);
}

void sim_do_zscore(const struct sim_asked *asked)
{
	struct sim_key *key;
	if (!sim_key_of(asked, SIM_ZSET, &key))
		return;
	ssize_t at = key ? sim_item_find(key, asked->words[2]) : -1;
	if (at < 0)
		sim_say_nil(asked->out);
	else
		sim_say_score(asked->out, key->items[at].score);
}

/* Says so many members from there on, forwards or backwards. */
static void say_members(const struct sim_asked *asked, const struct sim_key *key, size_t first,
			size_t count, bool backwards, bool scores)
{
	sim_say_array(asked->out, scores ? 2 * count : count);
	for (size_t i = 0; i < count; i++) {
		size_t at = first + i;
		const struct sim_item *item = &key->items[backwards ? key->count - 1 - at : at];
		sim_say_bulk(asked->out, word_of(item));
		if (scores)
			sim_say_score(asked->out, item->score);
	}
}

/* ZRANGE, ZREVRANGE */
void sim_do_zrange(const struct sim_asked *asked)
{
	bool backwards = sim_word_is(asked->words[0], "ZREVRANGE"), scores = asked->count == 5;
	struct sim_key *key;
	int64_t first, last;
	if (asked->count > 5 || (scores && !sim_word_is(asked->words[4], "WITHSCORES"))) {
		sim_say_error(asked->out, SIM_SYNTAX);
		return;
	}
	if (!sim_integer_at(asked, 2, &first) || !sim_integer_at(asked, 3, &last) ||
	    !sim_key_of(asked, SIM_ZSET, &key))
		return;
	if (!range_of(key, &first, &last))
		sim_say_array(asked->out, 0);
	else
		say_members(asked, key, (size_t)first, (size_t)(last - first) + 1, backwards,
			    scores);
}

struct range {
	double least, most;
	bool above, below; /* the ends are no part of it */
};

static bool read_end(struct sim_word word, double *end, bool *outside)
{
	*outside = word.size > 0 && word.bytes[0] == '(';
	if (*outside)
		word = (struct sim_word){word.bytes + 1, word.size - 1};
	return sim_read_score(word, end);
}

static bool range_at(const struct sim_asked *asked, struct range *range)
{
	if (read_end(asked->words[2], &range->least, &range->above) &&
	    read_end(asked->words[3], &range->most, &range->below))
		return true;
	sim_say_error(asked->out, "ERR min or max is not a float");
	return false;
}

static bool is_in(const struct range *range, double score)
{
	return (range->above ? score > range->least : score >= range->least) &&
	       (range->below ? score < range->most : score <= range->most);
}

/* Where those in the range begin, and how many there are: they stand in a row. */
static size_t those_in(const struct sim_key *key, const struct range *range, size_t *first)
{
	size_t count = 0;
	*first = 0;
	for (size_t i = key ? key->count : 0; i > 0; i--) {
		if (!is_in(range, key->items[i - 1].score))
			continue;
		*first = i - 1;
		count++;
	}
	return count;
}

void sim_do_zcount(const struct sim_asked *asked)
{
	struct sim_key *key;
	struct range range;
	size_t first;
	if (range_at(asked, &range) && sim_key_of(asked, SIM_ZSET, &key))
		sim_say_integer(asked->out, (int64_t)those_in(key, &range, &first));
}

void sim_do_zremrangebyscore(const struct sim_asked *asked)
{
	struct sim_key *key;
	struct range range;
	size_t first;
	if (!range_at(asked, &range) || !sim_key_of(asked, SIM_ZSET, &key))
		return;
	size_t count = those_in(key, &range, &first);
	for (size_t i = 0; i < count; i++)
		sim_item_remove(&asked->redis->keys, key, first);
	sim_say_integer(asked->out, (int64_t)count);
}

/* With LIMIT or without; without WITHSCORES. */
void sim_do_zrangebyscore(const struct sim_asked *asked)
{
	bool limited = asked->count == 7 && sim_word_is(asked->words[4], "LIMIT");
	int64_t skip = 0, most = -1;
	struct sim_key *key;
	struct range range;
	size_t first;
	if (asked->count > 4 && !limited) {
		sim_say_error(asked->out, SIM_SYNTAX);
		return;
	}
	if (limited && (!sim_integer_at(asked, 5, &skip) || !sim_integer_at(asked, 6, &most)))
		return;
	if (!range_at(asked, &range) || !sim_key_of(asked, SIM_ZSET, &key))
		return;
	size_t count = those_in(key, &range, &first);
	if (skip < 0 || (size_t)skip >= count) {
		sim_say_array(asked->out, 0);
		return;
	}
	count -= (size_t)skip;
	if (most >= 0 && (size_t)most < count)
		count = (size_t)most;
	say_members(asked, key, first + (size_t)skip, count, false, false);
}
