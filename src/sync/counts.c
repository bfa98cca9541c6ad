/* SPDX-License-Identifier: MIT */
/* Counts, whose grants leave nothing to renew or release: the semaphore and the latch. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper/error.h>

#include "sync/recipes.h"
#include "sync/script.h"

#define POLL_MS 1000 /* a message can be lost with a connection */

char *lk__record_key(const struct lk__target *target, const char *field, size_t *size_out)
{
	return lk__name_with(LK__RECORD_PREFIX, target->key, target->key_size, field, size_out);
}

char *lk__record_key_of(const struct lk__target *target, const char *field, uint64_t number,
			size_t *size_out)
{
	char other[LK__FIELD_SIZE];
	assert(strrchr(field, ':') && number != 0);
	int uuid_size = (int)(strrchr(field, ':') - field);
	snprintf(other, sizeof(other), "%.*s:%" PRIu64, uuid_size, field, number);
	return lk__record_key(target, other, size_out);
}

static struct lk__request *semaphore_acquire(const struct lk__try *wanted)
{
	size_t size, settled_size;
	char *record = lk__record_key(wanted->target, wanted->field, &size);
	char *settled = wanted->settled ? lk__record_key_of(wanted->target, wanted->field,
							    wanted->settled, &settled_size)
					: NULL;
	struct lk__words words = {0};
	assert(wanted->count > 0 && wanted->number != wanted->settled);
	lk__words_key(&words, wanted->target);
	lk__words_own(&words, record, size);
	if (settled)
		lk__words_own(&words, settled, settled_size);
	else
		lk__words_add(&words, record, size);
	lk__words_number(&words, wanted->count);
	lk__words_deadline(&words);
	lk__words_number(&words, wanted->permits);
	lk__words_number(&words, wanted->ttl_ms);
	return lk__words_script(&words, LK__SCRIPT_SEMAPHORE_ACQUIRE, 3);
}

static struct lk__request *semaphore_undo(const struct lk__target *target, const char *field)
{
	size_t size;
	char *record = lk__record_key(target, field, &size);
	struct lk__words words = {0};
	lk__words_key(&words, target);
	lk__words_own(&words, record, size);
	lk__words_channel(&words, target);
	return lk__words_script(&words, LK__SCRIPT_SEMAPHORE_UNDO, 2);
}

const struct lk__recipe lk__semaphore_recipe = {
	.type = "semaphore",
	.channel_prefix = LK__SEMAPHORE_CHANNEL_PREFIX,
	.sharing = LK__NO_HOLD,
	.flags = LK__NO_TERMS,
	.poll_ms = POLL_MS,
	.acquire = semaphore_acquire,
	.release = semaphore_undo,
	.read_acquire = lk__reply_acquired,
	.read_release = lk__reply_released,
};

struct lk__request *lk__count_look(const struct lk__target *target)
{
	struct lk__words words = {0};
	lk__words_key(&words, target);
	return lk__words_script(&words, LK__SCRIPT_SEMAPHORE_LOOK, 1);
}

/* ---- the latch ---- */

static struct lk__request *latch_look(const struct lk__try *wanted)
{
	struct lk__words words = {0};
	lk__words_key(&words, wanted->target);
	return lk__words_script(&words, LK__SCRIPT_LATCH_AWAIT, 1);
}

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
	.acquire = latch_look,
	.release = latch_undo,
	.read_acquire = latch_read,
	.read_release = lk__reply_released,
};
