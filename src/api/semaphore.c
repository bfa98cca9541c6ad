/* SPDX-License-Identifier: MIT */
/* The public face of the semaphore. */
#include <lockkeeper/semaphore.h>

#include <lockkeeper/lock.h>

#include "api/check.h"
#include "api/counter.h"
#include "base/fail.h"
#include "sync/recipes.h"

int lk_semaphore_new(lk_semaphore **semaphore_out, lk_client *client, const void *name,
		     size_t name_size, const lk_semaphore_options *options, lk_error *error)
{
	const char *operation = "lk_semaphore_new";
	lk_semaphore_options own;
	struct lk__counter *counter;
	if (!semaphore_out)
		return lk__fail(error, LK_EINVAL, "%s: an argument is NULL", operation);
	int rc = lk__copy_options(&own, sizeof(own), options, operation, error);
	if (rc == 0)
		rc = LK__CHECK(operation, error, {LK__PERMITS_SET, own.permits},
			       {LK__TTL, own.ttl_ms});
	if (rc == 0)
		rc = lk__counter_open(&counter, client, &lk__semaphore_recipe, name, name_size,
				      own.permits, own.ttl_ms, operation, error);
	if (rc == 0)
		*semaphore_out = (lk_semaphore *)counter;
	return rc;
}

lk_semaphore *lk_semaphore_free(lk_semaphore *semaphore)
{
	return lk__counter_free(semaphore);
}

/* ---- taking ---- */

static int semaphore_take(struct lk__counter_call call, int64_t permits, int64_t wait_ms,
			  lk_cancel *cancel)
{
	struct lk__want want = {.wait_ms = wait_ms, .count = permits, .cancel = cancel};
	int rc = LK__CHECK(call.operation, call.error, {LK__PERMITS, permits}, {LK__WAIT, wait_ms});
	return rc < 0 ? rc : lk__counter_wait(&call, &want);
}

int lk_semaphore_acquire(lk_semaphore *semaphore, int64_t permits, int64_t wait_ms,
			 lk_cancel *cancel, lk_error *error)
{
	return semaphore_take(lk__counter_call(semaphore, "lk_semaphore_acquire", error), permits,
			      wait_ms, cancel);
}

int lk__start_semaphore_acquire(const struct lk__start *start)
{
	return semaphore_take(lk__counter_start(start), start->request->number,
			      start->request->wait_ms, NULL);
}

/* ---- giving back ---- */

/* A missing count starts from `none`. */
static struct lk__change semaphore_change(int64_t added, bool if_exists, int64_t none)
{
	return (struct lk__change){
		.request = lk__semaphore_add, .count = added, .if_exists = if_exists, .none = none};
}

static int semaphore_give(struct lk__counter_call call, int64_t permits,
			  const lk_semaphore_release_options *options)
{
	lk_semaphore_release_options own;
	int rc = lk__copy_options(&own, sizeof(own), options, call.operation, call.error);
	if (rc == 0)
		rc = LK__CHECK(call.operation, call.error, {LK__PERMITS, permits},
			       {LK__IF_EXISTS, own.if_exists});
	if (rc < 0)
		return rc;
	/* What is released was of a count that is gone: all are free. */
	bool says = call.counter && call.counter->permits > 0;
	struct lk__change change = semaphore_change(permits, own.if_exists,
						    says ? call.counter->permits - permits : 0);
	rc = lk__counter_change_said(&call, &change);
	return rc < 0 || own.if_exists ? rc : 0;
}

int lk_semaphore_release(lk_semaphore *semaphore, int64_t permits,
			 const lk_semaphore_release_options *options, lk_error *error)
{
	return semaphore_give(lk__counter_call(semaphore, "lk_semaphore_release", error), permits,
			      options);
}

int lk__start_semaphore_release(const struct lk__start *start)
{
	return semaphore_give(lk__counter_start(start), start->request->number,
			      start->request->semaphore_release);
}

/* ---- changing ---- */

static int semaphore_set(struct lk__counter_call call, int64_t permits, int64_t ttl_ms)
{
	struct lk__change change = {
		.request = lk__semaphore_set, .count = permits, .lasts_ms = ttl_ms};
	int rc = LK__CHECK(call.operation, call.error, {LK__PERMITS_SET, permits},
			   {LK__TTL, ttl_ms});
	return rc < 0 ? rc : lk__counter_change_said(&call, &change);
}

int lk_semaphore_try_set(lk_semaphore *semaphore, int64_t permits, int64_t ttl_ms, lk_error *error)
{
	return semaphore_set(lk__counter_call(semaphore, "lk_semaphore_try_set", error), permits,
			     ttl_ms);
}

int lk__start_semaphore_try_set(const struct lk__start *start)
{
	return semaphore_set(lk__counter_start(start), start->request->number,
			     start->request->ttl_ms);
}

static int semaphore_add(struct lk__counter_call call, int64_t added)
{
	int64_t answer;
	int rc = lk__counter_check_added(&call, added);
	if (rc < 0)
		return rc;
	struct lk__change change = semaphore_change(added, false,
						    call.counter ? call.counter->permits : 0);
	return lk__counter_change(&call, &change, &answer);
}

int lk_semaphore_add(lk_semaphore *semaphore, int64_t change, lk_error *error)
{
	return semaphore_add(lk__counter_call(semaphore, "lk_semaphore_add", error), change);
}

int lk__start_semaphore_add(const struct lk__start *start)
{
	return semaphore_add(lk__counter_start(start), start->request->number);
}

static int semaphore_drain(struct lk__counter_call call, int64_t *permits_out)
{
	static const struct lk__change change = {.request = lk__semaphore_drain};
	const struct lk__settings settings = {.flags = 0};
	int rc = call.counter ? lk__entry_refuses(call.counter->entry, &settings, call.error) : 0;
	return rc < 0 ? rc : lk__counter_change(&call, &change, permits_out);
}

int lk_semaphore_drain(lk_semaphore *semaphore, int64_t *permits_out, lk_error *error)
{
	const char *operation = "lk_semaphore_drain";
	if (!permits_out)
		return lk__fail(error, LK_EINVAL, "%s: permits_out is NULL", operation);
	return semaphore_drain(lk__counter_call(semaphore, operation, error), permits_out);
}

int lk__start_semaphore_drain(const struct lk__start *start)
{
	return semaphore_drain(lk__counter_start(start), NULL);
}

static int semaphore_delete(struct lk__counter_call call)
{
	static const struct lk__change change = {.request = lk__semaphore_delete};
	return lk__counter_change_said(&call, &change);
}

int lk_semaphore_delete(lk_semaphore *semaphore, lk_error *error)
{
	return semaphore_delete(lk__counter_call(semaphore, "lk_semaphore_delete", error));
}

int lk__start_semaphore_delete(const struct lk__start *start)
{
	return semaphore_delete(lk__counter_start(start));
}

/* ---- asking ---- */

int lk_semaphore_available(lk_semaphore *semaphore, int64_t *permits_out, lk_error *error)
{
	struct lk__counter_call call = lk__counter_call(semaphore, "lk_semaphore_available", error);
	if (!permits_out)
		return lk__fail(error, LK_EINVAL, "%s: permits_out is NULL", call.operation);
	return lk__counter_get(&call, permits_out);
}

int lk__start_semaphore_available(const struct lk__start *start)
{
	struct lk__counter_call call = lk__counter_start(start);
	return lk__counter_get(&call, NULL);
}
