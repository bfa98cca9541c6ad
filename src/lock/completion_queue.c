/* SPDX-License-Identifier: MIT */
#include "lock/completion_queue.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/fail.h"
#include "base/identity.h"
#include "lock/notice.h"

struct lk_queue {
	const _Atomic int *alive; /* 0 in a forked child */
	pthread_mutex_t mutex;
	int fd; /* readable while there is something to take */
	size_t capacity;
	size_t count; /* in flight, or to be taken */
	uint64_t last_id;
	struct lk__completion *in_flight; /* by id */
	struct lk__completion *completed; /* oldest first */
	lk_queue_callback on_ready;       /* the same from the first request on */
	void *context;
	bool owed;     /* it is to be called */
	unsigned pins; /* calls of it, under way or about to be */
};

bool lk__queue_forked(const lk_queue *queue)
{
	return atomic_load_explicit(queue->alive, memory_order_relaxed) == 0;
}

int lk__queue_fd(const lk_queue *queue)
{
	return queue->fd;
}

int lk__queue_on_ready(lk_queue *queue, lk_queue_callback callback, void *context, lk_error *error)
{
	pthread_mutex_lock(&queue->mutex);
	bool used = queue->last_id > 0;
	if (!used) {
		queue->on_ready = callback;
		queue->context = context;
	}
	pthread_mutex_unlock(&queue->mutex);
	return used ? lk__fail(error, LK_EINVAL, "lk_queue_on_ready: the queue has had requests")
		    : 0;
}

static void queue_destroy(lk_queue *queue)
{
	if (queue->alive && lk__queue_forked(queue)) /* else it was never whole */
		lk__fds_drop_inherited();            /* its number may be another's by now */
	else if (queue->fd >= 0)
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
	int rc = queue->fd < 0 ? lk__fail_system(error, errno, "lk_queue_new: eventfd")
			       : lk__alive_new(&queue->alive, error);
	if (rc < 0)
		queue_destroy(queue);
	else
		*queue_out = queue;
	return rc;
}

/* A callback that is running may still need its context. */
static void queue_await_pins(lk_queue *queue)
{
	struct lk__park nap = {0};
	while (queue->pins > 0) {
		pthread_mutex_unlock(&queue->mutex);
		lk__park_wait(&nap, lk__now_ns() + LK__MS);
		pthread_mutex_lock(&queue->mutex);
	}
}

int lk__queue_free(lk_queue *queue, lk_error *error)
{
	size_t in_flight = 0, count = 0;
	if (!lk__queue_forked(queue)) {
		pthread_mutex_lock(&queue->mutex);
		in_flight = HASH_COUNT(queue->in_flight);
		count = queue->count;
		if (count == 0)
			queue_await_pins(queue);
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

/* ---- whether there is something to take ---- */

/* Under the mutex, as the next three: after a change, before which there was something or not. */
static void queue_mark(lk_queue *queue, bool before)
{
	bool any = queue->completed != NULL;
	if (any == before)
		return;
	queue->owed = any && queue->on_ready;
	if (any)
		lk__wake_fd(queue->fd);
	else
		lk__wake_fd_clear(queue->fd);
}

/* Gives the mutex up for the callback. */
static void queue_ring(lk_queue *queue)
{
	if (!queue->owed)
		return;
	queue->owed = false;
	queue->pins++;
	pthread_mutex_unlock(&queue->mutex);
	queue->on_ready(queue->context);
	pthread_mutex_lock(&queue->mutex);
	queue->pins--;
}

void lk__queue_pin(lk_queue *queue)
{
	pthread_mutex_lock(&queue->mutex);
	queue->pins++;
	pthread_mutex_unlock(&queue->mutex);
}

void lk__queue_ring(lk_queue *queue)
{
	pthread_mutex_lock(&queue->mutex);
	queue_ring(queue);
	queue->pins--;
	pthread_mutex_unlock(&queue->mutex);
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
		assert(completion->queue == queue);
		HASH_DEL(queue->in_flight, completion);
		completion->async = NULL;
	}
	bool before = queue->completed != NULL;
	DL_CONCAT(queue->completed, completions);
	queue_mark(queue, before);
	queue_ring(queue);
	pthread_mutex_unlock(&queue->mutex);
}

/* ---- requests for notices ---- */

/* Under the queue's mutex: behind all that wait to be taken, or not among them. */
static void queue_place(lk_queue *queue, struct lk__completion *request, bool listed)
{
	bool before = queue->completed != NULL;
	if (request->listed)
		DL_DELETE(queue->completed, request);
	if (listed)
		DL_APPEND(queue->completed, request);
	request->listed = listed;
	queue_mark(queue, before);
}

bool lk__queue_notify(struct lk__completion *request, bool any)
{
	lk_queue *queue = request->queue;
	pthread_mutex_lock(&queue->mutex);
	request->begun = true;
	/* What a closed client has left comes before the completion of its close. */
	bool stays = atomic_load(&request->client->state) == LK__CLIENT_CLOSED && any;
	if (!stays || !request->listed)
		queue_place(queue, request, any || request->cancelled);
	bool owed = queue->owed;
	pthread_mutex_unlock(&queue->mutex);
	return owed;
}

void lk__queue_end_notices(struct lk__completion *request)
{
	lk_queue *queue = request->queue;
	pthread_mutex_lock(&queue->mutex);
	queue_place(queue, request, false);
	HASH_DEL(queue->in_flight, request);
	queue->count--;
	pthread_mutex_unlock(&queue->mutex);
}

/* ---- cancelling ---- */

/* Under the queue's mutex. 1, 0 or LK_EINVAL. */
static int queue_cancel(lk_queue *queue, struct lk__completion *completion,
			void (*cancel)(struct lk__async *async))
{
	if (completion && completion->value.operation == LK_OP_NOTICE) {
		completion->cancelled = completion->begun;
		queue_place(queue, completion, completion->cancelled);
		if (queue->owed)
			lk__notices_owe(completion->client);
		return completion->begun;
	}
	if (completion && completion->value.operation != LK_OP_ACQUIRE &&
	    completion->value.operation != LK_OP_AWAIT &&
	    completion->value.operation != LK_OP_ENTER &&
	    completion->value.operation != LK_OP_LEAVE &&
	    completion->value.operation != LK_OP_WATCH &&
	    (completion->value.operation != LK_OP_DRAIN || completion->entry))
		return LK_EINVAL;
	if (!completion || !completion->async)
		return 0;
	cancel(completion->async);
	return 1;
}

int lk__queue_cancel(lk_queue *queue, uint64_t id, void (*cancel)(struct lk__async *async),
		     lk_error *error)
{
	struct lk__completion *completion;
	pthread_mutex_lock(&queue->mutex);
	HASH_FIND(hh, queue->in_flight, &id, sizeof(id), completion);
	int rc = queue_cancel(queue, completion, cancel);
	pthread_mutex_unlock(&queue->mutex);
	return rc < 0 ? lk__fail(error, rc,
				 "lk_queue_cancel: request %llu waits for nothing, and cannot be "
				 "cancelled",
				 (unsigned long long)id)
		      : rc;
}

/* ---- taking ---- */

/* The oldest ones, `most` at most, which are the caller's now. They end before a client that has
 * notices, which comes out with a reference. */
static struct lk__completion *queue_pop(lk_queue *queue, size_t most, lk_client **notices_of_out)
{
	struct lk__completion *taken = NULL, *completion;
	pthread_mutex_lock(&queue->mutex);
	bool before = queue->completed != NULL;
	for (size_t i = 0; i < most && (completion = queue->completed); i++) {
		if (completion->value.operation == LK_OP_NOTICE) {
			*notices_of_out = completion->client;
			lk__client_ref(completion->client);
			break;
		}
		DL_DELETE(queue->completed, completion);
		DL_APPEND(taken, completion);
		queue->count--;
	}
	queue_mark(queue, before);
	pthread_mutex_unlock(&queue->mutex);
	return taken;
}

/* A notice, or the end of the request for them. How many: none if another thread was faster. Takes
 * the reference of the client. */
static int queue_take_notice(lk_queue *queue, lk_client *client, lk_completion *completion_out)
{
	struct lk__completion *ended = NULL;
	int count = lk__notices_take(client, queue, completion_out, &ended);
	if (ended) {
		*completion_out = ended->value;
		free(ended);
		lk__client_unref(client);
	}
	lk__client_unref(client);
	return count;
}

/* Each round takes something, or another thread has. */
static int queue_take_some(lk_queue *queue, lk_completion *completions_out, size_t most,
			   void (*taken)(struct lk__completion *completion))
{
	size_t count = 0;
	lk_client *notices_of;
	do {
		notices_of = NULL;
		struct lk__completion *completion, *next;
		struct lk__completion *some = queue_pop(queue, most - count, &notices_of);
		DL_FOREACH_SAFE(some, completion, next)
		{
			taken(completion);
			completions_out[count++] = completion->value;
			free(completion);
		}
		if (notices_of)
			count += queue_take_notice(queue, notices_of, &completions_out[count]);
	} while (notices_of && count < most);
	return (int)count;
}

int lk__queue_take(lk_queue *queue, lk_completion *completions_out, size_t most, int64_t until_ns,
		   void (*taken)(struct lk__completion *completion))
{
	for (;;) {
		int count = queue_take_some(queue, completions_out, most, taken);
		int64_t now_ns = lk__now_ns();
		if (count > 0 || (until_ns != LK__NEVER && now_ns >= until_ns))
			return count;
		struct pollfd fd = {.fd = queue->fd, .events = POLLIN};
		lk__poll(&fd, 1,
			 until_ns == LK__NEVER ? 60000 : lk__ms_until(now_ns, until_ns, 60000));
	}
}
