/* SPDX-License-Identifier: MIT */
#include "sync/lock/lock.h"

#include <assert.h>
#include <string.h>

#include "sync/script.h"

struct lk__request *lk__lock_acquire(const struct lk__try *wanted)
{
	struct lk__words words = {.count = 0};
	assert(wanted->lease_ms > 0);
	lk__words_add(&words, wanted->target->key, wanted->target->key_size);
	lk__words_text(&words, wanted->field);
	lk__words_number(&words, wanted->lease_ms);
	lk__words_deadline(&words);
	lk__words_turn(&words, wanted);
	return lk__words_script(&words, LK__SCRIPT_LOCK_ACQUIRE, 1);
}

struct lk__request *lk__lock_release(const struct lk__target *target, const char *field)
{
	struct lk__words words = {.count = 0};
	lk__words_add(&words, target->key, target->key_size);
	lk__words_text(&words, field);
	lk__words_channel(&words, target);
	return lk__words_script(&words, LK__SCRIPT_LOCK_RELEASE, 1);
}

struct lk__request *lk__lock_keep(const struct lk__target *target, const char *field,
				  int64_t keep_ms)
{
	struct lk__words words = {.count = 0};
	assert(keep_ms > 0);
	lk__words_add(&words, target->key, target->key_size);
	lk__words_number(&words, keep_ms);
	lk__words_text(&words, field);
	lk__words_channel(&words, target);
	lk__words_kept(&words, field);
	return lk__words_script(&words, LK__SCRIPT_LOCK_KEEP, 1);
}

struct lk__request *lk__lock_exchange(const struct lk__try *wanted, const char *from)
{
	struct lk__words words = {.count = 0};
	assert(wanted->lease_ms > 0 && strcmp(from, wanted->field) != 0);
	lk__words_add(&words, wanted->target->key, wanted->target->key_size);
	lk__words_text(&words, wanted->field);
	lk__words_number(&words, wanted->lease_ms);
	lk__words_deadline(&words);
	lk__words_text(&words, from);
	lk__words_channel(&words, wanted->target);
	return lk__words_script(&words, LK__SCRIPT_LOCK_EXCHANGE, 1);
}

struct lk__request *lk__lock_force(const struct lk__target *target)
{
	struct lk__words words = {.count = 0};
	lk__words_add(&words, target->key, target->key_size);
	lk__words_channel(&words, target);
	return lk__words_script(&words, LK__SCRIPT_LOCK_FORCE_RELEASE, 1);
}

struct lk__request *lk__lock_renew(const struct lk__renewal *renewals, size_t count)
{
	return lk__renew_script(LK__SCRIPT_LOCK_RENEW, renewals, count);
}

struct lk__request *lk__lock_is_locked(const struct lk__target *target)
{
	struct lk__words words = {.count = 0};
	lk__words_text(&words, "EXISTS");
	lk__words_add(&words, target->key, target->key_size);
	return lk__words_command(&words);
}

struct lk__request *lk__lock_is_held_by(const struct lk__target *target, const char *field)
{
	struct lk__words words = {.count = 0};
	lk__words_text(&words, "HEXISTS");
	lk__words_add(&words, target->key, target->key_size);
	lk__words_text(&words, field);
	return lk__words_command(&words);
}

enum lk__exchanged lk__lock_read_exchange(const struct lk__request *request,
					  struct lk__answer *answer)
{
	(void)answer;
	return lk__reply_exchanged(request);
}

const struct lk__recipe lk__lock_recipe = {
	.type = "lock",
	.channel_prefix = LK__LOCK_CHANNEL_PREFIX,
	.sharing = LK__ONE_QUEUE,
	.flags = LK__TURNS,
	.acquire = lk__lock_acquire,
	.release = lk__lock_release,
	.keep = lk__lock_keep,
	.exchange = lk__lock_exchange,
	.force = lk__lock_force,
	.renew = lk__lock_renew,
	.is_locked = lk__lock_is_locked,
	.is_held_by = lk__lock_is_held_by,
	.read_acquire = lk__reply_acquired,
	.read_release = lk__reply_turn_given,
	.read_keep = lk__reply_released,
	.read_exchange = lk__lock_read_exchange,
};
