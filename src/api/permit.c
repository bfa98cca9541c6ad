/* SPDX-License-Identifier: MIT */
/* Taking permits and giving them back. */
#include <stdlib.h>
#include <string.h>

#include "api/check.h"
#include "api/permit_semaphore.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "drive/background/due.h"
#include "sync/permits/permits.h"
#include "sync/script.h"

#define JUST_LOOK_MS 1 /* a lease that renews nothing */
#define LOOKS_MAX 3    /* at those of ours, while one after the other is lost */

/* ---- taking ---- */

int lk__permits_check(const char *operation, const lk_permit_semaphore *semaphore, int64_t count,
		      const lk_acquire_options *options, lk_error *error)
{
	int64_t watchdog_ms = semaphore->counter->client->config->watchdog_ms;
	int64_t lease_ms = options->lease_ms ? options->lease_ms : watchdog_ms;
	if (options->owner)
		return lk__fail(error, LK_EINVAL, "%s: a permit has no owner but its id",
				operation);
	if (options->fence_out)
		return lk__fail(error, LK_EINVAL,
				"%s: fence_out is set, and a permit has no fence token", operation);
	int rc = lk__check_range(operation, "count", count, 1, LK__PERMITS_MAX, error);
	if (rc == 0)
		rc = lk__check_range(operation, "no_loss", options->no_loss, 0, 1, error);
	if (rc == 0)
		rc = lk__check_range(operation, "lease_ms", lease_ms, LK_LEASE_MIN_MS,
				     LK_LEASE_MAX_MS, error);
	if (rc == 0)
		rc = lk__check_range(operation, "max_hold_ms", options->max_hold_ms, 0,
				     LK_WAIT_MAX_MS, error);
	return rc < 0 ? rc
		      : lk__check_range(operation, "margin_ms", options->margin_ms, 0, lease_ms,
					error);
}

static int permits_take(lk_permit_semaphore *semaphore, const char *operation, int64_t count,
			lk_permit *permits_out, int64_t wait_ms, const lk_acquire_options *options,
			lk_error *error)
{
	struct lk__counter_call call;
	struct lk__grant grant;
	lk_acquire_options own;
	if (!permits_out)
		return lk__fail(error, LK_EINVAL, "%s: permits_out is NULL", operation);
	int rc = lk__copy_options(&own, sizeof(own), options, operation, error);
	if (rc == 0)
		rc = lk__permit_enter(&call, semaphore, operation, error);
	if (rc < 0)
		return rc;
	rc = lk__permits_check(operation, semaphore, count, &own, error);
	struct lk__want want = {.wait_ms = wait_ms,
				.count = count,
				.lease_ms = own.lease_ms,
				.max_hold_ms = own.max_hold_ms,
				.margin_ms = own.margin_ms,
				.tag = own.tag,
				.no_loss = own.no_loss,
				.cancel = own.cancel,
				.grant_out = &grant};
	if (rc == 0)
		rc = lk__counter_acquire(&call, &want);
	if (rc == 0)
		rc = lk__permits_hold(call.counter->entry, call.thread, &want, &grant, permits_out,
				      NULL, operation, error);
	return lk__counter_leave(&call, rc);
}

int lk_permit_semaphore_acquire(lk_permit_semaphore *semaphore, int64_t count,
				lk_permit *permits_out, const lk_acquire_options *options,
				lk_error *error)
{
	return permits_take(semaphore, "lk_permit_semaphore_acquire", count, permits_out, -1,
			    options, error);
}

int lk_permit_semaphore_acquire_within(lk_permit_semaphore *semaphore, int64_t count,
				       lk_permit *permits_out, int64_t wait_ms,
				       const lk_acquire_options *options, lk_error *error)
{
	const char *operation = "lk_permit_semaphore_acquire_within";
	int rc = lk__check_range(operation, "wait_ms", wait_ms, 0, LK_WAIT_MAX_MS, error);
	return rc < 0 ? rc
		      : permits_take(semaphore, operation, count, permits_out, wait_ms, options,
				     error);
}

int lk_permit_semaphore_try(lk_permit_semaphore *semaphore, int64_t count, lk_permit *permits_out,
			    const lk_acquire_options *options, lk_error *error)
{
	return permits_take(semaphore, "lk_permit_semaphore_try", count, permits_out, 0, options,
			    error);
}

/* ---- giving back ---- */

struct part {
	bool gone;  /* ours, and the server has it no more */
	bool sends; /* it is not known to be lost */
};

/* Permits that are given back in one step, with their entries where they are ours. */
struct giving {
	size_t count;
	const lk_permit *permits;
	struct lk__entry **entries;
	struct part *parts;
	unsigned char (*ids)[LK__PERMIT_ID_BYTES]; /* of those that are sent */
	size_t sent, ours;                         /* of these, ours */
	bool repeated; /* sent twice: what is not in use the first copy may have freed */
	int64_t until_ns;
};

/* Whether one of ours is sent: what was lost is only given up. What is sent is nobody else's
 * business until the answer is there: a renewal that finds nothing then tells no loss. */
static bool permit_pass(struct lk__entry *entry, bool gone)
{
	int64_t now_ns = lk__now_ns();
	pthread_mutex_lock(&entry->mutex);
	bool ended = entry->hold && now_ns >= lk__hold_deadline(entry->hold);
	if (entry->hold && (gone || ended)) {
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
static void permit_stay(struct lk__entry *entry)
{
	if (!entry)
		return;
	pthread_mutex_lock(&entry->mutex);
	entry->passing = false;
	if (entry->hold)
		lk__watch_hold(entry, lk__now_ns());
	pthread_mutex_unlock(&entry->mutex);
}

static int giving_ask(struct lk__counter_call *call, const struct giving *giving,
		      struct lk__request *request)
{
	return lk__caller_ask(call->counter->entry, call->thread, request, call->operation,
			      giving->until_ns, call->error);
}

/* Sends what is not lost. LK_ENOTOWNER: one of these is not in use, and nothing was done. */
static int giving_send(struct lk__counter_call *call, struct giving *giving)
{
	const struct lk__entry *queue = call->counter->entry;
	giving->sent = giving->ours = 0;
	for (size_t i = 0; i < giving->count; i++) {
		struct part *part = &giving->parts[i];
		part->sends = !giving->entries[i] || permit_pass(giving->entries[i], part->gone);
		if (!part->sends)
			continue;
		lk__permit_bytes(giving->permits[i].id, giving->ids[giving->sent++]);
		giving->ours += giving->entries[i] != NULL;
	}
	if (giving->sent == 0)
		return 0;
	struct lk__request *request;
	request = lk__permits_release(&queue->target, giving->ids[0], giving->sent);
	int rc = giving_ask(call, giving, request);
	if (rc < 0)
		return rc;
	giving->repeated |= request->sends > 1;
	if (request->reply->type == REDIS_REPLY_NIL)
		rc = lk__fail(call->error, LK_ENOTOWNER, "%s \"%.100s\": %s is not in use",
			      call->operation, queue->name,
			      giving->count == 1 ? giving->permits[0].id : "one of the permits");
	lk__request_free(request);
	return rc < 0 ? rc : 0;
}

/* Asks which of ours are in use still, and marks those that are not: how many, or a code. */
static int giving_look(struct lk__counter_call *call, const struct giving *giving)
{
	struct lk__renewal *looks = calloc(giving->ours, sizeof(*looks));
	struct lk__request *request = NULL;
	size_t asked = 0, at = 0;
	int gone = 0;
	for (size_t i = 0; looks && i < giving->count; i++)
		if (giving->entries[i] && giving->parts[i].sends)
			looks[asked++] = (struct lk__renewal){&giving->entries[i]->target,
							      giving->permits[i].id, JUST_LOOK_MS};
	if (looks)
		request = lk__permit_recipe.renew(looks, asked);
	free(looks);
	int rc = giving_ask(call, giving, request);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < giving->count; i++) {
		if (!giving->entries[i] || !giving->parts[i].sends)
			continue;
		giving->parts[i].gone = lk__reply_renewed(request, asked, at++, "") == 0;
		gone += giving->parts[i].gone;
	}
	lk__request_free(request);
	return gone;
}

static int giving_uncertain(const struct lk__counter_call *call)
{
	return lk__fail(call->error, LK_EMAYBEHELD,
			"%s \"%.100s\": sent twice; the effect of the first copy is unknown",
			call->operation, call->counter->entry->name);
}

/*
 * One of them is not in use. Ours that are not are lost, and do not keep the others back: these are
 * sent again. But if all of ours are gone after two copies, the first one has freed them.
 */
static int giving_sort(struct lk__counter_call *call, struct giving *giving)
{
	int rc = LK_ENOTOWNER;
	for (int looks = 0; rc == LK_ENOTOWNER && looks < LOOKS_MAX && giving->ours > 0; looks++) {
		int gone = giving_look(call, giving);
		if (gone < 0 && giving->repeated)
			return giving_uncertain(call);
		if (gone <= 0)
			return gone < 0 ? gone : LK_ENOTOWNER;
		if (giving->repeated && (size_t)gone == giving->ours)
			return 0;
		rc = giving_send(call, giving);
	}
	if (rc == LK_ENOTOWNER && giving->repeated && giving->ours == 0)
		return giving->sent == 1 ? 0 : giving_uncertain(call);
	return rc;
}

static int giving_pass(struct lk__counter_call *call, struct giving *giving)
{
	int rc = giving_send(call, giving);
	if (rc == LK_ENOTOWNER)
		rc = giving_sort(call, giving);
	for (size_t i = 0; i < giving->count; i++) {
		if (rc == 0 || rc == LK_EMAYBEHELD)
			lk__permit_drop(giving->entries[i], rc == LK_EMAYBEHELD);
		else
			permit_stay(giving->entries[i]);
	}
	if (rc == 0 && giving->sent < giving->count)
		rc = lk__fail(call->error, LK_ELOST, "%s \"%.100s\": %zu of %zu were lost before",
			      call->operation, call->counter->entry->name,
			      giving->count - giving->sent, giving->count);
	return rc;
}

static int giving_run(struct lk__counter_call *call, struct giving *giving)
{
	struct lk__owner owner = {.name = giving->permits[0].id,
				  .name_size = strlen(giving->permits[0].id)};
	for (size_t i = 0; i < giving->count; i++) {
		int rc = lk__permit_entry(&giving->entries[i], call->counter->entry,
					  giving->permits[i].id);
		if (rc < 0)
			return lk__fail(call->error, rc, "%s: out of memory", call->operation);
	}
	/* One of ours goes the way of every lock. */
	if (giving->count == 1 && giving->entries[0])
		return lk__caller_release(giving->entries[0], call->thread, &owner, false,
					  call->error);
	return giving_pass(call, giving);
}

int lk_permit_semaphore_release(lk_permit_semaphore *semaphore, const lk_permit *permits,
				int64_t count, lk_error *error)
{
	const char *operation = "lk_permit_semaphore_release";
	struct lk__counter_call call;
	if (!permits)
		return lk__fail(error, LK_EINVAL, "%s: permits is NULL", operation);
	int rc = lk__check_range(operation, "count", count, 1, LK__PERMITS_MAX, error);
	for (int64_t i = 0; rc == 0 && i < count; i++)
		rc = lk__permit_check_id(operation, permits[i].id, error);
	if (rc == 0)
		rc = lk__permit_enter(&call, semaphore, operation, error);
	if (rc < 0)
		return rc;
	struct giving giving = {.count = (size_t)count, .permits = permits};
	giving.until_ns = lk__after_ms(lk__now_ns(),
				       call.counter->client->config->command_timeout_ms);
	giving.ids = calloc(giving.count, sizeof(*giving.ids));
	giving.entries = calloc(giving.count, sizeof(struct lk__entry *));
	giving.parts = calloc(giving.count, sizeof(*giving.parts));
	if (giving.ids && giving.entries && giving.parts)
		rc = giving_run(&call, &giving);
	else
		rc = lk__fail(error, LK_ENOMEM, "%s: out of memory, nothing was done", operation);
	for (size_t i = 0; giving.entries && i < giving.count; i++)
		if (giving.entries[i])
			lk__entry_unref(giving.entries[i]);
	free(giving.ids);
	free(giving.parts);
	free(giving.entries);
	return lk__counter_leave(&call, rc);
}
