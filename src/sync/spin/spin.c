/* SPDX-License-Identifier: MIT */
#include "sync/spin/spin.h"

#include "resp/reply.h"
#include "sync/lock/lock.h"
#include "sync/script.h"

/* Without a message there is nothing that needs a script. */
static struct lk__request *spin_release(const struct lk__target *target, const char *field)
{
	struct lk__words words = {.count = 0};
	lk__words_text(&words, "HDEL");
	lk__words_add(&words, target->key, target->key_size);
	lk__words_text(&words, field);
	return lk__words_command(&words);
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
	.read_keep = lk__reply_released,
	.read_exchange = lk__lock_read_exchange,
};
