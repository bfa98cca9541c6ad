/* The calls of semaphores, permit semaphores and latches that have an asynchronous form, through a
 * queue of their own. */
#include "synchronizers.h"

#include <string.h>

/* Starts a call: 0 or a code. */
typedef int start_fn(lk_queue *queue, struct call *call);

static int64_t lease_of(const struct call *call)
{
	return command_number(call->command, "lease", 0);
}

static const char *id_of(const struct call *call)
{
	return command_text(call->command, "ids", NULL);
}

static int semaphore_set(lk_queue *queue, struct call *call)
{
	int64_t ttl_ms = command_number(call->command, "ttl", 0);
	return lk_queue_start(queue,
			      request_of(TRY_SET, .semaphore = call->semaphore,
					 .number = call->count, .ttl_ms = ttl_ms),
			      NULL, call->error);
}

static int semaphore_add(lk_queue *queue, struct call *call)
{
	return lk_queue_start(queue,
			      request_of(ADD, .semaphore = call->semaphore, .number = call->count),
			      NULL, call->error);
}

static int semaphore_take(lk_queue *queue, struct call *call)
{
	return lk_queue_start(queue,
			      request_of(ACQUIRE, .semaphore = call->semaphore,
					 .number = call->count, .wait_ms = call->wait_ms),
			      NULL, call->error);
}

static int semaphore_release(lk_queue *queue, struct call *call)
{
	return lk_queue_start(
		queue, request_of(RELEASE, .semaphore = call->semaphore, .number = call->count),
		NULL, call->error);
}

static int semaphore_release_if_exists(lk_queue *queue, struct call *call)
{
	return lk_queue_start(queue,
			      request_of(RELEASE, .semaphore = call->semaphore,
					 .number = call->count, .semaphore_release = if_exists),
			      NULL, call->error);
}

static int semaphore_drain(lk_queue *queue, struct call *call)
{
	return lk_queue_start(queue, request_of(DRAIN, .semaphore = call->semaphore), NULL,
			      call->error);
}

static int semaphore_available(lk_queue *queue, struct call *call)
{
	return lk_queue_start(queue, request_of(COUNT, .semaphore = call->semaphore), NULL,
			      call->error);
}

static int semaphore_delete(lk_queue *queue, struct call *call)
{
	return lk_queue_start(queue, request_of(DELETE, .semaphore = call->semaphore), NULL,
			      call->error);
}

static int permits_set(lk_queue *queue, struct call *call)
{
	return lk_queue_start(
		queue,
		request_of(TRY_SET, .permit_semaphore = call->permits, .number = call->count), NULL,
		call->error);
}

static int permits_resize(lk_queue *queue, struct call *call)
{
	return lk_queue_start(
		queue, request_of(SET, .permit_semaphore = call->permits, .number = call->count),
		NULL, call->error);
}

static int permits_add(lk_queue *queue, struct call *call)
{
	return lk_queue_start(
		queue, request_of(ADD, .permit_semaphore = call->permits, .number = call->count),
		NULL, call->error);
}

static int permits_take(lk_queue *queue, struct call *call)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.lease_ms = lease_of(call);
	if (call->count > IDS_MAX)
		return LK_EINVAL;
	return call->count == 1
		       ? lk_queue_start(queue,
					request_of(ACQUIRE, .permit_semaphore = call->permits,
						   .wait_ms = call->wait_ms, .number = 1,
						   .acquire = &options),
					NULL, call->error)
		       : lk_queue_start(queue,
					request_of(ACQUIRE, .permit_semaphore = call->permits,
						   .number = call->count, .wait_ms = call->wait_ms,
						   .acquire = &options),
					NULL, call->error);
}

static int permits_release(lk_queue *queue, struct call *call)
{
	lk_permit permits[IDS_MAX];
	int64_t count = ids_argument(call, permits);
	return count == 1 ? lk_queue_start(queue,
					   request_of(RELEASE, .permit_semaphore = call->permits,
						      .permits = permits, .number = 1),
					   NULL, call->error)
			  : lk_queue_start(queue,
					   request_of(RELEASE, .permit_semaphore = call->permits,
						      .permits = permits, .number = count),
					   NULL, call->error);
}

static int permits_extend(lk_queue *queue, struct call *call)
{
	return lk_queue_start(queue,
			      request_of(EXTEND, .permit_semaphore = call->permits,
					 .permits = (const lk_permit *)id_of(call), .number = 1,
					 .lease_ms = lease_of(call)),
			      NULL, call->error);
}

static int permits_delete(lk_queue *queue, struct call *call)
{
	return lk_queue_start(queue, request_of(DELETE, .permit_semaphore = call->permits), NULL,
			      call->error);
}

static int latch_set(lk_queue *queue, struct call *call)
{
	return lk_queue_start(queue,
			      request_of(TRY_SET, .latch = call->latch, .number = call->count),
			      NULL, call->error);
}

static int latch_down(lk_queue *queue, struct call *call)
{
	return lk_queue_start(queue,
			      request_of(COUNT_DOWN, .latch = call->latch, .number = call->count),
			      NULL, call->error);
}

static int latch_await(lk_queue *queue, struct call *call)
{
	return lk_queue_start(queue,
			      request_of(AWAIT, .latch = call->latch, .wait_ms = call->wait_ms),
			      NULL, call->error);
}

static int latch_count(lk_queue *queue, struct call *call)
{
	return lk_queue_start(queue, request_of(COUNT, .latch = call->latch), NULL, call->error);
}

static int latch_delete(lk_queue *queue, struct call *call)
{
	return lk_queue_start(queue, request_of(DELETE, .latch = call->latch), NULL, call->error);
}

static const struct {
	const char *kind;
	const char *verb;
	start_fn *start;
} starts[] = {
	{"semaphore", "set", semaphore_set},
	{"semaphore", "add", semaphore_add},
	{"semaphore", "acquire", semaphore_take},
	{"semaphore", "within", semaphore_take},
	{"semaphore", "try", semaphore_take},
	{"semaphore", "release", semaphore_release},
	{"semaphore", "release_if_exists", semaphore_release_if_exists},
	{"semaphore", "drain", semaphore_drain},
	{"semaphore", "available", semaphore_available},
	{"semaphore", "delete", semaphore_delete},
	{"permits", "set", permits_set},
	{"permits", "resize", permits_resize},
	{"permits", "add", permits_add},
	{"permits", "acquire", permits_take},
	{"permits", "within", permits_take},
	{"permits", "try", permits_take},
	{"permits", "release", permits_release},
	{"permits", "extend", permits_extend},
	{"permits", "delete", permits_delete},
	{"latch", "set", latch_set},
	{"latch", "down", latch_down},
	{"latch", "acquire", latch_await},
	{"latch", "within", latch_await},
	{"latch", "count", latch_count},
	{"latch", "delete", latch_delete},
};

/* 0, with "ids", or a code: the completion has as many as were asked for. */
static int ids_take(struct call *call, const lk_completion *completion)
{
	lk_permit permits[IDS_MAX];
	int count = lk_completion_permits(completion, permits, IDS_MAX, call->error);
	if (count >= 0 && count != call->count)
		return LK_EINTERNAL;
	if (count >= 0)
		ids_answer(call, permits);
	return count < 0 ? count : 0;
}

/* What the completion says: a code, or its answer. */
static int completion_take(lk_queue *queue, struct call *call)
{
	lk_completion completion = {.struct_size = sizeof(lk_completion),
				    .error = {.code = LK_EINTERNAL}};
	lk_queue_take(queue, &completion, 1, -1, call->error);
	*call->error = completion.error;
	if (completion.error.code == 0 && completion.field[0])
		return ids_take(call, &completion);
	return completion.error.code ? completion.error.code : (int)completion.answer;
}

int queued_synchronizer_run(struct call *call, const char *kind, const char *verb, int *result_out)
{
	lk_queue *queue = NULL;
	size_t at = 0, count = sizeof(starts) / sizeof(starts[0]);
	while (at < count &&
	       (strcmp(starts[at].kind, kind) != 0 || strcmp(starts[at].verb, verb) != 0))
		at++;
	if (at == count)
		return 0;
	if (strcmp(verb, "acquire") == 0)
		call->wait_ms = -1;
	*result_out = lk_queue_new(&queue, 1, call->error);
	if (*result_out == 0)
		*result_out = starts[at].start(queue, call);
	if (*result_out == 0)
		*result_out = completion_take(queue, call);
	lk_queue_free(queue, NULL);
	return 1;
}
