/* SPDX-License-Identifier: MIT */
/* The public face of the count-down latch. */
#include <lockkeeper/latch.h>

#include <stdlib.h>

#include <lockkeeper/lock.h>

#include "api/check.h"
#include "api/counter.h"
#include "base/fail.h"
#include "sync/recipes.h"

static int latch_make(lk_latch **latch_out, lk_client *client, const void *name, size_t name_size,
		      int64_t ttl_ms, const char *operation, lk_error *error)
{
	if (!latch_out)
		return lk__fail(error, LK_EINVAL, "%s: an argument is NULL", operation);
	lk_latch *latch = calloc(1, sizeof(*latch));
	if (!latch)
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", operation);
	int rc = lk__counter_open(&latch->counter, client, &lk__latch_recipe, name, name_size,
				  operation, error);
	if (rc < 0) {
		free(latch);
		return rc;
	}
	latch->counter->ttl_ms = ttl_ms;
	*latch_out = latch;
	return 0;
}

int lk_latch_new(lk_latch **latch_out, lk_client *client, const void *name, size_t name_size,
		 lk_error *error)
{
	return latch_make(latch_out, client, name, name_size, 0, "lk_latch_new", error);
}

int lk_latch_new_with(lk_latch **latch_out, lk_client *client, const void *name, size_t name_size,
		      const lk_latch_options *options, lk_error *error)
{
	const char *operation = "lk_latch_new_with";
	lk_latch_options own;
	int rc = lk__copy_options(&own, sizeof(own), options, operation, error);
	if (rc == 0)
		rc = LK__CHECK(operation, error, {LK__TTL, own.ttl_ms});
	return rc < 0 ? rc
		      : latch_make(latch_out, client, name, name_size, own.ttl_ms, operation,
				   error);
}

lk_latch *lk_latch_free(lk_latch *latch)
{
	if (latch)
		lk__counter_unref(latch->counter);
	free(latch);
	return NULL;
}

static int latch_enter(struct lk__counter_call *call, lk_latch *latch, const char *operation,
		       lk_error *error)
{
	return lk__counter_enter(call, latch ? latch->counter : NULL, operation, error);
}

static int latch_change(lk_latch *latch, const char *operation, enum lk__script_id script,
			enum lk__argument what, int64_t number, int64_t *answer_out,
			lk_error *error)
{
	struct lk__counter_call call;
	struct lk__change change = {.script = script};
	lk__change_add_number(&change, number);
	int rc = LK__CHECK(operation, error, {what, number});
	if (rc == 0)
		rc = latch_enter(&call, latch, operation, error);
	return rc < 0 ? rc
		      : lk__counter_leave(&call, lk__counter_change(&call, &change, answer_out));
}

int lk_latch_try_set(lk_latch *latch, int64_t count, lk_error *error)
{
	int64_t answer = 0;
	int rc = latch_change(latch, "lk_latch_try_set", LK__SCRIPT_LATCH_SET, LK__LATCH_COUNT,
			      count, &answer, error);
	return rc < 0 ? rc : (int)answer;
}

int lk_latch_count_down(lk_latch *latch, int64_t by, int64_t *left_out, lk_error *error)
{
	int64_t left = 0;
	int rc = latch_change(latch, "lk_latch_count_down", LK__SCRIPT_LATCH_COUNT_DOWN,
			      LK__LATCH_BY, by, &left, error);
	if (rc == 0 && left_out)
		*left_out = left;
	return rc;
}

int lk_latch_count(lk_latch *latch, int64_t *count_out, lk_error *error)
{
	struct lk__counter_call call;
	int64_t count;
	if (!count_out)
		return lk__fail(error, LK_EINVAL, "lk_latch_count: count_out is NULL");
	int rc = latch_enter(&call, latch, "lk_latch_count", error);
	if (rc < 0)
		return rc;
	rc = lk__counter_get(&call, &count);
	if (rc == 0)
		*count_out = count > 0 ? count : 0;
	return lk__counter_leave(&call, rc);
}

/* Asks even if others wait: what they were told may be older than our own count-down. */
static int latch_look(struct lk__counter_call *call)
{
	int64_t count = 0;
	int rc = lk__counter_get(call, &count);
	return rc == 0 && count > 0 ? LK_EBUSY : rc;
}

static int latch_wait(lk_latch *latch, const char *operation, int64_t wait_ms, lk_cancel *cancel,
		      lk_error *error)
{
	struct lk__counter_call call;
	struct lk__want want = {.wait_ms = wait_ms, .cancel = cancel};
	int rc = latch_enter(&call, latch, operation, error);
	if (rc < 0)
		return rc;
	rc = wait_ms == 0 ? lk__counter_waited(call.counter->entry, 0, latch_look(&call), error)
			  : lk__counter_acquire(&call, &want);
	return lk__counter_leave(&call, rc);
}

int lk_latch_await(lk_latch *latch, lk_cancel *cancel, lk_error *error)
{
	return latch_wait(latch, "lk_latch_await", -1, cancel, error);
}

int lk_latch_await_within(lk_latch *latch, int64_t wait_ms, lk_cancel *cancel, lk_error *error)
{
	const char *operation = "lk_latch_await_within";
	int rc = LK__CHECK(operation, error, {LK__WAIT, wait_ms});
	return rc < 0 ? rc : latch_wait(latch, operation, wait_ms, cancel, error);
}

int lk_latch_delete(lk_latch *latch, lk_error *error)
{
	struct lk__counter_call call;
	struct lk__change change = {.script = LK__SCRIPT_LATCH_DELETE};
	int64_t removed = 0;
	int rc = latch_enter(&call, latch, "lk_latch_delete", error);
	if (rc == 0)
		rc = lk__counter_leave(&call, lk__counter_change(&call, &change, &removed));
	return rc < 0 ? rc : (int)removed;
}
