/* SPDX-License-Identifier: MIT */
/*
 * Requests to a counter that the loop resumes: changes of its count or of a permit's lease, a
 * question, permits that go back.
 *
 *   connects ──▶ asks ──▶ is over
 *                 ▲ │ it came late: made anew, once; permits that go back: giving.h
 *                 └─┘
 */
#include <assert.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "drive/async/async_call.h"

#define WAITS 1 /* what a step returns beside codes, and 0 at the end */

static struct lk__entry *entry_of(const struct lk__async *async)
{
	return async->want.counter->entry;
}

static lk_error *error_of(struct lk__async *async)
{
	return &async->completion->value.error;
}

static bool changes(const struct lk__async *async)
{
	return async->want.way == LK__ASYNC_CHANGE || async->want.way == LK__ASYNC_LEASE;
}

/* ---- asking ---- */

/* To be answered by `until_ns`. */
static int ask_send(struct lk__async *async, struct lk__request *request)
{
	assert(async->count.until_ns > 0);
	if (!request)
		return lk__fail(error_of(async), LK_ENOMEM, "%s: out of memory",
				async->want.operation);
	lk__async_ask(async, lk__entry_scripts(entry_of(async)), request, async->count.until_ns);
	return WAITS;
}

static int ask(struct lk__async *async)
{
	struct lk__entry *entry = entry_of(async);
	async->count.until_ns = lk__counter_until_ns(entry);
	return ask_send(async, changes(async) ? lk__change_request(&async->count.changing)
					      : lk__count_request(entry));
}

/* ---- permits that go back: one limit for all that is asked ---- */

static int give_begin(struct lk__async *async)
{
	struct lk__request *request;
	assert(async->want.way == LK__ASYNC_GIVE && async->want.giving);
	async->count.until_ns = lk__counter_until_ns(entry_of(async));
	int rc = lk__giving_begin(async->want.giving, &request, error_of(async));
	return rc == 1 ? ask_send(async, request) : rc;
}

/* What was asked was answered, or ended with `rc` and is NULL. */
static int give_next(struct lk__async *async, int rc, const struct lk__request *answer)
{
	struct lk__request *request;
	rc = lk__giving_next(async->want.giving, rc, answer, &request, error_of(async));
	return rc == 1 ? ask_send(async, request) : rc;
}

/* ---- answers ---- */

/* What the caller of a semaphore or a latch is told of the count. */
static int count_read(struct lk__async *async, const struct lk__request *request, int rc)
{
	const struct lk__entry *entry = entry_of(async);
	lk_completion *value = &async->completion->value;
	bool latch = entry->target.recipe->flags & LK__FOR_ALL;
	rc = lk__count_read(entry, request, rc, async->want.operation, &value->answer,
			    &value->error);
	if (rc == 0 && latch && value->answer < 0)
		value->answer = 0;
	if (value->operation != LK_OP_AWAIT)
		return rc;
	if (rc == 0 && value->answer > 0)
		rc = LK_ETIMEDOUT;
	return lk__counter_waited(entry, 0, rc, &value->error);
}

/* The request is done, and ours; or had no answer, and is NULL. */
static int answer_read(struct lk__async *async, struct lk__request *request)
{
	struct lk__entry *entry = entry_of(async);
	char what[192];
	snprintf(what, sizeof(what), "%s \"%.100s\"", async->want.operation, entry->name);
	int rc = lk__ask_read(entry->client, request, what, error_of(async));
	if (async->want.way == LK__ASYNC_COUNT)
		rc = count_read(async, request, rc < 0 ? rc : 0);
	else if (async->want.way == LK__ASYNC_GIVE)
		rc = give_next(async, rc < 0 ? rc : 0, rc < 0 ? NULL : request);
	else if (rc >= 0)
		rc = lk__change_read(&async->count.changing, request, error_of(async));
	lk__request_free(request);
	if (rc < 0 || !changes(async))
		return rc;
	return rc == 1 ? 0 : ask(async);
}

static int answer_look(struct lk__async *async)
{
	struct lk__request *answer;
	return lk__async_ask_look(async, &answer) ? answer_read(async, answer) : WAITS;
}

/* ---- from start to end ---- */

/* A change waits for a connection first: a caller without one is told why. So do permits that
 * go back to a cluster, whose map says which replicas must have that. */
static int connect_look(struct lk__async *async)
{
	lk_error why = {.code = LK_EUNREACHABLE};
	int rc;
	if (!lk__async_connect_look(async, &rc, &why))
		return WAITS;
	if (rc == LK__WAIT_READY)
		return async->want.giving ? give_begin(async) : ask(async);
	return lk__counter_unconnected(entry_of(async), async->want.operation, rc, &why,
				       error_of(async));
}

static void connect_begin(struct lk__async *async)
{
	const struct lk__entry *entry = entry_of(async);
	lk__async_connect(async, lk__entry_scripts(entry), false, lk__counter_until_ns(entry));
}

static void change_begin(struct lk__async *async, const struct lk__change *change)
{
	lk__change_begin(&async->count.changing, async->want.counter, change,
			 async->want.operation);
	connect_begin(async);
}

static int lease_begin(struct lk__async *async)
{
	const struct lk__async_want *want = &async->want;
	struct lk__permit_lease *lease = &async->count.lease;
	int rc = lk__permit_lease_begin(lease, entry_of(async), want->permit.id,
					want->permit.lease_ms, want->operation, error_of(async));
	if (rc < 0)
		return rc;
	struct lk__change change = lk__permit_lease_change(lease);
	change_begin(async, &change);
	return 0;
}

/* It is over, with 0 or a code. */
static int count_end(struct lk__async *async, int rc)
{
	struct lk__async_count *count = &async->count;
	lk_completion *value = &async->completion->value;
	assert(rc <= 0 && !async->connecting);
	if (async->want.way == LK__ASYNC_GIVE)
		return lk__giving_end(async->want.giving, rc, &value->error);
	if (!changes(async))
		return rc;
	rc = lk__change_end(&count->changing, rc, &value->error);
	if (async->want.way == LK__ASYNC_LEASE)
		return lk__permit_lease_end(&count->lease, entry_of(async), rc,
					    count->changing.answer, async->want.operation,
					    &value->error);
	if (rc == 0)
		value->answer = count->changing.answer;
	return rc;
}

void lk__async_count(struct lk__async *async, bool starts)
{
	int rc = 0;
	if (starts) {
		async->count = (struct lk__async_count){.until_ns = 0};
		if (async->want.way == LK__ASYNC_CHANGE)
			change_begin(async, &async->want.change);
		else if (async->want.way == LK__ASYNC_LEASE)
			rc = lease_begin(async);
		else if (async->want.giving && entry_of(async)->client->topo->slotted)
			connect_begin(async);
		if (rc < 0) {
			lk__async_complete(async, rc);
			return;
		}
	}
	if (async->connecting)
		rc = connect_look(async);
	else if (starts)
		rc = async->want.giving ? give_begin(async) : ask(async);
	else
		rc = answer_look(async);
	if (rc != WAITS)
		lk__async_complete(async, count_end(async, rc));
}
