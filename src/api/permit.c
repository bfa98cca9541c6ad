/* SPDX-License-Identifier: MIT */
/* Taking permits and giving them back. */
#include "api/check.h"
#include "api/permit_semaphore.h"
#include "base/fail.h"
#include "conf/config.h"
#include "drive/count/counting.h"
#include "drive/lock/release.h"

/* ---- taking ---- */

int lk__permits_check(const char *operation, const lk_permit_semaphore *semaphore, int64_t count,
		      const lk_acquire_options *options, lk_error *error)
{
	int64_t watchdog_ms = semaphore->counter->client->config->watchdog_ms;
	int64_t lease_ms = options->lease_ms ? options->lease_ms : watchdog_ms;
	if (options->owner)
		return lk__fail(error, LK_EINVAL, "%s: a permit has no owner but its id",
				operation);
	if (options->fence_out)
		return lk__fail(error, LK_EINVAL,
				"%s: fence_out is set, and a permit has no fence token", operation);
	int rc = LK__CHECK(operation, error, {LK__IDS, count}, {LK__NO_LOSS, options->no_loss},
			   {LK__LEASE, lease_ms}, {LK__MAX_HOLD, options->max_hold_ms});
	return rc < 0 ? rc
		      : lk__check_range(operation, "margin_ms", options->margin_ms, 0, lease_ms,
					error);
}

static int permits_take(lk_permit_semaphore *semaphore, const char *operation, int64_t count,
			lk_permit *permits_out, int64_t wait_ms, const lk_acquire_options *options,
			lk_error *error)
{
	struct lk__counter_call call;
	struct lk__grant grant;
	lk_acquire_options own;
	if (!permits_out)
		return lk__fail(error, LK_EINVAL, "%s: permits_out is NULL", operation);
	int rc = lk__copy_options(&own, sizeof(own), options, operation, error);
	if (rc == 0)
		rc = lk__permit_enter(&call, semaphore, operation, error);
	if (rc < 0)
		return rc;
	rc = lk__permits_check(operation, semaphore, count, &own, error);
	struct lk__want want = {.wait_ms = wait_ms,
				.count = count,
				.lease_ms = own.lease_ms,
				.max_hold_ms = own.max_hold_ms,
				.margin_ms = own.margin_ms,
				.tag = own.tag,
				.no_loss = own.no_loss,
				.settings = {.permits = semaphore->permits},
				.cancel = own.cancel,
				.grant_out = &grant};
	if (rc == 0)
		rc = lk__counter_acquire(&call, &want);
	if (rc == 0)
		rc = lk__permits_hold(call.counter->entry, call.thread, &want, &grant, permits_out,
				      NULL, operation, error);
	return lk__counter_leave(&call, rc);
}

int lk_permit_semaphore_acquire(lk_permit_semaphore *semaphore, int64_t count,
				lk_permit *permits_out, const lk_acquire_options *options,
				lk_error *error)
{
	return permits_take(semaphore, "lk_permit_semaphore_acquire", count, permits_out, -1,
			    options, error);
}

int lk_permit_semaphore_acquire_within(lk_permit_semaphore *semaphore, int64_t count,
				       lk_permit *permits_out, int64_t wait_ms,
				       const lk_acquire_options *options, lk_error *error)
{
	const char *operation = "lk_permit_semaphore_acquire_within";
	int rc = LK__CHECK(operation, error, {LK__WAIT, wait_ms});
	return rc < 0 ? rc
		      : permits_take(semaphore, operation, count, permits_out, wait_ms, options,
				     error);
}

int lk_permit_semaphore_try(lk_permit_semaphore *semaphore, int64_t count, lk_permit *permits_out,
			    const lk_acquire_options *options, lk_error *error)
{
	return permits_take(semaphore, "lk_permit_semaphore_try", count, permits_out, 0, options,
			    error);
}

/* ---- giving back ---- */

/* One of ours goes the way of every lock. */
static int giving_run(struct lk__counter_call *call, struct lk__giving *giving)
{
	struct lk__owner owner = {.name = giving->part[0].permit.id,
				  .name_size = LK_PERMIT_ID_SIZE - 1};
	struct lk__counting counting;
	if (giving->count == 1 && giving->part[0].entry)
		return lk__release_run(giving->part[0].entry, call->thread, &owner, 0, false,
				       call->error);
	lk__counting_give(&counting, call->counter, call->thread, giving, call->operation,
			  call->error);
	return lk__op_run(&counting.op);
}

int lk__permits_check_ids(const char *operation, const lk_permit *permits, int64_t count,
			  lk_error *error)
{
	if (!permits)
		return lk__fail(error, LK_EINVAL, "%s: permits is NULL", operation);
	int rc = LK__CHECK(operation, error, {LK__IDS, count});
	for (int64_t i = 0; rc == 0 && i < count; i++)
		rc = lk__permit_check_id(operation, permits[i].id, error);
	return rc;
}

int lk_permit_semaphore_release(lk_permit_semaphore *semaphore, const lk_permit *permits,
				int64_t count, lk_error *error)
{
	const char *operation = "lk_permit_semaphore_release";
	struct lk__counter_call call;
	struct lk__giving *giving;
	int rc = lk__permits_check_ids(operation, permits, count, error);
	if (rc == 0)
		rc = lk__permit_enter(&call, semaphore, operation, error);
	if (rc < 0)
		return rc;
	rc = lk__giving_new(&giving, call.counter->entry, permits, (size_t)count, operation, error);
	if (rc == 0) {
		rc = giving_run(&call, giving);
		lk__giving_free(giving);
	}
	return lk__counter_leave(&call, rc);
}
