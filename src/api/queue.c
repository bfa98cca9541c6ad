/* SPDX-License-Identifier: MIT */
/* The public face of completion queues: arguments are checked here, the rest is the drivers'. */
#include <lockkeeper/queue.h>

#include "api/check.h"
#include "base/clock.h"
#include "base/fail.h"
#include "lock/async.h"

/* The least that a program can have been compiled with. */
#define COMPLETION_SIZE_MIN (offsetof(lk_completion, error) + sizeof(lk_error))

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

/* 0, or why the queue cannot be used. */
static int queue_check(const lk_queue *queue, const char *operation, lk_error *error)
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
	int rc = queue_check(queue, "lk_queue_fd", error);
	return rc < 0 ? rc : lk__queue_fd(queue);
}

int lk_queue_on_ready(lk_queue *queue, lk_queue_callback callback, void *context, lk_error *error)
{
	int rc = queue_check(queue, "lk_queue_on_ready", error);
	if (rc == 0 && !callback)
		rc = lk__fail(error, LK_EINVAL, "lk_queue_on_ready: callback is NULL");
	return rc < 0 ? rc : lk__queue_on_ready(queue, callback, context, error);
}

int lk_queue_cancel(lk_queue *queue, uint64_t id, lk_error *error)
{
	int rc = queue_check(queue, "lk_queue_cancel", error);
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

int lk__start_reserve(const struct lk__start *start, struct lk__completion **completion_out,
		      const struct lk__owner *owner)
{
	static const struct lk__owner nobody = {.name = ""};
	int rc = lk__queue_reserve(start->queue, completion_out, start->request->operation,
				   owner ? owner : &nobody, start->error);
	if (rc < 0)
		return rc;
	*start->id_out = (*completion_out)->value.id;
	(*completion_out)->value.tag = start->request->tag;
	return 0;
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
		lk__queue_unreserve(completion);
	return rc;
}
