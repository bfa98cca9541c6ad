/* SPDX-License-Identifier: MIT */
/* The permit semaphore: its wait queue, and each permit. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sync/recipes.h"
#include "sync/script.h"

#define POLL_MS 1000     /* a message can be lost with a connection */
#define INDEX_BITS 16    /* of a permit's number */
#define PREFIX_BYTES 14  /* what the ids of one acquire share */
#define CLIENT_DIGITS 16 /* of the client's UUID */

uint64_t lk__permit_number(uint64_t acquire_number, size_t index)
{
	assert(index < 1u << INDEX_BITS && acquire_number < UINT64_C(1) << (64 - INDEX_BITS));
	return acquire_number << INDEX_BITS | index;
}

static void permit_field(const char *client_id, uint64_t number, char field_out[LK__FIELD_SIZE])
{
	size_t size = 0;
	for (const char *at = client_id; *at && size < CLIENT_DIGITS; at++)
		if (*at != '-')
			field_out[size++] = *at;
	assert(size == CLIENT_DIGITS);
	snprintf(field_out + size, LK__FIELD_SIZE - size, "%016" PRIx64, number);
}

static void permit_queue_field(const char *client_id, uint64_t number,
			       char field_out[LK__FIELD_SIZE])
{
	permit_field(client_id, lk__permit_number(number, 0), field_out);
}

static int digit(char c)
{
	const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;
	return at ? (int)(at - digits) : -1;
}

bool lk__permit_bytes(const char *id, unsigned char bytes_out[LK__PERMIT_ID_BYTES])
{
	if (strnlen(id, (size_t)2 * LK__PERMIT_ID_BYTES + 1) != (size_t)2 * LK__PERMIT_ID_BYTES)
		return false;
	for (size_t i = 0; i < LK__PERMIT_ID_BYTES; i++) {
		int high = digit(id[2 * i]), low = digit(id[2 * i + 1]);
		if (high < 0 || low < 0)
			return false;
		bytes_out[i] = (unsigned char)(high << 4 | low);
	}
	return true;
}

bool lk__permit_id_at(const char *first, size_t index, char id_out[2 * LK__PERMIT_ID_BYTES + 1])
{
	unsigned char bytes[LK__PERMIT_ID_BYTES];
	if (!lk__permit_bytes(first, bytes) || bytes[PREFIX_BYTES] || bytes[PREFIX_BYTES + 1])
		return false;
	snprintf(id_out, 2 * LK__PERMIT_ID_BYTES + 1, "%.*s%04zx", 2 * PREFIX_BYTES, first,
		 index & UINT16_MAX);
	return true;
}

char *lk__permits_key(const struct lk__target *target, size_t *size_out)
{
	return lk__suffixed_name(target->key, target->key_size, "timeout", size_out);
}

/* The keys of both. */
static void words_keys(struct lk__words *words, const struct lk__target *target)
{
	size_t size;
	char *in_use = lk__permits_key(target, &size);
	lk__words_key(words, target);
	lk__words_own(words, in_use, size);
}

/* ---- the wait queue ---- */

static struct lk__request *permits_acquire(const struct lk__try *wanted)
{
	const struct lk__target *target = wanted->target;
	unsigned char id[LK__PERMIT_ID_BYTES] = {0};
	struct lk__words words = {0};
	assert(wanted->count > 0 && wanted->lease_ms > 0);
	lk__permit_bytes(wanted->field, id);
	words_keys(&words, target);
	lk__words_number(&words, wanted->count);
	lk__words_number(&words, wanted->lease_ms);
	lk__words_deadline(&words);
	lk__words_add(&words, (const char *)id, PREFIX_BYTES);
	lk__words_channel(&words, target);
	lk__words_number(&words, wanted->permits);
	lk__words_number(&words, wanted->ttl_ms);
	return lk__words_script(&words, LK__SCRIPT_PERMITS_ACQUIRE, 2);
}

static struct lk__request *permits_undo(const struct lk__target *target, const char *field)
{
	unsigned char id[LK__PERMIT_ID_BYTES] = {0};
	struct lk__words words = {0};
	lk__permit_bytes(field, id);
	words_keys(&words, target);
	lk__words_channel(&words, target);
	lk__words_add(&words, (const char *)id, PREFIX_BYTES);
	return lk__words_script(&words, LK__SCRIPT_PERMITS_UNDO, 2);
}

/* ---- each permit ---- */

struct lk__request *lk__permits_release(const struct lk__target *target, const unsigned char *ids,
					size_t count)
{
	struct lk__words words = {0};
	assert(count > 0);
	lk__words_many(&words, 3 + count);
	words_keys(&words, target);
	lk__words_channel(&words, target);
	for (size_t i = 0; i < count; i++)
		lk__words_add(&words, (const char *)ids + i * LK__PERMIT_ID_BYTES,
			      LK__PERMIT_ID_BYTES);
	return lk__words_script(&words, LK__SCRIPT_PERMITS_RELEASE, 2);
}

static struct lk__request *permit_release(const struct lk__target *target, const char *field)
{
	unsigned char id[LK__PERMIT_ID_BYTES] = {0};
	lk__permit_bytes(field, id);
	return lk__permits_release(target, id, 1);
}

static struct lk__request *permit_renew(const struct lk__renewal *renewals, size_t count)
{
	struct lk__words words = {0};
	assert(count > 0);
	lk__words_many(&words, 4 * count);
	for (size_t i = 0; i < count; i++) {
		size_t size = 0;
		char *in_use = lk__permits_key(renewals[i].target, &size);
		lk__words_own(&words, in_use, size);
	}
	for (size_t i = 0; i < count; i++)
		lk__words_key(&words, renewals[i].target);
	for (size_t i = 0; i < count; i++) {
		unsigned char id[LK__PERMIT_ID_BYTES] = {0};
		lk__permit_bytes(renewals[i].field, id);
		lk__words_copy(&words, id, sizeof(id));
		lk__words_number(&words, renewals[i].lease_ms);
	}
	return lk__words_script(&words, LK__SCRIPT_PERMITS_RENEW, 2 * count);
}

const struct lk__recipe lk__permit_queue_recipe = {
	.type = "permit semaphore",
	.channel_prefix = LK__SEMAPHORE_CHANNEL_PREFIX,
	.sharing = LK__NO_HOLD,
	.flags = LK__NO_TERMS | LK__BECOMES_HOLDS,
	.poll_ms = POLL_MS,
	.field = permit_queue_field,
	.acquire = permits_acquire,
	.release = permits_undo,
	.read_acquire = lk__reply_acquired,
	.read_release = lk__reply_released,
};

const struct lk__recipe lk__permit_recipe = {
	.type = "permit semaphore",
	.channel_prefix = LK__SEMAPHORE_CHANNEL_PREFIX,
	.sharing = LK__EACH_OWNER,
	.flags = LK__NO_TERMS | LK__FORGETS | LK__SHARES,
	.field = permit_field,
	.release = permit_release,
	.renew = permit_renew,
	.read_release = lk__reply_released,
};
