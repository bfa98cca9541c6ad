/* SPDX-License-Identifier: MIT */
/* The plain lock. */
#include <stdio.h>
#include <string.h>

#include "sync/recipes.h"
#include "sync/script.h"

static struct lk__request *plain_is_held_by(const struct lk__target *target, const char *field)
{
	/* A string that is longer than the token is answered with one byte more, and is another. */
	char last[24];
	struct lk__words words = {0};
	snprintf(last, sizeof(last), "%zu", strlen(field));
	lk__words_text(&words, "GETRANGE");
	lk__words_add(&words, target->key, target->key_size);
	lk__words_text(&words, "0");
	lk__words_text(&words, last);
	return lk__words_command(&words);
}

/* Refused: a ttl, and whose it is. */
static void plain_read_busy(const struct lk__request *request, struct lk__attempt_event *event)
{
	const redisReply *reply = request->reply;
	if (request->code || reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
	    reply->element[0]->type != REDIS_REPLY_INTEGER ||
	    reply->element[1]->type != REDIS_REPLY_STRING)
		return;
	event->type = LK__ATTEMPT_BUSY;
	event->ttl_ms = reply->element[0]->integer;
	event->holder = lk__pace_holder(reply->element[1]->str, (size_t)reply->element[1]->len);
}

static void plain_read_acquire(const struct lk__request *request, struct lk__answer *answer)
{
	lk__reply_acquired(request, answer);
	plain_read_busy(request, &answer->event);
}

const struct lk__recipe lk__plain_recipe = {
	.type = "plain lock",
	.channel_prefix = LK__LOCK_CHANNEL_PREFIX,
	.sharing = LK__ONE_QUEUE,
	.flags = LK__TURNS,
	.poll_ms = LK__PLAIN_POLL_MS,
	.acquire = lk__plain_acquire,
	.release = lk__plain_release,
	.keep = lk__plain_keep,
	.exchange = lk__plain_exchange,
	.force = lk__plain_force,
	.renew = lk__plain_renew,
	.is_locked = lk__lock_is_locked,
	.is_held_by = plain_is_held_by,
	.read_acquire = plain_read_acquire,
	.read_release = lk__reply_turn_given,
	.read_exchange = lk__reply_exchanged,
};
