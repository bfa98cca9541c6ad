/* SPDX-License-Identifier: MIT */
#include "lock/permit.h"

#include <assert.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/fail.h"
#include "lock/compensation.h"
#include "lock/counter.h"
#include "lock/hold.h"
#include "sync/recipes.h"

/* ---- the permits of this client ---- */

/* Tells whether it has ended as was meant: then it is not ours any more. */
static bool permit_is_over(struct lk__entry *entry)
{
	int64_t now_ns = lk__now_ns();
	pthread_mutex_lock(&entry->mutex);
	const struct lk__hold *hold = entry->hold;
	if (hold && lk__hold_extra(hold)->no_loss && now_ns >= lk__hold_deadline(hold))
		lk__entry_lose(entry, now_ns);
	bool over = !entry->hold && entry->lost && lk__hold_extra(entry->lost)->no_loss;
	pthread_mutex_unlock(&entry->mutex);
	return over;
}

int lk__permit_entry(struct lk__entry **entry_out, const struct lk__entry *queue, const char *id)
{
	struct lk__owner owner = {.name = id, .name_size = strlen(id)};
	int rc = lk__entry_look(entry_out, queue->client, &lk__permit_recipe, queue->name,
				lk__entry_name_size(queue), &owner);
	if (rc == 0 && *entry_out && permit_is_over(*entry_out)) {
		lk__entry_unref(*entry_out);
		*entry_out = NULL;
	}
	return rc;
}

/* A permit that was lost is given up: nothing is left of it. */
static void lost_drop(struct lk__entry *entry)
{
	struct lk__hold *hold = entry->lost;
	assert(hold && !entry->hold && atomic_load(&entry->refs) > 1);
	LL_DELETE(entry->lost, hold);
	lk__hold_free(hold);
	atomic_fetch_sub(&entry->refs, 1); /* never the last: the caller has one */
}

void lk__permit_drop(struct lk__entry *entry, bool compensate, int64_t begun_ns)
{
	if (!entry)
		return;
	pthread_mutex_lock(&entry->mutex);
	entry->passing = false;
	if (entry->hold) {
		int64_t repeated_ns = entry->grant.repeated_until_ns;
		uint64_t number = entry->grant.number;
		lk__entry_drop_hold(entry, lk__now_ns());
		if (compensate || repeated_ns > begun_ns)
			lk__compensate(entry, number, lk__later(repeated_ns, lk__now_ns()));
	} else if (entry->lost) {
		lost_drop(entry);
	}
	pthread_mutex_unlock(&entry->mutex);
}

/* ---- from a grant to holds ---- */

/* The id of one permit of a grant. */
static void permit_id(const struct lk__entry *queue, const struct lk__grant *grant, size_t index,
		      char id_out[LK__FIELD_SIZE])
{
	lk__permit_recipe.field(queue->client->id, lk__permit_number(grant->number, index), id_out);
}

/* One permit of a grant becomes an entry of its own, with a hold; the caller has a reference. */
static int permit_keep(struct lk__entry **entry_out, const struct lk__entry *queue,
		       struct lk__thread *thread, const struct lk__want *want,
		       const struct lk__grant *grant, size_t index, const char *operation,
		       lk_error *error)
{
	char id[LK__FIELD_SIZE];
	struct lk__want own = *want;
	struct lk__entry *entry;
	permit_id(queue, grant, index, id);
	own.owner = (struct lk__owner){.name = id, .name_size = strlen(id)};
	int rc = lk__entry_get(&entry, queue->client, &lk__permit_recipe, queue->name,
			       lk__entry_name_size(queue), &own.owner, error);
	if (rc < 0)
		return rc;
	struct lk__hold *hold = lk__hold_wanted(thread, &lk__permit_recipe, &own);
	if (hold) {
		struct lk__grant its = *grant;
		its.number = lk__permit_number(grant->number, index);
		pthread_mutex_lock(&entry->mutex);
		lk__entry_move_grant(entry, hold, &its);
		pthread_mutex_unlock(&entry->mutex);
	} else {
		rc = lk__fail(error, LK_ENOMEM, "%s: out of memory", operation);
		lk__entry_unref(entry);
	}
	*entry_out = entry;
	return rc;
}

static void permit_forget(const struct lk__entry *queue, const char *id)
{
	struct lk__entry *entry;
	if (lk__permit_entry(&entry, queue, id) < 0 || !entry)
		return; /* out of memory: it is reported lost in time */
	lk__permit_drop(entry, false, lk__now_ns());
	lk__entry_unref(entry);
}

/* Finds out whether they can still be said to be held. */
static int permits_check(const struct lk__entry *queue, const struct lk__grant *grant,
			 const char *operation, lk_error *error)
{
	if (atomic_load(&queue->client->state) != LK__CLIENT_OPEN)
		return lk__fail(error, LK_ECLOSED, "%s: the client is closed", operation);
	if (lk__now_ns() >= grant->valid_until_ns)
		return lk__fail(error, LK_EMAYBEHELD,
				"%s: the grant arrived after its lease had expired", operation);
	return 0;
}

/* Close has released some of those that were made holds, and the rest goes in the same way: an undo
 * of the whole request would end at the first that is gone. */
static void permits_give_up(const struct lk__entry *queue, const struct lk__grant *grant,
			    size_t made, size_t count, struct lk__permits_taken *taken)
{
	char id[LK__FIELD_SIZE];
	size_t done = 0;
	for (size_t i = 0; i < made; i++) {
		struct lk__entry *entry = taken ? taken->entry[i] : NULL;
		permit_id(queue, grant, i, id);
		if (!taken && lk__permit_entry(&entry, queue, id) < 0)
			continue;
		if (entry)
			lk__permit_give_up(entry);
		if (entry && !taken)
			lk__entry_unref(entry);
		done++;
	}
	if (done < count) /* out of memory: close says so */
		atomic_store(&queue->client->unreleased, true);
}

/* Permits that were made holds stop being holds. */
static void permits_forget(const struct lk__entry *queue, const struct lk__grant *grant,
			   size_t made, struct lk__permits_taken *taken)
{
	char id[LK__FIELD_SIZE];
	for (size_t i = 0; i < made; i++) {
		permit_id(queue, grant, i, id);
		if (taken)
			lk__permit_drop(taken->entry[i], false, lk__now_ns());
		else
			permit_forget(queue, id);
	}
}

static int permits_hold(struct lk__entry *queue, struct lk__thread *thread,
			const struct lk__want *want, const struct lk__grant *grant,
			lk_permit *permits_out, struct lk__permits_taken *taken,
			const char *operation, lk_error *error)
{
	char id[LK__FIELD_SIZE];
	struct lk__entry *entry;
	size_t count = (size_t)want->count, made = 0;
	int rc = 0;
	assert(want->count > 0 && grant->number != 0 && (!taken || taken->count == 0));
	while (rc == 0 && made < count) {
		rc = permit_keep(&entry, queue, thread, want, grant, made, operation, error);
		if (rc < 0)
			break;
		if (taken)
			taken->entry[taken->count++] = entry;
		else
			lk__entry_unref(entry);
		made++;
	}
	if (rc == 0)
		rc = permits_check(queue, grant, operation, error);
	if (rc < 0 && atomic_load(&queue->client->state) != LK__CLIENT_OPEN) {
		permits_give_up(queue, grant, made, count, taken);
		return rc;
	}
	if (rc < 0) {
		permits_forget(queue, grant, made, taken);
		pthread_mutex_lock(&queue->mutex);
		lk__entry_release_unasked(queue, grant->number);
		pthread_mutex_unlock(&queue->mutex);
		return rc;
	}
	for (size_t i = 0; permits_out && i < count; i++) {
		permit_id(queue, grant, i, id);
		memcpy(permits_out[i].id, id, LK_PERMIT_ID_SIZE);
	}
	return 0;
}

int lk__permits_hold(struct lk__entry *queue, struct lk__thread *thread,
		     const struct lk__want *want, const struct lk__grant *grant,
		     lk_permit *permits_out, struct lk__permits_taken *taken, const char *operation,
		     lk_error *error)
{
	lk_client *client = queue->client;
	assert(atomic_load(&client->unclaimed_grants) > 0);
	int rc = permits_hold(queue, thread, want, grant, permits_out, taken, operation, error);
	atomic_fetch_sub(&client->unclaimed_grants, 1);
	return rc;
}

void lk__permit_give_up(struct lk__entry *entry)
{
	int64_t now_ns = lk__now_ns();
	pthread_mutex_lock(&entry->mutex);
	bool held = entry->hold != NULL;
	uint64_t number = entry->grant.number;
	if (held && now_ns >= lk__hold_deadline(entry->hold))
		lk__entry_lose(entry, now_ns);
	if (entry->hold)
		lk__entry_drop_hold(entry, now_ns);
	else if (entry->lost)
		lost_drop(entry);
	if (held)
		lk__entry_release_unasked(entry, number);
	pthread_mutex_unlock(&entry->mutex);
}
