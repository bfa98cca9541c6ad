/* SPDX-License-Identifier: MIT */
/* Completion queues as programs use them: requests start here, and completions are taken. */
#include <lockkeeper/queue.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "api/check.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "base/fail.h"
#include "base/identity.h"
#include "lock/async.h"
#include "lock/notice.h"

/* The least that a program can have been compiled with. */
#define COMPLETION_SIZE_MIN (offsetof(lk_completion, error) + sizeof(lk_error))

static bool queue_forked(const lk_queue *queue)
{
	return atomic_load_explicit(queue->alive, memory_order_relaxed) == 0;
}

static void queue_destroy(lk_queue *queue)
{
	if (queue->alive && queue_forked(queue)) /* else it was never whole */
		lk__fds_drop_inherited();        /* its number may be another's by now */
	else if (queue->fd >= 0)
		lk__fd_close(queue->fd);
	lk__alive_free(queue->alive);
	pthread_mutex_destroy(&queue->mutex);
	free(queue);
}

int lk_queue_new(lk_queue **queue_out, size_t capacity, lk_error *error)
{
	const char *operation = "lk_queue_new";
	if (!queue_out)
		return lk__fail(error, LK_EINVAL, "%s: queue_out is NULL", operation);
	if (capacity > LK_QUEUE_CAPACITY_MAX)
		return lk__fail(error, LK_EINVAL, "%s: capacity is %zu, not 0 … %d", operation,
				capacity, LK_QUEUE_CAPACITY_MAX);
	lk_queue *queue = calloc(1, sizeof(*queue));
	if (!queue)
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", operation);
	pthread_mutex_init(&queue->mutex, NULL);
	queue->capacity = capacity ? capacity : LK_QUEUE_CAPACITY;
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

int lk_queue_free(lk_queue *queue, lk_error *error)
{
	size_t in_flight = 0, count = 0;
	if (!queue)
		return 0;
	if (!queue_forked(queue)) {
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

/* 0, or why the queue cannot be used. */
static int queue_check(const lk_queue *queue, const char *operation, lk_error *error)
{
	if (!queue)
		return lk__fail(error, LK_EINVAL, "%s: queue is NULL", operation);
	if (queue_forked(queue))
		return lk__fail(error, LK_EFORKED, "%s: the queue belongs to the parent process",
				operation);
	return 0;
}

int lk_queue_fd(lk_queue *queue, lk_error *error)
{
	int rc = queue_check(queue, "lk_queue_fd", error);
	return rc < 0 ? rc : queue->fd;
}

int lk_queue_on_ready(lk_queue *queue, lk_queue_callback callback, void *context, lk_error *error)
{
	const char *operation = "lk_queue_on_ready";
	int rc = queue_check(queue, operation, error);
	if (rc == 0 && !callback)
		rc = lk__fail(error, LK_EINVAL, "%s: callback is NULL", operation);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&queue->mutex);
	if (queue->last_id > 0) {
		rc = lk__fail(error, LK_EINVAL, "%s: the queue has had requests", operation);
	} else {
		queue->on_ready = callback;
		queue->context = context;
	}
	pthread_mutex_unlock(&queue->mutex);
	return rc;
}

/* ---- cancelling ---- */

static bool may_be_cancelled(const struct lk__completion *completion)
{
	switch (completion->value.operation) {
	case LK_OP_ACQUIRE:
	case LK_OP_AWAIT:
	case LK_OP_ENTER:
	case LK_OP_LEAVE:
	case LK_OP_WATCH:
		return true;
	default: /* a client waits to be drained, a semaphore is drained at once */
		return completion->value.operation == LK_OP_DRAIN && !completion->entry;
	}
}

/* Under the queue's mutex: 1, 0 or LK_EINVAL. */
static int completion_cancel(struct lk__completion *completion)
{
	if (completion->value.operation == LK_OP_NOTICE)
		return lk__notices_cancel(completion);
	if (!may_be_cancelled(completion))
		return LK_EINVAL;
	if (!completion->async)
		return 0;
	lk__async_cancel(completion->async);
	return 1;
}

int lk_queue_cancel(lk_queue *queue, uint64_t id, lk_error *error)
{
	struct lk__completion *completion;
	int rc = queue_check(queue, "lk_queue_cancel", error);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&queue->mutex);
	HASH_FIND(hh, queue->in_flight, &id, sizeof(id), completion);
	rc = completion ? completion_cancel(completion) : 0;
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
	lk__queue_mark(queue, before);
	pthread_mutex_unlock(&queue->mutex);
	return taken;
}

/* Where a program wants completions, whose struct may have another size than ours. */
struct room {
	char *at;
	size_t each, count, most;
};

static void room_put(struct room *room, const lk_completion *completion)
{
	char *at = room->at + room->count++ * room->each;
	lk__copy_sized(at, room->each, completion, sizeof(*completion));
}

/* Each round takes something, or another thread has. */
static void queue_take_some(lk_queue *queue, struct room *room)
{
	lk_client *notices_of;
	do {
		notices_of = NULL;
		struct lk__completion *completion, *next;
		struct lk__completion *some = queue_pop(queue, room->most - room->count,
							&notices_of);
		DL_FOREACH_SAFE(some, completion, next)
		{
			lk__async_taken(completion);
			room_put(room, &completion->value);
			free(completion);
		}
		lk_completion notice;
		if (notices_of && lk__notices_take(notices_of, queue, &notice))
			room_put(room, &notice);
		if (notices_of)
			lk__client_unref(notices_of);
	} while (notices_of && room->count < room->most);
}

/* Takes completions, or none at the end of the wait. */
static void queue_take(lk_queue *queue, struct room *room, int64_t until_ns)
{
	for (;;) {
		queue_take_some(queue, room);
		int64_t now_ns = lk__now_ns();
		if (room->count > 0 || (until_ns != LK__NEVER && now_ns >= until_ns))
			return;
		struct pollfd fd = {.fd = queue->fd, .events = POLLIN};
		lk__poll(&fd, 1,
			 until_ns == LK__NEVER ? 60000 : lk__ms_until(now_ns, until_ns, 60000));
	}
}

int lk_queue_take(lk_queue *queue, lk_completion *completions_out, size_t most, int64_t wait_ms,
		  lk_error *error)
{
	const char *operation = "lk_queue_take";
	int saved, rc = queue_check(queue, operation, error);
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
	struct room room = {
		.at = (char *)completions_out, .each = completions_out->struct_size, .most = most};
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &saved);
	queue_take(queue, &room, wait_ms < 0 ? LK__NEVER : lk__after_ms(lk__now_ns(), wait_ms));
	pthread_setcancelstate(saved, NULL);
	return (int)room.count;
}

/* ---- the start of every asynchronous call: one table says what its request uses ---- */

/* The members of a request that only some operations use, and whether they are set. */
#define MEMBERS(X)                                                                                 \
	X(HOW, how)                                                                                \
	X(WAIT_MS, wait_ms)                                                                        \
	X(NUMBER, number)                                                                          \
	X(LEASE_MS, lease_ms)                                                                      \
	X(TTL_MS, ttl_ms)                                                                          \
	X(PERMITS, permits)                                                                        \
	X(ACQUIRE, acquire)                                                                        \
	X(RELEASE, release)                                                                        \
	X(EXTEND, extend)                                                                          \
	X(SEMAPHORE_RELEASE, semaphore_release)

#define HANDLES(X) X(client) X(lock) X(semaphore) X(permit_semaphore) X(latch) X(barrier) X(watch)

enum place {
#define MEMBER(name, member) PLACE_##name,
	MEMBERS(MEMBER)
#undef MEMBER
};

enum member {
#define MEMBER(name, member) name = 1 << PLACE_##name,
	MEMBERS(MEMBER)
#undef MEMBER
};

enum handle {
#define HANDLE(handle) HANDLE_##handle,
	HANDLES(HANDLE) HANDLE_COUNT
#undef HANDLE
};

static const char *const handle_names[] = {
#define HANDLE(handle) #handle,
	HANDLES(HANDLE)
#undef HANDLE
};

struct row {
	int operation;
	enum handle handle;
	unsigned members; /* enum member */
	const char *name;
};

/* The start of the operations of each handle. */
static int (*const starts[])(const struct lk__start *start) = {
#define HANDLE(handle) lk__start_##handle,
	HANDLES(HANDLE)
#undef HANDLE
};

static const struct row rows[] = {
#define ROW(operation, handle, members, call) {operation, HANDLE_##handle, members, #operation},
	LK_REQUEST_MAP(ROW)
#undef ROW
};

/* ---- checks ---- */

/* Finds the one handle of a request. */
static int find_handle(const lk_request *request, enum handle *handle_out, void **pointer_out,
		       lk_error *error)
{
	void *const handles[] = {
#define HANDLE(handle) request->handle,
		HANDLES(HANDLE)
#undef HANDLE
	};
	*pointer_out = NULL;
	for (int i = 0; i < HANDLE_COUNT; i++) {
		if (!handles[i])
			continue;
		if (*pointer_out)
			return lk__fail(error, LK_EINVAL, "lk_queue_start: %s and %s are both set",
					handle_names[*handle_out], handle_names[i]);
		*pointer_out = handles[i];
		*handle_out = (enum handle)i;
	}
	return *pointer_out ? 0
			    : lk__fail(error, LK_EINVAL,
				       "lk_queue_start: no handle is set: client, lock, semaphore, "
				       "permit_semaphore, latch, barrier or watch");
}

static int find_row(const lk_request *request, enum handle handle, const struct row **row_out,
		    lk_error *error)
{
	const struct row *same = NULL;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].operation != request->operation)
			continue;
		same = &rows[i];
		if (same->handle == handle) {
			*row_out = same;
			return 0;
		}
	}
	if (!same)
		return lk__fail(error, LK_EINVAL, "lk_queue_start: operation is %d, not LK_OP_…",
				request->operation);
	return lk__fail(error, LK_EINVAL, "%s: %s is set, and has no such operation", same->name,
			handle_names[handle]);
}

static int check_members(const lk_request *request, const struct row *row, lk_error *error)
{
	static const char *const names[] = {
#define MEMBER(name, member) #member,
		MEMBERS(MEMBER)
#undef MEMBER
	};
	unsigned set = 0;
#define MEMBER(name, member) set |= request->member ? (unsigned)(name) : 0;
	MEMBERS(MEMBER)
#undef MEMBER
	unsigned unused = set & ~row->members;
	if (!unused)
		return 0;
	return lk__fail(error, LK_EINVAL, "%s: %s is set, and is not used for a %s", row->name,
			names[__builtin_ctz(unused)], handle_names[row->handle]);
}

int lk_queue_start(lk_queue *queue, const lk_request *request, uint64_t *id_out, lk_error *error)
{
	lk_request own;
	uint64_t id = 0;
	enum handle handle = HANDLE_COUNT;
	const struct row *row = NULL;
	struct lk__start start = {.queue = queue, .request = &own, .id_out = &id, .error = error};
	int rc = queue_check(queue, "lk_queue_start", error);
	if (rc == 0 && !request)
		rc = lk__fail(error, LK_EINVAL, "lk_queue_start: request is NULL");
	if (rc == 0)
		rc = lk__copy_options(&own, sizeof(own), request, "lk_queue_start", error);
	if (rc == 0)
		rc = find_handle(&own, &handle, &start.handle, error);
	if (rc == 0)
		rc = find_row(&own, handle, &row, error);
	if (rc == 0)
		rc = check_members(&own, row, error);
	if (rc < 0)
		return rc;
	start.operation = row->name;
	rc = starts[handle](&start);
	if (rc == 0 && id_out)
		*id_out = id;
	return rc;
}

/* ---- starting ---- */

static struct lk__completion *completion_new(const struct lk__start *start,
					     const struct lk__owner *owner)
{
	size_t name_size = owner ? owner->name_size : 0;
	struct lk__completion *completion = calloc(1, sizeof(*completion) + name_size + 1);
	if (!completion)
		return NULL;
	if (owner) {
		memcpy(completion->owner_name, owner->name, name_size);
		completion->owner = *owner;
	}
	completion->owner.name = completion->owner_name;
	completion->queue = start->queue;
	completion->value.operation = start->request->operation;
	completion->value.tag = start->request->tag;
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

int lk__start_reserve(const struct lk__start *start, struct lk__completion **completion_out,
		      const struct lk__owner *owner)
{
	lk_queue *queue = start->queue;
	struct lk__completion *completion = completion_new(start, owner);
	int rc = LK_ENOMEM;
	if (completion) {
		pthread_mutex_lock(&queue->mutex);
		rc = queue_add(queue, completion);
		pthread_mutex_unlock(&queue->mutex);
	}
	if (rc == 0) {
		*start->id_out = completion->value.id;
		*completion_out = completion;
		return 0;
	}
	free(completion);
	return rc == LK_ELIMIT
		       ? lk__fail(start->error, rc,
				  "the queue is full: %zu requests were not taken", queue->capacity)
		       : lk__fail(start->error, rc, "queue: out of memory");
}

void lk__start_unreserve(struct lk__completion *completion)
{
	lk_queue *queue = completion->queue;
	pthread_mutex_lock(&queue->mutex);
	HASH_DEL(queue->in_flight, completion);
	queue->count--;
	pthread_mutex_unlock(&queue->mutex);
	free(completion);
}

int lk__start_go(const struct lk__start *start, struct lk__entry *entry,
		 const struct lk__owner *owner, struct lk__async_want *want)
{
	struct lk__completion *completion;
	want->operation = start->operation;
	int rc = lk__start_reserve(start, &completion, owner);
	if (rc < 0)
		return rc;
	rc = lk__async_start(completion, entry, want, start->error);
	if (rc < 0)
		lk__start_unreserve(completion);
	return rc;
}
