/* SPDX-License-Identifier: MIT */
/* The start of every asynchronous call: one table says what its request uses. */
#include <lockkeeper/queue.h>

#include "api/check.h"
#include "api/lock_handle.h"
#include "base/fail.h"
#include "lock/loop.h"
#include "lock/notice.h"

/* ---- the table ---- */

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

#define HANDLES(X) X(client) X(lock) X(semaphore) X(permit_semaphore) X(latch)

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
	int (*start)(const struct lk__start *start);
};

static const struct row rows[] = {
#define ROW(operation, handle, members, call)                                                      \
	{operation, HANDLE_##handle, members, #operation, lk__start_##call},
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
				       "permit_semaphore or latch");
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
	int rc = lk__queue_check(queue, "lk_queue_start", error);
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
	rc = row->start(&start);
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

/* The request is handed to the client. */
int lk__start_event_wait(const struct lk__start *start)
{
	struct lk__completion *request;
	lk_client *client = start->handle;
	int rc = lk__client_check(client, start->operation, start->error);
	if (rc == 0)
		rc = lk__loop_start(client, start->error);
	if (rc == 0)
		rc = lk__start_reserve(start, &request, NULL);
	if (rc < 0)
		return rc;
	request->client = client;
	lk__client_ref(client);
	rc = lk__notices_request(client, request, start->error);
	if (rc < 0) {
		lk__queue_unreserve(request);
		lk__client_unref(client);
	}
	return rc;
}

/* ---- of a lock ---- */

/* Makes the checks of every start: owner, kind. 0 with the call begun, or a code. */
static int lock_enter(struct lk__call *call, const struct lk__start *start, const char *owner)
{
	if (!owner)
		return lk__fail(start->error, LK_EINVAL,
				"%s: no owner: the owner of an asynchronous hold is a name",
				start->operation);
	int rc = lk__lock_enter_briefly(call, start->handle, start->operation, owner, start->error);
	if (rc < 0)
		return rc;
	rc = call->multi ? lk__multi_start_loops(call->multi, start->error)
			 : lk__loop_start(call->entry->client, start->error);
	if (rc < 0)
		lk__lock_leave(call);
	return rc;
}

static int lock_go(const struct lk__start *start, struct lk__call *call,
		   struct lk__async_want *want)
{
	want->multi = call->multi;
	int rc = lk__start_go(start, call->entry, &call->owner, want);
	lk__lock_leave(call);
	return rc;
}

int lk__start_lock_acquire(const struct lk__start *start)
{
	const char *operation = start->operation;
	int64_t wait_ms = start->request->wait_ms;
	lk_acquire_options own;
	struct lk__call call = {.entry = NULL};
	int rc = lk__copy_options(&own, sizeof(own), start->request->acquire, operation,
				  start->error);
	if (rc == 0)
		rc = LK__CHECK(operation, start->error, {LK__WAIT, wait_ms});
	if (rc == 0 && own.cancel)
		rc = lk__fail(start->error, LK_EINVAL, "%s: cancel is set: use lk_queue_cancel()",
			      operation);
	if (rc == 0)
		rc = lock_enter(&call, start, own.owner);
	if (rc < 0)
		return rc;
	rc = lk__acquire_check(operation, start->handle, &own, start->error);
	if (rc < 0) {
		lk__lock_leave(&call);
		return rc;
	}
	return lock_go(
		start, &call,
		&(struct lk__async_want){
			.acquire = lk__want_of(&own, wait_ms, lk__lock_settings(start->handle))});
}

int lk__start_lock_release(const struct lk__start *start)
{
	const char *operation = start->operation;
	lk_release_options own;
	struct lk__call call = {.entry = NULL};
	int rc = lk__copy_options(&own, sizeof(own), start->request->release, operation,
				  start->error);
	if (rc == 0 && (own.no_wait || own.field))
		rc = lk__fail(start->error, LK_EINVAL, "%s: %s is set", operation,
			      own.field ? "field" : "no_wait");
	if (rc == 0)
		rc = lk__release_check(operation, &own, start->error);
	if (rc == 0)
		rc = lock_enter(&call, start, own.owner);
	if (rc < 0)
		return rc;
	return lock_go(start, &call,
		       &(struct lk__async_want){.way = LK__ASYNC_RELEASE, .keep_ms = own.keep_ms});
}

int lk__start_lock_extend(const struct lk__start *start)
{
	int64_t lease_ms = start->request->lease_ms;
	lk_extend_options own;
	struct lk__call call = {.entry = NULL};
	int rc = lk__copy_options(&own, sizeof(own), start->request->extend, start->operation,
				  start->error);
	if (rc == 0 && own.field)
		rc = lk__fail(start->error, LK_EINVAL, "%s: field is set", start->operation);
	if (rc == 0)
		rc = LK__CHECK(start->operation, start->error, {LK__LEASE, lease_ms});
	if (rc == 0)
		rc = lock_enter(&call, start, own.owner);
	if (rc < 0)
		return rc;
	return lock_go(start, &call,
		       &(struct lk__async_want){.way = LK__ASYNC_EXTEND, .lease_ms = lease_ms});
}
