/* SPDX-License-Identifier: MIT */
#include "api/counter.h"

#include "api/check.h"
#include "api/lock_handle.h"
#include "base/fail.h"
#include "lock/loop.h"
#include "sync/recipes.h"

int lk__counter_open(struct lk__counter **counter_out, lk_client *client,
		     const struct lk__recipe *recipe, const void *name, size_t name_size,
		     int64_t permits, int64_t ttl_ms, const char *operation, lk_error *error)
{
	struct lk__entry *entry;
	int rc = lk__name_check_slot(client, name, &name_size, LK__RECORD_PREFIX, operation, error);
	if (rc == 0)
		rc = lk__entry_get(&entry, client, recipe, name, name_size, NULL, error);
	if (rc < 0)
		return rc;
	struct lk__counter *counter = lk__counter_new(entry);
	lk__entry_unref(entry);
	if (!counter)
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", operation);
	counter->permits = permits;
	counter->ttl_ms = ttl_ms;
	*counter_out = counter;
	return 0;
}

void *lk__counter_free(void *handle)
{
	if (handle)
		lk__counter_unref(handle);
	return NULL;
}

int lk__counter_check_added(const struct lk__counter_call *call, int64_t change)
{
	int rc = LK__CHECK(call->operation, call->error, {LK__PERMITS_ADDED, change});
	if (rc == 0 && change == 0)
		rc = lk__fail(call->error, LK_EINVAL, "%s: change is 0", call->operation);
	return rc;
}

/* ---- first and last words ---- */

int lk__counter_enter_briefly(struct lk__counter_call *call)
{
	if (!call->counter)
		return lk__fail(call->error, LK_EINVAL, "%s: the handle is NULL", call->operation);
	return lk__enter_briefly(call->counter->client, call->operation, &call->thread,
				 &call->saved, call->error);
}

int lk__counter_enter(struct lk__counter_call *call)
{
	int rc = 0;
	if (!call->start && call->counter)
		rc = lk__check_blocking(call->counter->client, call->operation, call->error);
	if (rc == 0)
		rc = lk__counter_enter_briefly(call);
	if (rc < 0 || !call->start)
		return rc;
	rc = lk__loop_start(call->counter->client, call->error);
	return rc < 0 ? lk__counter_leave(call, rc) : 0;
}

int lk__counter_leave(struct lk__counter_call *call, int rc)
{
	lk__leave(call->saved);
	return rc;
}

int lk__counter_go(struct lk__counter_call *call, struct lk__entry *entry,
		   const struct lk__owner *owner, struct lk__async_want *want)
{
	int rc = lk__start_go(call->start, entry ? entry : call->counter->entry, owner, want);
	return lk__counter_leave(call, rc);
}

/* ---- whole calls ---- */

int lk__counter_change(struct lk__counter_call *call, const struct lk__change *change,
		       int64_t *answer_out)
{
	struct lk__counting counting;
	int rc = lk__counter_enter(call);
	if (rc < 0)
		return rc;
	if (call->start)
		return lk__counter_go(call, NULL, NULL,
				      &(struct lk__async_want){.way = LK__ASYNC_CHANGE,
							       .counter = call->counter,
							       .change = *change});
	lk__counting_change(&counting, call->counter, call->thread, change, call->operation,
			    call->error);
	rc = lk__op_run(&counting.op);
	if (rc == 0)
		*answer_out = counting.answer;
	return lk__counter_leave(call, rc);
}

int lk__counter_change_said(struct lk__counter_call *call, const struct lk__change *change)
{
	int64_t answer = 0;
	int rc = lk__counter_change(call, change, &answer);
	return rc < 0 ? rc : (int)answer;
}

int lk__counter_get(struct lk__counter_call *call, int64_t *count_out)
{
	struct lk__counting counting;
	int rc = lk__counter_enter(call);
	if (rc < 0)
		return rc;
	if (call->start)
		return lk__counter_go(
			call, NULL, NULL,
			&(struct lk__async_want){.way = LK__ASYNC_COUNT, .counter = call->counter});
	lk__counting_look(&counting, call->counter, call->thread, call->operation, call->error);
	rc = lk__op_run(&counting.op);
	if (rc == 0)
		*count_out = counting.answer;
	return lk__counter_leave(call, rc);
}

int lk__counter_acquire(struct lk__counter_call *call, struct lk__want *want)
{
	struct lk__entry *entry = call->counter->entry;
	int rc = lk__loop_start(entry->client, call->error);
	want->owner = (struct lk__owner){.serial = call->thread->serial};
	if (rc == 0)
		rc = lk__acquire_run(entry, call->thread, want, call->error);
	return lk__counter_waited(entry, want->count, rc, call->error);
}

int lk__counter_wait(struct lk__counter_call *call, struct lk__want *want)
{
	int rc = lk__counter_enter(call);
	if (rc < 0)
		return rc;
	want->settings.permits = call->counter->permits;
	want->settings.ttl_ms = call->counter->ttl_ms;
	return call->start ? lk__counter_go(call, NULL, NULL,
					    &(struct lk__async_want){.acquire = *want})
			   : lk__counter_leave(call, lk__counter_acquire(call, want));
}
