/* SPDX-License-Identifier: MIT */
/* The public face of the permit semaphore: its number, and what the server knows of it. */
#include "api/permit_semaphore.h"

#include <stdlib.h>
#include <string.h>

#include "api/check.h"
#include "base/clock.h"
#include "base/fail.h"
#include "drive/count/counting.h"
#include "resp/reply.h"
#include "drive/lock/ask.h"
#include "sync/recipes.h"
#include "sync/script.h"

int lk_permit_semaphore_new(lk_permit_semaphore **semaphore_out, lk_client *client,
			    const void *name, size_t name_size,
			    const lk_permit_semaphore_options *options, lk_error *error)
{
	const char *operation = "lk_permit_semaphore_new";
	lk_permit_semaphore_options own;
	if (!semaphore_out)
		return lk__fail(error, LK_EINVAL, "%s: an argument is NULL", operation);
	int rc = lk__copy_options(&own, sizeof(own), options, operation, error);
	if (rc == 0)
		rc = LK__CHECK(operation, error, {LK__PERMITS_SET, own.permits},
			       {LK__TTL, own.ttl_ms});
	if (rc < 0)
		return rc;
	lk_permit_semaphore *semaphore = calloc(1, sizeof(*semaphore));
	if (!semaphore)
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", operation);
	semaphore->permits = own.permits;
	rc = lk__counter_open(&semaphore->counter, client, &lk__permit_queue_recipe, name,
			      name_size, operation, error);
	if (rc < 0) {
		free(semaphore);
		return rc;
	}
	semaphore->counter->ttl_ms = own.ttl_ms;
	*semaphore_out = semaphore;
	return 0;
}

lk_permit_semaphore *lk_permit_semaphore_free(lk_permit_semaphore *semaphore)
{
	if (semaphore)
		lk__counter_unref(semaphore->counter);
	free(semaphore);
	return NULL;
}

int lk__permit_enter(struct lk__counter_call *call, lk_permit_semaphore *semaphore,
		     const char *operation, lk_error *error)
{
	return lk__counter_enter(call, semaphore ? semaphore->counter : NULL, operation, error);
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

/* ---- how many there are ---- */

static int permits_change(lk_permit_semaphore *semaphore, const char *operation, int64_t number,
			  const char *how, lk_error *error)
{
	struct lk__counter_call call;
	struct lk__change change = {.script = LK__SCRIPT_PERMITS_SET, .permits = true};
	int64_t answer = 0;
	lk__change_add_number(&change, number);
	lk__change_add_text(&change, how);
	int rc = lk__permit_enter(&call, semaphore, operation, error);
	if (rc == 0)
		rc = lk__counter_leave(&call, lk__counter_change(&call, &change, &answer));
	return rc < 0 ? rc : (int)answer;
}

int lk_permit_semaphore_try_set(lk_permit_semaphore *semaphore, int64_t permits, lk_error *error)
{
	const char *operation = "lk_permit_semaphore_try_set";
	int rc = LK__CHECK(operation, error, {LK__PERMITS_SET, permits});
	return rc < 0 ? rc : permits_change(semaphore, operation, permits, "new", error);
}

int lk_permit_semaphore_set(lk_permit_semaphore *semaphore, int64_t permits, lk_error *error)
{
	const char *operation = "lk_permit_semaphore_set";
	int rc = LK__CHECK(operation, error, {LK__PERMITS_SET, permits});
	if (rc == 0)
		rc = permits_change(semaphore, operation, permits, "all", error);
	return rc < 0 ? rc : 0;
}

int lk_permit_semaphore_add(lk_permit_semaphore *semaphore, int64_t change, lk_error *error)
{
	const char *operation = "lk_permit_semaphore_add";
	int rc = LK__CHECK(operation, error, {LK__PERMITS_ADDED, change});
	if (rc == 0 && change == 0)
		rc = lk__fail(error, LK_EINVAL, "%s: change is 0", operation);
	if (rc == 0)
		rc = permits_change(semaphore, operation, change, "add", error);
	return rc < 0 ? rc : 0;
}

/* ---- what the server knows ---- */

enum look { LOOK_FREE, LOOK_USED, LOOK_TTL_MS, LOOK_COUNT };

static int look_read(const redisReply *reply, const char *operation, int64_t seen_out[LOOK_COUNT],
		     lk_error *error)
{
	int64_t seen[LOOK_COUNT];
	bool whole = reply->type == REDIS_REPLY_ARRAY && reply->elements == LOOK_COUNT;
	for (size_t i = 0; whole && i < LOOK_COUNT; i++)
		whole = lk__reply_integer(reply->element[i], INT64_MIN, INT64_MAX, &seen[i]);
	if (!whole)
		return lk__fail(error, LK_EPROTOCOL, "%s: unexpected reply", operation);
	memcpy(seen_out, seen, sizeof(seen));
	return 0;
}

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
	rc = lk__counter_ask(
		&call, lk__question(lk__words_script(&words, LK__SCRIPT_PERMITS_LOOK, 2)), &answer);
	if (rc == 0) {
		rc = look_read(answer->reply, operation, seen_out, error);
		lk__request_free(answer);
	}
	return lk__counter_leave(&call, rc);
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
		rc = lk__counter_enter_briefly(&call, semaphore ? semaphore->counter : NULL,
					       operation, error);
	if (rc < 0)
		return rc;
	struct lk__entry *entry;
	rc = lk__permit_entry(&entry, call.counter->entry, id);
	if (rc < 0)
		return lk__counter_leave(&call,
					 lk__fail(error, rc, "%s: out of memory", operation));
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

int lk_permit_semaphore_update_lease(lk_permit_semaphore *semaphore, const char *id,
				     int64_t lease_ms, lk_error *error)
{
	const char *operation = "lk_permit_semaphore_update_lease";
	struct lk__counter_call call;
	struct lk__counting counting;
	int rc = lk__permit_check_id(operation, id, error);
	if (rc == 0)
		rc = LK__CHECK(operation, error, {LK__LEASE, lease_ms});
	if (rc == 0)
		rc = lk__permit_enter(&call, semaphore, operation, error);
	if (rc < 0)
		return rc;
	lk__counting_lease(&counting, call.counter, call.thread, id, lease_ms, operation, error);
	return lk__counter_leave(&call, lk__op_run(&counting.op));
}

int lk_permit_semaphore_delete(lk_permit_semaphore *semaphore, lk_error *error)
{
	struct lk__counter_call call;
	struct lk__change change = {.script = LK__SCRIPT_SEMAPHORE_DELETE, .permits = true};
	int64_t removed = 0;
	int rc = lk__permit_enter(&call, semaphore, "lk_permit_semaphore_delete", error);
	if (rc == 0)
		rc = lk__counter_leave(&call, lk__counter_change(&call, &change, &removed));
	return rc < 0 ? rc : (int)removed;
}
