/* SPDX-License-Identifier: MIT */
#include "lock/counter.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "lock/compensation.h"
#include "lock/hold.h"
#include "lock/operation.h"
#include "resp/reply.h"
#include "sync/recipes.h"
#include "sync/script.h"

#define JUST_LOOK_MS 1 /* a lease that renews nothing */
#define LOOKS_MAX 3    /* at those of ours, while one after the other is lost */

/* ---- counters ---- */

struct lk__counter *lk__counter_new(struct lk__entry *entry)
{
	struct lk__counter *counter = calloc(1, sizeof(*counter));
	if (!counter)
		return NULL;
	atomic_init(&counter->refs, 1);
	counter->client = entry->client;
	counter->entry = entry;
	lk__client_ref(entry->client);
	lk__entry_ref(entry);
	pthread_mutex_init(&counter->mutex, NULL);
	return counter;
}

void lk__counter_ref(struct lk__counter *counter)
{
	atomic_fetch_add(&counter->refs, 1);
}

void lk__counter_unref(struct lk__counter *counter)
{
	size_t refs = atomic_fetch_sub(&counter->refs, 1);
	assert(refs > 0);
	if (refs > 1)
		return;
	if (!lk__client_forked(counter->client)) {
		pthread_mutex_destroy(&counter->mutex);
		lk__entry_unref(counter->entry);
		lk__client_unref(counter->client);
	}
	free(counter->settled);
	free(counter);
}

int64_t lk__counter_until_ns(const struct lk__entry *entry)
{
	return lk__after_ms(lk__now_ns(), entry->client->config->command_timeout_ms);
}

/* ---- records that can go ---- */

/* A change whose record the next one deletes along with its own work; 0: none is known. */
static uint64_t counter_settled(struct lk__counter *counter)
{
	pthread_mutex_lock(&counter->mutex);
	size_t count = counter->settled_count;
	uint64_t number = count ? counter->settled[--counter->settled_count] : 0;
	pthread_mutex_unlock(&counter->mutex);
	return number;
}

/* Without memory for it the record stays until its time to live is over. */
static void counter_settle(struct lk__counter *counter, uint64_t number)
{
	assert(number != 0);
	pthread_mutex_lock(&counter->mutex);
	assert(counter->settled_count <= counter->settled_room);
	if (counter->settled_count == counter->settled_room) {
		size_t room = 2 * counter->settled_room + 1;
		uint64_t *larger = realloc(counter->settled, room * sizeof(*larger));
		if (larger) {
			counter->settled = larger;
			counter->settled_room = room;
		}
	}
	if (counter->settled_count < counter->settled_room)
		counter->settled[counter->settled_count++] = number;
	pthread_mutex_unlock(&counter->mutex);
}

/* ---- changes ---- */

/* Each begin has its end. */
static void change_begin(struct lk__changing *changing, struct lk__counter *counter,
			 const struct lk__change *change, const char *operation)
{
	*changing = (struct lk__changing){
		.counter = counter,
		.operation = operation,
		.change = *change,
		.number = atomic_fetch_add(&counter->client->last_number, 1) + 1,
		.settled = counter_settled(counter),
	};
}

/* NULL when out of memory. Its deadline is to be set. */
static struct lk__request *change_request(const struct lk__changing *changing)
{
	struct lk__change change = changing->change;
	const struct lk__entry *entry = changing->counter->entry;
	char field[LK__FIELD_SIZE];
	assert(changing->number != 0 && changing->number != changing->settled);
	lk__field_of(entry->client->id, changing->number, field);
	change.target = &entry->target;
	change.field = field;
	change.settled = changing->settled;
	change.ttl_ms = changing->counter->ttl_ms;
	return change.request(&change);
}

/* Reads a reply without an integer: its code, or LK_OK when the request is to be made anew: under
 * the same number, so that what an earlier copy has done is found. */
static int change_refused(struct lk__changing *changing, const struct lk__request *request,
			  lk_error *error)
{
	const struct lk__entry *entry = changing->counter->entry;
	const redisReply *reply = request->reply;
	int64_t server_us = 0;
	bool late = lk__reply_late(reply, &server_us);
	if (late)
		lk__node_learn_time(request->conn->node, server_us, lk__now_ns());
	if (late && !changing->made_anew) {
		changing->made_anew = true;
		return LK_OK;
	}
	if (late)
		return lk__fail(error, LK_EUNAVAILABLE, "%s \"%.100s\": the server's clock jumps",
				changing->operation, entry->name);
	if (reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "OVERFLOW") == 0)
		return lk__fail(error, LK_EINVAL,
				"%s \"%.100s\": the count would leave its range (%" PRId32
				" … %" PRId32 ")",
				changing->operation, entry->name, INT32_MIN, INT32_MAX);
	return lk__fail(error, LK_EPROTOCOL, "%s \"%.100s\": unexpected reply", changing->operation,
			entry->name);
}

int lk__change_read(struct lk__changing *changing, const struct lk__request *request,
		    lk_error *error)
{
	assert(request->reply);
	changing->copied |= lk__reply_is_of_copy(request);
	if (request->reply->type != REDIS_REPLY_INTEGER)
		return change_refused(changing, request, error);
	changing->answer = request->reply->integer;
	return 1;
}

/* It is over, with 0 or a code. Returns what its caller is told. */
static int change_end(struct lk__changing *changing, int rc, lk_error *error)
{
	struct lk__counter *counter = changing->counter;
	assert(rc <= 0);
	if (rc < 0 && changing->settled) /* nothing says that its record was deleted */
		counter_settle(counter, changing->settled);
	if (rc < 0)
		return changing->copied ? lk__fail(error, LK_EMAYBEHELD,
						   "%s \"%.100s\": refused, but an earlier copy of "
						   "the request may have run",
						   changing->operation, counter->entry->name)
					: rc;
	if (!changing->copied) /* else the record of it is still needed */
		counter_settle(counter, changing->number);
	return 0;
}

/* ---- the count ---- */

/* Reads the answer; `rc`: 0, or the code without an answer. The count is 0 without a key. */
static int count_read(const struct lk__entry *entry, const struct lk__request *request, int rc,
		      const char *operation, int64_t *count_out, lk_error *error)
{
	if (rc == LK_EWRONGTYPE)
		return lk__fail(error, rc, "%s \"%.100s\": the key is not a string, so not a %s",
				operation, entry->name, entry->target.recipe->type);
	if (rc == LK_EMAYBEHELD)
		return lk__fail(error, LK_EUNREACHABLE, "%s: no answer within the command limit",
				operation);
	if (rc < 0)
		return rc;
	const redisReply *reply = request->reply;
	assert(reply && request->code == 0);
	int64_t count = 0;
	if (reply->type != REDIS_REPLY_STRING && reply->type != REDIS_REPLY_NIL)
		return lk__fail(error, LK_EPROTOCOL, "%s \"%.100s\": unexpected reply", operation,
				entry->name);
	if (reply->type == REDIS_REPLY_STRING &&
	    !lk__reply_number(reply, INT64_MIN, INT64_MAX, &count))
		return lk__fail(error, LK_EWRONGTYPE,
				"%s \"%.100s\": the key is a string that is not a count, not a %s",
				operation, entry->name, entry->target.recipe->type);
	*count_out = count;
	return 0;
}

/* ---- another lease of a permit ---- */

/* LK_ELOST: a permit of ours is. */
static int lease_shorten(struct lk__permit_lease *lease)
{
	struct lk__entry *entry = lease->entry;
	int64_t now_ns = lk__now_ns();
	pthread_mutex_lock(&entry->mutex);
	struct lk__hold *hold = entry->hold;
	int64_t deadline_ns = hold ? lk__hold_deadline(hold) : LK__NEVER;
	if (hold && now_ns < deadline_ns) {
		int64_t end_ns = lk__lease_end_ns(now_ns, lease->lease_ms);
		lease->was_watched = hold->watched;
		lease->was_own_until_ns = hold->own_until_ns;
		hold->watched = false;
		hold->own_until_ns = end_ns < deadline_ns ? end_ns : deadline_ns;
		lk__watch_hold(entry, now_ns);
	} else if (hold) {
		lk__entry_lose(entry, now_ns);
	}
	int rc = !entry->hold && entry->lost ? LK_ELOST : 0;
	pthread_mutex_unlock(&entry->mutex);
	return rc;
}

static int lease_lost(const struct lk__permit_lease *lease, lk_error *error)
{
	return lk__fail(error, LK_ELOST, "%s: %s was lost", lease->operation, lease->id);
}

/* The server may let the permit end with the new lease from now on: so do we. Each begin of 0 has
 * its end. */
static int lease_open(struct lk__permit_lease *lease, lk_error *error)
{
	int rc = lk__permit_entry(&lease->entry, lease->queue, lease->id);
	if (rc < 0)
		return lk__fail(error, rc, "%s: out of memory", lease->operation);
	if (lease->entry && lease_shorten(lease) == LK_ELOST) {
		lk__entry_unref(lease->entry);
		return lease_lost(lease, error);
	}
	/* The server remembers the first copy that it ran, however often it is sent. */
	lease->begun_ns = lk__now_ns();
	return 0;
}

/* Sets a hold by the answer, `rc`. */
static void lease_set(const struct lk__permit_lease *lease, struct lk__hold *hold, int rc)
{
	struct lk__entry *entry = hold->entry;
	assert(entry == lease->entry);
	if (rc == 0) {
		hold->warned = false;
		hold->lease_ms = entry->grant.lease_ms = lease->lease_ms;
		hold->own_until_ns = lk__lease_end_ns(lease->begun_ns, lease->lease_ms);
		entry->grant.valid_until_ns = hold->own_until_ns;
	} else {
		hold->watched = lease->was_watched;
		hold->own_until_ns = lease->was_own_until_ns;
	}
	lk__watch_hold(entry, lk__now_ns());
}

/* A permit of ours that is not in use any more is lost; one that was lost meanwhile stays so. */
static int lease_conclude(const struct lk__permit_lease *lease, int rc)
{
	struct lk__entry *entry = lease->entry;
	int64_t now_ns = lk__now_ns();
	pthread_mutex_lock(&entry->mutex);
	struct lk__hold *hold = entry->hold;
	bool late = rc == 0 && hold && now_ns >= lk__hold_deadline(hold);
	bool gone = hold && (late || rc == LK_ENOTOWNER);
	if (gone && !entry->passing)
		lk__entry_lose(entry, now_ns);
	else if (hold)
		lease_set(lease, hold, rc);
	bool lost = !entry->hold && entry->lost && (rc == 0 || rc == LK_ENOTOWNER);
	if (lost && rc == 0)
		lk__entry_release_unasked(entry, entry->grant.number);
	pthread_mutex_unlock(&entry->mutex);
	return lost ? LK_ELOST : rc;
}

/* The change has ended with `rc` and, if that is 0, with this answer. Returns what its caller is
 * told. */
static int lease_close(struct lk__permit_lease *lease, int rc, int64_t answer, lk_error *error)
{
	if (rc == 0 && answer != 1)
		rc = lk__fail(error, LK_ENOTOWNER, "%s \"%.100s\": %s is not in use",
			      lease->operation, lease->queue->name, lease->id);
	if (!lease->entry)
		return rc;
	/* Where the server has it, or may have it, it is not ours beyond the shorter of the two. */
	if (rc != LK_EMAYBEHELD && rc != LK_ENOTDURABLE)
		rc = lease_conclude(lease, rc);
	lk__entry_unref(lease->entry);
	return rc == LK_ELOST ? lease_lost(lease, error) : rc;
}

/* ---- several permits that go back ---- */

static int giving_fill(struct lk__giving *giving, const lk_permit *permits)
{
	giving->ids = calloc(giving->count, sizeof(*giving->ids));
	giving->renewals = calloc(giving->count, sizeof(*giving->renewals));
	int rc = giving->ids && giving->renewals ? 0 : LK_ENOMEM;
	for (size_t i = 0; rc == 0 && i < giving->count; i++) {
		struct lk__giving_part *part = &giving->part[i];
		part->permit = permits[i];
		rc = lk__permit_entry(&part->entry, giving->queue, part->permit.id);
	}
	return rc;
}

int lk__giving_new(struct lk__giving **giving_out, const struct lk__entry *queue,
		   const lk_permit *permits, size_t count, const char *operation, lk_error *error)
{
	struct lk__giving *giving = calloc(1, sizeof(*giving) + count * sizeof(giving->part[0]));
	int rc = LK_ENOMEM;
	if (giving) {
		giving->queue = queue;
		giving->operation = operation;
		giving->count = count;
		rc = giving_fill(giving, permits);
	}
	if (rc == 0) {
		*giving_out = giving;
		return 0;
	}
	lk__giving_free(giving);
	return lk__fail(error, rc, "%s: out of memory, nothing was done", operation);
}

void lk__giving_free(struct lk__giving *giving)
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

/* Tells whether one of ours is sent: what was lost is only given up. What is sent is nobody else's
 * business until the answer is there: a renewal that finds nothing then tells no loss. */
static bool part_pass(const struct lk__giving_part *part)
{
	struct lk__entry *entry = part->entry;
	int64_t now_ns = lk__now_ns();
	pthread_mutex_lock(&entry->mutex);
	bool ended = entry->hold && now_ns >= lk__hold_deadline(entry->hold);
	if (entry->hold && (part->gone || ended)) {
		lk__entry_lose(entry, now_ns);
		if (ended)
			lk__entry_release_unasked(entry, entry->grant.number);
	}
	bool ours = entry->hold != NULL;
	bool sends = ours || !entry->lost;
	entry->passing = ours;
	pthread_mutex_unlock(&entry->mutex);
	return sends;
}

/* Nothing was done: the hold is as it was, and watched again. */
static void part_stay(const struct lk__giving_part *part)
{
	struct lk__entry *entry = part->entry;
	if (!entry)
		return;
	pthread_mutex_lock(&entry->mutex);
	entry->passing = false;
	if (entry->hold)
		lk__watch_hold(entry, lk__now_ns());
	pthread_mutex_unlock(&entry->mutex);
}

/* To be sent, or LK_ENOMEM. */
static int giving_ask(const struct lk__giving *giving, struct lk__request *request,
		      struct lk__request **request_out, lk_error *error)
{
	if (!request)
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", giving->operation);
	*request_out = request;
	return 1;
}

/* Sends what is not lost. */
static int giving_send(struct lk__giving *giving, struct lk__request **request_out, lk_error *error)
{
	giving->looking = false;
	giving->sent = giving->ours = 0;
	for (size_t i = 0; i < giving->count; i++) {
		struct lk__giving_part *part = &giving->part[i];
		part->sends = !part->entry || part_pass(part);
		if (!part->sends)
			continue;
		lk__permit_bytes(part->permit.id, giving->ids[giving->sent++]);
		giving->ours += part->entry != NULL;
	}
	assert(giving->ours <= giving->sent && giving->sent <= giving->count);
	if (giving->sent == 0)
		return 0;
	struct lk__request *request = lk__permits_release(&giving->queue->target, giving->ids[0],
							  giving->sent);
	if (request)
		request->durable = LK__DURABLE_WHOLLY;
	return giving_ask(giving, request, request_out, error);
}

/* Asks which of ours are in use still. */
static int giving_look(struct lk__giving *giving, struct lk__request **request_out, lk_error *error)
{
	size_t asked = 0;
	for (size_t i = 0; i < giving->count; i++) {
		struct lk__giving_part *part = &giving->part[i];
		if (part->entry && part->sends)
			giving->renewals[asked++] = (struct lk__renewal){
				&part->entry->target, part->permit.id, JUST_LOOK_MS};
	}
	assert(asked > 0 && asked == giving->ours && giving->looks < LOOKS_MAX);
	giving->looking = true;
	giving->looks++;
	return giving_ask(giving, lk__permit_recipe.renew(giving->renewals, asked), request_out,
			  error);
}

static int giving_uncertain(const struct lk__giving *giving, lk_error *error)
{
	return lk__fail(error, LK_EMAYBEHELD,
			"%s \"%.100s\": sent twice; the effect of the first copy is unknown",
			giving->operation, giving->queue->name);
}

static int giving_unknown(const struct lk__giving *giving, lk_error *error)
{
	return lk__fail(error, LK_ENOTOWNER, "%s \"%.100s\": %s is not in use", giving->operation,
			giving->queue->name,
			giving->count == 1 ? giving->part[0].permit.id : "one of the permits");
}

/* Reads the answer to the release. If one is not in use, it has done nothing, or its first copy has
 * done all. */
static int giving_released(struct lk__giving *giving, const struct lk__request *answer,
			   struct lk__request **request_out, lk_error *error)
{
	assert(!giving->looking && giving->sent > 0);
	giving->repeated |= answer->sends > 1;
	if (answer->reply->type != REDIS_REPLY_NIL)
		return 0;
	if (giving->ours > 0 && giving->looks < LOOKS_MAX)
		return giving_look(giving, request_out, error);
	if (giving->repeated && giving->ours == 0)
		return giving->sent == 1 ? 0 : giving_uncertain(giving, error);
	return giving_unknown(giving, error);
}

/* Ours that are not in use are lost, and do not keep the others back: these are sent again. But if
 * all of ours are gone after two copies, the first one has freed them. */
static int giving_looked(struct lk__giving *giving, const struct lk__request *answer,
			 struct lk__request **request_out, lk_error *error)
{
	size_t at = 0, gone = 0;
	for (size_t i = 0; i < giving->count; i++) {
		struct lk__giving_part *part = &giving->part[i];
		if (!part->entry || !part->sends)
			continue;
		part->gone = lk__reply_renewed(answer, giving->ours, at++) == 0;
		gone += part->gone;
	}
	assert(giving->looking && at == giving->ours);
	if (gone == 0)
		return giving_unknown(giving, error);
	if (giving->repeated && gone == giving->ours)
		return 0;
	return giving_send(giving, request_out, error);
}

/* Goes on after the request was answered, or has ended with `rc`: 1 with the next one, 0: none is
 * needed, or a code. */
static int giving_next(struct lk__giving *giving, int rc, const struct lk__request *answer,
		       struct lk__request **request_out, lk_error *error)
{
	assert(rc < 0 || (rc == 0 && answer && answer->reply));
	if (rc == 0)
		rc = giving->looking ? giving_looked(giving, answer, request_out, error)
				     : giving_released(giving, answer, request_out, error);
	bool no_look = rc < 0 && rc != LK_ENOTOWNER && giving->looking;
	return no_look && giving->repeated ? giving_uncertain(giving, error) : rc;
}

/* It is over, with 0 or a code. Returns what the caller is told. */
static int giving_end(struct lk__giving *giving, int rc, lk_error *error)
{
	assert(rc <= 0);
	bool unsure = rc == LK_EMAYBEHELD || rc == LK_ENOTDURABLE;
	for (size_t i = 0; i < giving->count; i++) {
		if (rc == 0 || unsure)
			lk__permit_drop(giving->part[i].entry, unsure, giving->begun_ns);
		else
			part_stay(&giving->part[i]);
	}
	if (rc == 0 && giving->sent < giving->count)
		return lk__fail(error, LK_ELOST, "%s \"%.100s\": %zu of %zu were lost before",
				giving->operation, giving->queue->name,
				giving->count - giving->sent, giving->count);
	return rc;
}

/* ---- the operation ---- */

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
	return ask_send(counting, changes(counting) ? change_request(&counting->changing)
						    : lk__question(lk__count_look(&entry->target)));
}

/* ---- permits that go back: one limit for all that is asked ---- */

static int give_begin(struct lk__counting *counting)
{
	struct lk__request *request;
	counting->until_ns = lk__counter_until_ns(counting->counter->entry);
	counting->giving->begun_ns = lk__now_ns();
	int rc = giving_send(counting->giving, &request, counting->error);
	return rc == 1 ? ask_send(counting, request) : rc;
}

/* Goes on with the answer to what was asked; NULL: it ended with `rc`. */
static int give_next(struct lk__counting *counting, int rc, const struct lk__request *answer)
{
	struct lk__request *request;
	rc = giving_next(counting->giving, rc, answer, &request, counting->error);
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
		rc = count_read(entry, request, rc < 0 ? rc : 0, counting->operation,
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
		       : lk__op_unconnected(counting->counter->entry, counting->operation, rc, &why,
					    counting->error);
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
	int rc = lease_open(&counting->lease, counting->error);
	if (rc < 0)
		return rc;
	struct lk__change change = {.request = lk__permits_update,
				    .lease_ms = counting->lease.lease_ms};
	memcpy(change.id, counting->lease.id, sizeof(change.id));
	change_begin(&counting->changing, counting->counter, &change, counting->operation);
	return 0;
}

/* It is over, with 0 or a code. */
static int counting_end(struct lk__counting *counting, int rc)
{
	assert(rc <= 0);
	if (counting->way == LK__COUNTING_GIVE)
		return giving_end(counting->giving, rc, counting->error);
	if (!changes(counting))
		return rc;
	rc = change_end(&counting->changing, rc, counting->error);
	counting->answer = counting->changing.answer;
	return counting->way == LK__COUNTING_CHANGE
		       ? rc
		       : lease_close(&counting->lease, rc, counting->answer, counting->error);
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
	change_begin(&counting->changing, counter, change, operation);
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

/* ---- those who wait ---- */

int lk__counter_waited(const struct lk__entry *entry, int64_t count, int rc, lk_error *error)
{
	bool limit = rc == LK_EBUSY || rc == LK_ETIMEDOUT;
	assert(rc <= 0);
	if (!(entry->target.recipe->flags & LK__FOR_ALL))
		return limit ? lk__fail(error, rc,
					"acquire %" PRId64 " of \"%.100s\": too few are free%s",
					count, entry->name,
					rc == LK_ETIMEDOUT ? ", and the wait limit is reached" : "")
			     : rc;
	if (limit)
		return lk__fail(error, LK_ETIMEDOUT, "await \"%.100s\": it is still closed",
				entry->name);
	return rc == LK_EMAYBEHELD
		       ? lk__fail(error, LK_EUNREACHABLE,
				  "await \"%.100s\": no answer from the server", entry->name)
		       : rc;
}
