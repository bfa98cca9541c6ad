/* SPDX-License-Identifier: MIT */
/* The public face of the semaphore. */
#include <lockkeeper/semaphore.h>

#include <stdlib.h>

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
	if (!semaphore_out)
		return lk__fail(error, LK_EINVAL, "%s: an argument is NULL", operation);
	int rc = lk__copy_options(&own, sizeof(own), options, operation, error);
	if (rc == 0)
		rc = LK__CHECK(operation, error, {LK__PERMITS_SET, own.permits},
			       {LK__TTL, own.ttl_ms});
	if (rc < 0)
		return rc;
	lk_semaphore *semaphore = calloc(1, sizeof(*semaphore));
	if (!semaphore)
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", operation);
	semaphore->permits = own.permits;
	rc = lk__counter_open(&semaphore->counter, client, &lk__semaphore_recipe, name, name_size,
			      operation, error);
	if (rc < 0) {
		free(semaphore);
		return rc;
	}
	semaphore->counter->ttl_ms = own.ttl_ms;
	*semaphore_out = semaphore;
	return 0;
}

lk_semaphore *lk_semaphore_free(lk_semaphore *semaphore)
{
	if (semaphore)
		lk__counter_unref(semaphore->counter);
	free(semaphore);
	return NULL;
}

static int semaphore_enter(struct lk__counter_call *call, lk_semaphore *semaphore,
			   const char *operation, lk_error *error)
{
	return lk__counter_enter(call, semaphore ? semaphore->counter : NULL, operation, error);
}

/* ---- taking ---- */

static int semaphore_take(lk_semaphore *semaphore, const char *operation, int64_t permits,
			  int64_t wait_ms, lk_cancel *cancel, lk_error *error)
{
	struct lk__counter_call call;
	struct lk__want want = {.wait_ms = wait_ms, .count = permits, .cancel = cancel};
	int rc = LK__CHECK(operation, error, {LK__PERMITS, permits});
	want.settings.permits = semaphore ? semaphore->permits : 0;
	if (rc == 0)
		rc = LK__CHECK(operation, error, {LK__WAIT_OR_NOT, wait_ms});
	if (rc == 0)
		rc = semaphore_enter(&call, semaphore, operation, error);
	return rc < 0 ? rc : lk__counter_leave(&call, lk__counter_acquire(&call, &want));
}

int lk_semaphore_acquire(lk_semaphore *semaphore, int64_t permits, lk_cancel *cancel,
			 lk_error *error)
{
	return semaphore_take(semaphore, "lk_semaphore_acquire", permits, -1, cancel, error);
}

int lk_semaphore_acquire_within(lk_semaphore *semaphore, int64_t permits, int64_t wait_ms,
				lk_cancel *cancel, lk_error *error)
{
	const char *operation = "lk_semaphore_acquire_within";
	int rc = LK__CHECK(operation, error, {LK__WAIT, wait_ms});
	return rc < 0 ? rc : semaphore_take(semaphore, operation, permits, wait_ms, cancel, error);
}

int lk_semaphore_try(lk_semaphore *semaphore, int64_t permits, lk_error *error)
{
	return semaphore_take(semaphore, "lk_semaphore_try", permits, 0, NULL, error);
}

/* ---- changing ---- */

struct lk__change lk__semaphore_set(int64_t permits, int64_t ttl_ms)
{
	struct lk__change change = {.script = LK__SCRIPT_SEMAPHORE_SET};
	lk__change_add_number(&change, permits);
	lk__change_add_number(&change, ttl_ms);
	return change;
}

/* A missing count starts from `none`. */
static struct lk__change semaphore_add(int64_t added, bool if_exists, int64_t none)
{
	struct lk__change change = {.script = LK__SCRIPT_SEMAPHORE_ADD};
	lk__change_add_number(&change, added);
	lk__change_add_number(&change, if_exists);
	lk__change_add_number(&change, none);
	return change;
}

struct lk__change lk__semaphore_give(const lk_semaphore *semaphore, int64_t permits, bool if_exists)
{
	/* What is released was of a count that is gone: all are free. */
	bool says = semaphore && semaphore->permits > 0;
	return semaphore_add(permits, if_exists, says ? semaphore->permits - permits : 0);
}

struct lk__change lk__semaphore_add(const lk_semaphore *semaphore, int64_t change)
{
	return semaphore_add(change, false, semaphore ? semaphore->permits : 0);
}

static int semaphore_change(lk_semaphore *semaphore, const char *operation,
			    const struct lk__change *change, int64_t *answer_out, lk_error *error)
{
	struct lk__counter_call call;
	int rc = semaphore_enter(&call, semaphore, operation, error);
	return rc < 0 ? rc
		      : lk__counter_leave(&call, lk__counter_change(&call, change, answer_out));
}

int lk_semaphore_try_set(lk_semaphore *semaphore, int64_t permits, int64_t ttl_ms, lk_error *error)
{
	const char *operation = "lk_semaphore_try_set";
	int64_t answer = 0;
	int rc = LK__CHECK(operation, error, {LK__PERMITS_SET, permits}, {LK__TTL, ttl_ms});
	if (rc < 0)
		return rc;
	struct lk__change change = lk__semaphore_set(permits, ttl_ms);
	rc = semaphore_change(semaphore, operation, &change, &answer, error);
	return rc < 0 ? rc : (int)answer;
}

static int semaphore_give(lk_semaphore *semaphore, const char *operation, int64_t permits,
			  bool if_exists, lk_error *error)
{
	int64_t answer = 0;
	int rc = LK__CHECK(operation, error, {LK__PERMITS, permits});
	if (rc < 0)
		return rc;
	struct lk__change change = lk__semaphore_give(semaphore, permits, if_exists);
	rc = semaphore_change(semaphore, operation, &change, &answer, error);
	return rc < 0 ? rc : if_exists ? (int)answer : 0;
}

int lk_semaphore_release(lk_semaphore *semaphore, int64_t permits, lk_error *error)
{
	return semaphore_give(semaphore, "lk_semaphore_release", permits, false, error);
}

int lk_semaphore_release_if_exists(lk_semaphore *semaphore, int64_t permits, lk_error *error)
{
	return semaphore_give(semaphore, "lk_semaphore_release_if_exists", permits, true, error);
}

int lk_semaphore_add(lk_semaphore *semaphore, int64_t change, lk_error *error)
{
	const char *operation = "lk_semaphore_add";
	int64_t answer;
	int rc = LK__CHECK(operation, error, {LK__PERMITS_ADDED, change});
	if (rc == 0 && change == 0)
		rc = lk__fail(error, LK_EINVAL, "%s: change is 0", operation);
	if (rc < 0)
		return rc;
	struct lk__change added = lk__semaphore_add(semaphore, change);
	return semaphore_change(semaphore, operation, &added, &answer, error);
}

int lk_semaphore_drain(lk_semaphore *semaphore, int64_t *permits_out, lk_error *error)
{
	const char *operation = "lk_semaphore_drain";
	struct lk__counter_call call;
	struct lk__change change = {.script = LK__SCRIPT_SEMAPHORE_DRAIN};
	if (!permits_out)
		return lk__fail(error, LK_EINVAL, "%s: permits_out is NULL", operation);
	int rc = semaphore_enter(&call, semaphore, operation, error);
	return rc < 0 ? rc
		      : lk__counter_leave(&call, lk__counter_change(&call, &change, permits_out));
}

int lk_semaphore_available(lk_semaphore *semaphore, int64_t *permits_out, lk_error *error)
{
	const char *operation = "lk_semaphore_available";
	struct lk__counter_call call;
	if (!permits_out)
		return lk__fail(error, LK_EINVAL, "%s: permits_out is NULL", operation);
	int rc = semaphore_enter(&call, semaphore, operation, error);
	return rc < 0 ? rc : lk__counter_leave(&call, lk__counter_get(&call, permits_out));
}

int lk_semaphore_delete(lk_semaphore *semaphore, lk_error *error)
{
	struct lk__counter_call call;
	struct lk__change change = {.script = LK__SCRIPT_SEMAPHORE_DELETE};
	int64_t removed = 0;
	int rc = semaphore_enter(&call, semaphore, "lk_semaphore_delete", error);
	if (rc == 0)
		rc = lk__counter_leave(&call, lk__counter_change(&call, &change, &removed));
	return rc < 0 ? rc : (int)removed;
}
