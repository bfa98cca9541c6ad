/* SPDX-License-Identifier: MIT */
#include "drive/count/counter.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fail.h"
#include "drive/background/due.h"
#include "sync/script.h"

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

/* Whether one of ours is sent: what was lost is only given up. What is sent is nobody else's
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

/* What the release says. If one is not in use, it has done nothing, or its first copy has done
 * all. */
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
			lk__permit_drop(giving->part[i].entry, unsure, giving->begun_ns);
		else
			part_stay(&giving->part[i]);
	}
	if (rc == 0 && giving->sent < giving->count)
		return lk__fail(error, LK_ELOST, "%s \"%.100s\": %zu of %zu were lost before",
				giving->operation, giving->queue->name,
				giving->count - giving->sent, giving->count);
	return rc;
}
