/* SPDX-License-Identifier: MIT */
/*
 * The public face of all that is counted: semaphores, latches, permit semaphores.
 *
 * The handle of each is its counter. Each call is there twice, blocking and as the start of an
 * asynchronous one. What both check, change and ask is written once, for a call that knows which of
 * the two it is.
 */
#include <lockkeeper/latch.h>
#include <lockkeeper/permit_semaphore.h>
#include <lockkeeper/semaphore.h>

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/check.h"
#include "api/lock.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "lock/counter.h"
#include "lock/loop.h"
#include "lock/release.h"
#include "resp/reply.h"
#include "sync/recipes.h"
#include "sync/script.h"

struct counter_call {
	struct lk__counter *counter; /* NULL: the caller passed NULL */
	const char *operation;
	lk_error *error;
	const struct lk__start *start; /* NULL: it blocks */
	struct lk__thread *thread;     /* from enter to leave */
	int saved;
};

static struct counter_call counter_call(void *handle, const char *operation, lk_error *error)
{
	return (struct counter_call){.counter = handle, .operation = operation, .error = error};
}

static struct counter_call counter_start(const struct lk__start *start)
{
	return (struct counter_call){.counter = start->handle,
				     .operation = start->operation,
				     .error = start->error,
				     .start = start};
}

/* Checks the name, and makes a handle. `permits`, `ttl_ms`: as the counter has them. */
static int counter_open(struct lk__counter **counter_out, lk_client *client,
			const struct lk__recipe *recipe, const void *name, size_t name_size,
			int64_t permits, int64_t ttl_ms, const char *operation, lk_error *error)
{
	int rc = lk__name_check_slot(client, name, &name_size, LK__RECORD_PREFIX, operation, error);
	if (rc < 0)
		return rc;
	struct lk__counter *counter = calloc(1, sizeof(*counter));
	if (!counter)
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", operation);
	rc = lk__entry_get(&counter->entry, client, recipe, name, name_size, NULL, error);
	if (rc < 0) {
		free(counter);
		return rc;
	}
	lk__client_ref(client);
	counter->client = client;
	atomic_init(&counter->refs, 1);
	pthread_mutex_init(&counter->mutex, NULL);
	counter->permits = permits;
	counter->ttl_ms = ttl_ms;
	*counter_out = counter;
	return 0;
}

/* Gives a reference back, or nothing where that is NULL. Returns NULL. */
static void *counter_unref(void *handle)
{
	struct lk__counter *counter = handle;
	if (!counter || atomic_fetch_sub(&counter->refs, 1) > 1)
		return NULL;
	if (!lk__client_forked(counter->client)) {
		pthread_mutex_destroy(&counter->mutex);
		lk__entry_unref(counter->entry);
		lk__client_unref(counter->client);
	}
	free(counter->settled);
	free(counter);
	return NULL;
}

/* 0, or LK_EINVAL for what cannot be added to a count of permits. */
static int counter_check_added(const struct counter_call *call, int64_t change)
{
	int rc = LK__CHECK(call->operation, call->error, {LK__PERMITS_ADDED, change});
	if (rc == 0 && change == 0)
		rc = lk__fail(call->error, LK_EINVAL, "%s: change is 0", call->operation);
	return rc;
}

/* ---- first and last words ---- */

/* Begins a call that never waits. */
static int counter_enter_nowait(struct counter_call *call)
{
	if (!call->counter)
		return lk__fail(call->error, LK_EINVAL, "%s: the handle is NULL", call->operation);
	return lk__enter_nowait(call->counter->client, call->operation, &call->thread, &call->saved,
				call->error);
}

/* Ends a call, with `rc`. */
static int counter_leave(struct counter_call *call, int rc)
{
	lk__leave(call->saved);
	return rc;
}

/* Begins a call: in this thread, or in the loop where the call has a start. */
static int counter_enter(struct counter_call *call)
{
	int rc = 0;
	if (!call->start && call->counter)
		rc = lk__check_blocking(call->counter->client, call->operation, call->error);
	if (rc == 0)
		rc = counter_enter_nowait(call);
	if (rc < 0 || !call->start)
		return rc;
	rc = lk__loop_start(call->counter->client, call->error);
	return rc < 0 ? counter_leave(call, rc) : 0;
}

/* ---- whole calls, whose arguments are good: 0, with the outputs if it blocks; or a code ---- */

static void giving_free(struct lk__giving *giving)
{
	if (!giving)
		return;
	for (size_t i = 0; i < giving->count; i++)
		if (giving->part[i].entry)
			lk__entry_unref(giving->part[i].entry);
	free(giving->ids);
	free(giving->renewals);
	free(giving);
}

static struct lk__op *request_begin(void *of, struct lk__thread *thread, const _Atomic bool *stop,
				    lk_error *error)
{
	(void)stop; /* it waits for an answer alone */
	return lk__counting_begin(of, thread, error);
}

static void request_end(void *of)
{
	struct lk__counting *request = of;
	giving_free(request->giving);
	counter_unref(request->counter);
	free(request);
}

/* Starts it in the loop, which has a reference of the counter until its end. */
static int counting_start(struct counter_call *call, const struct lk__counting *counting)
{
	struct lk__counting *request = malloc(sizeof(*request));
	if (!request) {
		giving_free(counting->giving);
		return lk__fail(call->error, LK_ENOMEM, "%s: out of memory", call->operation);
	}
	*request = *counting;
	atomic_fetch_add(&request->counter->refs, 1);
	bool tells = request->way != LK__COUNTING_LEASE;
	int rc = lk__start_go(
		call->start, NULL, NULL,
		&(struct lk__async_want){.way = LK__ASYNC_DRIVE,
					 .driven = {.client = request->counter->client,
						    .of = request,
						    .answer = tells ? &request->answer : NULL,
						    .begin = request_begin,
						    .end = request_end}});
	if (rc < 0)
		request_end(request);
	return rc;
}

/* Asks what the call has entered for, and leaves. What goes back is freed. */
static int counter_ask(struct counter_call *call, struct lk__counting *counting,
		       int64_t *answer_out)
{
	counting->counter = call->counter;
	counting->operation = call->operation;
	if (call->start)
		return counter_leave(call, counting_start(call, counting));
	int rc = lk__op_run(lk__counting_begin(counting, call->thread, call->error));
	if (rc == 0)
		*answer_out = counting->answer;
	giving_free(counting->giving);
	return counter_leave(call, rc);
}

/* Makes a change, and gives the integer that the script answers. */
static int counter_change(struct counter_call *call, const struct lk__change *change,
			  int64_t *answer_out)
{
	struct lk__counting counting = {.way = LK__COUNTING_CHANGE, .change = *change};
	int rc = counter_enter(call);
	return rc < 0 ? rc : counter_ask(call, &counting, answer_out);
}

/* Makes a change, and returns the code or what was answered. */
static int counter_change_said(struct counter_call call, const struct lk__change *change)
{
	int64_t answer = 0;
	int rc = counter_change(&call, change, &answer);
	return rc < 0 ? rc : (int)answer;
}

/* Asks for the count as it is, 0 without one; or whether it is 0. */
static int counter_get(struct counter_call *call, enum lk__counting_way way, int64_t *count_out)
{
	struct lk__counting counting = {.way = way};
	int rc = counter_enter(call);
	return rc < 0 ? rc : counter_ask(call, &counting, count_out);
}

static int acquire_start(const struct counter_call *call, const struct lk__want *want)
{
	return lk__start_go(call->start, call->counter->entry, NULL,
			    &(struct lk__async_want){.acquire = *want});
}

/* Waits for the entry's grant, in a blocking call. */
static int counter_acquire(struct counter_call *call, struct lk__want *want)
{
	struct lk__entry *entry = call->counter->entry;
	int rc = lk__loop_start(entry->client, call->error);
	want->owner = (struct lk__owner){.serial = call->thread->serial};
	if (rc == 0)
		rc = lk__acquire_run(entry, call->thread, want, call->error);
	return lk__counter_waited(entry, want->count, rc, call->error);
}

/* Waits for a grant: `want` without owner and what the counter says. */
static int counter_wait(struct counter_call *call, struct lk__want *want)
{
	int rc = counter_enter(call);
	if (rc < 0)
		return rc;
	want->settings.permits = call->counter->permits;
	want->settings.ttl_ms = call->counter->ttl_ms;
	return counter_leave(call,
			     call->start ? acquire_start(call, want) : counter_acquire(call, want));
}

/* ---- the semaphore ---- */

int lk_semaphore_new(lk_semaphore **semaphore_out, lk_client *client, const void *name,
		     size_t name_size, const lk_semaphore_options *options, lk_error *error)
{
	const char *operation = "lk_semaphore_new";
	lk_semaphore_options own;
	struct lk__counter *counter = NULL;
	if (!semaphore_out)
		return lk__fail(error, LK_EINVAL, "%s: an argument is NULL", operation);
	int rc = lk__copy_options(&own, sizeof(own), options, operation, error);
	if (rc == 0)
		rc = LK__CHECK(operation, error, {LK__PERMITS_SET, own.permits},
			       {LK__TTL, own.ttl_ms});
	if (rc == 0)
		rc = counter_open(&counter, client, &lk__semaphore_recipe, name, name_size,
				  own.permits, own.ttl_ms, operation, error);
	if (rc == 0)
		*semaphore_out = (lk_semaphore *)counter;
	return rc;
}

lk_semaphore *lk_semaphore_free(lk_semaphore *semaphore)
{
	return counter_unref(semaphore);
}

/* ---- semaphore: taking ---- */

static int semaphore_take(struct counter_call call, int64_t permits, int64_t wait_ms,
			  lk_cancel *cancel)
{
	struct lk__want want = {.wait_ms = wait_ms, .count = permits, .cancel = cancel};
	int rc = LK__CHECK(call.operation, call.error, {LK__PERMITS, permits}, {LK__WAIT, wait_ms});
	return rc < 0 ? rc : counter_wait(&call, &want);
}

int lk_semaphore_acquire(lk_semaphore *semaphore, int64_t permits, int64_t wait_ms,
			 lk_cancel *cancel, lk_error *error)
{
	return semaphore_take(counter_call(semaphore, "lk_semaphore_acquire", error), permits,
			      wait_ms, cancel);
}

/* ---- semaphore: giving back ---- */

/* A missing count starts from `none`. */
static struct lk__change semaphore_change(int64_t added, bool if_exists, int64_t none)
{
	return (struct lk__change){
		.request = lk__semaphore_add, .count = added, .if_exists = if_exists, .none = none};
}

static int semaphore_give(struct counter_call call, int64_t permits,
			  const lk_semaphore_release_options *options)
{
	lk_semaphore_release_options own;
	int rc = lk__copy_options(&own, sizeof(own), options, call.operation, call.error);
	if (rc == 0)
		rc = LK__CHECK(call.operation, call.error, {LK__PERMITS, permits},
			       {LK__IF_EXISTS, own.if_exists});
	if (rc < 0)
		return rc;
	/* What is released was of a count that is gone: all are free. */
	bool says = call.counter && call.counter->permits > 0;
	struct lk__change change = semaphore_change(permits, own.if_exists,
						    says ? call.counter->permits - permits : 0);
	rc = counter_change_said(call, &change);
	return rc < 0 || own.if_exists ? rc : 0;
}

int lk_semaphore_release(lk_semaphore *semaphore, int64_t permits,
			 const lk_semaphore_release_options *options, lk_error *error)
{
	return semaphore_give(counter_call(semaphore, "lk_semaphore_release", error), permits,
			      options);
}

/* ---- semaphore: changing ---- */

static int semaphore_set(struct counter_call call, int64_t permits, int64_t ttl_ms)
{
	struct lk__change change = {
		.request = lk__semaphore_set, .count = permits, .lasts_ms = ttl_ms};
	int rc = LK__CHECK(call.operation, call.error, {LK__PERMITS_SET, permits},
			   {LK__TTL, ttl_ms});
	return rc < 0 ? rc : counter_change_said(call, &change);
}

int lk_semaphore_try_set(lk_semaphore *semaphore, int64_t permits, int64_t ttl_ms, lk_error *error)
{
	return semaphore_set(counter_call(semaphore, "lk_semaphore_try_set", error), permits,
			     ttl_ms);
}

static int semaphore_add(struct counter_call call, int64_t added)
{
	int64_t answer;
	int rc = counter_check_added(&call, added);
	if (rc < 0)
		return rc;
	struct lk__change change = semaphore_change(added, false,
						    call.counter ? call.counter->permits : 0);
	return counter_change(&call, &change, &answer);
}

int lk_semaphore_add(lk_semaphore *semaphore, int64_t change, lk_error *error)
{
	return semaphore_add(counter_call(semaphore, "lk_semaphore_add", error), change);
}

static int semaphore_drain(struct counter_call call, int64_t *permits_out)
{
	static const struct lk__change change = {.request = lk__semaphore_drain};
	const struct lk__settings settings = {.flags = 0};
	int rc = call.counter ? lk__entry_refuses(call.counter->entry, &settings, call.error) : 0;
	return rc < 0 ? rc : counter_change(&call, &change, permits_out);
}

int lk_semaphore_drain(lk_semaphore *semaphore, int64_t *permits_out, lk_error *error)
{
	const char *operation = "lk_semaphore_drain";
	if (!permits_out)
		return lk__fail(error, LK_EINVAL, "%s: permits_out is NULL", operation);
	return semaphore_drain(counter_call(semaphore, operation, error), permits_out);
}

static const struct lk__change semaphore_deletion = {.request = lk__semaphore_delete};

int lk_semaphore_delete(lk_semaphore *semaphore, lk_error *error)
{
	return counter_change_said(counter_call(semaphore, "lk_semaphore_delete", error),
				   &semaphore_deletion);
}

/* ---- semaphore: asking ---- */

int lk_semaphore_available(lk_semaphore *semaphore, int64_t *permits_out, lk_error *error)
{
	struct counter_call call = counter_call(semaphore, "lk_semaphore_available", error);
	if (!permits_out)
		return lk__fail(error, LK_EINVAL, "%s: permits_out is NULL", call.operation);
	return counter_get(&call, LK__COUNTING_LOOK, permits_out);
}

int lk__start_semaphore(const struct lk__start *start)
{
	const lk_request *request = start->request;
	struct counter_call call = counter_start(start);
	switch (request->operation) {
	case LK_OP_ACQUIRE:
		return semaphore_take(call, request->number, request->wait_ms, NULL);
	case LK_OP_RELEASE:
		return semaphore_give(call, request->number, request->semaphore_release);
	case LK_OP_TRY_SET:
		return semaphore_set(call, request->number, request->ttl_ms);
	case LK_OP_ADD:
		return semaphore_add(call, request->number);
	case LK_OP_DRAIN:
		return semaphore_drain(call, NULL);
	case LK_OP_DELETE:
		return counter_change_said(call, &semaphore_deletion);
	default:
		assert(request->operation == LK_OP_COUNT);
		return counter_get(&call, LK__COUNTING_LOOK, NULL);
	}
}

/* ---- the latch ---- */

int lk_latch_new(lk_latch **latch_out, lk_client *client, const void *name, size_t name_size,
		 const lk_latch_options *options, lk_error *error)
{
	const char *operation = "lk_latch_new";
	lk_latch_options own;
	struct lk__counter *counter = NULL;
	if (!latch_out)
		return lk__fail(error, LK_EINVAL, "%s: an argument is NULL", operation);
	int rc = lk__copy_options(&own, sizeof(own), options, operation, error);
	if (rc == 0)
		rc = LK__CHECK(operation, error, {LK__TTL, own.ttl_ms});
	if (rc == 0)
		rc = counter_open(&counter, client, &lk__latch_recipe, name, name_size, 0,
				  own.ttl_ms, operation, error);
	if (rc == 0)
		*latch_out = (lk_latch *)counter;
	return rc;
}

lk_latch *lk_latch_free(lk_latch *latch)
{
	return counter_unref(latch);
}

/* ---- latch: changing ---- */

static int latch_set(struct counter_call call, int64_t count, int64_t *answer_out)
{
	struct lk__change change = {.request = lk__latch_set, .count = count};
	int rc = LK__CHECK(call.operation, call.error, {LK__LATCH_COUNT, count});
	return rc < 0 ? rc : counter_change(&call, &change, answer_out);
}

static int latch_down(struct counter_call call, int64_t by, int64_t *left_out)
{
	struct lk__change change = {.request = lk__latch_count_down, .count = by};
	int rc = LK__CHECK(call.operation, call.error, {LK__LATCH_BY, by});
	return rc < 0 ? rc : counter_change(&call, &change, left_out);
}

int lk_latch_try_set(lk_latch *latch, int64_t count, lk_error *error)
{
	int64_t answer = 0;
	int rc = latch_set(counter_call(latch, "lk_latch_try_set", error), count, &answer);
	return rc < 0 ? rc : (int)answer;
}

int lk_latch_count_down(lk_latch *latch, int64_t by, int64_t *left_out, lk_error *error)
{
	int64_t left = 0;
	int rc = latch_down(counter_call(latch, "lk_latch_count_down", error), by, &left);
	if (rc == 0 && left_out)
		*left_out = left;
	return rc;
}

static const struct lk__change latch_deletion = {.request = lk__latch_delete};

int lk_latch_delete(lk_latch *latch, lk_error *error)
{
	return counter_change_said(counter_call(latch, "lk_latch_delete", error), &latch_deletion);
}

/* ---- latch: asking ---- */

int lk_latch_count(lk_latch *latch, int64_t *count_out, lk_error *error)
{
	struct counter_call call = counter_call(latch, "lk_latch_count", error);
	if (!count_out)
		return lk__fail(error, LK_EINVAL, "lk_latch_count: count_out is NULL");
	return counter_get(&call, LK__COUNTING_LOOK, count_out);
}

/* ---- latch: waiting ---- */

/* Asks without a wait even if others wait: what they were told may be older than our own
 * count-down. */
static int latch_wait(struct counter_call call, int64_t wait_ms, lk_cancel *cancel)
{
	struct lk__want want = {.wait_ms = wait_ms, .cancel = cancel};
	int64_t count;
	int rc = LK__CHECK(call.operation, call.error, {LK__WAIT, wait_ms});
	if (rc < 0)
		return rc;
	return wait_ms == 0 ? counter_get(&call, LK__COUNTING_AWAIT, &count)
			    : counter_wait(&call, &want);
}

int lk_latch_await(lk_latch *latch, int64_t wait_ms, lk_cancel *cancel, lk_error *error)
{
	return latch_wait(counter_call(latch, "lk_latch_await", error), wait_ms, cancel);
}

int lk__start_latch(const struct lk__start *start)
{
	const lk_request *request = start->request;
	struct counter_call call = counter_start(start);
	switch (request->operation) {
	case LK_OP_AWAIT:
		return latch_wait(call, request->wait_ms, NULL);
	case LK_OP_TRY_SET:
		return latch_set(call, request->number, NULL);
	case LK_OP_COUNT_DOWN:
		return latch_down(call, request->number, NULL);
	case LK_OP_DELETE:
		return counter_change_said(call, &latch_deletion);
	default:
		assert(request->operation == LK_OP_COUNT);
		return counter_get(&call, LK__COUNTING_LOOK, NULL);
	}
}

/* ---- the permit semaphore ---- */

int lk_permit_semaphore_new(lk_permit_semaphore **semaphore_out, lk_client *client,
			    const void *name, size_t name_size,
			    const lk_permit_semaphore_options *options, lk_error *error)
{
	const char *operation = "lk_permit_semaphore_new";
	lk_permit_semaphore_options own;
	struct lk__counter *counter = NULL;
	if (!semaphore_out)
		return lk__fail(error, LK_EINVAL, "%s: an argument is NULL", operation);
	int rc = lk__copy_options(&own, sizeof(own), options, operation, error);
	if (rc == 0)
		rc = LK__CHECK(operation, error, {LK__PERMITS_SET, own.permits},
			       {LK__TTL, own.ttl_ms}, {LK__NO_LOSS, own.no_loss});
	if (rc == 0)
		rc = counter_open(&counter, client, &lk__permit_queue_recipe, name, name_size,
				  own.permits, own.ttl_ms, operation, error);
	if (rc < 0)
		return rc;
	counter->no_loss = own.no_loss;
	*semaphore_out = (lk_permit_semaphore *)counter;
	return 0;
}

lk_permit_semaphore *lk_permit_semaphore_free(lk_permit_semaphore *semaphore)
{
	return counter_unref(semaphore);
}

/* 0, or LK_EINVAL for what is not an id. */
static int check_id(const char *operation, const char *id, lk_error *error)
{
	unsigned char bytes[LK__PERMIT_ID_BYTES];
	if (!id)
		return lk__fail(error, LK_EINVAL, "%s: an id is NULL", operation);
	if (!lk__permit_bytes(id, bytes))
		return lk__fail(
			error, LK_EINVAL,
			"%s: \"%.40s\" is not a permit id (32 hexadecimal digits, lower case)",
			operation, id);
	return 0;
}

/* Checks the ids of all of them. */
static int check_ids(const char *operation, const lk_permit *permits, int64_t count,
		     lk_error *error)
{
	if (!permits)
		return lk__fail(error, LK_EINVAL, "%s: permits is NULL", operation);
	int rc = LK__CHECK(operation, error, {LK__IDS, count});
	for (int64_t i = 0; rc == 0 && i < count; i++)
		rc = check_id(operation, permits[i].id, error);
	return rc;
}

/* ---- permits: taking ---- */

static int check_options(const struct counter_call *call, int64_t count,
			 const lk_acquire_options *options)
{
	const char *operation = call->operation;
	lk_error *error = call->error;
	int64_t watchdog_ms = call->counter->client->config->watchdog_ms;
	int64_t lease_ms = options->lease_ms ? options->lease_ms : watchdog_ms;
	if (options->owner)
		return lk__fail(error, LK_EINVAL, "%s: a permit has no owner but its id",
				operation);
	if (options->field)
		return lk__fail(error, LK_EINVAL,
				"%s: field is set, and a permit has an id instead", operation);
	if (options->hears_asks)
		return lk__fail(error, LK_EINVAL,
				"%s: hears_asks is set, and nobody can ask for a permit",
				operation);
	int rc = LK__CHECK(operation, error, {LK__IDS, count}, {LK__LEASE, lease_ms},
			   {LK__MAX_HOLD, options->max_hold_ms});
	if (rc == 0)
		rc = lk__check_note(operation, "note", options->note, error);
	return rc < 0 ? rc
		      : lk__check_range(operation, "margin_ms", options->margin_ms, 0, lease_ms,
					error);
}

/* Writes the ids of one acquire's permits, of which that is the first. */
static void permits_fill(const char *first, int64_t count, lk_permit *permits_out)
{
	for (int64_t i = 0; i < count; i++)
		lk__permit_id_at(first, (size_t)i, permits_out[i].id);
}

/* After the enter; `permits_out` of a blocking call. */
static int permits_acquire(struct counter_call *call, int64_t count, lk_permit *permits_out,
			   int64_t wait_ms, const lk_acquire_options *options)
{
	char first[LK__FIELD_SIZE];
	struct lk__grant grant;
	struct lk__counter *counter = call->counter;
	struct lk__settings settings = {.permits = counter->permits, .ttl_ms = counter->ttl_ms};
	struct lk__want want = lk__want_of(options, wait_ms, settings);
	want.count = count;
	want.no_loss = counter->no_loss;
	if (call->start)
		return counter_leave(call, acquire_start(call, &want));
	want.cancel = options->cancel;
	want.grant_out = &grant;
	struct lk__permits_taken *taken = lk__permits_taken_new(count);
	int rc = taken ? counter_acquire(call, &want)
		       : lk__fail(call->error, LK_ENOMEM, "%s: out of memory", call->operation);
	if (rc == 0)
		rc = lk__permits_hold(counter->entry, call->thread, &want, &grant, taken,
				      call->operation, call->error);
	if (rc == 0) {
		lk__field(counter->entry, grant.number, first);
		permits_fill(first, count, permits_out);
	}
	lk__permits_taken_free(taken);
	return counter_leave(call, rc);
}

static int permits_take(struct counter_call call, int64_t count, lk_permit *permits_out,
			int64_t wait_ms, const lk_acquire_options *options)
{
	lk_acquire_options own;
	int rc = lk__copy_options(&own, sizeof(own), options, call.operation, call.error);
	if (rc == 0)
		rc = LK__CHECK(call.operation, call.error, {LK__WAIT, wait_ms});
	if (rc == 0 && call.start && own.cancel)
		rc = lk__fail(call.error, LK_EINVAL, "%s: cancel is set: use lk_queue_cancel()",
			      call.operation);
	if (rc == 0)
		rc = counter_enter(&call);
	if (rc < 0)
		return rc;
	rc = check_options(&call, count, &own);
	return rc < 0 ? counter_leave(&call, rc)
		      : permits_acquire(&call, count, permits_out, wait_ms, &own);
}

int lk_permit_semaphore_acquire(lk_permit_semaphore *semaphore, int64_t count,
				lk_permit *permits_out, int64_t wait_ms,
				const lk_acquire_options *options, lk_error *error)
{
	const char *operation = "lk_permit_semaphore_acquire";
	if (!permits_out)
		return lk__fail(error, LK_EINVAL, "%s: permits_out is NULL", operation);
	return permits_take(counter_call(semaphore, operation, error), count, permits_out, wait_ms,
			    options);
}

/* How many permits a completion says were acquired; 0: it says nothing of any. */
static int64_t completion_count(const lk_completion *completion)
{
	bool granted = completion->operation == LK_OP_ACQUIRE && completion->error.code == 0;
	int64_t count = granted ? completion->answer : 0;
	char id[LK_PERMIT_ID_SIZE];
	return count > 0 && count <= LK__PERMITS_MAX && lk__permit_id_at(completion->field, 0, id)
		       ? count
		       : 0;
}

int lk_completion_permits(const lk_completion *completion, lk_permit *permits_out, int64_t room,
			  lk_error *error)
{
	const char *name = "lk_completion_permits";
	if (!completion || !permits_out)
		return lk__fail(error, LK_EINVAL, "%s: an argument is NULL", name);
	int64_t count = completion_count(completion);
	if (count == 0)
		return lk__fail(error, LK_EINVAL,
				"%s: the completion is not that of permits that were acquired",
				name);
	if (room < count)
		return lk__fail(error, LK_EINVAL,
				"%s: room is %" PRId64 ", and there are %" PRId64 " permits", name,
				room, count);
	permits_fill(completion->field, count, permits_out);
	return (int)count;
}

/* ---- permits: giving back ---- */

/* The permits that go back, and all memory that needs: 0 or LK_ENOMEM. NULL can be freed. */
static int giving_new(struct lk__giving **giving_out, const struct lk__entry *queue,
		      const lk_permit *permits, size_t count)
{
	struct lk__giving *giving = calloc(1, sizeof(*giving) + count * sizeof(giving->part[0]));
	*giving_out = giving;
	if (!giving)
		return LK_ENOMEM;
	giving->count = count;
	giving->ids = calloc(count, sizeof(*giving->ids));
	giving->renewals = calloc(count, sizeof(*giving->renewals));
	int rc = giving->ids && giving->renewals ? 0 : LK_ENOMEM;
	for (size_t i = 0; rc == 0 && i < count; i++) {
		giving->part[i].permit = permits[i];
		rc = lk__permit_entry(&giving->part[i].entry, queue, permits[i].id);
	}
	return rc;
}

/* A single permit that this client holds is released as a lock is. */
static int permit_release(struct counter_call *call, struct lk__entry *entry, const char *id)
{
	const struct lk__owner owner = {.name = id, .name_size = LK_PERMIT_ID_SIZE - 1};
	if (call->start)
		return lk__start_go(call->start, entry, &owner,
				    &(struct lk__async_want){.way = LK__ASYNC_RELEASE});
	return lk__release_run(entry, call->thread, &owner, 0, false, call->error);
}

static int permits_give(struct counter_call call, const lk_permit *permits, int64_t count)
{
	struct lk__counting counting = {.way = LK__COUNTING_GIVE};
	int64_t answer;
	int rc = check_ids(call.operation, permits, count, call.error);
	if (rc == 0)
		rc = counter_enter(&call);
	if (rc < 0)
		return rc;
	rc = giving_new(&counting.giving, call.counter->entry, permits, (size_t)count);
	struct lk__entry *single = rc == 0 && count == 1 ? counting.giving->part[0].entry : NULL;
	if (rc == 0 && !single)
		return counter_ask(&call, &counting, &answer);
	rc = single ? permit_release(&call, single, permits->id)
		    : lk__fail(call.error, rc, "%s: out of memory, nothing was done",
			       call.operation);
	giving_free(counting.giving);
	return counter_leave(&call, rc);
}

int lk_permit_semaphore_release(lk_permit_semaphore *semaphore, const lk_permit *permits,
				int64_t count, lk_error *error)
{
	return permits_give(counter_call(semaphore, "lk_permit_semaphore_release", error), permits,
			    count);
}

/* ---- permits: another lease ---- */

static int permit_update(struct counter_call call, const char *id, int64_t lease_ms)
{
	struct lk__counting counting = {
		.way = LK__COUNTING_LEASE,
		.change = {.request = lk__permits_update, .lease_ms = lease_ms}};
	int64_t answer;
	int rc = check_id(call.operation, id, call.error);
	if (rc == 0)
		rc = LK__CHECK(call.operation, call.error, {LK__LEASE, lease_ms});
	if (rc == 0)
		rc = counter_enter(&call);
	if (rc != 0)
		return rc;
	assert(id); /* checked above */
	memcpy(counting.change.id, id, sizeof(counting.change.id));
	return counter_ask(&call, &counting, &answer);
}

int lk_permit_semaphore_update_lease(lk_permit_semaphore *semaphore, const char *id,
				     int64_t lease_ms, lk_error *error)
{
	return permit_update(counter_call(semaphore, "lk_permit_semaphore_update_lease", error), id,
			     lease_ms);
}

/* ---- permits: how many there are ---- */

static int permits_change(struct counter_call call, int64_t number, const char *how)
{
	struct lk__change change = {.request = lk__permits_set, .count = number, .how = how};
	return counter_change_said(call, &change);
}

static int permits_set(struct counter_call call, int64_t permits, const char *how)
{
	int rc = LK__CHECK(call.operation, call.error, {LK__PERMITS_SET, permits});
	return rc < 0 ? rc : permits_change(call, permits, how);
}

int lk_permit_semaphore_try_set(lk_permit_semaphore *semaphore, int64_t permits, lk_error *error)
{
	return permits_set(counter_call(semaphore, "lk_permit_semaphore_try_set", error), permits,
			   "new");
}

int lk_permit_semaphore_set(lk_permit_semaphore *semaphore, int64_t permits, lk_error *error)
{
	int rc = permits_set(counter_call(semaphore, "lk_permit_semaphore_set", error), permits,
			     "all");
	return rc < 0 ? rc : 0;
}

static int permits_add(struct counter_call call, int64_t change)
{
	int rc = counter_check_added(&call, change);
	if (rc == 0)
		rc = permits_change(call, change, "add");
	return rc < 0 ? rc : 0;
}

int lk_permit_semaphore_add(lk_permit_semaphore *semaphore, int64_t change, lk_error *error)
{
	return permits_add(counter_call(semaphore, "lk_permit_semaphore_add", error), change);
}

static const struct lk__change permits_deletion = {.request = lk__semaphore_delete,
						   .of_permits = true};

int lk_permit_semaphore_delete(lk_permit_semaphore *semaphore, lk_error *error)
{
	return counter_change_said(counter_call(semaphore, "lk_permit_semaphore_delete", error),
				   &permits_deletion);
}

/* ---- permits: what the server knows ---- */

enum look { LOOK_FREE, LOOK_USED, LOOK_TTL_MS, LOOK_COUNT };

static int look_read(const redisReply *reply, const char *operation, int64_t seen_out[LOOK_COUNT],
		     lk_error *error)
{
	int64_t seen[LOOK_COUNT];
	bool whole = reply->type == REDIS_REPLY_ARRAY && reply->elements == LOOK_COUNT;
	for (size_t i = 0; whole && i < LOOK_COUNT; i++)
		whole = lk__reply_integer(reply->element[i], INT64_MIN, INT64_MAX, &seen[i]);
	if (!whole)
		return lk__fail(error, LK_EPROTOCOL, "%s: unexpected reply", operation);
	memcpy(seen_out, seen, sizeof(seen));
	return 0;
}

/* No permit is in use, or not this one: what we have of that is in doubt. */
static void look_contradicts(const struct lk__entry *queue, const char *id, const int64_t *seen)
{
	struct lk__entry *permit = NULL;
	if (seen[LOOK_USED] == 0)
		lk__doubt_key(queue->client, queue->target.key, queue->target.key_size);
	else if (id && seen[LOOK_TTL_MS] == -2 && lk__permit_entry(&permit, queue, id) == 0 &&
		 permit)
		lk__doubt(permit);
	if (permit)
		lk__entry_unref(permit);
}

static int permits_look(lk_permit_semaphore *semaphore, const char *operation, const char *id,
			int64_t seen_out[LOOK_COUNT], lk_error *error)
{
	struct counter_call call = counter_call(semaphore, operation, error);
	int rc = counter_enter(&call);
	if (rc < 0)
		return rc;
	struct lk__entry *entry = call.counter->entry;
	struct lk__request *request = lk__question(lk__permits_look(&entry->target, id));
	rc = lk__ask_entry(entry, call.thread, request, operation,
			   lk__after_ms(lk__now_ns(), entry->client->config->command_timeout_ms),
			   error);
	if (rc == LK__WAIT_READY) {
		rc = look_read(request->reply, operation, seen_out, error);
		lk__request_free(request);
		if (rc == 0)
			look_contradicts(entry, id, seen_out);
	}
	return counter_leave(&call, rc);
}

int lk_permit_semaphore_count(lk_permit_semaphore *semaphore, int64_t *free_out, int64_t *used_out,
			      lk_error *error)
{
	int64_t seen[LOOK_COUNT] = {0};
	int rc = permits_look(semaphore, "lk_permit_semaphore_count", NULL, seen, error);
	if (rc == 0 && free_out)
		*free_out = seen[LOOK_FREE];
	if (rc == 0 && used_out)
		*used_out = seen[LOOK_USED];
	return rc;
}

int lk_permit_semaphore_server_ttl_ms(lk_permit_semaphore *semaphore, const char *id,
				      int64_t *ttl_ms_out, lk_error *error)
{
	const char *operation = "lk_permit_semaphore_server_ttl_ms";
	int64_t seen[LOOK_COUNT] = {0};
	if (!ttl_ms_out)
		return lk__fail(error, LK_EINVAL, "%s: ttl_ms_out is NULL", operation);
	int rc = check_id(operation, id, error);
	if (rc == 0)
		rc = permits_look(semaphore, operation, id, seen, error);
	if (rc == 0)
		*ttl_ms_out = seen[LOOK_TTL_MS];
	return rc;
}

int lk_permit_semaphore_remaining_ms(lk_permit_semaphore *semaphore, const char *id,
				     int64_t *remaining_ms_out, lk_error *error)
{
	const char *operation = "lk_permit_semaphore_remaining_ms";
	struct counter_call call = counter_call(semaphore, operation, error);
	int64_t deadline_ns = 0;
	if (!remaining_ms_out)
		return lk__fail(error, LK_EINVAL, "%s: remaining_ms_out is NULL", operation);
	int rc = check_id(operation, id, error);
	if (rc == 0)
		rc = counter_enter_nowait(&call);
	if (rc < 0)
		return rc;
	struct lk__entry *entry;
	rc = lk__permit_entry(&entry, call.counter->entry, id);
	if (rc < 0)
		return counter_leave(&call, lk__fail(error, rc, "%s: out of memory", operation));
	rc = LK_ENOTOWNER;
	if (entry) {
		pthread_mutex_lock(&entry->mutex);
		if (entry->hold)
			deadline_ns = lk__hold_deadline(entry->hold);
		if (entry->hold || entry->lost)
			rc = entry->hold && lk__now_ns() < deadline_ns ? 0 : LK_ELOST;
		pthread_mutex_unlock(&entry->mutex);
		lk__entry_unref(entry);
	}
	if (rc == 0)
		*remaining_ms_out = (deadline_ns - lk__now_ns()) / LK__MS;
	else
		lk__fail(error, rc, "%s: %s", operation, lk_error_text(rc));
	return counter_leave(&call, rc);
}

static int update_start(const struct lk__start *start)
{
	const lk_request *request = start->request;
	int rc = lk__check_range(start->operation, "number", request->number, 1, 1, start->error);
	return rc < 0 ? rc
		      : permit_update(counter_start(start),
				      request->permits ? request->permits->id : NULL,
				      request->lease_ms);
}

int lk__start_permit_semaphore(const struct lk__start *start)
{
	const lk_request *request = start->request;
	struct counter_call call = counter_start(start);
	switch (request->operation) {
	case LK_OP_ACQUIRE:
		return permits_take(call, request->number, NULL, request->wait_ms,
				    request->acquire);
	case LK_OP_RELEASE:
		return permits_give(call, request->permits, request->number);
	case LK_OP_EXTEND:
		return update_start(start);
	case LK_OP_TRY_SET:
		return permits_set(call, request->number, "new");
	case LK_OP_SET:
		return permits_set(call, request->number, "all");
	case LK_OP_ADD:
		return permits_add(call, request->number);
	default:
		assert(request->operation == LK_OP_DELETE);
		return counter_change_said(call, &permits_deletion);
	}
}
