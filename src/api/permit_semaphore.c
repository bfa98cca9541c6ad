/* SPDX-License-Identifier: MIT */
/* The public face of the permit semaphore: its number, and what the server knows of it. */
#include "api/permit_semaphore.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/check.h"
#include "base/clock.h"
#include "base/fail.h"
#include "drive/watch.h"
#include "sync/permits/permits.h"
#include "sync/script.h"

int lk_permit_semaphore_new(lk_permit_semaphore **semaphore_out, lk_client *client,
			    const void *name, size_t name_size, lk_error *error)
{
	const char *operation = "lk_permit_semaphore_new";
	if (!semaphore_out)
		return lk__fail(error, LK_EINVAL, "%s: an argument is NULL", operation);
	lk_permit_semaphore *semaphore = calloc(1, sizeof(*semaphore));
	if (!semaphore)
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", operation);
	int rc = lk__counter_open(&semaphore->counter, client, &lk__permit_queue_recipe, name,
				  name_size, operation, error);
	if (rc < 0)
		free(semaphore);
	else
		*semaphore_out = semaphore;
	return rc;
}

lk_permit_semaphore *lk_permit_semaphore_free(lk_permit_semaphore *semaphore)
{
	if (semaphore)
		lk__counter_close(&semaphore->counter);
	free(semaphore);
	return NULL;
}

int lk__permit_enter(struct lk__counter_call *call, lk_permit_semaphore *semaphore,
		     const char *operation, lk_error *error)
{
	return lk__counter_enter(call, semaphore ? &semaphore->counter : NULL, operation, error);
}

/* Whether it has ended as was meant: then it is not ours any more. */
static bool permit_is_over(struct lk__entry *entry)
{
	int64_t now_ns = lk__now_ns();
	pthread_mutex_lock(&entry->mutex);
	const struct lk__hold *hold = entry->hold;
	if (hold && hold->no_loss && now_ns >= lk__hold_deadline(hold))
		lk__entry_lose(entry, now_ns);
	bool over = !entry->hold && entry->lost && entry->lost->no_loss;
	pthread_mutex_unlock(&entry->mutex);
	return over;
}

int lk__permit_entry(struct lk__entry **entry_out, const struct lk__counter_call *call,
		     const char *id)
{
	const struct lk__entry *queue = call->counter->entry;
	struct lk__owner owner = {.name = id, .name_size = strlen(id)};
	int rc = lk__entry_look(entry_out, call->counter->client, &lk__permit_recipe, queue->name,
				queue->name_size, &owner);
	if (rc == 0 && *entry_out && permit_is_over(*entry_out)) {
		lk__entry_unref(*entry_out);
		*entry_out = NULL;
	}
	return rc < 0 ? lk__fail(call->error, rc, "%s: out of memory", call->operation) : 0;
}

int lk__permit_check_id(const char *operation, const char *id, lk_error *error)
{
	unsigned char bytes[LK__PERMIT_ID_BYTES];
	if (!id)
		return lk__fail(error, LK_EINVAL, "%s: an id is NULL", operation);
	if (!lk__permit_bytes(id, bytes))
		return lk__fail(
			error, LK_EINVAL,
			"%s: \"%.40s\" is not a permit id (32 hexadecimal digits, lower case)",
			operation, id);
	return 0;
}

/* Makes a change that is about the permits in use as well. */
static int permits_ask(struct lk__counter_call *call, struct lk__change *change,
		       int64_t *answer_out)
{
	char *in_use = lk__permits_key(&call->counter->entry->target, &change->key_size);
	if (!in_use)
		return lk__fail(call->error, LK_ENOMEM, "%s: out of memory", call->operation);
	change->key = in_use;
	int rc = lk__counter_change(call, change, answer_out);
	free(in_use);
	return rc;
}

/* ---- how many there are ---- */

static int permits_change(lk_permit_semaphore *semaphore, const char *operation, int64_t number,
			  const char *how, lk_error *error)
{
	struct lk__counter_call call;
	char text[24];
	int64_t answer = 0;
	int rc = lk__permit_enter(&call, semaphore, operation, error);
	if (rc < 0)
		return rc;
	struct lk__change change = {
		.script = LK__SCRIPT_PERMITS_SET, .argument_count = 2, .arguments = {text, how}};
	snprintf(text, sizeof(text), "%" PRId64, number);
	rc = permits_ask(&call, &change, &answer);
	lk__counter_leave(&call, rc);
	return rc < 0 ? rc : (int)answer;
}

int lk_permit_semaphore_try_set(lk_permit_semaphore *semaphore, int64_t permits, lk_error *error)
{
	const char *operation = "lk_permit_semaphore_try_set";
	int rc = lk__check_range(operation, "permits", permits, 0, LK_PERMITS_MAX, error);
	return rc < 0 ? rc : permits_change(semaphore, operation, permits, "new", error);
}

int lk_permit_semaphore_set(lk_permit_semaphore *semaphore, int64_t permits, lk_error *error)
{
	const char *operation = "lk_permit_semaphore_set";
	int rc = lk__check_range(operation, "permits", permits, 0, LK_PERMITS_MAX, error);
	if (rc == 0)
		rc = permits_change(semaphore, operation, permits, "all", error);
	return rc < 0 ? rc : 0;
}

int lk_permit_semaphore_add(lk_permit_semaphore *semaphore, int64_t change, lk_error *error)
{
	const char *operation = "lk_permit_semaphore_add";
	int rc = lk__check_range(operation, "change", change, -LK_PERMITS_MAX, LK_PERMITS_MAX,
				 error);
	if (rc == 0 && change == 0)
		rc = lk__fail(error, LK_EINVAL, "%s: change is 0", operation);
	if (rc == 0)
		rc = permits_change(semaphore, operation, change, "add", error);
	return rc < 0 ? rc : 0;
}

/* ---- what the server knows ---- */

enum look { LOOK_FREE, LOOK_USED, LOOK_TTL_MS, LOOK_COUNT };

static int permits_look(lk_permit_semaphore *semaphore, const char *operation,
			const unsigned char *id, int64_t seen_out[LOOK_COUNT], lk_error *error)
{
	struct lk__counter_call call;
	struct lk__request *answer;
	struct lk__words words = {0};
	size_t size;
	int rc = lk__permit_enter(&call, semaphore, operation, error);
	if (rc < 0)
		return rc;
	const struct lk__target *target = &call.counter->entry->target;
	char *in_use = lk__permits_key(target, &size);
	lk__words_add(&words, target->key, target->key_size);
	lk__words_own(&words, in_use, size);
	lk__words_add(&words, id ? (const char *)id : "", id ? LK__PERMIT_ID_BYTES : 0);
	rc = lk__counter_ask(&call, lk__words_script(&words, LK__SCRIPT_PERMITS_LOOK, 2), &answer);
	if (rc == 0) {
		for (size_t i = 0; i < LOOK_COUNT && i < answer->reply->elements; i++)
			seen_out[i] = answer->reply->element[i]->integer;
		lk__request_free(answer);
	}
	lk__counter_leave(&call, rc);
	return rc == LK_EMAYBEHELD ? lk__fail(error, LK_EUNREACHABLE,
					      "%s: no answer within the command limit", operation)
				   : rc;
}

int lk_permit_semaphore_count(lk_permit_semaphore *semaphore, int64_t *free_out, int64_t *used_out,
			      lk_error *error)
{
	int64_t seen[LOOK_COUNT] = {0};
	int rc = permits_look(semaphore, "lk_permit_semaphore_count", NULL, seen, error);
	if (rc == 0 && free_out)
		*free_out = seen[LOOK_FREE];
	if (rc == 0 && used_out)
		*used_out = seen[LOOK_USED];
	return rc;
}

int lk_permit_semaphore_server_ttl_ms(lk_permit_semaphore *semaphore, const char *id,
				      int64_t *ttl_ms_out, lk_error *error)
{
	const char *operation = "lk_permit_semaphore_server_ttl_ms";
	int64_t seen[LOOK_COUNT] = {0};
	unsigned char bytes[LK__PERMIT_ID_BYTES];
	if (!ttl_ms_out)
		return lk__fail(error, LK_EINVAL, "%s: ttl_ms_out is NULL", operation);
	int rc = lk__permit_check_id(operation, id, error);
	if (rc == 0) {
		lk__permit_bytes(id, bytes);
		rc = permits_look(semaphore, operation, bytes, seen, error);
	}
	if (rc == 0)
		*ttl_ms_out = seen[LOOK_TTL_MS];
	return rc;
}

int lk_permit_semaphore_remaining_ms(lk_permit_semaphore *semaphore, const char *id,
				     int64_t *remaining_ms_out, lk_error *error)
{
	const char *operation = "lk_permit_semaphore_remaining_ms";
	struct lk__counter_call call;
	int64_t deadline_ns = 0;
	if (!remaining_ms_out)
		return lk__fail(error, LK_EINVAL, "%s: remaining_ms_out is NULL", operation);
	int rc = lk__permit_check_id(operation, id, error);
	if (rc == 0)
		rc = lk__permit_enter(&call, semaphore, operation, error);
	if (rc < 0)
		return rc;
	struct lk__entry *entry;
	rc = lk__permit_entry(&entry, &call, id);
	if (rc < 0)
		return lk__counter_leave(&call, rc);
	rc = LK_ENOTOWNER;
	if (entry) {
		pthread_mutex_lock(&entry->mutex);
		if (entry->hold)
			deadline_ns = lk__hold_deadline(entry->hold);
		if (entry->hold || entry->lost)
			rc = entry->hold && lk__now_ns() < deadline_ns ? 0 : LK_ELOST;
		pthread_mutex_unlock(&entry->mutex);
		lk__entry_unref(entry);
	}
	if (rc == 0)
		*remaining_ms_out = (deadline_ns - lk__now_ns()) / LK__MS;
	else
		lk__fail(error, rc, "%s: %s", operation, lk_error_text(rc));
	return lk__counter_leave(&call, rc);
}

/* ---- changing one, removing all ---- */

/* What a hold of ours was before a change of its lease. */
struct before {
	bool watched;
	int64_t own_until_ns;
};

/* From now on the server may let the permit end with the new lease: so do we. LK_ELOST: it is. */
static int lease_begin(struct lk__entry *entry, int64_t lease_ms, struct before *before)
{
	int64_t now_ns = lk__now_ns();
	pthread_mutex_lock(&entry->mutex);
	struct lk__hold *hold = entry->hold;
	int64_t deadline_ns = hold ? lk__hold_deadline(hold) : LK__NEVER;
	if (hold && now_ns < deadline_ns) {
		int64_t end_ns = lk__lease_end_ns(now_ns, lease_ms);
		*before = (struct before){hold->watched, hold->own_until_ns};
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

/* What the answer, `rc`, makes of a hold. `begun_ns`: before the change was sent. */
static void lease_set(struct lk__hold *hold, int rc, int64_t lease_ms, int64_t begun_ns,
		      const struct before *before)
{
	struct lk__entry *entry = hold->entry;
	if (rc == 0) {
		hold->warned = false;
		hold->lease_ms = entry->grant.lease_ms = lease_ms;
		hold->own_until_ns = entry->grant.valid_until_ns = lk__lease_end_ns(begun_ns,
										    lease_ms);
	} else {
		hold->watched = before->watched;
		hold->own_until_ns = before->own_until_ns;
	}
	lk__watch_hold(entry, lk__now_ns());
}

/* A permit of ours that is not in use any more is lost; one that was lost meanwhile stays so. */
static int lease_end(struct lk__entry *entry, int rc, int64_t lease_ms, int64_t begun_ns,
		     const struct before *before)
{
	int64_t now_ns = lk__now_ns();
	pthread_mutex_lock(&entry->mutex);
	struct lk__hold *hold = entry->hold;
	bool late = rc == 0 && hold && now_ns >= lk__hold_deadline(hold);
	bool gone = hold && (late || rc == LK_ENOTOWNER);
	if (gone && !entry->passing)
		lk__entry_lose(entry, now_ns);
	else if (hold)
		lease_set(hold, rc, lease_ms, begun_ns, before);
	bool lost = !entry->hold && entry->lost && (rc == 0 || rc == LK_ENOTOWNER);
	if (lost && rc == 0)
		lk__entry_release_unasked(entry, entry->grant.number);
	pthread_mutex_unlock(&entry->mutex);
	return lost ? LK_ELOST : rc;
}

static int lease_ask(struct lk__counter_call *call, const char *id, int64_t lease_ms)
{
	char text[24];
	int64_t answer = 0;
	struct lk__change change = {
		.script = LK__SCRIPT_PERMITS_UPDATE, .argument_count = 2, .arguments = {id, text}};
	snprintf(text, sizeof(text), "%" PRId64, lease_ms);
	int rc = permits_ask(call, &change, &answer);
	if (rc < 0 || answer == 1)
		return rc;
	return lk__fail(call->error, LK_ENOTOWNER, "%s \"%.100s\": %s is not in use",
			call->operation, call->counter->entry->name, id);
}

int lk_permit_semaphore_update_lease(lk_permit_semaphore *semaphore, const char *id,
				     int64_t lease_ms, lk_error *error)
{
	const char *operation = "lk_permit_semaphore_update_lease";
	struct lk__counter_call call;
	struct lk__entry *entry;
	struct before before = {0};
	int rc = lk__permit_check_id(operation, id, error);
	if (rc == 0)
		rc = lk__check_range(operation, "lease_ms", lease_ms, LK_LEASE_MIN_MS,
				     LK_LEASE_MAX_MS, error);
	if (rc == 0)
		rc = lk__permit_enter(&call, semaphore, operation, error);
	if (rc < 0)
		return rc;
	rc = lk__permit_entry(&entry, &call, id);
	if (rc < 0)
		return lk__counter_leave(&call, rc);
	if (entry)
		rc = lease_begin(entry, lease_ms, &before);
	/* The server remembers the first copy that it ran, however often it is sent. */
	int64_t begun_ns = lk__now_ns();
	if (rc == 0) {
		rc = lease_ask(&call, id, lease_ms);
		if (entry && rc != LK_EMAYBEHELD)
			rc = lease_end(entry, rc, lease_ms, begun_ns, &before);
	}
	if (rc == LK_ELOST)
		lk__fail(error, rc, "%s: %s was lost", operation, id);
	if (entry)
		lk__entry_unref(entry);
	return lk__counter_leave(&call, rc);
}

int lk_permit_semaphore_delete(lk_permit_semaphore *semaphore, lk_error *error)
{
	struct lk__counter_call call;
	struct lk__change change = {.script = LK__SCRIPT_SEMAPHORE_DELETE};
	int64_t removed = 0;
	int rc = lk__permit_enter(&call, semaphore, "lk_permit_semaphore_delete", error);
	if (rc == 0)
		rc = lk__counter_leave(&call, permits_ask(&call, &change, &removed));
	return rc < 0 ? rc : (int)removed;
}
