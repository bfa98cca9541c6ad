/* SPDX-License-Identifier: MIT */
/* The public face of the permit semaphore. */
#include <lockkeeper/permit_semaphore.h>

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "api/check.h"
#include "api/counter.h"
#include "api/lock_handle.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "lock/doubt.h"
#include "lock/operation.h"
#include "lock/release.h"
#include "resp/reply.h"
#include "sync/recipes.h"
#include "sync/script.h"

int lk_permit_semaphore_new(lk_permit_semaphore **semaphore_out, lk_client *client,
			    const void *name, size_t name_size,
			    const lk_permit_semaphore_options *options, lk_error *error)
{
	const char *operation = "lk_permit_semaphore_new";
	lk_permit_semaphore_options own;
	struct lk__counter *counter;
	if (!semaphore_out)
		return lk__fail(error, LK_EINVAL, "%s: an argument is NULL", operation);
	int rc = lk__copy_options(&own, sizeof(own), options, operation, error);
	if (rc == 0)
		rc = LK__CHECK(operation, error, {LK__PERMITS_SET, own.permits},
			       {LK__TTL, own.ttl_ms}, {LK__NO_LOSS, own.no_loss});
	if (rc == 0)
		rc = lk__counter_open(&counter, client, &lk__permit_queue_recipe, name, name_size,
				      own.permits, own.ttl_ms, operation, error);
	if (rc < 0)
		return rc;
	counter->no_loss = own.no_loss;
	*semaphore_out = (lk_permit_semaphore *)counter;
	return 0;
}

lk_permit_semaphore *lk_permit_semaphore_free(lk_permit_semaphore *semaphore)
{
	return lk__counter_free(semaphore);
}

/* 0, or LK_EINVAL for what is not an id. */
static int check_id(const char *operation, const char *id, lk_error *error)
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

/* Checks the ids of all of them. */
static int check_ids(const char *operation, const lk_permit *permits, int64_t count,
		     lk_error *error)
{
	if (!permits)
		return lk__fail(error, LK_EINVAL, "%s: permits is NULL", operation);
	int rc = LK__CHECK(operation, error, {LK__IDS, count});
	for (int64_t i = 0; rc == 0 && i < count; i++)
		rc = check_id(operation, permits[i].id, error);
	return rc;
}

/* ---- taking ---- */

static int check_options(const struct lk__counter_call *call, int64_t count,
			 const lk_acquire_options *options)
{
	const char *operation = call->operation;
	lk_error *error = call->error;
	int64_t watchdog_ms = call->counter->client->config->watchdog_ms;
	int64_t lease_ms = options->lease_ms ? options->lease_ms : watchdog_ms;
	if (options->owner)
		return lk__fail(error, LK_EINVAL, "%s: a permit has no owner but its id",
				operation);
	if (options->field)
		return lk__fail(error, LK_EINVAL,
				"%s: field is set, and a permit has an id instead", operation);
	if (options->hears_asks)
		return lk__fail(error, LK_EINVAL,
				"%s: hears_asks is set, and nobody can ask for a permit",
				operation);
	int rc = LK__CHECK(operation, error, {LK__IDS, count}, {LK__LEASE, lease_ms},
			   {LK__MAX_HOLD, options->max_hold_ms});
	if (rc == 0)
		rc = lk__check_note(operation, "note", options->note, error);
	return rc < 0 ? rc
		      : lk__check_range(operation, "margin_ms", options->margin_ms, 0, lease_ms,
					error);
}

/* After the enter; `permits_out` of a blocking call. */
static int permits_acquire(struct lk__counter_call *call, int64_t count, lk_permit *permits_out,
			   int64_t wait_ms, const lk_acquire_options *options)
{
	struct lk__grant grant;
	struct lk__counter *counter = call->counter;
	struct lk__settings settings = {.permits = counter->permits, .ttl_ms = counter->ttl_ms};
	struct lk__want want = lk__want_of(options, wait_ms, settings);
	want.count = count;
	want.no_loss = counter->no_loss;
	if (call->start)
		return lk__counter_go(call, NULL, NULL, &(struct lk__async_want){.acquire = want});
	want.cancel = options->cancel;
	want.grant_out = &grant;
	int rc = lk__counter_acquire(call, &want);
	if (rc == 0)
		rc = lk__permits_hold(counter->entry, call->thread, &want, &grant, permits_out,
				      NULL, call->operation, call->error);
	return lk__counter_leave(call, rc);
}

static int permits_take(struct lk__counter_call call, int64_t count, lk_permit *permits_out,
			int64_t wait_ms, const lk_acquire_options *options)
{
	lk_acquire_options own;
	int rc = lk__copy_options(&own, sizeof(own), options, call.operation, call.error);
	if (rc == 0)
		rc = LK__CHECK(call.operation, call.error, {LK__WAIT, wait_ms});
	if (rc == 0 && call.start && own.cancel)
		rc = lk__fail(call.error, LK_EINVAL, "%s: cancel is set: use lk_queue_cancel()",
			      call.operation);
	if (rc == 0)
		rc = lk__counter_enter(&call);
	if (rc < 0)
		return rc;
	rc = check_options(&call, count, &own);
	return rc < 0 ? lk__counter_leave(&call, rc)
		      : permits_acquire(&call, count, permits_out, wait_ms, &own);
}

int lk_permit_semaphore_acquire(lk_permit_semaphore *semaphore, int64_t count,
				lk_permit *permits_out, int64_t wait_ms,
				const lk_acquire_options *options, lk_error *error)
{
	const char *operation = "lk_permit_semaphore_acquire";
	if (!permits_out)
		return lk__fail(error, LK_EINVAL, "%s: permits_out is NULL", operation);
	return permits_take(lk__counter_call(semaphore, operation, error), count, permits_out,
			    wait_ms, options);
}

int lk__start_permit_semaphore_acquire(const struct lk__start *start)
{
	return permits_take(lk__counter_start(start), start->request->number, NULL,
			    start->request->wait_ms, start->request->acquire);
}

/* How many permits a completion says were acquired; 0: it says nothing of any. */
static int64_t completion_count(const lk_completion *completion)
{
	bool granted = completion->operation == LK_OP_ACQUIRE && completion->error.code == 0;
	int64_t count = granted ? completion->answer : 0;
	char id[LK_PERMIT_ID_SIZE];
	return count > 0 && count <= LK__PERMITS_MAX && lk__permit_id_at(completion->field, 0, id)
		       ? count
		       : 0;
}

int lk_completion_permits(const lk_completion *completion, lk_permit *permits_out, int64_t room,
			  lk_error *error)
{
	const char *name = "lk_completion_permits";
	if (!completion || !permits_out)
		return lk__fail(error, LK_EINVAL, "%s: an argument is NULL", name);
	int64_t count = completion_count(completion);
	if (count == 0)
		return lk__fail(error, LK_EINVAL,
				"%s: the completion is not that of permits that were acquired",
				name);
	if (room < count)
		return lk__fail(error, LK_EINVAL,
				"%s: room is %" PRId64 ", and there are %" PRId64 " permits", name,
				room, count);
	for (int64_t i = 0; i < count; i++)
		lk__permit_id_at(completion->field, (size_t)i, permits_out[i].id);
	return (int)count;
}

/* ---- giving back ---- */

/* After the enter. A single one of ours goes the way of every lock. */
static int giving_go(struct lk__counter_call *call, struct lk__giving *giving)
{
	struct lk__entry *single = giving->count == 1 ? giving->part[0].entry : NULL;
	struct lk__owner owner = {.name = giving->part[0].permit.id,
				  .name_size = LK_PERMIT_ID_SIZE - 1};
	struct lk__counting counting;
	int rc;
	if (call->start && single)
		rc = lk__counter_go(call, single, &owner,
				    &(struct lk__async_want){.way = LK__ASYNC_RELEASE});
	else if (call->start)
		rc = lk__counter_go(call, NULL, NULL,
				    &(struct lk__async_want){.way = LK__ASYNC_GIVE,
							     .counter = call->counter,
							     .giving = giving});
	else if (single)
		rc = lk__counter_leave(
			call, lk__release_run(single, call->thread, &owner, 0, false, call->error));
	else {
		lk__counting_give(&counting, call->counter, call->thread, giving, call->operation,
				  call->error);
		rc = lk__counter_leave(call, lk__op_run(&counting.op));
	}
	if (!call->start || single || rc < 0) /* else it is the request's */
		lk__giving_free(giving);
	return rc;
}

static int permits_give(struct lk__counter_call call, const lk_permit *permits, int64_t count)
{
	struct lk__giving *giving;
	int rc = check_ids(call.operation, permits, count, call.error);
	if (rc == 0)
		rc = lk__counter_enter(&call);
	if (rc < 0)
		return rc;
	rc = lk__giving_new(&giving, call.counter->entry, permits, (size_t)count, call.operation,
			    call.error);
	return rc < 0 ? lk__counter_leave(&call, rc) : giving_go(&call, giving);
}

int lk_permit_semaphore_release(lk_permit_semaphore *semaphore, const lk_permit *permits,
				int64_t count, lk_error *error)
{
	return permits_give(lk__counter_call(semaphore, "lk_permit_semaphore_release", error),
			    permits, count);
}

int lk__start_permit_semaphore_release(const struct lk__start *start)
{
	return permits_give(lk__counter_start(start), start->request->permits,
			    start->request->number);
}

/* ---- another lease ---- */

static int permit_update(struct lk__counter_call call, const char *id, int64_t lease_ms)
{
	struct lk__counting counting;
	struct lk__async_want want = {
		.way = LK__ASYNC_LEASE, .counter = call.counter, .permit = {.lease_ms = lease_ms}};
	int rc = check_id(call.operation, id, call.error);
	if (rc == 0)
		rc = LK__CHECK(call.operation, call.error, {LK__LEASE, lease_ms});
	if (rc == 0)
		rc = lk__counter_enter(&call);
	if (rc != 0)
		return rc;
	assert(id); /* checked above */
	memcpy(want.permit.id, id, sizeof(want.permit.id));
	if (call.start)
		return lk__counter_go(&call, NULL, NULL, &want);
	lk__counting_lease(&counting, call.counter, call.thread, id, lease_ms, call.operation,
			   call.error);
	return lk__counter_leave(&call, lk__op_run(&counting.op));
}

int lk_permit_semaphore_update_lease(lk_permit_semaphore *semaphore, const char *id,
				     int64_t lease_ms, lk_error *error)
{
	return permit_update(lk__counter_call(semaphore, "lk_permit_semaphore_update_lease", error),
			     id, lease_ms);
}

int lk__start_permit_semaphore_update_lease(const struct lk__start *start)
{
	const lk_request *request = start->request;
	int rc = lk__check_range(start->operation, "number", request->number, 1, 1, start->error);
	return rc < 0 ? rc
		      : permit_update(lk__counter_start(start),
				      request->permits ? request->permits->id : NULL,
				      request->lease_ms);
}

/* ---- how many there are ---- */

static int permits_change(struct lk__counter_call call, int64_t number, const char *how)
{
	struct lk__change change = {.request = lk__permits_set, .count = number, .how = how};
	return lk__counter_change_said(&call, &change);
}

static int permits_set(struct lk__counter_call call, int64_t permits, const char *how)
{
	int rc = LK__CHECK(call.operation, call.error, {LK__PERMITS_SET, permits});
	return rc < 0 ? rc : permits_change(call, permits, how);
}

int lk_permit_semaphore_try_set(lk_permit_semaphore *semaphore, int64_t permits, lk_error *error)
{
	return permits_set(lk__counter_call(semaphore, "lk_permit_semaphore_try_set", error),
			   permits, "new");
}

int lk__start_permit_semaphore_try_set(const struct lk__start *start)
{
	return permits_set(lk__counter_start(start), start->request->number, "new");
}

int lk_permit_semaphore_set(lk_permit_semaphore *semaphore, int64_t permits, lk_error *error)
{
	int rc = permits_set(lk__counter_call(semaphore, "lk_permit_semaphore_set", error), permits,
			     "all");
	return rc < 0 ? rc : 0;
}

int lk__start_permit_semaphore_set(const struct lk__start *start)
{
	return permits_set(lk__counter_start(start), start->request->number, "all");
}

static int permits_add(struct lk__counter_call call, int64_t change)
{
	int rc = lk__counter_check_added(&call, change);
	if (rc == 0)
		rc = permits_change(call, change, "add");
	return rc < 0 ? rc : 0;
}

int lk_permit_semaphore_add(lk_permit_semaphore *semaphore, int64_t change, lk_error *error)
{
	return permits_add(lk__counter_call(semaphore, "lk_permit_semaphore_add", error), change);
}

int lk__start_permit_semaphore_add(const struct lk__start *start)
{
	return permits_add(lk__counter_start(start), start->request->number);
}

static int permits_delete(struct lk__counter_call call)
{
	static const struct lk__change change = {.request = lk__semaphore_delete,
						 .of_permits = true};
	return lk__counter_change_said(&call, &change);
}

int lk_permit_semaphore_delete(lk_permit_semaphore *semaphore, lk_error *error)
{
	return permits_delete(lk__counter_call(semaphore, "lk_permit_semaphore_delete", error));
}

int lk__start_permit_semaphore_delete(const struct lk__start *start)
{
	return permits_delete(lk__counter_start(start));
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

/* No permit is in use, or not this one: what we have of that is in doubt. */
static void look_contradicts(const struct lk__entry *queue, const char *id, const int64_t *seen)
{
	struct lk__entry *permit = NULL;
	if (seen[LOOK_USED] == 0)
		lk__doubt_key(queue->client, queue->target.key, queue->target.key_size);
	else if (id && seen[LOOK_TTL_MS] == -2 && lk__permit_entry(&permit, queue, id) == 0 &&
		 permit)
		lk__doubt(permit);
	if (permit)
		lk__entry_unref(permit);
}

static int permits_look(lk_permit_semaphore *semaphore, const char *operation, const char *id,
			int64_t seen_out[LOOK_COUNT], lk_error *error)
{
	struct lk__counter_call call = lk__counter_call(semaphore, operation, error);
	int rc = lk__counter_enter(&call);
	if (rc < 0)
		return rc;
	struct lk__entry *entry = call.counter->entry;
	struct lk__request *request = lk__question(lk__permits_look(&entry->target, id));
	rc = lk__ask_entry(entry, call.thread, request, operation, lk__counter_until_ns(entry),
			   error);
	if (rc == LK__WAIT_READY) {
		rc = look_read(request->reply, operation, seen_out, error);
		lk__request_free(request);
		if (rc == 0)
			look_contradicts(entry, id, seen_out);
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
	if (!ttl_ms_out)
		return lk__fail(error, LK_EINVAL, "%s: ttl_ms_out is NULL", operation);
	int rc = check_id(operation, id, error);
	if (rc == 0)
		rc = permits_look(semaphore, operation, id, seen, error);
	if (rc == 0)
		*ttl_ms_out = seen[LOOK_TTL_MS];
	return rc;
}

int lk_permit_semaphore_remaining_ms(lk_permit_semaphore *semaphore, const char *id,
				     int64_t *remaining_ms_out, lk_error *error)
{
	const char *operation = "lk_permit_semaphore_remaining_ms";
	struct lk__counter_call call = lk__counter_call(semaphore, operation, error);
	int64_t deadline_ns = 0;
	if (!remaining_ms_out)
		return lk__fail(error, LK_EINVAL, "%s: remaining_ms_out is NULL", operation);
	int rc = check_id(operation, id, error);
	if (rc == 0)
		rc = lk__counter_enter_briefly(&call);
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
