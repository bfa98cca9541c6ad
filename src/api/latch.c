/* SPDX-License-Identifier: MIT */
/* The public face of the count-down latch. */
#include <lockkeeper/latch.h>

#include <lockkeeper/lock.h>

#include "api/check.h"
#include "api/counter.h"
#include "base/fail.h"
#include "sync/recipes.h"

int lk_latch_new(lk_latch **latch_out, lk_client *client, const void *name, size_t name_size,
		 const lk_latch_options *options, lk_error *error)
{
	const char *operation = "lk_latch_new";
	lk_latch_options own;
	struct lk__counter *counter;
	if (!latch_out)
		return lk__fail(error, LK_EINVAL, "%s: an argument is NULL", operation);
	int rc = lk__copy_options(&own, sizeof(own), options, operation, error);
	if (rc == 0)
		rc = LK__CHECK(operation, error, {LK__TTL, own.ttl_ms});
	if (rc == 0)
		rc = lk__counter_open(&counter, client, &lk__latch_recipe, name, name_size, 0,
				      own.ttl_ms, operation, error);
	if (rc == 0)
		*latch_out = (lk_latch *)counter;
	return rc;
}

lk_latch *lk_latch_free(lk_latch *latch)
{
	return lk__counter_free(latch);
}

/* ---- changing ---- */

static int latch_change(struct lk__counter_call call, lk__change_request *request,
			enum lk__argument what, int64_t number, int64_t *answer_out)
{
	struct lk__change change = {.request = request, .count = number};
	int rc = LK__CHECK(call.operation, call.error, {what, number});
	return rc < 0 ? rc : lk__counter_change(&call, &change, answer_out);
}

int lk_latch_try_set(lk_latch *latch, int64_t count, lk_error *error)
{
	int64_t answer = 0;
	int rc = latch_change(lk__counter_call(latch, "lk_latch_try_set", error), lk__latch_set,
			      LK__LATCH_COUNT, count, &answer);
	return rc < 0 ? rc : (int)answer;
}

int lk__start_latch_try_set(const struct lk__start *start)
{
	return latch_change(lk__counter_start(start), lk__latch_set, LK__LATCH_COUNT,
			    start->request->number, NULL);
}

int lk_latch_count_down(lk_latch *latch, int64_t by, int64_t *left_out, lk_error *error)
{
	int64_t left = 0;
	int rc = latch_change(lk__counter_call(latch, "lk_latch_count_down", error),
			      lk__latch_count_down, LK__LATCH_BY, by, &left);
	if (rc == 0 && left_out)
		*left_out = left;
	return rc;
}

int lk__start_latch_count_down(const struct lk__start *start)
{
	return latch_change(lk__counter_start(start), lk__latch_count_down, LK__LATCH_BY,
			    start->request->number, NULL);
}

static int latch_delete(struct lk__counter_call call)
{
	static const struct lk__change change = {.request = lk__latch_delete};
	return lk__counter_change_said(&call, &change);
}

int lk_latch_delete(lk_latch *latch, lk_error *error)
{
	return latch_delete(lk__counter_call(latch, "lk_latch_delete", error));
}

int lk__start_latch_delete(const struct lk__start *start)
{
	return latch_delete(lk__counter_start(start));
}

/* ---- asking ---- */

int lk_latch_count(lk_latch *latch, int64_t *count_out, lk_error *error)
{
	struct lk__counter_call call = lk__counter_call(latch, "lk_latch_count", error);
	int64_t count;
	if (!count_out)
		return lk__fail(error, LK_EINVAL, "lk_latch_count: count_out is NULL");
	int rc = lk__counter_get(&call, &count);
	if (rc == 0)
		*count_out = count > 0 ? count : 0;
	return rc;
}

int lk__start_latch_count(const struct lk__start *start)
{
	struct lk__counter_call call = lk__counter_start(start);
	return lk__counter_get(&call, NULL);
}

/* ---- waiting ---- */

/* Asks even if others wait: what they were told may be older than our own count-down. */
static int latch_look(struct lk__counter_call *call)
{
	int64_t count = 0;
	int rc = lk__counter_get(call, &count);
	return rc == 0 && count > 0
		       ? lk__counter_waited(call->counter->entry, 0, LK_EBUSY, call->error)
		       : rc;
}

static int latch_wait(struct lk__counter_call call, int64_t wait_ms, lk_cancel *cancel)
{
	struct lk__want want = {.wait_ms = wait_ms, .cancel = cancel};
	int rc = LK__CHECK(call.operation, call.error, {LK__WAIT, wait_ms});
	if (rc < 0)
		return rc;
	return wait_ms == 0 ? latch_look(&call) : lk__counter_wait(&call, &want);
}

int lk_latch_await(lk_latch *latch, int64_t wait_ms, lk_cancel *cancel, lk_error *error)
{
	return latch_wait(lk__counter_call(latch, "lk_latch_await", error), wait_ms, cancel);
}

int lk__start_latch_await(const struct lk__start *start)
{
	return latch_wait(lk__counter_start(start), start->request->wait_ms, NULL);
}
