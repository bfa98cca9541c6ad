/* SPDX-License-Identifier: MIT */
/* The public face of completion queues: arguments are checked here, the rest is the drivers'. */
#include <lockkeeper/queue.h>

#include "api/check.h"
#include "api/lock_handle.h"
#include "base/clock.h"
#include "base/fail.h"
#include "lock/async.h"
#include "lock/loop.h"
#include "lock/notice.h"

/* The least that a program can have been compiled with. */
#define COMPLETION_SIZE_MIN (offsetof(lk_completion, error) + sizeof(lk_error))

/* ---- queues ---- */

int lk_queue_new(lk_queue **queue_out, size_t capacity, lk_error *error)
{
	const char *operation = "lk_queue_new";
	if (!queue_out)
		return lk__fail(error, LK_EINVAL, "%s: queue_out is NULL", operation);
	if (capacity > LK_QUEUE_CAPACITY_MAX)
		return lk__fail(error, LK_EINVAL, "%s: capacity is %zu, not 0 … %d", operation,
				capacity, LK_QUEUE_CAPACITY_MAX);
	return lk__queue_new(queue_out, capacity ? capacity : LK_QUEUE_CAPACITY, error);
}

int lk_queue_free(lk_queue *queue, lk_error *error)
{
	return queue ? lk__queue_free(queue, error) : 0;
}

int lk__queue_check(const lk_queue *queue, const char *operation, lk_error *error)
{
	if (!queue)
		return lk__fail(error, LK_EINVAL, "%s: queue is NULL", operation);
	if (lk__queue_forked(queue))
		return lk__fail(error, LK_EFORKED, "%s: the queue belongs to the parent process",
				operation);
	return 0;
}

int lk_queue_fd(lk_queue *queue, lk_error *error)
{
	int rc = lk__queue_check(queue, "lk_queue_fd", error);
	return rc < 0 ? rc : lk__queue_fd(queue);
}

int lk_queue_on_ready(lk_queue *queue, lk_queue_callback callback, void *context, lk_error *error)
{
	int rc = lk__queue_check(queue, "lk_queue_on_ready", error);
	if (rc == 0 && !callback)
		rc = lk__fail(error, LK_EINVAL, "lk_queue_on_ready: callback is NULL");
	return rc < 0 ? rc : lk__queue_on_ready(queue, callback, context, error);
}

int lk_queue_cancel(lk_queue *queue, uint64_t id, lk_error *error)
{
	int rc = lk__queue_check(queue, "lk_queue_cancel", error);
	return rc < 0 ? rc : lk__queue_cancel(queue, id, lk__async_cancel, error);
}

/* Into an array whose elements have another size than ours. */
static int take_resized(lk_queue *queue, char *out, size_t size, size_t most, int64_t until_ns)
{
	lk_completion one;
	size_t count = 0;
	/* Only the first is waited for. */
	while (count < most &&
	       lk__queue_take(queue, &one, 1, count ? 0 : until_ns, lk__async_taken) == 1)
		lk__copy_sized(out + count++ * size, size, &one, sizeof(one));
	return (int)count;
}

int lk_queue_take_sized(lk_queue *queue, lk_completion *completions_out, size_t completion_size,
			size_t most, int64_t wait_ms, lk_error *error)
{
	const char *operation = "lk_queue_take";
	int saved, rc = lk__queue_check(queue, operation, error);
	if (rc == 0 && (!completions_out || most == 0 || most > INT32_MAX))
		rc = lk__fail(error, LK_EINVAL, "%s: there is no room for a completion", operation);
	if (rc == 0)
		rc = lk__check_size(operation, "completion_size", completion_size,
				    COMPLETION_SIZE_MIN, sizeof(lk_completion), error);
	if (rc == 0)
		rc = LK__CHECK(operation, error, {LK__WAIT, wait_ms});
	if (rc < 0)
		return rc;
	int64_t until_ns = wait_ms < 0 ? LK__NEVER : lk__after_ms(lk__now_ns(), wait_ms);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &saved);
	rc = completion_size == sizeof(lk_completion)
		     ? lk__queue_take(queue, completions_out, most, until_ns, lk__async_taken)
		     : take_resized(queue, (char *)completions_out, completion_size, most,
				    until_ns);
	pthread_setcancelstate(saved, NULL);
	return rc;
}

/* ---- notices ---- */

/* Makes a request, and hands it to the client. */
static int notices_start(lk_queue *queue, lk_client *client, uint64_t tag, uint64_t *id_out,
			 lk_error *error)
{
	static const struct lk__owner nobody = {.name = ""};
	struct lk__completion *request;
	int rc = lk__queue_reserve(queue, &request, LK_OP_NOTICE, &nobody, error);
	if (rc < 0)
		return rc;
	uint64_t id = request->value.id;
	request->value.tag = tag;
	request->client = client;
	lk__client_ref(client);
	rc = lk__notices_request(client, request, error);
	if (rc < 0) {
		lk__queue_unreserve(request);
		lk__client_unref(client);
	} else if (id_out) {
		*id_out = id;
	}
	return rc;
}

int lk_queue_notices(lk_queue *queue, lk_client *client, uint64_t tag, uint64_t *id_out,
		     lk_error *error)
{
	const char *operation = "lk_queue_notices";
	int rc = lk__queue_check(queue, operation, error);
	if (rc == 0 && !client)
		rc = lk__fail(error, LK_EINVAL, "%s: client is NULL", operation);
	if (rc == 0)
		rc = lk__client_check(client, operation, error);
	if (rc == 0)
		rc = lk__loop_start(client, error);
	return rc < 0 ? rc : notices_start(queue, client, tag, id_out, error);
}

/* ---- starting ---- */

/* Makes the checks of every start: queue, lock, owner, kind. 0 with the call begun, or a code. */
static int start_enter(struct lk__call *call, const lk_queue *queue, lk_lock *lock,
		       const char *operation, const char *owner, lk_error *error)
{
	int rc = lk__queue_check(queue, operation, error);
	if (rc == 0 && !owner)
		rc = lk__fail(error, LK_EINVAL,
			      "%s: no owner: the owner of an asynchronous hold is a name",
			      operation);
	if (rc == 0)
		rc = lk__lock_enter_briefly(call, lock, operation, owner, error);
	if (rc < 0)
		return rc;
	rc = call->multi ? lk__multi_start_loops(call->multi, error)
			 : lk__loop_start(call->entry->client, error);
	if (rc < 0)
		lk__lock_leave(call);
	return rc;
}

int lk__queue_start(lk_queue *queue, int operation, struct lk__entry *entry,
		    const struct lk__owner *owner, const struct lk__async_want *want, uint64_t tag,
		    uint64_t *id_out, lk_error *error)
{
	struct lk__completion *completion;
	int rc = lk__queue_reserve(queue, &completion, operation, owner, error);
	if (rc < 0)
		return rc;
	uint64_t id = completion->value.id;
	completion->value.tag = tag;
	rc = lk__async_start(completion, entry, want, error);
	if (rc < 0)
		lk__queue_unreserve(completion);
	else if (id_out)
		*id_out = id;
	return rc;
}

static int start(const struct lk__call *call, lk_queue *queue, int operation,
		 struct lk__async_want *want, uint64_t tag, uint64_t *id_out, lk_error *error)
{
	want->multi = call->multi;
	return lk__queue_start(queue, operation, call->entry, &call->owner, want, tag, id_out,
			       error);
}

int lk_queue_acquire(lk_queue *queue, lk_lock *lock, int64_t wait_ms,
		     const lk_acquire_options *options, uint64_t *id_out, lk_error *error)
{
	const char *operation = "lk_queue_acquire";
	lk_acquire_options own;
	struct lk__call call = {.entry = NULL};
	int rc = lk__copy_options(&own, sizeof(own), options, operation, error);
	if (rc == 0)
		rc = LK__CHECK(operation, error, {LK__WAIT, wait_ms});
	if (rc == 0 && (own.cancel || own.fence_out))
		rc = lk__fail(error, LK_EINVAL, "%s: %s", operation,
			      own.cancel ? "cancel is set: use lk_queue_cancel()"
					 : "fence_out is set: the completion has the token");
	if (rc == 0)
		rc = start_enter(&call, queue, lock, operation, own.owner, error);
	if (rc < 0)
		return rc;
	rc = lk__acquire_check(operation, lock, &own, error);
	if (rc == 0) {
		struct lk__async_want want = {
			.operation = operation,
			.acquire = lk__want_of(&own, wait_ms, lk__lock_settings(lock))};
		rc = start(&call, queue, LK_OP_ACQUIRE, &want, own.tag, id_out, error);
	}
	lk__lock_leave(&call);
	return rc;
}

int lk_queue_release(lk_queue *queue, lk_lock *lock, const lk_release_options *options,
		     uint64_t tag, uint64_t *id_out, lk_error *error)
{
	const char *operation = "lk_queue_release";
	struct lk__async_want want = {.way = LK__ASYNC_RELEASE, .operation = operation};
	lk_release_options own;
	struct lk__call call = {.entry = NULL};
	int rc = lk__copy_options(&own, sizeof(own), options, operation, error);
	if (rc == 0 && own.no_wait)
		rc = lk__fail(error, LK_EINVAL, "%s: no_wait is set", operation);
	if (rc == 0)
		rc = lk__release_check(operation, &own, error);
	if (rc == 0)
		rc = start_enter(&call, queue, lock, operation, own.owner, error);
	if (rc < 0)
		return rc;
	want.keep_ms = own.keep_ms;
	rc = start(&call, queue, LK_OP_RELEASE, &want, tag, id_out, error);
	lk__lock_leave(&call);
	return rc;
}

int lk_queue_extend(lk_queue *queue, lk_lock *lock, int64_t lease_ms, const char *owner,
		    uint64_t tag, uint64_t *id_out, lk_error *error)
{
	const char *operation = "lk_queue_extend";
	struct lk__async_want want = {
		.way = LK__ASYNC_EXTEND, .operation = operation, .lease_ms = lease_ms};
	struct lk__call call = {.entry = NULL};
	int rc = LK__CHECK(operation, error, {LK__LEASE, lease_ms});
	if (rc == 0)
		rc = start_enter(&call, queue, lock, operation, owner, error);
	if (rc < 0)
		return rc;
	rc = start(&call, queue, LK_OP_EXTEND, &want, tag, id_out, error);
	lk__lock_leave(&call);
	return rc;
}
