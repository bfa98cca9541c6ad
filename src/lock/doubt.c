/* SPDX-License-Identifier: MIT */
#include "lock/doubt.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "lock/entry.h"
#include "lock/entry_table.h"

void lk__doubt(struct lk__entry *entry)
{
	if (!atomic_exchange(&entry->doubt, true) && atomic_load(&entry->hold))
		lk__watch_at(entry, lk__now_ns());
}

void lk__doubt_fronts(const struct lk__entry *entry)
{
	struct lk__front *front;
	const struct lk__reds *reds = lk__entry_reds(entry);
	if (!reds)
		return;
	DL_FOREACH(reds->fronts, front)
	lk__doubt(front->entry);
}

/* ---- of a key ---- */

struct channel_name {
	char *text;
	size_t size;
};

/* A lock's channel, or that of one of its waiters, whose name begins with it. */
static bool is_channel_of_lock(const void *context, const char *name, size_t size)
{
	const struct channel_name *lock = context;
	return size >= lock->size && memcmp(name, lock->text, lock->size) == 0;
}

/* Owners that have an entry each wait for a message, which nobody sends of what is simply gone:
 * they try now. */
static void wake_other_owners(struct lk__entry *entry)
{
	struct channel_name lock;
	lock.text = lk__target_channel(&entry->target, &lock.size);
	if (!lock.text)
		return; /* out of memory: they look again by themselves */
	pthread_mutex_lock(&entry->mutex);
	lk__channels_wake(lk__entry_messages(entry), is_channel_of_lock, &lock);
	pthread_mutex_unlock(&entry->mutex);
	free(lock.text);
}

/* `context`: the last of them, with a reference. */
static void doubt_owner(void *context, struct lk__entry *entry)
{
	struct lk__entry **owner = context;
	lk__doubt(entry);
	if (*owner)
		return;
	lk__entry_ref(entry);
	*owner = entry;
}

void lk__doubt_key(lk_client *client, const char *key, size_t key_size)
{
	struct lk__entry *entry = NULL, *owner = NULL;
	pthread_mutex_lock(&client->mutex);
	while ((entry = lk__entries_next_of(&client->entries, entry, key, key_size))) {
		lk__doubt(entry);
		lk__doubt_fronts(entry);
	}
	pthread_mutex_unlock(&client->mutex);
	lk__holders_each(&client->holders, key, key_size, true, doubt_owner, &owner);
	lk__holders_each(&client->holders, key, key_size, false, doubt_owner, &owner);
	if (!owner)
		return;
	wake_other_owners(owner);
	lk__entry_unref(owner);
}

/* ---- by a grant ---- */

/* True of the other side of the same lock, which the same owner may have. */
static bool is_other_side(const struct lk__entry *entry, const struct lk__entry *other)
{
	size_t size = lk__entry_words_size(entry);
	return other->target.recipe == entry->target.recipe->other_side &&
	       lk__entry_words_size(other) == size && memcmp(other->words, entry->words, size) == 0;
}

static void doubt_other(void *context, struct lk__entry *other)
{
	const struct lk__entry *entry = context;
	if (other != entry && atomic_load(&other->hold) && !is_other_side(entry, other))
		lk__doubt(other);
}

/* Where the owners of a kind have one entry in common, only another kind has a second entry of the
 * key: a client with one kind does not look, nor take its mutex, for each grant. */
static void doubt_other_kinds(struct lk__entry *entry)
{
	lk_client *client = entry->client;
	struct lk__entry *other = NULL;
	pthread_mutex_lock(&client->mutex);
	while ((other = lk__entries_next_of(&client->entries, other, entry->target.key,
					    entry->target.key_size)))
		doubt_other(entry, other);
	pthread_mutex_unlock(&client->mutex);
}

void lk__doubt_others(struct lk__entry *entry)
{
	lk_client *client = entry->client;
	const struct lk__target *target = &entry->target;
	bool shares = target->recipe->flags & LK__SHARES;
	if (target->recipe->sharing == LK__NO_HOLD || entry->is_quorum)
		return; /* which excludes nobody, or not on this node */
	if (atomic_load(&client->entries.mixed))
		doubt_other_kinds(entry);
	lk__holders_each(&client->holders, target->key, target->key_size, false, doubt_other,
			 entry);
	if (!shares)
		lk__holders_each(&client->holders, target->key, target->key_size, true, doubt_other,
				 entry);
}
