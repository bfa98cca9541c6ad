/* The verbs on semaphores and latches: kind=semaphore, permits or latch. */
#include "synchronizers.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int semaphore_set(struct call *call)
{
	int64_t ttl_ms = command_number(call->command, "ttl", 0);
	return lk_semaphore_try_set(call->semaphore, call->count, ttl_ms, call->error);
}

static int semaphore_add(struct call *call)
{
	return lk_semaphore_add(call->semaphore, call->count, call->error);
}

static int semaphore_acquire(struct call *call)
{
	return lk_semaphore_acquire(call->semaphore, call->count, -1, call->cancel, call->error);
}

static int semaphore_within(struct call *call)
{
	return lk_semaphore_acquire(call->semaphore, call->count, call->wait_ms, call->cancel,
				    call->error);
}

static int semaphore_try(struct call *call)
{
	return lk_semaphore_acquire(call->semaphore, call->count, 0, NULL, call->error);
}

static int semaphore_release(struct call *call)
{
	return lk_semaphore_release(call->semaphore, call->count, NULL, call->error);
}

/* The number goes into "result", as Java's answers have it. */
static int counted(int result, const int64_t *value)
{
	return result ? result : (int)*value;
}

static int semaphore_drain(struct call *call)
{
	int64_t value = 0;
	return counted(lk_semaphore_drain(call->semaphore, &value, call->error), &value);
}

static int semaphore_available(struct call *call)
{
	int64_t value = 0;
	return counted(lk_semaphore_available(call->semaphore, &value, call->error), &value);
}

static int semaphore_delete(struct call *call)
{
	return lk_semaphore_delete(call->semaphore, call->error);
}

static int semaphore_release_if_exists(struct call *call)
{
	return lk_semaphore_release(call->semaphore, call->count, if_exists, call->error);
}

static int permits_delete(struct call *call)
{
	return lk_permit_semaphore_delete(call->permits, call->error);
}

static int permits_resize(struct call *call)
{
	return lk_permit_semaphore_set(call->permits, call->count, call->error);
}

static int permits_set(struct call *call)
{
	return lk_permit_semaphore_try_set(call->permits, call->count, call->error);
}

static int permits_add(struct call *call)
{
	return lk_permit_semaphore_add(call->permits, call->count, call->error);
}

void ids_answer(struct call *call, const lk_permit *permits)
{
	char text[IDS_MAX * LK_PERMIT_ID_SIZE + 1] = "";
	for (int64_t i = 0; i < call->count; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? "," : "",
			 permits[i].id);
	answer_string(call->answer, "ids", text);
}

static int permits_take(struct call *call, int64_t wait_ms)
{
	lk_permit permits[IDS_MAX];
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.lease_ms = command_number(call->command, "lease", 0);
	options.cancel = call->cancel;
	if (call->count > IDS_MAX)
		return LK_EINVAL;
	int result = wait_ms < 0 ? lk_permit_semaphore_acquire(call->permits, call->count, permits,
							       -1, &options, call->error)
				 : lk_permit_semaphore_acquire(call->permits, call->count, permits,
							       wait_ms, &options, call->error);
	if (result == 0)
		ids_answer(call, permits);
	return result;
}

static int permits_acquire(struct call *call)
{
	return permits_take(call, -1);
}

static int permits_within(struct call *call)
{
	return permits_take(call, call->wait_ms);
}

int64_t ids_argument(const struct call *call, lk_permit permits[IDS_MAX])
{
	int64_t count = 0;
	const char *text = command_text(call->command, "ids", NULL);
	for (const char *id = text; id && count < IDS_MAX; id = strchr(id, ',')) {
		id += *id == ',';
		snprintf(permits[count++].id, LK_PERMIT_ID_SIZE, "%s", id);
	}
	return count;
}

static int permits_release(struct call *call)
{
	lk_permit permits[IDS_MAX];
	int64_t count = ids_argument(call, permits);
	return lk_permit_semaphore_release(call->permits, permits, count, call->error);
}

static int permits_extend(struct call *call)
{
	int64_t lease_ms = command_number(call->command, "lease", 0);
	const char *id = command_text(call->command, "ids", NULL);
	return lk_permit_semaphore_update_lease(call->permits, id, lease_ms, call->error);
}

static int permits_lease(struct call *call)
{
	int64_t value = 0;
	const char *id = command_text(call->command, "ids", NULL);
	int result = lk_permit_semaphore_server_ttl_ms(call->permits, id, &value, call->error);
	answer_int(call->answer, "value", value);
	return result;
}

static int permits_remaining(struct call *call)
{
	int64_t value = 0;
	const char *id = command_text(call->command, "ids", NULL);
	int result = lk_permit_semaphore_remaining_ms(call->permits, id, &value, call->error);
	answer_int(call->answer, "value", value);
	return result;
}

static int permits_available(struct call *call)
{
	int64_t value = 0;
	return counted(lk_permit_semaphore_count(call->permits, &value, NULL, call->error), &value);
}

static int permits_taken(struct call *call)
{
	int64_t value = 0;
	return counted(lk_permit_semaphore_count(call->permits, NULL, &value, call->error), &value);
}

static int latch_set(struct call *call)
{
	return lk_latch_try_set(call->latch, call->count, call->error);
}

static int latch_down(struct call *call)
{
	return lk_latch_count_down(call->latch, call->count, NULL, call->error);
}

static int latch_acquire(struct call *call)
{
	return lk_latch_await(call->latch, -1, call->cancel, call->error);
}

static int latch_within(struct call *call)
{
	return lk_latch_await(call->latch, call->wait_ms, call->cancel, call->error);
}

static int latch_count(struct call *call)
{
	int64_t value = 0;
	return counted(lk_latch_count(call->latch, &value, call->error), &value);
}

static int latch_delete(struct call *call)
{
	return lk_latch_delete(call->latch, call->error);
}

static const struct {
	const char *kind;
	const char *verb;
	call_run_fn *run;
} verbs[] = {
	{"semaphore", "set", semaphore_set},
	{"semaphore", "add", semaphore_add},
	{"semaphore", "acquire", semaphore_acquire},
	{"semaphore", "within", semaphore_within},
	{"semaphore", "try", semaphore_try},
	{"semaphore", "release", semaphore_release},
	{"semaphore", "drain", semaphore_drain},
	{"semaphore", "available", semaphore_available},
	{"semaphore", "delete", semaphore_delete},
	{"semaphore", "release_if_exists", semaphore_release_if_exists},
	{"permits", "set", permits_set},
	{"permits", "add", permits_add},
	{"permits", "acquire", permits_acquire},
	{"permits", "within", permits_within},
	{"permits", "try", permits_within},
	{"permits", "release", permits_release},
	{"permits", "extend", permits_extend},
	{"permits", "lease", permits_lease},
	{"permits", "remaining", permits_remaining},
	{"permits", "available", permits_available},
	{"permits", "taken", permits_taken},
	{"permits", "delete", permits_delete},
	{"permits", "resize", permits_resize},
	{"latch", "set", latch_set},
	{"latch", "down", latch_down},
	{"latch", "acquire", latch_acquire},
	{"latch", "within", latch_within},
	{"latch", "count", latch_count},
	{"latch", "delete", latch_delete},
};

const char *synchronizer_at(size_t index, const char **kind_out)
{
	if (index >= sizeof(verbs) / sizeof(verbs[0]))
		return NULL;
	*kind_out = verbs[index].kind;
	return verbs[index].verb;
}

static call_run_fn *verb_find(const char *kind, const char *verb)
{
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strcmp(verbs[i].kind, kind) == 0 && strcmp(verbs[i].verb, verb) == 0)
			return verbs[i].run;
	}
	return NULL;
}

static int handle_make(struct call *call, const char *kind)
{
	size_t size = 0;
	const char *name = command_text(call->command, "name", &size);
	lk_client *client = handle_client(call->command);
	if (strcmp(kind, "semaphore") == 0)
		return lk_semaphore_new(&call->semaphore, client, name, size, NULL, call->error);
	if (strcmp(kind, "permits") == 0)
		return lk_permit_semaphore_new(&call->permits, client, name, size, NULL,
					       call->error);
	return lk_latch_new(&call->latch, client, name, size, NULL, call->error);
}

int synchronizer_run(const struct command *command, struct answer *answer)
{
	const char *kind = command_text(command, "kind", NULL);
	const char *cancel = command_text(command, "cancel", NULL);
	call_run_fn *run = kind ? verb_find(kind, command->verb) : NULL;
	lk_error error = {0};
	struct call call = {
		.command = command,
		.answer = answer,
		.cancel = cancel ? handle_cancel(cancel) : NULL,
		.count = command_number(command, "count", 1),
		.wait_ms = command_number(command, "wait", 0),
		.error = &error,
	};
	if (!run)
		return 0;
	int result = handle_make(&call, kind);
	bool queued = command_number(command, "queue", 0) != 0; /* queue=1: asynchronous */
	if (result == 0 &&
	    !(queued && queued_synchronizer_run(&call, kind, command->verb, &result)))
		result = run(&call);
	answer_result(answer, result, &error);
	lk_semaphore_free(call.semaphore);
	lk_permit_semaphore_free(call.permits);
	lk_latch_free(call.latch);
	return 1;
}
