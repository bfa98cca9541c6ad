/* SPDX-License-Identifier: MIT */
/* The public face of asynchronous calls of semaphores, latches and permit semaphores. */
#include <lockkeeper/queue.h>

#include <inttypes.h>
#include <string.h>

#include "api/check.h"
#include "api/permit_semaphore.h"
#include "api/queue_start.h"
#include "base/fail.h"
#include "drive/client/loop.h"

/* A start under way. */
struct start {
	lk_queue *queue;
	struct lk__counter_call call;
	uint64_t tag;
	uint64_t *id_out;
};

static const struct lk__owner nobody = {.name = ""};

static int start_enter(struct start *start, struct lk__counter *counter, const char *operation,
		       lk_error *error)
{
	int rc = lk__queue_check(start->queue, operation, error);
	if (rc == 0)
		rc = lk__counter_enter_briefly(&start->call, counter, operation, error);
	if (rc < 0)
		return rc;
	rc = lk__loop_start(counter->client, error);
	return rc < 0 ? lk__counter_leave(&start->call, rc) : 0;
}

/* After an enter of 0. */
static int start_on(struct start *start, struct lk__entry *entry, const struct lk__owner *owner,
		    int operation, struct lk__async_want *want)
{
	want->operation = start->call.operation;
	int rc = lk__queue_start(start->queue, operation, entry, owner, want, start->tag,
				 start->id_out, start->call.error);
	return lk__counter_leave(&start->call, rc);
}

/* One request to a counter, whose arguments are good. */
static int start_count(struct start *start, struct lk__counter *counter, const char *name,
		       int operation, struct lk__async_want *want, lk_error *error)
{
	int rc = start_enter(start, counter, name, error);
	if (rc < 0)
		return rc;
	want->counter = counter;
	return start_on(start, counter->entry, &nobody, operation, want);
}

static int start_change(struct start *start, struct lk__counter *counter, const char *name,
			int operation, const struct lk__change *change, lk_error *error)
{
	struct lk__async_want want = {.way = LK__ASYNC_CHANGE, .change = *change};
	return start_count(start, counter, name, operation, &want, error);
}

/* A wait in the wait queue of a counter, which has so many `permits` where there is none. */
static int start_wait(struct start *start, struct lk__counter *counter, const char *name,
		      int operation, int64_t count, int64_t permits, int64_t wait_ms,
		      lk_error *error)
{
	struct lk__async_want want = {
		.acquire = {.wait_ms = wait_ms, .count = count, .settings = {.permits = permits}}};
	int rc = start_enter(start, counter, name, error);
	want.acquire.settings.ttl_ms = counter ? counter->ttl_ms : 0;
	return rc < 0 ? rc : start_on(start, counter->entry, &nobody, operation, &want);
}

/* ---- semaphores ---- */

static struct lk__counter *semaphore_counter(lk_semaphore *semaphore)
{
	return semaphore ? semaphore->counter : NULL;
}

int lk_queue_semaphore_acquire(lk_queue *queue, lk_semaphore *semaphore, int64_t permits,
			       int64_t wait_ms, uint64_t tag, uint64_t *id_out, lk_error *error)
{
	const char *name = "lk_queue_semaphore_acquire";
	struct start start = {.queue = queue, .tag = tag, .id_out = id_out};
	int rc = LK__CHECK(name, error, {LK__PERMITS, permits}, {LK__WAIT_OR_NOT, wait_ms});
	return rc < 0 ? rc
		      : start_wait(&start, semaphore_counter(semaphore), name, LK_OP_ACQUIRE,
				   permits, semaphore ? semaphore->permits : 0, wait_ms, error);
}

static int semaphore_give(struct start *start, lk_semaphore *semaphore, const char *name,
			  int64_t permits, bool if_exists, lk_error *error)
{
	int rc = LK__CHECK(name, error, {LK__PERMITS, permits});
	if (rc < 0)
		return rc;
	struct lk__change change = lk__semaphore_give(semaphore, permits, if_exists);
	return start_change(start, semaphore_counter(semaphore), name, LK_OP_RELEASE, &change,
			    error);
}

int lk_queue_semaphore_release(lk_queue *queue, lk_semaphore *semaphore, int64_t permits,
			       uint64_t tag, uint64_t *id_out, lk_error *error)
{
	struct start start = {.queue = queue, .tag = tag, .id_out = id_out};
	return semaphore_give(&start, semaphore, "lk_queue_semaphore_release", permits, false,
			      error);
}

int lk_queue_semaphore_release_if_exists(lk_queue *queue, lk_semaphore *semaphore, int64_t permits,
					 uint64_t tag, uint64_t *id_out, lk_error *error)
{
	struct start start = {.queue = queue, .tag = tag, .id_out = id_out};
	return semaphore_give(&start, semaphore, "lk_queue_semaphore_release_if_exists", permits,
			      true, error);
}

int lk_queue_semaphore_try_set(lk_queue *queue, lk_semaphore *semaphore, int64_t permits,
			       int64_t ttl_ms, uint64_t tag, uint64_t *id_out, lk_error *error)
{
	const char *name = "lk_queue_semaphore_try_set";
	struct start start = {.queue = queue, .tag = tag, .id_out = id_out};
	int rc = LK__CHECK(name, error, {LK__PERMITS_SET, permits}, {LK__TTL, ttl_ms});
	if (rc < 0)
		return rc;
	struct lk__change change = lk__semaphore_set(permits, ttl_ms);
	return start_change(&start, semaphore_counter(semaphore), name, LK_OP_CHANGE, &change,
			    error);
}

/* 0, or LK_EINVAL where nothing would change. */
static int check_change(const char *name, int64_t change, lk_error *error)
{
	int rc = LK__CHECK(name, error, {LK__PERMITS_ADDED, change});
	if (rc == 0 && change == 0)
		rc = lk__fail(error, LK_EINVAL, "%s: change is 0", name);
	return rc;
}

int lk_queue_semaphore_add(lk_queue *queue, lk_semaphore *semaphore, int64_t change, uint64_t tag,
			   uint64_t *id_out, lk_error *error)
{
	const char *name = "lk_queue_semaphore_add";
	struct start start = {.queue = queue, .tag = tag, .id_out = id_out};
	int rc = check_change(name, change, error);
	if (rc < 0)
		return rc;
	struct lk__change added = lk__semaphore_add(semaphore, change);
	return start_change(&start, semaphore_counter(semaphore), name, LK_OP_CHANGE, &added,
			    error);
}

int lk_queue_semaphore_drain(lk_queue *queue, lk_semaphore *semaphore, uint64_t tag,
			     uint64_t *id_out, lk_error *error)
{
	static const struct lk__change change = {.script = LK__SCRIPT_SEMAPHORE_DRAIN};
	struct start start = {.queue = queue, .tag = tag, .id_out = id_out};
	return start_change(&start, semaphore_counter(semaphore), "lk_queue_semaphore_drain",
			    LK_OP_CHANGE, &change, error);
}

int lk_queue_semaphore_available(lk_queue *queue, lk_semaphore *semaphore, uint64_t tag,
				 uint64_t *id_out, lk_error *error)
{
	struct start start = {.queue = queue, .tag = tag, .id_out = id_out};
	struct lk__async_want want = {.way = LK__ASYNC_COUNT};
	return start_count(&start, semaphore_counter(semaphore), "lk_queue_semaphore_available",
			   LK_OP_COUNT, &want, error);
}

int lk_queue_semaphore_delete(lk_queue *queue, lk_semaphore *semaphore, uint64_t tag,
			      uint64_t *id_out, lk_error *error)
{
	static const struct lk__change change = {.script = LK__SCRIPT_SEMAPHORE_DELETE};
	struct start start = {.queue = queue, .tag = tag, .id_out = id_out};
	return start_change(&start, semaphore_counter(semaphore), "lk_queue_semaphore_delete",
			    LK_OP_CHANGE, &change, error);
}

/* ---- latches ---- */

static struct lk__counter *latch_counter(lk_latch *latch)
{
	return latch ? latch->counter : NULL;
}

int lk_queue_latch_await(lk_queue *queue, lk_latch *latch, int64_t wait_ms, uint64_t tag,
			 uint64_t *id_out, lk_error *error)
{
	const char *name = "lk_queue_latch_await";
	struct start start = {.queue = queue, .tag = tag, .id_out = id_out};
	struct lk__async_want look = {.way = LK__ASYNC_COUNT};
	int rc = LK__CHECK(name, error, {LK__WAIT_OR_NOT, wait_ms});
	if (rc < 0)
		return rc;
	return wait_ms == 0
		       ? start_count(&start, latch_counter(latch), name, LK_OP_AWAIT, &look, error)
		       : start_wait(&start, latch_counter(latch), name, LK_OP_AWAIT, 0, 0, wait_ms,
				    error);
}

static int latch_change(struct start *start, lk_latch *latch, const char *name,
			enum lk__script_id script, enum lk__argument what, int64_t number,
			lk_error *error)
{
	struct lk__change change = {.script = script};
	lk__change_add_number(&change, number);
	int rc = LK__CHECK(name, error, {what, number});
	return rc < 0 ? rc
		      : start_change(start, latch_counter(latch), name, LK_OP_CHANGE, &change,
				     error);
}

int lk_queue_latch_count_down(lk_queue *queue, lk_latch *latch, int64_t by, uint64_t tag,
			      uint64_t *id_out, lk_error *error)
{
	struct start start = {.queue = queue, .tag = tag, .id_out = id_out};
	return latch_change(&start, latch, "lk_queue_latch_count_down", LK__SCRIPT_LATCH_COUNT_DOWN,
			    LK__LATCH_BY, by, error);
}

int lk_queue_latch_try_set(lk_queue *queue, lk_latch *latch, int64_t count, uint64_t tag,
			   uint64_t *id_out, lk_error *error)
{
	struct start start = {.queue = queue, .tag = tag, .id_out = id_out};
	return latch_change(&start, latch, "lk_queue_latch_try_set", LK__SCRIPT_LATCH_SET,
			    LK__LATCH_COUNT, count, error);
}

int lk_queue_latch_count(lk_queue *queue, lk_latch *latch, uint64_t tag, uint64_t *id_out,
			 lk_error *error)
{
	struct start start = {.queue = queue, .tag = tag, .id_out = id_out};
	struct lk__async_want want = {.way = LK__ASYNC_COUNT};
	return start_count(&start, latch_counter(latch), "lk_queue_latch_count", LK_OP_COUNT, &want,
			   error);
}

int lk_queue_latch_delete(lk_queue *queue, lk_latch *latch, uint64_t tag, uint64_t *id_out,
			  lk_error *error)
{
	static const struct lk__change change = {.script = LK__SCRIPT_LATCH_DELETE};
	struct start start = {.queue = queue, .tag = tag, .id_out = id_out};
	return start_change(&start, latch_counter(latch), "lk_queue_latch_delete", LK_OP_CHANGE,
			    &change, error);
}

/* ---- permits ---- */

static struct lk__counter *permit_counter(lk_permit_semaphore *semaphore)
{
	return semaphore ? semaphore->counter : NULL;
}

static int permits_take(lk_queue *queue, lk_permit_semaphore *semaphore, const char *name,
			int64_t count, int64_t wait_ms, const lk_acquire_options *options,
			uint64_t *id_out, lk_error *error)
{
	lk_acquire_options own;
	struct start start = {.queue = queue, .id_out = id_out};
	int rc = lk__copy_options(&own, sizeof(own), options, name, error);
	if (rc == 0)
		rc = LK__CHECK(name, error, {LK__WAIT_OR_NOT, wait_ms});
	if (rc == 0 && own.cancel)
		rc = lk__fail(error, LK_EINVAL, "%s: cancel is set: use lk_queue_cancel()", name);
	if (rc == 0)
		rc = start_enter(&start, permit_counter(semaphore), name, error);
	if (rc < 0)
		return rc;
	rc = lk__permits_check(name, semaphore, count, &own, error);
	if (rc < 0)
		return lk__counter_leave(&start.call, rc);
	start.tag = own.tag;
	struct lk__async_want want = {
		.acquire = {.wait_ms = wait_ms,
			    .count = count,
			    .lease_ms = own.lease_ms,
			    .max_hold_ms = own.max_hold_ms,
			    .margin_ms = own.margin_ms,
			    .no_loss = own.no_loss,
			    .settings = {.permits = semaphore->permits,
					 .ttl_ms = semaphore->counter->ttl_ms},
			    .tag = own.tag}};
	return start_on(&start, semaphore->counter->entry, &nobody, LK_OP_ACQUIRE, &want);
}

int lk_queue_permit_acquire(lk_queue *queue, lk_permit_semaphore *semaphore, int64_t wait_ms,
			    const lk_acquire_options *options, uint64_t *id_out, lk_error *error)
{
	return permits_take(queue, semaphore, "lk_queue_permit_acquire", 1, wait_ms, options,
			    id_out, error);
}

int lk_queue_permits_acquire(lk_queue *queue, lk_permit_semaphore *semaphore, int64_t count,
			     int64_t wait_ms, const lk_acquire_options *options, uint64_t *id_out,
			     lk_error *error)
{
	return permits_take(queue, semaphore, "lk_queue_permits_acquire", count, wait_ms, options,
			    id_out, error);
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

/* A single one of ours goes the way of every lock. */
static int giving_start(struct start *start, struct lk__counter *counter, struct lk__giving *giving)
{
	struct lk__entry *entry = giving->part[0].entry;
	struct lk__async_want ours = {.way = LK__ASYNC_RELEASE};
	struct lk__async_want some = {.way = LK__ASYNC_GIVE, .counter = counter, .giving = giving};
	bool single = giving->count == 1 && entry;
	struct lk__owner owner = {.name = giving->part[0].permit.id,
				  .name_size = LK_PERMIT_ID_SIZE - 1};
	int rc = single ? start_on(start, entry, &owner, LK_OP_RELEASE, &ours)
			: start_on(start, counter->entry, &nobody, LK_OP_RELEASE, &some);
	if (single || rc < 0)
		lk__giving_free(giving);
	return rc;
}

static int permits_give(struct start *start, lk_permit_semaphore *semaphore, const char *name,
			const lk_permit *permits, int64_t count, lk_error *error)
{
	struct lk__giving *giving;
	int rc = lk__permits_check_ids(name, permits, count, error);
	if (rc == 0)
		rc = start_enter(start, permit_counter(semaphore), name, error);
	if (rc < 0)
		return rc;
	rc = lk__giving_new(&giving, semaphore->counter->entry, permits, (size_t)count, name,
			    error);
	return rc < 0 ? lk__counter_leave(&start->call, rc)
		      : giving_start(start, semaphore->counter, giving);
}

int lk_queue_permit_release(lk_queue *queue, lk_permit_semaphore *semaphore, const char *permit_id,
			    uint64_t tag, uint64_t *id_out, lk_error *error)
{
	const char *name = "lk_queue_permit_release";
	struct start start = {.queue = queue, .tag = tag, .id_out = id_out};
	lk_permit permit;
	int rc = lk__permit_check_id(name, permit_id, error);
	if (rc < 0)
		return rc;
	memcpy(permit.id, permit_id, sizeof(permit.id));
	return permits_give(&start, semaphore, name, &permit, 1, error);
}

int lk_queue_permits_release(lk_queue *queue, lk_permit_semaphore *semaphore,
			     const lk_permit *permits, int64_t count, uint64_t tag,
			     uint64_t *id_out, lk_error *error)
{
	struct start start = {.queue = queue, .tag = tag, .id_out = id_out};
	return permits_give(&start, semaphore, "lk_queue_permits_release", permits, count, error);
}

int lk_queue_permit_update_lease(lk_queue *queue, lk_permit_semaphore *semaphore,
				 const char *permit_id, int64_t lease_ms, uint64_t tag,
				 uint64_t *id_out, lk_error *error)
{
	const char *name = "lk_queue_permit_update_lease";
	struct start start = {.queue = queue, .tag = tag, .id_out = id_out};
	struct lk__async_want want = {.way = LK__ASYNC_LEASE, .permit = {.lease_ms = lease_ms}};
	int rc = lk__permit_check_id(name, permit_id, error);
	if (rc == 0)
		rc = LK__CHECK(name, error, {LK__LEASE, lease_ms});
	if (rc < 0)
		return rc;
	memcpy(want.permit.id, permit_id, sizeof(want.permit.id));
	return start_count(&start, permit_counter(semaphore), name, LK_OP_EXTEND, &want, error);
}

static int permits_change(struct start *start, lk_permit_semaphore *semaphore, const char *name,
			  int64_t number, const char *how, lk_error *error)
{
	struct lk__change change = {.script = LK__SCRIPT_PERMITS_SET, .permits = true};
	lk__change_add_number(&change, number);
	lk__change_add_text(&change, how);
	return start_change(start, permit_counter(semaphore), name, LK_OP_CHANGE, &change, error);
}

int lk_queue_permit_try_set(lk_queue *queue, lk_permit_semaphore *semaphore, int64_t permits,
			    uint64_t tag, uint64_t *id_out, lk_error *error)
{
	const char *name = "lk_queue_permit_try_set";
	struct start start = {.queue = queue, .tag = tag, .id_out = id_out};
	int rc = LK__CHECK(name, error, {LK__PERMITS_SET, permits});
	return rc < 0 ? rc : permits_change(&start, semaphore, name, permits, "new", error);
}

int lk_queue_permit_set(lk_queue *queue, lk_permit_semaphore *semaphore, int64_t permits,
			uint64_t tag, uint64_t *id_out, lk_error *error)
{
	const char *name = "lk_queue_permit_set";
	struct start start = {.queue = queue, .tag = tag, .id_out = id_out};
	int rc = LK__CHECK(name, error, {LK__PERMITS_SET, permits});
	return rc < 0 ? rc : permits_change(&start, semaphore, name, permits, "all", error);
}

int lk_queue_permit_add(lk_queue *queue, lk_permit_semaphore *semaphore, int64_t change,
			uint64_t tag, uint64_t *id_out, lk_error *error)
{
	const char *name = "lk_queue_permit_add";
	struct start start = {.queue = queue, .tag = tag, .id_out = id_out};
	int rc = check_change(name, change, error);
	return rc < 0 ? rc : permits_change(&start, semaphore, name, change, "add", error);
}

int lk_queue_permit_delete(lk_queue *queue, lk_permit_semaphore *semaphore, uint64_t tag,
			   uint64_t *id_out, lk_error *error)
{
	static const struct lk__change change = {.script = LK__SCRIPT_SEMAPHORE_DELETE,
						 .permits = true};
	struct start start = {.queue = queue, .tag = tag, .id_out = id_out};
	return start_change(&start, permit_counter(semaphore), "lk_queue_permit_delete",
			    LK_OP_CHANGE, &change, error);
}
