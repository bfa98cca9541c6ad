/* SPDX-License-Identifier: MIT */
/* The fair lock. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "resp/reply.h"
#include "sync/recipes.h"
#include "sync/script.h"

static struct lk__request *fair_acquire(const struct lk__try *wanted)
{
	return lk__fair_queue(wanted->target, wanted->once ? "try" : "acquire", wanted->field,
			      wanted);
}

static struct lk__request *fair_release(const struct lk__target *target, const char *field)
{
	return lk__fair_queue(target, "release", field, NULL);
}

static struct lk__request *fair_force(const struct lk__target *target)
{
	return lk__fair_queue(target, "force", "", NULL);
}

/* LONGER is unknown: it is compensated, since nobody wants it for as long as an earlier head
 * did. */
static void fair_read_acquire(const struct lk__request *request, struct lk__answer *answer)
{
	const redisReply *busy = lk__reply_tried(request, answer);
	struct lk__attempt_event *event = &answer->event;
	if (busy && busy->type == REDIS_REPLY_ARRAY && busy->elements == 2 &&
	    lk__reply_integer(busy->element[0], INT64_MIN, INT64_MAX, &event->ttl_ms) &&
	    lk__reply_integer(busy->element[1], 0, INT64_MAX, &event->server_us))
		event->type = LK__ATTEMPT_BUSY;
}

static bool fair_read_message(const char *payload, uint64_t nonce, int64_t *server_us)
{
	static const char granted[] = "granted ";
	size_t size = sizeof(granted) - 1;
	char expected[24];
	int64_t told_us;
	if (!nonce || strncmp(payload, granted, size) != 0)
		return false;
	snprintf(expected, sizeof(expected), " %016" PRIx64, nonce);
	const char *end = lk__number_take(payload + size, 0, INT64_MAX, &told_us);
	if (!end || strcmp(end, expected) != 0)
		return false;
	*server_us = told_us;
	return true;
}

const struct lk__recipe lk__fair_recipe = {
	.type = "fair lock",
	.channel_prefix = LK__LOCK_CHANNEL_PREFIX,
	.sharing = LK__EACH_OWNER,
	.flags = LK__NO_TERMS | LK__OWN_CHANNEL | LK__QUEUES,
	.acquire = fair_acquire,
	.release = fair_release,
	.keep = lk__fair_keep,
	.force = fair_force,
	.renew = lk__lock_renew,
	.is_locked = lk__lock_is_locked,
	.is_held_by = lk__lock_is_held_by,
	.read_acquire = fair_read_acquire,
	.read_release = lk__reply_released,
	.read_message = fair_read_message,
};
