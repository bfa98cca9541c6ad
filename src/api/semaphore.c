/* SPDX-License-Identifier: MIT */
/* The public face of the semaphore. */
#include <lockkeeper/semaphore.h>

#include <stdlib.h>

#include <lockkeeper/lock.h>

#include "api/check.h"
#include "api/counter.h"
#include "base/fail.h"
#include "sync/semaphore/semaphore.h"

int lk_semaphore_new(lk_semaphore **semaphore_out, lk_client *client, const void *name,
		     size_t name_size, lk_error *error)
{
	const char *operation = "lk_semaphore_new";
	if (!semaphore_out)
		return lk__fail(error, LK_EINVAL, "%s: an argument is NULL", operation);
	lk_semaphore *semaphore = calloc(1, sizeof(*semaphore));
	if (!semaphore)
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", operation);
	int rc = lk__counter_open(&semaphore->counter, client, &lk__semaphore_recipe, name,
				  name_size, operation, error);
	if (rc < 0)
		free(semaphore);
	else
		*semaphore_out = semaphore;
	return rc;
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
	int rc = lk__check_range(operation, "permits", permits, 1, LK_PERMITS_MAX, error);
	if (rc == 0)
		rc = lk__check_range(operation, "wait_ms", wait_ms, -1, LK_WAIT_MAX_MS, error);
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
	int rc = lk__check_range(operation, "wait_ms", wait_ms, 0, LK_WAIT_MAX_MS, error);
	return rc < 0 ? rc : semaphore_take(semaphore, operation, permits, wait_ms, cancel, error);
}

int lk_semaphore_try(lk_semaphore *semaphore, int64_t permits, lk_error *error)
{
	return semaphore_take(semaphore, "lk_semaphore_try", permits, 0, NULL, error);
}

/* ---- changing ---- */

/* One change with a number and another argument, checked by the caller. */
static int semaphore_change(lk_semaphore *semaphore, const char *operation,
			    enum lk__script_id script, int64_t number, int64_t other,
			    int64_t *answer_out, lk_error *error)
{
	struct lk__counter_call call;
	struct lk__change change = {.script = script};
	lk__change_add_number(&change, number);
	lk__change_add_number(&change, other);
	int rc = semaphore_enter(&call, semaphore, operation, error);
	return rc < 0 ? rc
		      : lk__counter_leave(&call, lk__counter_change(&call, &change, answer_out));
}

int lk_semaphore_try_set(lk_semaphore *semaphore, int64_t permits, int64_t ttl_ms, lk_error *error)
{
	const char *operation = "lk_semaphore_try_set";
	int64_t answer = 0;
	int rc = lk__check_range(operation, "permits", permits, 0, LK_PERMITS_MAX, error);
	if (rc == 0)
		rc = lk__check_range(operation, "ttl_ms", ttl_ms, 0, LK_LEASE_MAX_MS, error);
	if (rc == 0)
		rc = semaphore_change(semaphore, operation, LK__SCRIPT_SEMAPHORE_SET, permits,
				      ttl_ms, &answer, error);
	return rc < 0 ? rc : (int)answer;
}

static int semaphore_give(lk_semaphore *semaphore, const char *operation, int64_t permits,
			  bool if_exists, lk_error *error)
{
	int64_t answer = 0;
	int rc = lk__check_range(operation, "permits", permits, 1, LK_PERMITS_MAX, error);
	if (rc == 0)
		rc = semaphore_change(semaphore, operation, LK__SCRIPT_SEMAPHORE_ADD, permits,
				      if_exists, &answer, error);
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
	int rc = lk__check_range(operation, "change", change, -LK_PERMITS_MAX, LK_PERMITS_MAX,
				 error);
	if (rc == 0 && change == 0)
		rc = lk__fail(error, LK_EINVAL, "%s: change is 0", operation);
	return rc < 0 ? rc
		      : semaphore_change(semaphore, operation, LK__SCRIPT_SEMAPHORE_ADD, change, 0,
					 &answer, error);
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
