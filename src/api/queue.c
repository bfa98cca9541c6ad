/* SPDX-License-Identifier: MIT */
/* The public face of completion queues: arguments are checked here, the rest is the drivers'. */
#include <lockkeeper/queue.h>

#include "api/check.h"
#include "base/clock.h"
#include "base/fail.h"
#include "lock/async.h"

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

int lk_queue_take(lk_queue *queue, lk_completion *completions_out, size_t most, int64_t wait_ms,
		  lk_error *error)
{
	const char *operation = "lk_queue_take";
	int saved, rc = lk__queue_check(queue, operation, error);
	if (rc < 0)
		return rc;
	if (!completions_out || most == 0 || most > INT32_MAX)
		return lk__fail(error, LK_EINVAL, "%s: there is no room for a completion",
				operation);
	rc = lk__check_size(operation, completions_out, COMPLETION_SIZE_MIN, sizeof(lk_completion),
			    error);
	if (rc == 0)
		rc = LK__CHECK(operation, error, {LK__WAIT, wait_ms});
	if (rc < 0)
		return rc;
	int64_t until_ns = wait_ms < 0 ? LK__NEVER : lk__after_ms(lk__now_ns(), wait_ms);
	size_t size = completions_out->struct_size;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &saved);
	rc = size == sizeof(lk_completion)
		     ? lk__queue_take(queue, completions_out, most, until_ns, lk__async_taken)
		     : take_resized(queue, (char *)completions_out, size, most, until_ns);
	pthread_setcancelstate(saved, NULL);
	if (size == sizeof(lk_completion))
		for (int i = 0; i < rc; i++)
			completions_out[i].struct_size = size;
	return rc;
}
