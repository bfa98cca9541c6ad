/* SPDX-License-Identifier: MIT */
#include "api/counter.h"

#include "api/check.h"
#include "api/lock_handle.h"
#include "base/fail.h"
#include "drive/client/loop.h"
#include "sync/semaphore/semaphore.h"

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

static int counter_ask_until(struct lk__counter_call *call, struct lk__request *request,
			     int64_t until_ns, struct lk__request **answer_out)
{
	int rc = lk__caller_ask(call->counter->entry, call->thread, request, call->operation,
				until_ns, call->error);
	if (rc != LK__WAIT_READY)
		return rc;
	*answer_out = request;
	return 0;
}

int lk__counter_ask(struct lk__counter_call *call, struct lk__request *request,
		    struct lk__request **answer_out)
{
	return counter_ask_until(call, request, lk__counter_until_ns(call->counter->entry),
				 answer_out);
}

static int counter_connect(struct lk__counter_call *call)
{
	const struct lk__entry *entry = call->counter->entry;
	lk_error why = {.code = LK_EUNREACHABLE};
	int rc = lk__conn_ready(lk__entry_scripts(entry), call->thread, false,
				lk__counter_until_ns(entry), NULL, &why);
	return rc == LK__WAIT_READY
		       ? 0
		       : lk__counter_unconnected(entry, call->operation, rc, &why, call->error);
}

/* One request: 1 answered with a number, 0 to be made anew, or a code. */
static int change_ask(struct lk__counter_call *call, struct lk__changing *changing)
{
	struct lk__request *answer = NULL;
	int64_t until_ns = lk__counter_until_ns(call->counter->entry);
	int rc = counter_ask_until(call, lk__change_request(changing), until_ns, &answer);
	if (rc < 0)
		return rc;
	rc = lk__change_read(changing, answer, call->error);
	lk__request_free(answer);
	return rc;
}

int lk__counter_change(struct lk__counter_call *call, const struct lk__change *change,
		       int64_t *answer_out)
{
	struct lk__changing changing;
	lk__change_begin(&changing, call->counter, change, call->operation);
	int rc = counter_connect(call);
	if (rc == 0)
		rc = change_ask(call, &changing);
	if (rc == 0)
		rc = change_ask(call, &changing);
	rc = lk__change_end(&changing, rc < 0 ? rc : 0, call->error);
	if (rc == 0)
		*answer_out = changing.answer;
	return rc;
}

int lk__counter_get(struct lk__counter_call *call, int64_t *count_out)
{
	const struct lk__entry *entry = call->counter->entry;
	struct lk__request *answer = NULL;
	int rc = lk__counter_ask(call, lk__count_request(entry), &answer);
	rc = lk__count_read(entry, answer, rc, call->operation, count_out, call->error);
	lk__request_free(answer);
	return rc;
}

int lk__counter_acquire(struct lk__counter_call *call, struct lk__want *want)
{
	struct lk__counter *counter = call->counter;
	int rc = lk__loop_start(counter->client, call->error);
	want->owner = (struct lk__owner){.serial = call->thread->serial};
	want->settings.ttl_ms = counter->ttl_ms;
	if (rc == 0)
		rc = lk__caller_acquire(counter->entry, call->thread, want, call->error);
	return lk__counter_waited(counter->entry, want->count, rc, call->error);
}
