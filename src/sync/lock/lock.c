/* SPDX-License-Identifier: MIT */
/* The reentrant lock, and the spin lock, which is the same without messages. */
#include "resp/reply.h"
#include "sync/recipes.h"
#include "sync/script.h"

/* A command on the key, and on that field of it, unless that is NULL. */
static struct lk__request *key_command(const char *verb, const struct lk__target *target,
				       const char *field)
{
	struct lk__words words = {0};
	lk__words_text(&words, verb);
	lk__words_add(&words, target->key, target->key_size);
	if (field)
		lk__words_text(&words, field);
	return lk__words_command(&words);
}

struct lk__request *lk__lock_is_locked(const struct lk__target *target)
{
	return key_command("EXISTS", target, NULL);
}

struct lk__request *lk__lock_is_held_by(const struct lk__target *target, const char *field)
{
	return key_command("HEXISTS", target, field);
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
	.read_exchange = lk__reply_exchanged,
};

/* ---- the spin lock ---- */

/* Without a message there is nothing that needs a script. */
static struct lk__request *spin_release(const struct lk__target *target, const char *field)
{
	return key_command("HDEL", target, field);
}

static enum lk__released spin_read_release(const struct lk__request *request, int64_t *listeners)
{
	*listeners = 0;
	if (request->code)
		return LK__RELEASED_FAILED;
	int64_t removed;
	if (!lk__reply_integer(request->reply, 0, 1, &removed))
		return LK__RELEASED_FAILED;
	return removed ? LK__RELEASED : LK__RELEASED_NOT_OWNER;
}

const struct lk__recipe lk__spin_recipe = {
	.type = "spin lock",
	.sharing = LK__ONE_QUEUE,
	.flags = LK__SPINS,
	.acquire = lk__lock_acquire,
	.release = spin_release,
	.keep = lk__lock_keep,
	.exchange = lk__lock_exchange,
	.force = lk__lock_force,
	.renew = lk__lock_renew,
	.is_locked = lk__lock_is_locked,
	.is_held_by = lk__lock_is_held_by,
	.read_acquire = lk__reply_acquired,
	.read_release = spin_read_release,
	.read_exchange = lk__reply_exchanged,
};
