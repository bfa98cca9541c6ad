/* SPDX-License-Identifier: MIT */
/* The public face of barriers. */
#include <lockkeeper/barrier.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/check.h"
#include "base/fail.h"
#include "conf/config.h"
#include "lock/barrier.h"
#include "lock/loop.h"
#include "sync/recipes.h"

/* ---- the handle ---- */

static int barrier_check(lk_client *client, const void *name, size_t *name_size, int64_t parties,
			 const lk_barrier_options *options, const char *operation, lk_error *error)
{
	int rc = lk__name_check_slot(client, name, name_size, LK__BARRIER_PREFIX, operation, error);
	if (rc == 0)
		rc = LK__CHECK(operation, error, {LK__PARTIES, parties});
	if (rc == 0)
		rc = lk__check_range(operation, "margin_ms", options->margin_ms, 0,
				     client->config->watchdog_ms, error);
	return rc;
}

int lk_barrier_new(lk_barrier **barrier_out, lk_client *client, const void *name, size_t name_size,
		   int64_t parties, const lk_barrier_options *options, lk_error *error)
{
	const char *operation = "lk_barrier_new";
	lk_barrier_options own;
	int rc = lk__copy_options(&own, sizeof(own), options, operation, error);
	if (rc == 0 && !barrier_out)
		rc = lk__fail(error, LK_EINVAL, "%s: an argument is NULL", operation);
	if (rc == 0)
		rc = barrier_check(client, name, &name_size, parties, &own, operation, error);
	if (rc < 0)
		return rc;
	lk_barrier *barrier = calloc(1, sizeof(*barrier));
	if (!barrier)
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", operation);
	uint64_t number = atomic_fetch_add(&client->last_number, 1) + 1;
	snprintf(barrier->owner, sizeof(barrier->owner), "party %" PRIu64, number);
	barrier->parties = parties;
	barrier->margin_ms = own.margin_ms;
	barrier->tag = own.tag;
	atomic_store(&barrier->refs, 1);
	const struct lk__owner owner = lk__barrier_owner(barrier);
	rc = lk__entry_get(&barrier->entry, client, &lk__barrier_recipe, name, name_size, &owner,
			   error);
	if (rc < 0) {
		free(barrier);
		return rc;
	}
	lk__client_ref(client);
	*barrier_out = barrier;
	return 0;
}

lk_barrier *lk_barrier_free(lk_barrier *barrier)
{
	if (!barrier || lk__client_forked(barrier->entry->client))
		return NULL;
	if (atomic_load(&barrier->entry->client->state) != LK__CLIENT_CLOSED)
		lk__barrier_drop(barrier, true);
	lk__barrier_unref(barrier);
	return NULL;
}

/* ---- its calls, blocking and started ---- */

struct barrier_call {
	lk_barrier *barrier;
	enum lk__meeting_way way;
	int64_t wait_ms;
	const char *operation;
	lk_error *error;
};

/* Marks it busy, with a reference for the call. */
static int party_take(const struct barrier_call *call)
{
	bool busy = false;
	if (!atomic_compare_exchange_strong(&call->barrier->busy, &busy, true))
		return lk__fail(call->error, LK_EINVAL,
				"%s \"%.100s\": another call of this party is under way",
				call->operation, call->barrier->entry->name);
	atomic_fetch_add(&call->barrier->refs, 1);
	return 0;
}

static int call_check(const struct barrier_call *call)
{
	if (!call->barrier)
		return lk__fail(call->error, LK_EINVAL, "%s: barrier is NULL", call->operation);
	return LK__CHECK(call->operation, call->error, {LK__WAIT, call->wait_ms});
}

static int barrier_run(const struct barrier_call *call, lk_cancel *cancel, uint64_t *generation_out)
{
	struct lk__meeting meeting;
	struct lk__thread *thread;
	lk_error own = {.code = 0};
	int saved, rc = call_check(call);
	if (rc == 0)
		rc = lk__enter(call->barrier->entry->client, call->operation, &thread, &saved,
			       call->error);
	if (rc < 0)
		return rc;
	rc = lk__loop_start(call->barrier->entry->client, call->error);
	if (rc == 0)
		rc = party_take(call);
	if (rc == 0) {
		lk__meeting_init(&meeting, call->barrier, call->way, thread, call->wait_ms, cancel,
				 NULL, call->error ? call->error : &own);
		rc = lk__op_run(&meeting.op);
		lk__barrier_give_back(call->barrier);
	}
	if (rc == 0 && generation_out)
		*generation_out = meeting.generation;
	lk__leave(saved);
	return rc;
}

int lk_barrier_await(lk_barrier *barrier, int64_t wait_ms, lk_cancel *cancel,
		     uint64_t *generation_out, lk_error *error)
{
	return barrier_run(&(struct barrier_call){barrier, LK__MEETING_AWAIT, wait_ms,
						  "lk_barrier_await", error},
			   cancel, generation_out);
}

int lk_barrier_enter(lk_barrier *barrier, int64_t wait_ms, lk_cancel *cancel,
		     uint64_t *generation_out, lk_error *error)
{
	return barrier_run(&(struct barrier_call){barrier, LK__MEETING_ENTER, wait_ms,
						  "lk_barrier_enter", error},
			   cancel, generation_out);
}

int lk_barrier_leave(lk_barrier *barrier, int64_t wait_ms, lk_cancel *cancel, lk_error *error)
{
	return barrier_run(&(struct barrier_call){barrier, LK__MEETING_LEAVE, wait_ms,
						  "lk_barrier_leave", error},
			   cancel, NULL);
}

int lk__start_barrier(const struct lk__start *start)
{
	int operation = start->request->operation;
	enum lk__meeting_way way = operation == LK_OP_AWAIT   ? LK__MEETING_AWAIT
				   : operation == LK_OP_ENTER ? LK__MEETING_ENTER
							      : LK__MEETING_LEAVE;
	lk_barrier *barrier = start->handle;
	const struct barrier_call call = {barrier, way, start->request->wait_ms, start->operation,
					  start->error};
	struct lk__thread *thread;
	int saved, rc = call_check(&call);
	if (rc == 0)
		rc = lk__enter_briefly(barrier->entry->client, call.operation, &thread, &saved,
				       call.error);
	if (rc < 0)
		return rc;
	rc = lk__loop_start(barrier->entry->client, call.error);
	if (rc == 0)
		rc = party_take(&call);
	if (rc == 0) {
		rc = lk__start_go(start, barrier->entry, NULL,
				  &(struct lk__async_want){.way = LK__ASYNC_MEET,
							   .meet = {barrier, way, call.wait_ms}});
		if (rc < 0)
			lk__barrier_give_back(barrier);
	}
	lk__leave(saved);
	return rc;
}
