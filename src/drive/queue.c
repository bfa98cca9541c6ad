/* SPDX-License-Identifier: MIT */
#include "drive/queue.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/fail.h"
#include "drive/async.h"

struct lk_queue {
	const _Atomic int *alive; /* 0 in a forked child */
	pthread_mutex_t mutex;
	int fd; /* readable while there is something to take */
	size_t capacity;
	size_t count; /* in flight, or to be taken */
	uint64_t last_id;
	struct lk__completion *in_flight; /* by id */
	struct lk__completion *completed; /* oldest first */
};

bool lk__queue_forked(const lk_queue *queue)
{
	return atomic_load_explicit(queue->alive, memory_order_relaxed) == 0;
}

int lk__queue_fd(const lk_queue *queue)
{
	return queue->fd;
}

static void queue_destroy(lk_queue *queue)
{
	if (queue->fd >= 0)
		lk__fd_close(queue->fd);
	lk__alive_free(queue->alive);
	pthread_mutex_destroy(&queue->mutex);
	free(queue);
}

int lk__queue_new(lk_queue **queue_out, size_t capacity, lk_error *error)
{
	lk_queue *queue = calloc(1, sizeof(*queue));
	if (!queue)
		return lk__fail(error, LK_ENOMEM, "lk_queue_new: out of memory");
	pthread_mutex_init(&queue->mutex, NULL);
	queue->capacity = capacity;
	queue->fd = lk__wake_fd_new();
	int rc = queue->fd < 0 ? lk__fail_errno(error, LK_ESYSTEM, errno, "lk_queue_new: eventfd")
			       : lk__alive_new(&queue->alive, error);
	if (rc < 0)
		queue_destroy(queue);
	else
		*queue_out = queue;
	return rc;
}

int lk__queue_free(lk_queue *queue, lk_error *error)
{
	size_t in_flight = 0, count = 0;
	if (!lk__queue_forked(queue)) {
		pthread_mutex_lock(&queue->mutex);
		in_flight = HASH_COUNT(queue->in_flight);
		count = queue->count;
		pthread_mutex_unlock(&queue->mutex);
	}
	if (count > 0)
		return lk__fail(error, LK_EPENDING,
				"lk_queue_free: %zu requests are in flight, %zu completions were "
				"not taken",
				in_flight, count - in_flight);
	queue_destroy(queue);
	return 0;
}

/* ---- requests ---- */

static struct lk__completion *completion_new(lk_queue *queue, int operation,
					     const struct lk__owner *owner)
{
	struct lk__completion *completion = calloc(1, sizeof(*completion) + owner->name_size + 1);
	if (!completion)
		return NULL;
	memcpy(completion->owner_name, owner->name, owner->name_size);
	completion->owner = *owner;
	completion->owner.name = completion->owner_name;
	completion->queue = queue;
	completion->value.operation = operation;
	return completion;
}

/* Under the queue's mutex. */
static int queue_add(lk_queue *queue, struct lk__completion *completion)
{
	if (queue->count >= queue->capacity)
		return LK_ELIMIT;
	completion->value.id = queue->last_id + 1;
	HASH_ADD(hh, queue->in_flight, value.id, sizeof(completion->value.id), completion);
	if (!completion->hh.tbl)
		return LK_ENOMEM;
	queue->last_id++;
	queue->count++;
	return 0;
}

int lk__queue_reserve(lk_queue *queue, struct lk__completion **completion_out, int operation,
		      const struct lk__owner *owner, lk_error *error)
{
	struct lk__completion *completion = completion_new(queue, operation, owner);
	int rc = LK_ENOMEM;
	if (completion) {
		pthread_mutex_lock(&queue->mutex);
		rc = queue_add(queue, completion);
		pthread_mutex_unlock(&queue->mutex);
	}
	if (rc == 0) {
		*completion_out = completion;
		return 0;
	}
	free(completion);
	return rc == LK_ELIMIT
		       ? lk__fail(error, rc, "the queue is full: %zu requests were not taken",
				  queue->capacity)
		       : lk__fail(error, rc, "queue: out of memory");
}

void lk__queue_unreserve(struct lk__completion *completion)
{
	lk_queue *queue = completion->queue;
	pthread_mutex_lock(&queue->mutex);
	HASH_DEL(queue->in_flight, completion);
	queue->count--;
	pthread_mutex_unlock(&queue->mutex);
	free(completion);
}

void lk__queue_deliver(lk_queue *queue, struct lk__completion *completions)
{
	struct lk__completion *completion;
	pthread_mutex_lock(&queue->mutex);
	DL_FOREACH(completions, completion)
	{
		assert(completion->async && completion->queue == queue);
		HASH_DEL(queue->in_flight, completion);
		completion->async = NULL;
	}
	if (!queue->completed)
		lk__wake_fd(queue->fd);
	DL_CONCAT(queue->completed, completions);
	pthread_mutex_unlock(&queue->mutex);
}

int lk__queue_cancel(lk_queue *queue, uint64_t id, lk_error *error)
{
	struct lk__completion *completion;
	int rc = 0;
	pthread_mutex_lock(&queue->mutex);
	HASH_FIND(hh, queue->in_flight, &id, sizeof(id), completion);
	if (completion && completion->value.operation != LK_OP_ACQUIRE)
		rc = LK_EINVAL;
	else if (completion && completion->async)
		rc = 1;
	if (rc == 1)
		lk__async_cancel(completion->async);
	pthread_mutex_unlock(&queue->mutex);
	return rc < 0 ? lk__fail(error, rc,
				 "lk_queue_cancel: request %llu is not an acquire, and cannot be "
				 "cancelled",
				 (unsigned long long)id)
		      : rc;
}

/* ---- taking ---- */

/* The oldest ones, `most` at most, which are the caller's now. */
static struct lk__completion *queue_pop(lk_queue *queue, size_t most)
{
	struct lk__completion *taken = NULL, *completion;
	pthread_mutex_lock(&queue->mutex);
	bool any = queue->completed != NULL;
	for (size_t i = 0; i < most && (completion = queue->completed); i++) {
		DL_DELETE(queue->completed, completion);
		DL_APPEND(taken, completion);
		queue->count--;
	}
	if (any && !queue->completed)
		lk__wake_fd_clear(queue->fd);
	pthread_mutex_unlock(&queue->mutex);
	return taken;
}

static int queue_take_some(lk_queue *queue, lk_completion *completions_out, size_t most)
{
	int count = 0;
	struct lk__completion *completion, *next, *taken = queue_pop(queue, most);
	DL_FOREACH_SAFE(taken, completion, next)
	{
		lk__async_taken(completion);
		completions_out[count++] = completion->value;
		free(completion);
	}
	return count;
}

int lk__queue_take(lk_queue *queue, lk_completion *completions_out, size_t most, int64_t until_ns)
{
	for (;;) {
		int count = queue_take_some(queue, completions_out, most);
		int64_t now_ns = lk__now_ns();
		if (count > 0 || (until_ns != LK__NEVER && now_ns >= until_ns))
			return count;
		struct pollfd fd = {.fd = queue->fd, .events = POLLIN};
		lk__poll(&fd, 1,
			 until_ns == LK__NEVER ? 60000 : lk__ms_until(now_ns, until_ns, 60000));
	}
}
