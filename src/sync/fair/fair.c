/* SPDX-License-Identifier: MIT */
/* The fair lock. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <lockkeeper/error.h>

#include "resp/reply.h"
#include "sync/recipes.h"
#include "sync/script.h"

#define DERIVED_KEYS 3

static const char *const key_prefixes[DERIVED_KEYS] = {LK__FAIR_QUEUE_PREFIX,
						       "redisson_lock_timeout", "lockkeeper_fair"};

/* How long the queue takes this waiter for alive: its wait, but others should not have to wait for
 * one who is dead for as long as it may have been patient. */
static int64_t fair_alive_ms(const struct lk__try *wanted)
{
	bool shorter = wanted->wait_ms > 0 && wanted->wait_ms < wanted->alive_ms;
	return shorter ? wanted->wait_ms : wanted->alive_ms;
}

static struct lk__request *fair_call(const struct lk__target *target, const char *what,
				     const char *field, const struct lk__try *wanted)
{
	struct lk__words words = {0};
	char nonce[24];
	lk__words_key(&words, target);
	for (size_t i = 0; i < DERIVED_KEYS; i++)
		lk__words_derived(&words, key_prefixes[i], target);
	lk__words_text(&words, what);
	lk__words_text(&words, field);
	lk__words_channel(&words, target);
	assert(!wanted || wanted->lease_ms > 0);
	if (wanted) {
		lk__words_number(&words, wanted->lease_ms);
		lk__words_number(&words, fair_alive_ms(wanted));
		lk__words_deadline(&words);
		snprintf(nonce, sizeof(nonce), "%016" PRIx64, wanted->nonce);
		lk__words_text(&words, nonce);
	}
	return lk__words_script(&words, LK__SCRIPT_FAIR_QUEUE, 1 + DERIVED_KEYS);
}

static struct lk__request *fair_acquire(const struct lk__try *wanted)
{
	return fair_call(wanted->target, wanted->once ? "try" : "acquire", wanted->field, wanted);
}

static struct lk__request *fair_release(const struct lk__target *target, const char *field)
{
	return fair_call(target, "release", field, NULL);
}

static struct lk__request *fair_keep(const struct lk__target *target, const char *field,
				     int64_t keep_ms)
{
	struct lk__words words = {0};
	lk__words_key(&words, target);
	lk__words_derived(&words, LK__FAIR_QUEUE_PREFIX, target);
	lk__words_number(&words, keep_ms);
	lk__words_text(&words, field);
	lk__words_channel(&words, target);
	lk__words_kept(&words, field);
	return lk__words_script(&words, LK__SCRIPT_FAIR_KEEP, 2);
}

static struct lk__request *fair_force(const struct lk__target *target)
{
	return fair_call(target, "force", "", NULL);
}

/* LONGER is unknown: it is compensated, since nobody wants it for as long as an earlier head
 * did. */
static void fair_read_acquire(const struct lk__request *request, struct lk__answer *answer)
{
	const redisReply *reply = request->reply;
	struct lk__attempt_event *event = &answer->event;
	event->type = LK__ATTEMPT_UNKNOWN;
	if (request->code) {
		*event = lk__reply_refusal(request);
	} else if (reply->type == REDIS_REPLY_NIL) {
		event->type = LK__ATTEMPT_GRANTED;
	} else if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
		   lk__reply_integer(reply->element[0], INT64_MIN, INT64_MAX, &event->ttl_ms) &&
		   lk__reply_integer(reply->element[1], 0, INT64_MAX, &event->server_us)) {
		event->type = LK__ATTEMPT_BUSY;
	} else if (lk__reply_late(reply, &answer->event.server_us)) {
		event->type = lk__reply_not_done(request);
	}
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
	.keep = fair_keep,
	.force = fair_force,
	.renew = lk__lock_renew,
	.is_locked = lk__lock_is_locked,
	.is_held_by = lk__lock_is_held_by,
	.read_acquire = fair_read_acquire,
	.read_release = lk__reply_released,
	.read_keep = lk__reply_released,
	.read_message = fair_read_message,
};
