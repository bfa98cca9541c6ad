/* SPDX-License-Identifier: MIT */
#include "api/counter.h"

#include "api/check.h"
#include "api/lock_handle.h"
#include "base/fail.h"
#include "drive/client/loop.h"
#include "drive/count/counting.h"
#include "drive/lock/ask.h"
#include "sync/recipes.h"

int lk__counter_open(struct lk__counter **counter_out, lk_client *client,
		     const struct lk__recipe *recipe, const void *name, size_t name_size,
		     const char *operation, lk_error *error)
{
	struct lk__entry *entry;
	int rc = lk__name_check_slot(client, name, &name_size, LK__RECORD_PREFIX, operation, error);
	if (rc == 0)
		rc = lk__entry_get(&entry, client, recipe, name, name_size, NULL, error);
	if (rc < 0)
		return rc;
	*counter_out = lk__counter_new(entry);
	lk__entry_unref(entry);
	return *counter_out ? 0 : lk__fail(error, LK_ENOMEM, "%s: out of memory", operation);
}

int lk__counter_enter(struct lk__counter_call *call, struct lk__counter *counter,
		      const char *operation, lk_error *error)
{
	int rc = counter ? lk__check_blocking(counter->client, operation, error) : 0;
	return rc < 0 ? rc : lk__counter_enter_briefly(call, counter, operation, error);
}

int lk__counter_enter_briefly(struct lk__counter_call *call, struct lk__counter *counter,
			      const char *operation, lk_error *error)
{
	call->counter = counter;
	call->operation = operation;
	call->error = error;
	if (!counter)
		return lk__fail(error, LK_EINVAL, "%s: the handle is NULL", operation);
	return lk__enter_briefly(counter->client, operation, &call->thread, &call->saved, error);
}

int lk__counter_leave(struct lk__counter_call *call, int rc)
{
	lk__leave(call->saved);
	return rc;
}

int lk__counter_ask(struct lk__counter_call *call, struct lk__request *request,
		    struct lk__request **answer_out)
{
	struct lk__entry *entry = call->counter->entry;
	int rc = lk__ask_entry(entry, call->thread, request, call->operation,
			       lk__counter_until_ns(entry), call->error);
	if (rc != LK__WAIT_READY)
		return rc;
	*answer_out = request;
	return 0;
}

int lk__counter_change(struct lk__counter_call *call, const struct lk__change *change,
		       int64_t *answer_out)
{
	struct lk__counting counting;
	lk__counting_change(&counting, call->counter, call->thread, change, call->operation,
			    call->error);
	int rc = lk__op_run(&counting.op);
	if (rc == 0)
		*answer_out = counting.answer;
	return rc;
}

int lk__counter_get(struct lk__counter_call *call, int64_t *count_out)
{
	struct lk__counting counting;
	lk__counting_look(&counting, call->counter, call->thread, call->operation, call->error);
	int rc = lk__op_run(&counting.op);
	if (rc == 0)
		*count_out = counting.answer;
	return rc;
}

int lk__counter_acquire(struct lk__counter_call *call, struct lk__want *want)
{
	struct lk__counter *counter = call->counter;
	int rc = lk__loop_start(counter->client, call->error);
	want->owner = (struct lk__owner){.serial = call->thread->serial};
	want->settings.ttl_ms = counter->ttl_ms;
	if (rc == 0)
		rc = lk__acquire_run(counter->entry, call->thread, want, call->error);
	return lk__counter_waited(counter->entry, want->count, rc, call->error);
}
