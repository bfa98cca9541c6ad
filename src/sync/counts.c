/* SPDX-License-Identifier: MIT */
/* Counts, whose grants leave nothing to renew or release: the semaphore and the latch. */
#include <assert.h>

#include <lockkeeper/error.h>

#include "sync/recipes.h"
#include "sync/script.h"

#define POLL_MS 1000 /* a message can be lost with a connection */

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
