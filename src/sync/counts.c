/* SPDX-License-Identifier: MIT */
/*
 * Counts: the semaphore and the latch, whose grants leave nothing to renew or release, and the
 * permit semaphore: its wait queue, and each permit.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <lockkeeper/error.h>

#include "sync/recipes.h"
#include "sync/script.h"

#define POLL_MS 1000     /* a message can be lost with a connection */
#define INDEX_BITS 16    /* of a permit's number */
#define CLIENT_DIGITS 16 /* of the client's UUID */

const struct lk__recipe lk__semaphore_recipe = {
	.type = "semaphore",
	.channel_prefix = LK__SEMAPHORE_CHANNEL_PREFIX,
	.sharing = LK__NO_HOLD,
	.flags = LK__NO_TERMS,
	.poll_ms = POLL_MS,
	.acquire = lk__semaphore_acquire,
	.release = lk__semaphore_undo,
	.read_acquire = lk__reply_acquired,
	.read_release = lk__reply_released,
};

/* ---- the latch ---- */

/* A look leaves nothing behind that needs compensation. */
static struct lk__request *latch_undo(const struct lk__target *target, const char *field)
{
	(void)target;
	(void)field;
	return NULL;
}

static void latch_read(const struct lk__request *request, struct lk__answer *answer)
{
	assert(request->code || request->reply);
	struct lk__attempt_event *event = &answer->event;
	if (request->code == LK_EMAYBEHELD) /* nothing was changed: it is asked again */
		*event = (struct lk__attempt_event){.type = LK__ATTEMPT_FAILED,
						    .code = request->lasting ? LK_EREFUSED
									     : LK_EUNAVAILABLE,
						    .retryable = !request->lasting};
	else if (request->code)
		*event = lk__reply_refusal(request);
	else if (request->reply->type == REDIS_REPLY_NIL)
		*event = (struct lk__attempt_event){.type = LK__ATTEMPT_GRANTED};
	else
		*event = (struct lk__attempt_event){.type = LK__ATTEMPT_BUSY, .ttl_ms = -1};
}

const struct lk__recipe lk__latch_recipe = {
	.type = "latch",
	.channel_prefix = "redisson_countdownlatch__channel__",
	.sharing = LK__NO_HOLD,
	.flags = LK__NO_TERMS | LK__FOR_ALL | LK__BRACED,
	.poll_ms = POLL_MS,
	.acquire = lk__latch_await,
	.release = latch_undo,
	.read_acquire = latch_read,
	.read_release = lk__reply_released,
};

/* ---- the permit semaphore ---- */

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
	if (!lk__permit_bytes(first, bytes) || bytes[LK__PERMIT_PREFIX_BYTES] ||
	    bytes[LK__PERMIT_PREFIX_BYTES + 1])
		return false;
	snprintf(id_out, 2 * LK__PERMIT_ID_BYTES + 1, "%.*s%04zx", 2 * LK__PERMIT_PREFIX_BYTES,
		 first, index & UINT16_MAX);
	return true;
}

static struct lk__request *permit_release(const struct lk__target *target, const char *field)
{
	unsigned char id[LK__PERMIT_ID_BYTES] = {0};
	lk__permit_bytes(field, id);
	return lk__permits_release(target, id, 1);
}

const struct lk__recipe lk__permit_queue_recipe = {
	.type = "permit semaphore",
	.channel_prefix = LK__SEMAPHORE_CHANNEL_PREFIX,
	.sharing = LK__NO_HOLD,
	.flags = LK__NO_TERMS | LK__BECOMES_HOLDS,
	.poll_ms = POLL_MS,
	.field = permit_queue_field,
	.acquire = lk__permits_acquire,
	.release = lk__permits_undo,
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
	.renew = lk__permits_renew,
	.read_release = lk__reply_released,
};
