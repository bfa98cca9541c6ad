/* SPDX-License-Identifier: MIT */
#include "lock/permit.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/fail.h"
#include "lock/compensation.h"
#include "lock/counter.h"
#include "lock/hold.h"
#include "sync/recipes.h"
#include "sync/script.h"

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

/* The hold of a permit, if there is one, goes without a word to the server, to which that was said
 * at `begun_ns`, or later: a copy of its acquire may have run behind it. `compensate`: it may be
 * held there still. `entry` may be NULL. */
static void permit_drop(struct lk__entry *entry, bool compensate, int64_t begun_ns)
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
	permit_drop(entry, false, lk__now_ns());
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
			permit_drop(taken->entry[i], false, lk__now_ns());
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

/* ---- until they are taken ---- */

struct lk__permits_taken *lk__permits_taken_new(size_t room)
{
	struct lk__permits_taken *taken;
	return calloc(1, sizeof(*taken) + room * sizeof(taken->entry[0]));
}

void lk__permits_taken_free(struct lk__permits_taken *taken)
{
	for (size_t i = 0; taken && i < taken->count; i++)
		lk__entry_unref(taken->entry[i]);
	free(taken);
}

int64_t lk__permits_deadline_ns(const struct lk__permits_taken *taken)
{
	int64_t first_ns = LK__NEVER;
	for (size_t i = 0; i < taken->count; i++) {
		struct lk__entry *entry = taken->entry[i];
		pthread_mutex_lock(&entry->mutex);
		int64_t deadline_ns = entry->hold ? lk__hold_deadline(entry->hold) : 0;
		pthread_mutex_unlock(&entry->mutex);
		if (deadline_ns < first_ns)
			first_ns = deadline_ns;
	}
	return first_ns;
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

/* ---- another lease ---- */

/* LK_ELOST: a permit of ours is. */
static int lease_shorten(struct lk__permit_lease *lease)
{
	struct lk__entry *entry = lease->entry;
	int64_t now_ns = lk__now_ns();
	pthread_mutex_lock(&entry->mutex);
	struct lk__hold *hold = entry->hold;
	int64_t deadline_ns = hold ? lk__hold_deadline(hold) : LK__NEVER;
	if (hold && now_ns < deadline_ns) {
		int64_t end_ns = lk__lease_end_ns(now_ns, lease->lease_ms);
		lease->was_watched = hold->watched;
		lease->was_own_until_ns = hold->own_until_ns;
		hold->watched = false;
		hold->own_until_ns = end_ns < deadline_ns ? end_ns : deadline_ns;
		lk__watch_hold(entry, now_ns);
	} else if (hold) {
		lk__entry_lose(entry, now_ns);
	}
	int rc = !entry->hold && entry->lost ? LK_ELOST : 0;
	pthread_mutex_unlock(&entry->mutex);
	return rc;
}

static int lease_lost(const struct lk__permit_lease *lease, lk_error *error)
{
	return lk__fail(error, LK_ELOST, "%s: %s was lost", lease->operation, lease->id);
}

int lk__permit_lease_begin(struct lk__permit_lease *lease, lk_error *error)
{
	int rc = lk__permit_entry(&lease->entry, lease->queue, lease->id);
	if (rc < 0)
		return lk__fail(error, rc, "%s: out of memory", lease->operation);
	if (lease->entry && lease_shorten(lease) == LK_ELOST) {
		lk__entry_unref(lease->entry);
		return lease_lost(lease, error);
	}
	/* The server remembers the first copy that it ran, however often it is sent. */
	lease->begun_ns = lk__now_ns();
	return 0;
}

/* Sets a hold by the answer, `rc`. */
static void lease_set(const struct lk__permit_lease *lease, struct lk__hold *hold, int rc)
{
	struct lk__entry *entry = hold->entry;
	assert(entry == lease->entry);
	if (rc == 0) {
		hold->warned = false;
		hold->lease_ms = entry->grant.lease_ms = lease->lease_ms;
		hold->own_until_ns = lk__lease_end_ns(lease->begun_ns, lease->lease_ms);
		entry->grant.valid_until_ns = hold->own_until_ns;
	} else {
		hold->watched = lease->was_watched;
		hold->own_until_ns = lease->was_own_until_ns;
	}
	lk__watch_hold(entry, lk__now_ns());
}

/* A permit of ours that is not in use any more is lost; one that was lost meanwhile stays so. */
static int lease_conclude(const struct lk__permit_lease *lease, int rc)
{
	struct lk__entry *entry = lease->entry;
	int64_t now_ns = lk__now_ns();
	pthread_mutex_lock(&entry->mutex);
	struct lk__hold *hold = entry->hold;
	bool late = rc == 0 && hold && now_ns >= lk__hold_deadline(hold);
	bool gone = hold && (late || rc == LK_ENOTOWNER);
	if (gone && !entry->passing)
		lk__entry_lose(entry, now_ns);
	else if (hold)
		lease_set(lease, hold, rc);
	bool lost = !entry->hold && entry->lost && (rc == 0 || rc == LK_ENOTOWNER);
	if (lost && rc == 0)
		lk__entry_release_unasked(entry, entry->grant.number);
	pthread_mutex_unlock(&entry->mutex);
	return lost ? LK_ELOST : rc;
}

int lk__permit_lease_end(struct lk__permit_lease *lease, int rc, int64_t answer, lk_error *error)
{
	if (rc == 0 && answer != 1)
		rc = lk__fail(error, LK_ENOTOWNER, "%s \"%.100s\": %s is not in use",
			      lease->operation, lease->queue->name, lease->id);
	if (!lease->entry)
		return rc;
	/* Where the server has it, or may have it, it is not ours beyond the shorter of the two. */
	if (rc != LK_EMAYBEHELD && rc != LK_ENOTDURABLE)
		rc = lease_conclude(lease, rc);
	lk__entry_unref(lease->entry);
	return rc == LK_ELOST ? lease_lost(lease, error) : rc;
}

/* ---- several permits that go back ---- */

#define JUST_LOOK_MS 1 /* a lease that renews nothing */
#define LOOKS_MAX 3    /* at those of ours, while one after the other is lost */

/* ---- memory ---- */

static int giving_fill(struct lk__giving *giving, const lk_permit *permits)
{
	giving->ids = calloc(giving->count, sizeof(*giving->ids));
	giving->renewals = calloc(giving->count, sizeof(*giving->renewals));
	int rc = giving->ids && giving->renewals ? 0 : LK_ENOMEM;
	for (size_t i = 0; rc == 0 && i < giving->count; i++) {
		struct lk__giving_part *part = &giving->part[i];
		part->permit = permits[i];
		rc = lk__permit_entry(&part->entry, giving->queue, part->permit.id);
	}
	return rc;
}

int lk__giving_new(struct lk__giving **giving_out, const struct lk__entry *queue,
		   const lk_permit *permits, size_t count, const char *operation, lk_error *error)
{
	struct lk__giving *giving = calloc(1, sizeof(*giving) + count * sizeof(giving->part[0]));
	int rc = LK_ENOMEM;
	if (giving) {
		giving->queue = queue;
		giving->operation = operation;
		giving->count = count;
		rc = giving_fill(giving, permits);
	}
	if (rc == 0) {
		*giving_out = giving;
		return 0;
	}
	lk__giving_free(giving);
	return lk__fail(error, rc, "%s: out of memory, nothing was done", operation);
}

void lk__giving_free(struct lk__giving *giving)
{
	if (!giving)
		return;
	for (size_t i = 0; i < giving->count; i++)
		if (giving->part[i].entry)
			lk__entry_unref(giving->part[i].entry);
	free(giving->ids);
	free(giving->renewals);
	free(giving);
}

/* ---- each permit ---- */

/* Tells whether one of ours is sent: what was lost is only given up. What is sent is nobody else's
 * business until the answer is there: a renewal that finds nothing then tells no loss. */
static bool part_pass(const struct lk__giving_part *part)
{
	struct lk__entry *entry = part->entry;
	int64_t now_ns = lk__now_ns();
	pthread_mutex_lock(&entry->mutex);
	bool ended = entry->hold && now_ns >= lk__hold_deadline(entry->hold);
	if (entry->hold && (part->gone || ended)) {
		lk__entry_lose(entry, now_ns);
		if (ended)
			lk__entry_release_unasked(entry, entry->grant.number);
	}
	bool ours = entry->hold != NULL;
	bool sends = ours || !entry->lost;
	entry->passing = ours;
	pthread_mutex_unlock(&entry->mutex);
	return sends;
}

/* Nothing was done: the hold is as it was, and watched again. */
static void part_stay(const struct lk__giving_part *part)
{
	struct lk__entry *entry = part->entry;
	if (!entry)
		return;
	pthread_mutex_lock(&entry->mutex);
	entry->passing = false;
	if (entry->hold)
		lk__watch_hold(entry, lk__now_ns());
	pthread_mutex_unlock(&entry->mutex);
}

/* ---- requests ---- */

/* To be sent, or LK_ENOMEM. */
static int giving_ask(const struct lk__giving *giving, struct lk__request *request,
		      struct lk__request **request_out, lk_error *error)
{
	if (!request)
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", giving->operation);
	*request_out = request;
	return 1;
}

/* Sends what is not lost. */
static int giving_send(struct lk__giving *giving, struct lk__request **request_out, lk_error *error)
{
	giving->looking = false;
	giving->sent = giving->ours = 0;
	for (size_t i = 0; i < giving->count; i++) {
		struct lk__giving_part *part = &giving->part[i];
		part->sends = !part->entry || part_pass(part);
		if (!part->sends)
			continue;
		lk__permit_bytes(part->permit.id, giving->ids[giving->sent++]);
		giving->ours += part->entry != NULL;
	}
	assert(giving->ours <= giving->sent && giving->sent <= giving->count);
	if (giving->sent == 0)
		return 0;
	struct lk__request *request = lk__permits_release(&giving->queue->target, giving->ids[0],
							  giving->sent);
	if (request)
		request->durable = LK__DURABLE_WHOLLY;
	return giving_ask(giving, request, request_out, error);
}

/* Asks which of ours are in use still. */
static int giving_look(struct lk__giving *giving, struct lk__request **request_out, lk_error *error)
{
	size_t asked = 0;
	for (size_t i = 0; i < giving->count; i++) {
		struct lk__giving_part *part = &giving->part[i];
		if (part->entry && part->sends)
			giving->renewals[asked++] = (struct lk__renewal){
				&part->entry->target, part->permit.id, JUST_LOOK_MS};
	}
	assert(asked > 0 && asked == giving->ours && giving->looks < LOOKS_MAX);
	giving->looking = true;
	giving->looks++;
	return giving_ask(giving, lk__permit_recipe.renew(giving->renewals, asked), request_out,
			  error);
}

/* ---- answers ---- */

static int giving_uncertain(const struct lk__giving *giving, lk_error *error)
{
	return lk__fail(error, LK_EMAYBEHELD,
			"%s \"%.100s\": sent twice; the effect of the first copy is unknown",
			giving->operation, giving->queue->name);
}

static int giving_unknown(const struct lk__giving *giving, lk_error *error)
{
	return lk__fail(error, LK_ENOTOWNER, "%s \"%.100s\": %s is not in use", giving->operation,
			giving->queue->name,
			giving->count == 1 ? giving->part[0].permit.id : "one of the permits");
}

/* Reads the answer to the release. If one is not in use, it has done nothing, or its first copy has
 * done all. */
static int giving_released(struct lk__giving *giving, const struct lk__request *answer,
			   struct lk__request **request_out, lk_error *error)
{
	assert(!giving->looking && giving->sent > 0);
	giving->repeated |= answer->sends > 1;
	if (answer->reply->type != REDIS_REPLY_NIL)
		return 0;
	if (giving->ours > 0 && giving->looks < LOOKS_MAX)
		return giving_look(giving, request_out, error);
	if (giving->repeated && giving->ours == 0)
		return giving->sent == 1 ? 0 : giving_uncertain(giving, error);
	return giving_unknown(giving, error);
}

/* Ours that are not in use are lost, and do not keep the others back: these are sent again. But if
 * all of ours are gone after two copies, the first one has freed them. */
static int giving_looked(struct lk__giving *giving, const struct lk__request *answer,
			 struct lk__request **request_out, lk_error *error)
{
	size_t at = 0, gone = 0;
	for (size_t i = 0; i < giving->count; i++) {
		struct lk__giving_part *part = &giving->part[i];
		if (!part->entry || !part->sends)
			continue;
		part->gone = lk__reply_renewed(answer, giving->ours, at++) == 0;
		gone += part->gone;
	}
	assert(giving->looking && at == giving->ours);
	if (gone == 0)
		return giving_unknown(giving, error);
	if (giving->repeated && gone == giving->ours)
		return 0;
	return giving_send(giving, request_out, error);
}

/* ---- from begin to end ---- */

int lk__giving_begin(struct lk__giving *giving, struct lk__request **request_out, lk_error *error)
{
	giving->begun_ns = lk__now_ns();
	return giving_send(giving, request_out, error);
}

int lk__giving_next(struct lk__giving *giving, int rc, const struct lk__request *answer,
		    struct lk__request **request_out, lk_error *error)
{
	assert(rc < 0 || (rc == 0 && answer && answer->reply));
	if (rc == 0)
		rc = giving->looking ? giving_looked(giving, answer, request_out, error)
				     : giving_released(giving, answer, request_out, error);
	bool no_look = rc < 0 && rc != LK_ENOTOWNER && giving->looking;
	return no_look && giving->repeated ? giving_uncertain(giving, error) : rc;
}

int lk__giving_end(struct lk__giving *giving, int rc, lk_error *error)
{
	assert(rc <= 0);
	bool unsure = rc == LK_EMAYBEHELD || rc == LK_ENOTDURABLE;
	for (size_t i = 0; i < giving->count; i++) {
		if (rc == 0 || unsure)
			permit_drop(giving->part[i].entry, unsure, giving->begun_ns);
		else
			part_stay(&giving->part[i]);
	}
	if (rc == 0 && giving->sent < giving->count)
		return lk__fail(error, LK_ELOST, "%s \"%.100s\": %zu of %zu were lost before",
				giving->operation, giving->queue->name,
				giving->count - giving->sent, giving->count);
	return rc;
}
