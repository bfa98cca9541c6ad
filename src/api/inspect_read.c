/* SPDX-License-Identifier: MIT */
/* Reads from the answers which kind of lock it is. */
#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper/barrier.h>

#include "api/inspect.h"
#include "conf/config.h"
#include "conn/request.h"
#include "resp/reply.h"
#include "sync/foreign/foreign.h"
#include "sync/recipes.h"

#define NO_END_MS INT64_C(922337203685477) /* Redisson's permit that never expires */
#define PERMIT_BYTES 16
#define UNKNOWN_COUNTER "semaphore or latch"

static size_t elements_of(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_ARRAY ? reply->elements : 0;
}

/* A score, which servers write with an exponent if it is very far away. */
static int64_t look_score(const redisReply *score)
{
	int64_t number = INT64_MAX;
	lk__reply_number(score, INT64_MIN, INT64_MAX, &number);
	return number;
}

/* Room for so many holders, of which there are none yet. False: no memory. */
static bool look_holders(struct lk__look *look, size_t most, lk_lock_info *info)
{
	free(look->holders);
	look->holders = calloc(most + 1, sizeof(*look->holders));
	info->holders = look->holders;
	info->holder_count = 0;
	return look->holders;
}

/* One more: an owner, once. */
static lk_holder *look_hold(struct lk__look *look, const char *field, size_t field_size,
			    int64_t ttl_ms, lk_lock_info *info)
{
	lk_holder *holder = &look->holders[info->holder_count++];
	*holder = (lk_holder){
		.field = field,
		.field_size = field_size,
		.hold_count = 1,
		.ttl_ms = ttl_ms,
		.role = LK_HOLDER_OWNER,
	};
	return holder;
}

/* PUBSUB NUMSUB answers channel, count, channel, count, … */
static int64_t listeners_at(const struct lk__look *look, size_t place, size_t channel)
{
	const redisReply *reply = look->parts[place];
	if (elements_of(reply) < 2 * channel + 2 ||
	    reply->element[2 * channel + 1]->type != REDIS_REPLY_INTEGER)
		return 0;
	return reply->element[2 * channel + 1]->integer;
}

/* Of the channels of a question, in its order; behind two of them stands that of the watches. */
enum listened { TO_LOCK = 0, TO_OTHER = 2, TO_THIRD = 4 };

/* Waiters: a watch listens like one, and is not. */
static int64_t waiters_at(const struct lk__look *look, size_t place, enum listened channel)
{
	int64_t all = listeners_at(look, place, channel);
	int64_t watches = channel == TO_THIRD ? 0 : listeners_at(look, place, channel + 1);
	return all > watches ? all - watches : 0;
}

/* A client that listens to both kinds of messages is in both counts. */
static int64_t listeners(const struct lk__look *look, bool hash, enum listened channel)
{
	size_t second = hash ? LK__HASH_ALSO_LISTENERS : LK__STRING_ALSO_LISTENERS;
	bool both = look->client->config->chosen.messages == LK__MESSAGES_BOTH;
	int64_t some = waiters_at(look, LK__LOOK_LISTENERS, channel);
	int64_t others = both ? waiters_at(look, second, channel) : 0;
	return some > others ? some : others;
}

static bool is_decimal(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (!isdigit((unsigned char)text[i]))
			return false;
	return size > 0 && size < 20;
}

static bool is_text(const redisReply *reply, const char *text)
{
	return reply->type == REDIS_REPLY_STRING && (size_t)reply->len == strlen(text) &&
	       memcmp(reply->str, text, (size_t)reply->len) == 0;
}

/* An owner's field ends in ":" and a number; a Java program may name a negative one. */
static bool is_owner(const char *field, size_t size)
{
	const char *colon = memrchr(field, ':', size), *end = field + size;
	if (!colon || colon == field)
		return false;
	const char *number = colon + 1 + (colon + 1 < end && colon[1] == '-');
	return is_decimal(number, (size_t)(end - number));
}

/* A field of a read/write lock's writer; one of any lock is an owner. */
static bool is_writer(const char *field, size_t size)
{
	static const char end[] = ":write";
	size_t end_size = sizeof(end) - 1;
	return size > end_size && memcmp(field + size - end_size, end, end_size) == 0 &&
	       is_owner(field, size - end_size);
}

static uint64_t fence_of(const struct lk__look *look)
{
	uint64_t newest = 0;
	for (size_t place = LK__HASH_FENCE; place <= LK__HASH_JAVA_FENCE; place++) {
		const redisReply *token = look->parts[place];
		int64_t value;
		if (lk__reply_number(token, 0, INT64_MAX, &value) && (uint64_t)value > newest)
			newest = (uint64_t)value;
	}
	return newest;
}

/* ---- a barrier ---- */

/* Since when it waits, or is inside: then its number is the generation, which is that time unless
 * the clock was set back. */
static int64_t party_since_ms(const struct lk__look *look, const struct lk__party *party)
{
	int64_t since_ms = party->number / 1000;
	return since_ms <= look->time_ms ? since_ms : 0;
}

/* False: the field is not a party's. */
static bool party_read(struct lk__look *look, const redisReply *field, const redisReply *value,
		       lk_lock_info *info)
{
	struct lk__party party;
	if (field->type != REDIS_REPLY_STRING || !is_owner(field->str, (size_t)field->len) ||
	    !lk__barrier_read_party(value, &party))
		return false;
	int64_t left_ms = party.until_ms - look->time_ms;
	if (party.state == LK__PARTY_ENDED || left_ms <= 0)
		return true;
	if (party.state == LK__PARTY_LEAVES) {
		look->waiters[info->waiter_count++] = (lk_waiter){field->str, (size_t)field->len};
		return true;
	}
	look->since_ms[info->holder_count] = party_since_ms(look, &party);
	lk_holder *holder = look_hold(look, field->str, (size_t)field->len, left_ms, info);
	holder->role = party.state == LK__PARTY_INSIDE ? LK_HOLDER_INSIDE : LK_HOLDER_WAITS;
	return true;
}

/* Reads a hash that has a field which is not an owner's, so that it is not a lock. Returns 1 for a
 * barrier, else 0. */
static int look_read_barrier(struct lk__look *look, const redisReply *fields, lk_lock_info *info)
{
	size_t count = fields->elements / 2, known = 0, has_number = 0;
	free(look->waiters);
	free(look->since_ms);
	look->waiters = calloc(count + 1, sizeof(*look->waiters));
	look->since_ms = calloc(count + 1, sizeof(*look->since_ms));
	if (!look->waiters || !look->since_ms || !look_holders(look, count, info))
		return LK_ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const redisReply *field = fields->element[2 * i],
				 *value = fields->element[2 * i + 1];
		if (is_text(field, "parties") &&
		    lk__reply_number(value, 0, LK_BARRIER_PARTIES_MAX, &info->parties)) {
			has_number = 1;
			continue;
		}
		if (!party_read(look, field, value, info))
			break;
		known++;
	}
	if (known == 0 || known + has_number < count) {
		*info = (lk_lock_info){
			.name = info->name, .name_size = info->name_size, .ttl_ms = info->ttl_ms};
		return 0;
	}
	info->type = lk__barrier_recipe.type;
	info->waiters = look->waiters;
	info->since_ms = look->since_ms;
	info->fence = fence_of(look);
	info->waiting_clients = listeners(look, true, TO_THIRD);
	return 1;
}

/* ---- another library's, by the table of their forms ---- */

static struct lk__foreign_seen seen_of(const struct lk__look *look, const redisReply *value,
				       unsigned kinds)
{
	return (struct lk__foreign_seen){.key = look->key,
					 .key_size = look->key_size,
					 .value = value->str,
					 .value_size = (size_t)value->len,
					 .kinds = kinds};
}

static unsigned string_kinds(int64_t ttl_ms)
{
	unsigned kinds = 1u << LK__FOREIGN_PLAIN | 1u << LK__FOREIGN_BESIDE;
	return ttl_ms >= 0 ? kinds | 1u << LK__FOREIGN_COUNT : kinds;
}

/* Recognizes a string by itself: a row of the table, or NULL, and what was looked for. */
static const struct lk__foreign *look_foreign_string(const struct lk__look *look, int64_t ttl_ms,
						     struct lk__foreign_seen *seen)
{
	*seen = seen_of(look, look->parts[LK__LOOK_VALUE], string_kinds(ttl_ms));
	return lk__foreign_find(seen);
}

/* Writes whose it looks like; NULL: nobody's. False: no memory. */
static bool look_tell(struct lk__look *look, const struct lk__foreign_seen *seen,
		      const struct lk__foreign *row, lk_lock_info *info)
{
	if (!row)
		return true;
	look->looks_like = lk__foreign_text(seen, row);
	look->waker = lk__foreign_waker(seen, row);
	info->looks_like = look->looks_like;
	return look->looks_like;
}

/* The first of every `step` elements that a row knows, or NULL. */
static const struct lk__foreign *row_of(struct lk__look *look, const redisReply *elements,
					size_t step, unsigned kinds, struct lk__foreign_seen *seen)
{
	for (size_t i = 0; i + step <= elements->elements; i += step) {
		if (elements->element[i]->type != REDIS_REPLY_STRING)
			continue;
		*seen = seen_of(look, elements->element[i], kinds);
		const struct lk__foreign *row = lk__foreign_find(seen);
		if (row)
			return row;
	}
	return NULL;
}

/* A field is a holder's where the row knows it; a member, where it does not stand for the lock. */
static bool is_holder(const struct lk__look *look, const struct lk__foreign *row,
		      const redisReply *holder)
{
	struct lk__foreign_seen seen = seen_of(look, holder, 1u << row->kind);
	if (row->kind == LK__FOREIGN_ZSET || row->kind == LK__FOREIGN_POOL)
		return !is_text(holder, row->value);
	return holder->type == REDIS_REPLY_STRING && lk__foreign_find(&seen) == row;
}

/* Reads a hash whose fields are locks each, or that is one as a whole; or a sorted set. `elements`:
 * fields with values, members with scores. */
static int look_read_foreign(struct lk__look *look, const redisReply *elements, unsigned kinds,
			     lk_lock_info *info)
{
	struct lk__foreign_seen seen;
	const struct lk__foreign *row = row_of(look, elements, 2, kinds, &seen);
	if (!row)
		return 0;
	if (!look_holders(look, elements->elements / 2, info) || !look_tell(look, &seen, row, info))
		return LK_ENOMEM;
	bool is_pool = row->kind == LK__FOREIGN_POOL;
	info->type = is_pool ? "foreign semaphore" : "foreign lock";
	look->is_field = row->kind == LK__FOREIGN_FIELD;
	for (size_t i = 0; i + 1 < elements->elements; i += 2) {
		const redisReply *holder = elements->element[i];
		int64_t left_ms = info->ttl_ms;
		if (row->kind == LK__FOREIGN_ZSET) /* in a semaphore it is when the member came */
			left_ms = look_score(elements->element[i + 1]) - look->time_ms;
		if (is_holder(look, row, holder) && (row->kind != LK__FOREIGN_ZSET || left_ms > 0))
			look_hold(look, holder->str, (size_t)holder->len, left_ms, info);
	}
	return 1;
}

/* ---- hashes ---- */

/* False: the field is not a holder's. */
static bool holder_read(struct lk__look *look, const redisReply *field, const redisReply *value,
			bool has_mode, lk_lock_info *info)
{
	int64_t hold_count;
	if (field->type != REDIS_REPLY_STRING ||
	    !lk__reply_number(value, 0, INT64_MAX, &hold_count))
		return false;
	size_t size = (size_t)field->len;
	bool writes = has_mode && is_writer(field->str, size);
	if (!writes && !is_owner(field->str, size))
		return false;
	lk_holder *holder = look_hold(look, field->str, size, info->ttl_ms, info);
	holder->hold_count = hold_count;
	if (has_mode)
		holder->role = writes ? LK_HOLDER_WRITER : LK_HOLDER_READER;
	return true;
}

static const redisReply *mode_of(const redisReply *fields)
{
	for (size_t i = 0; i + 1 < fields->elements; i += 2)
		if (is_text(fields->element[i], "mode"))
			return fields->element[i + 1];
	return NULL;
}

/* 1: every field is a holder's; 0: one is something else; LK_ENOMEM. */
static int holders_read(struct lk__look *look, const redisReply *fields, bool has_mode,
			lk_lock_info *info)
{
	if (!look_holders(look, fields->elements / 2, info))
		return LK_ENOMEM;
	for (size_t i = 0; i + 1 < fields->elements; i += 2) {
		bool is_mode = has_mode && is_text(fields->element[i], "mode");
		if (!is_mode &&
		    !holder_read(look, fields->element[i], fields->element[i + 1], has_mode, info))
			return 0;
	}
	return 1;
}

/* The members of a list, or (`step` 2) of a sorted set whose scores are after `now_ms`. */
static int waiters_read(struct lk__look *look, size_t place, size_t step, int64_t now_ms,
			lk_lock_info *info)
{
	const redisReply *reply = look->parts[place];
	look->waiters = calloc(elements_of(reply) + 1, sizeof(*look->waiters));
	if (!look->waiters)
		return LK_ENOMEM;
	info->waiters = look->waiters;
	for (size_t i = 0; i + step <= elements_of(reply); i += step) {
		const redisReply *field = reply->element[i];
		const redisReply *score = reply->element[i + step - 1];
		if (field->type != REDIS_REPLY_STRING || score->type != REDIS_REPLY_STRING ||
		    (step == 2 && look_score(score) <= now_ms))
			continue;
		look->waiters[info->waiter_count++] = (lk_waiter){field->str, (size_t)field->len};
	}
	return 1;
}

/* How much of a field is its client's UUID. */
static size_t client_size(const lk_waiter *waiter)
{
	assert(waiter->field);
	const char *colon = memrchr(waiter->field, ':', waiter->field_size);
	return colon ? (size_t)(colon - waiter->field) : waiter->field_size;
}

/* How many clients these are. Each waiter of a fair lock listens to a channel of its own. */
static int64_t clients_count(const lk_waiter *waiters, size_t count)
{
	int64_t clients = 0;
	for (size_t i = 0; i < count; i++) {
		size_t other = 0, size = client_size(&waiters[i]);
		while (other < i && (client_size(&waiters[other]) != size ||
				     memcmp(waiters[other].field, waiters[i].field, size) != 0))
			other++;
		clients += other == i;
	}
	return clients;
}

/* A lock whose hash names its owners only. */
static int owned_read(struct lk__look *look, lk_lock_info *info)
{
	int rc = waiters_read(look, LK__HASH_QUEUE, 1, 0, info);
	if (rc < 0)
		return rc;
	int64_t listening = listeners(look, true, TO_LOCK);
	int64_t queued = clients_count(info->waiters, info->waiter_count);
	info->waiting_clients = listening > queued ? listening : queued;
	info->fence = fence_of(look);
	info->type = info->waiter_count ? "fair lock" : info->fence ? "fenced lock" : "lock";
	if (!info->holder_count && !info->waiter_count)
		info->type = "none";
	return 1;
}

static int look_read_hash(struct lk__look *look, const redisReply *fields, lk_lock_info *info)
{
	const redisReply *mode = mode_of(fields);
	bool has_mode = mode && (is_text(mode, "read") || is_text(mode, "write"));
	int rc = holders_read(look, fields, has_mode, info);
	if (rc <= 0)
		return rc;
	if (!has_mode)
		return owned_read(look, info);
	info->type = "read/write lock";
	info->waiting_clients = listeners(look, true, TO_OTHER);
	return waiters_read(look, LK__HASH_WRITERS, 2, look->time_ms, info);
}

/* ---- strings ---- */

static bool is_made_of(const redisReply *text, size_t size, const char *characters)
{
	return (size_t)text->len == size && strspn(text->str, characters) == size;
}

/* Tells whether it looks like what plain locks have as a token. */
static bool is_token(const redisReply *value)
{
	static const char hexadecimal[] = "0123456789abcdef";
	static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				     "0123456789+/=";
	size_t size = (size_t)value->len;
	if (is_made_of(value, 32, hexadecimal)) /* redis-py, node-redlock */
		return true;
	if (is_made_of(value, 24, base64)) /* redsync */
		return value->str[22] == '=' && value->str[23] == '=';
	return size > 37 && value->str[36] == ':' && is_owner(value->str, size);
}

static bool is_count(const redisReply *value, int64_t *count)
{
	return lk__reply_number(value, INT64_MIN, INT64_MAX, count);
}

static void permit_id(const redisReply *member, char id[LK_PERMIT_ID_SIZE])
{
	static const char digits[] = "0123456789abcdef";
	for (size_t i = 0; i < PERMIT_BYTES; i++) {
		unsigned char byte = (unsigned char)member->str[i];
		id[2 * i] = digits[byte >> 4];
		id[2 * i + 1] = digits[byte & 15];
	}
	id[(size_t)2 * PERMIT_BYTES] = 0;
}

/* Permits whose time is up are as good as given back. */
static int permits_read(struct lk__look *look, lk_lock_info *info)
{
	const redisReply *reply = look->parts[LK__STRING_PERMITS];
	int64_t now_ms = look->time_ms;
	size_t count = elements_of(reply) / 2;
	look->ids = calloc(count + 1, LK_PERMIT_ID_SIZE);
	if (!look->ids || !look_holders(look, count, info))
		return LK_ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const redisReply *member = reply->element[2 * i],
				 *score = reply->element[2 * i + 1];
		if (member->type != REDIS_REPLY_STRING || score->type != REDIS_REPLY_STRING ||
		    member->len != PERMIT_BYTES)
			continue;
		int64_t end_ms = look_score(score);
		char *id = look->ids + info->holder_count * LK_PERMIT_ID_SIZE;
		if (end_ms <= now_ms)
			continue;
		permit_id(member, id);
		lk_holder *holder = look_hold(look, id, 2 * (size_t)PERMIT_BYTES,
					      end_ms >= NO_END_MS ? -1 : end_ms - now_ms, info);
		holder->role = LK_HOLDER_PERMIT;
	}
	return 1;
}

static int counter_read(struct lk__look *look, lk_lock_info *info)
{
	int64_t semaphore = listeners(look, false, TO_OTHER);
	int64_t latch = listeners(look, false, TO_THIRD);
	info->is_counter = 1;
	info->waiting_clients = semaphore + latch;
	info->type = UNKNOWN_COUNTER;
	if (semaphore && !latch)
		info->type = "semaphore";
	if (latch && !semaphore)
		info->type = "latch";
	if (!elements_of(look->parts[LK__STRING_PERMITS]))
		return 1;
	info->type = "permit semaphore";
	return permits_read(look, info);
}

/* `row`: whose it may be, or NULL. Permits in use, or who listens, show that it is not theirs. */
static int count_read(struct lk__look *look, const struct lk__foreign_seen *seen,
		      const struct lk__foreign *row, lk_lock_info *info)
{
	int rc = counter_read(look, info);
	if (rc < 0)
		return rc;
	if (row && row->kind == LK__FOREIGN_COUNT && strcmp(info->type, UNKNOWN_COUNTER) != 0)
		row = NULL;
	info->may_be_data = row && row->kind == LK__FOREIGN_BESIDE;
	if (info->may_be_data)
		info->type = "counter beside a lock";
	return look_tell(look, seen, row, info) ? rc : LK_ENOMEM;
}

static int plain_read(struct lk__look *look, const redisReply *value, lk_lock_info *info)
{
	if (!look_holders(look, 1, info))
		return LK_ENOMEM;
	look_hold(look, value->str, (size_t)value->len, info->ttl_ms, info);
	info->type = "plain lock";
	info->waiting_clients = listeners(look, false, TO_LOCK);
	return 1;
}

static int look_read_string(struct lk__look *look, const redisReply *value, bool any,
			    lk_lock_info *info)
{
	if (value->len == 0 && !any)
		return 0;
	struct lk__foreign_seen seen;
	const struct lk__foreign *row = look_foreign_string(look, info->ttl_ms, &seen);
	bool is_theirs = row && row->kind == LK__FOREIGN_PLAIN &&
			 row->certainty != LK__FOREIGN_GUESS;
	if (!is_theirs && is_count(value, &info->count))
		return count_read(look, &seen, row, info);
	if (!look_tell(look, &seen, row, info))
		return LK_ENOMEM;
	info->may_be_data = !is_theirs && !is_token(value);
	return row || any || is_token(value) ? plain_read(look, value, info) : 0;
}

int lk__look_read(struct lk__look *look, enum lk__look_type type, bool any, lk_lock_info *info)
{
	const redisReply *value = look->parts[LK__LOOK_VALUE];
	info->ttl_ms = look->parts[LK__LOOK_TTL]->integer;
	if (type == LK__LOOK_STRING)
		return look_read_string(look, value, any, info);
	if (type == LK__LOOK_ZSET)
		return look_read_foreign(look, value,
					 1u << LK__FOREIGN_ZSET | 1u << LK__FOREIGN_POOL, info);
	const redisReply *fields = value->element[1];
	int rc = look_read_hash(look, fields, info);
	if (rc == 0)
		rc = look_read_barrier(look, fields, info);
	if (rc == 0)
		rc = look_read_foreign(look, fields,
				       1u << LK__FOREIGN_HASH | 1u << LK__FOREIGN_FIELD, info);
	return rc;
}
