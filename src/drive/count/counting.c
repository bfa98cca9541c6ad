/* SPDX-License-Identifier: MIT */
#include "drive/count/counting.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "drive/lock/ask.h"

static bool changes(const struct lk__counting *counting)
{
	return counting->way == LK__COUNTING_CHANGE || counting->way == LK__COUNTING_LEASE;
}

/* ---- asking ---- */

/* To be answered by `until_ns`. */
static int ask_send(struct lk__counting *counting, struct lk__request *request)
{
	assert(counting->until_ns > 0);
	if (!request)
		return lk__fail(counting->error, LK_ENOMEM, "%s: out of memory",
				counting->operation);
	lk__op_ask(&counting->op, lk__entry_scripts(counting->counter->entry), request,
		   counting->until_ns);
	return LK__OP_WAITS;
}

static int ask(struct lk__counting *counting)
{
	struct lk__entry *entry = counting->counter->entry;
	counting->until_ns = lk__counter_until_ns(entry);
	return ask_send(counting, changes(counting) ? lk__change_request(&counting->changing)
						    : lk__count_request(entry));
}

/* ---- permits that go back: one limit for all that is asked ---- */

static int give_begin(struct lk__counting *counting)
{
	struct lk__request *request;
	counting->until_ns = lk__counter_until_ns(counting->counter->entry);
	int rc = lk__giving_begin(counting->giving, &request, counting->error);
	return rc == 1 ? ask_send(counting, request) : rc;
}

/* What was asked was answered, or ended with `rc` and is NULL. */
static int give_next(struct lk__counting *counting, int rc, const struct lk__request *answer)
{
	struct lk__request *request;
	rc = lk__giving_next(counting->giving, rc, answer, &request, counting->error);
	return rc == 1 ? ask_send(counting, request) : rc;
}

/* ---- answers ---- */

/* The request is done, and ours; or had no answer, and is NULL. */
static int answer_read(struct lk__counting *counting, struct lk__request *request)
{
	struct lk__entry *entry = counting->counter->entry;
	char what[192];
	snprintf(what, sizeof(what), "%s \"%.100s\"", counting->operation, entry->name);
	int rc = lk__ask_read(entry->client, request, what, counting->error);
	if (counting->way == LK__COUNTING_LOOK)
		rc = lk__count_read(entry, request, rc < 0 ? rc : 0, counting->operation,
				    &counting->answer, counting->error);
	else if (counting->way == LK__COUNTING_GIVE)
		rc = give_next(counting, rc < 0 ? rc : 0, rc < 0 ? NULL : request);
	else if (rc >= 0)
		rc = lk__change_read(&counting->changing, request, counting->error);
	lk__request_free(request);
	if (rc < 0 || !changes(counting))
		return rc;
	return rc == 1 ? 0 : ask(counting);
}

static int answer_look(struct lk__counting *counting)
{
	struct lk__request *answer;
	return lk__op_ask_look(&counting->op, &answer) ? answer_read(counting, answer)
						       : LK__OP_WAITS;
}

/* ---- from its begin to its end ---- */

static int counting_go(struct lk__counting *counting)
{
	counting->connects = false;
	return counting->giving ? give_begin(counting) : ask(counting);
}

static int connect_look(struct lk__counting *counting)
{
	lk_error why = {.code = LK_EUNREACHABLE};
	int rc = lk__op_connect_look(&counting->op, 0, &why);
	if (rc == LK__OP_WAITS)
		return rc;
	return rc == LK__WAIT_READY
		       ? counting_go(counting)
		       : lk__counter_unconnected(counting->counter->entry, counting->operation, rc,
						 &why, counting->error);
}

/* A change waits for a connection first: a caller without one is told why. So do permits that
 * go back to a cluster, whose map says which replicas must have that. */
static int counting_begin(struct lk__counting *counting)
{
	const struct lk__entry *entry = counting->counter->entry;
	bool routes = changes(counting) || (counting->giving && entry->client->topo->slotted);
	counting->connects = routes && lk__op_connect(&counting->op, lk__entry_scripts(entry),
						      false, lk__counter_until_ns(entry));
	return counting->connects ? LK__OP_WAITS : counting_go(counting);
}

/* 0, or a code, and there is nothing to end. */
static int lease_begin(struct lk__counting *counting)
{
	int rc = lk__permit_lease_begin(&counting->lease, counting->error);
	if (rc < 0)
		return rc;
	struct lk__change change = lk__permit_lease_change(&counting->lease);
	lk__change_begin(&counting->changing, counting->counter, &change, counting->operation);
	return 0;
}

/* It is over, with 0 or a code. */
static int counting_end(struct lk__counting *counting, int rc)
{
	assert(rc <= 0);
	if (counting->way == LK__COUNTING_GIVE)
		return lk__giving_end(counting->giving, rc, counting->error);
	if (!changes(counting))
		return rc;
	rc = lk__change_end(&counting->changing, rc, counting->error);
	counting->answer = counting->changing.answer;
	return counting->way == LK__COUNTING_CHANGE
		       ? rc
		       : lk__permit_lease_end(&counting->lease, rc, counting->answer,
					      counting->error);
}

static int counting_step(struct lk__op *op)
{
	struct lk__counting *counting = (struct lk__counting *)op;
	int rc = 0;
	if (counting->begun) {
		rc = counting->connects ? connect_look(counting) : answer_look(counting);
	} else {
		counting->begun = true;
		if (counting->way == LK__COUNTING_LEASE)
			rc = lease_begin(counting);
		if (rc < 0)
			return rc;
		rc = counting_begin(counting);
	}
	return rc == LK__OP_WAITS ? rc : counting_end(counting, rc);
}

static void counting_init(struct lk__counting *counting, enum lk__counting_way way,
			  struct lk__counter *counter, struct lk__thread *thread,
			  const char *operation, lk_error *error)
{
	lk__op_begin(&counting->op, counting_step, thread, NULL);
	counting->way = way;
	counting->counter = counter;
	counting->operation = operation;
	counting->begun = counting->connects = false;
	counting->giving = NULL;
	counting->answer = 0;
	counting->error = error;
}

void lk__counting_change(struct lk__counting *counting, struct lk__counter *counter,
			 struct lk__thread *thread, const struct lk__change *change,
			 const char *operation, lk_error *error)
{
	counting_init(counting, LK__COUNTING_CHANGE, counter, thread, operation, error);
	lk__change_begin(&counting->changing, counter, change, operation);
}

void lk__counting_lease(struct lk__counting *counting, struct lk__counter *counter,
			struct lk__thread *thread, const char *id, int64_t lease_ms,
			const char *operation, lk_error *error)
{
	counting_init(counting, LK__COUNTING_LEASE, counter, thread, operation, error);
	counting->lease = (struct lk__permit_lease){
		.queue = counter->entry, .operation = operation, .lease_ms = lease_ms};
	memcpy(counting->lease.id, id, sizeof(counting->lease.id));
}

void lk__counting_look(struct lk__counting *counting, struct lk__counter *counter,
		       struct lk__thread *thread, const char *operation, lk_error *error)
{
	counting_init(counting, LK__COUNTING_LOOK, counter, thread, operation, error);
}

void lk__counting_give(struct lk__counting *counting, struct lk__counter *counter,
		       struct lk__thread *thread, struct lk__giving *giving, const char *operation,
		       lk_error *error)
{
	counting_init(counting, LK__COUNTING_GIVE, counter, thread, operation, error);
	counting->giving = giving;
}
