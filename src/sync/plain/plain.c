/* SPDX-License-Identifier: MIT */
#include "sync/plain/plain.h"

#include "sync/lock/lock.h"
#include "sync/plain/native.h"
#include "sync/plain/notify.h"
#include "sync/script.h"

static struct lk__request *plain_acquire(const struct lk__try *wanted)
{
	if (lk__native_must_ask(wanted->target))
		return lk__native_ask(wanted->target);
	if (lk__native_serves(wanted->target))
		return lk__native_acquire(wanted);
	struct lk__words words = {0};
	lk__words_add(&words, wanted->target->key, wanted->target->key_size);
	lk__words_text(&words, wanted->field);
	lk__words_number(&words, wanted->lease_ms);
	lk__words_deadline(&words, false);
	lk__words_turn(&words, wanted);
	return lk__words_script(&words, LK__SCRIPT_PLAIN_ACQUIRE, 1);
}

/* What else its release tells is the script's last words; the server's own commands cannot tell it
 * of our token alone. */
static bool is_told_otherwise(const struct lk__target *target)
{
	return atomic_load(&target->notify) && lk__native_has_scripts(target);
}

static void words_notify(struct lk__words *words, const struct lk__target *target)
{
	const struct lk__notify *notify = atomic_load(&target->notify);
	if (notify)
		lk__notify_words(words, notify);
}

static struct lk__request *plain_release(const struct lk__target *target, const char *field)
{
	if (lk__native_serves(target) && !is_told_otherwise(target))
		return lk__native_release(target, field);
	struct lk__words words = {0};
	lk__words_add(&words, target->key, target->key_size);
	lk__words_text(&words, field);
	lk__words_channel(&words, target);
	words_notify(&words, target);
	return lk__words_script(&words, LK__SCRIPT_PLAIN_RELEASE, 1);
}

static struct lk__request *plain_keep(const struct lk__target *target, const char *field,
				      int64_t keep_ms)
{
	/* Refused when memory is full, which a script is not. */
	if (!lk__native_has_scripts(target))
		return lk__native_keep(target, field, keep_ms);
	struct lk__words words = {0};
	lk__words_add(&words, target->key, target->key_size);
	lk__words_number(&words, keep_ms);
	lk__words_text(&words, field);
	lk__words_channel(&words, target);
	lk__words_kept(&words, field);
	return lk__words_script(&words, LK__SCRIPT_PLAIN_KEEP, 1);
}

static struct lk__request *plain_exchange(const struct lk__try *wanted, const char *from)
{
	const struct lk__target *target = wanted->target;
	if (lk__native_serves(target))
		return lk__native_exchange(wanted, from);
	struct lk__words words = {0};
	lk__words_add(&words, target->key, target->key_size);
	lk__words_text(&words, wanted->field);
	lk__words_number(&words, wanted->lease_ms);
	lk__words_deadline(&words, false);
	lk__words_text(&words, from);
	lk__words_channel(&words, target);
	words_notify(&words, target);
	return lk__words_script(&words, LK__SCRIPT_PLAIN_EXCHANGE, 1);
}

static struct lk__request *plain_force(const struct lk__target *target)
{
	/* A SET is refused when memory is full, a script that deletes is not. */
	if (!lk__native_has_scripts(target))
		return lk__native_force(target);
	struct lk__words words = {0};
	lk__words_add(&words, target->key, target->key_size);
	lk__words_channel(&words, target);
	words_notify(&words, target);
	return lk__words_script(&words, LK__SCRIPT_PLAIN_FORCE_RELEASE, 1);
}

static struct lk__request *plain_renew(const struct lk__renewal *renewals, size_t count)
{
	/* A script compares and prolongs in one step: where there are scripts, they are better. */
	if (!lk__native_has_scripts(renewals[0].target))
		return lk__native_renew(renewals, count);
	return lk__renew_script(LK__SCRIPT_PLAIN_RENEW, renewals, count);
}

static struct lk__request *plain_command(const char *verb, const struct lk__target *target)
{
	struct lk__words words = {0};
	lk__words_text(&words, verb);
	lk__words_add(&words, target->key, target->key_size);
	return lk__words_command(&words);
}

static struct lk__request *plain_is_locked(const struct lk__target *target)
{
	return plain_command("EXISTS", target);
}

static struct lk__request *plain_is_held_by(const struct lk__target *target, const char *field)
{
	(void)field; /* the token is answered, and compared */
	return plain_command("GET", target);
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
	if (request->batch) {
		answer->event.type = LK__ATTEMPT_UNKNOWN;
		lk__native_read_acquire(request, answer);
	} else {
		lk__reply_acquired(request, answer);
		plain_read_busy(request, &answer->event);
	}
}

static enum lk__exchanged plain_read_exchange(const struct lk__request *request,
					      struct lk__answer *answer)
{
	(void)answer;
	return request->batch ? lk__native_read_exchange(request) : lk__reply_exchanged(request);
}

static enum lk__released plain_read_release(const struct lk__request *request, int64_t *listeners)
{
	return request->batch ? lk__native_read_release(request, listeners)
			      : lk__reply_turn_given(request, listeners);
}

static enum lk__released plain_read_keep(const struct lk__request *request, int64_t *listeners)
{
	return request->batch ? lk__native_read_keep(request, listeners)
			      : lk__reply_released(request, listeners);
}

static bool plain_read_force(const struct lk__request *request)
{
	return request->batch ? lk__native_read_force(request) : request->reply->integer == 1;
}

const struct lk__recipe lk__plain_recipe = {
	.type = "plain lock",
	.channel_prefix = LK__LOCK_CHANNEL_PREFIX,
	.sharing = LK__ONE_QUEUE,
	.flags = LK__TURNS,
	.without_turns = lk__native_serves,
	.poll_ms = LK__PLAIN_POLL_MS,
	.acquire = plain_acquire,
	.release = plain_release,
	.keep = plain_keep,
	.exchange = plain_exchange,
	.force = plain_force,
	.renew = plain_renew,
	.ask = lk__native_ask,
	.must_ask = lk__native_must_ask,
	.read_force = plain_read_force,
	.is_locked = plain_is_locked,
	.is_held_by = plain_is_held_by,
	.read_acquire = plain_read_acquire,
	.read_release = plain_read_release,
	.read_keep = plain_read_keep,
	.read_exchange = plain_read_exchange,
};
