/* The calls on a lock that have an asynchronous form, through a queue of their own. */
#include "driver.h"

/* What the completion says; starting it gave `result`. */
static int queued_take(lk_queue *queue, int result, lk_error *error)
{
	lk_completion completion = {.error = {.code = LK_EINTERNAL}};
	if (result == 0) {
		lk_queue_take(queue, &completion, 1, -1, error);
		*error = completion.error;
		result = completion.error.code;
	}
	lk_queue_free(queue, NULL);
	return result;
}

int queued_acquire(lk_lock *lock, int64_t wait_ms, const lk_acquire_options *options,
		   lk_error *error)
{
	lk_queue *queue = NULL;
	int result = lk_queue_new(&queue, 1, error);
	if (result == 0)
		result = lk_queue_acquire(queue, lock, wait_ms, options, NULL, error);
	return queued_take(queue, result, error);
}

int queued_release(lk_lock *lock, const lk_release_options *options, lk_error *error)
{
	lk_queue *queue = NULL;
	int result = lk_queue_new(&queue, 1, error);
	if (result == 0)
		result = lk_queue_release(queue, lock, options, 0, NULL, error);
	return queued_take(queue, result, error);
}

int queued_extend(lk_lock *lock, int64_t lease_ms, const char *owner, lk_error *error)
{
	lk_queue *queue = NULL;
	int result = lk_queue_new(&queue, 1, error);
	if (result == 0)
		result = lk_queue_extend(queue, lock, lease_ms, owner, 0, NULL, error);
	return queued_take(queue, result, error);
}
