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
#include "lock/release.h"
#include "resp/reply.h"
#include "sync/recipes.h"
#include "sync/script.h"

#define JUST_LOOK_MS 1 /* a lease that renews nothing */
#define LOOKS_MAX 3    /* at those of ours, while one after the other is lost */

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

/* ---- permits as holds ---- */

/* Tells whether it has ended as was meant: then it is not ours any more. */
static bool permit_is_over(struct lk__entry *entry)
{
	int64_t now_ns = lk__now_ns();
	pthread_mutex_lock(&entry->mutex);
	const struct lk__hold *hold = entry->hold;
	if (hold && lk__hold_extra(hold)->no_loss && now_ns >= lk__hold_deadline(hold))
		lk__entry_lose(entry, now_ns);
	bool over = !entry->hold && entry->lost && lk__hold_extra(entry->lost)->no_loss;
	pthread_mutex_unlock(&entry->mutex);
	return over;
}

int lk__permit_entry(struct lk__entry **entry_out, const struct lk__entry *queue, const char *id)
{
	struct lk__owner owner = {.name = id, .name_size = strlen(id)};
	int rc = lk__entry_look(entry_out, queue->client, &lk__permit_recipe, queue->name,
				lk__entry_name_size(queue), &owner);
	if (rc == 0 && *entry_out && permit_is_over(*entry_out)) {
		lk__entry_unref(*entry_out);
		*entry_out = NULL;
	}
	return rc;
}

/* The hold of a permit, if there is one, goes without a word to the server, to which that was said
 * at `begun_ns`, or later: a copy of its acquire may have run behind it. `compensate`: it may be
 * held there still. */
static void permit_drop(struct lk__entry *entry, bool compensate, int64_t begun_ns)
{
	pthread_mutex_lock(&entry->mutex);
	entry->passing = false;
	if (entry->hold) {
		int64_t repeated_ns = entry->grant.repeated_until_ns;
		uint64_t number = entry->grant.number;
		lk__entry_drop_hold(entry, lk__now_ns());
		if (compensate || repeated_ns > begun_ns)
			lk__compensate(entry, number, lk__later(repeated_ns, lk__now_ns()));
	} else if (entry->lost) {
		const struct lk__owner owner = lk__hold_owner(entry->lost);
		lk__release_count(entry, &owner, NULL);
	}
	pthread_mutex_unlock(&entry->mutex);
}

void lk__permit_give_up(struct lk__entry *entry)
{
	pthread_mutex_lock(&entry->mutex);
	const struct lk__hold *hold = entry->hold ? entry->hold : entry->lost;
	if (hold) {
		const struct lk__owner owner = lk__hold_owner(hold);
		lk__release_drop(entry, &owner, true, NULL);
	}
	pthread_mutex_unlock(&entry->mutex);
}

struct lk__permits_taken *lk__permits_taken_new(int64_t room)
{
	struct lk__permits_taken *taken;
	return calloc(1, sizeof(*taken) + (size_t)room * sizeof(taken->entry[0]));
}

void lk__permits_taken_free(struct lk__permits_taken *taken)
{
	for (size_t i = 0; taken && i < taken->count; i++)
		lk__entry_unref(taken->entry[i]);
	free(taken);
}

/* The next permit of a grant becomes an entry of its own, with a hold. */
static int permit_keep(struct lk__permits_taken *taken, const struct lk__entry *queue,
		       struct lk__thread *thread, const struct lk__want *want,
		       const struct lk__grant *grant, const char *operation, lk_error *error)
{
	char id[LK__FIELD_SIZE];
	struct lk__want own = *want;
	struct lk__grant its = *grant;
	struct lk__entry *entry;
	its.number = lk__permit_number(grant->number, taken->count);
	lk__permit_recipe.field(queue->client->id, its.number, id);
	own.owner = (struct lk__owner){.name = id, .name_size = strlen(id)};
	int rc = lk__entry_get(&entry, queue->client, &lk__permit_recipe, queue->name,
			       lk__entry_name_size(queue), &own.owner, error);
	if (rc < 0)
		return rc;
	struct lk__hold *hold = lk__hold_wanted(thread, &lk__permit_recipe, &own);
	if (!hold) {
		lk__entry_unref(entry);
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", operation);
	}
	pthread_mutex_lock(&entry->mutex);
	lk__entry_move_grant(entry, hold, &its);
	pthread_mutex_unlock(&entry->mutex);
	taken->entry[taken->count++] = entry;
	return 0;
}

/* Finds out whether they can still be said to be held. */
static int permits_check(const struct lk__entry *queue, const struct lk__grant *grant,
			 const char *operation, lk_error *error)
{
	if (atomic_load(&queue->client->state) != LK__CLIENT_OPEN)
		return lk__fail(error, LK_ECLOSED, "%s: the client is closed", operation);
	if (lk__now_ns() >= grant->valid_until_ns)
		return lk__fail(error, LK_EMAYBEHELD,
				"%s: the grant arrived after its lease had expired", operation);
	return 0;
}

/* They stop being holds. Where close has released some of them, the rest goes in the same way: an
 * undo of the whole request would end at the first that is gone. */
static void permits_give_back(struct lk__entry *queue, const struct lk__grant *grant, size_t count,
			      const struct lk__permits_taken *taken)
{
	bool open = atomic_load(&queue->client->state) == LK__CLIENT_OPEN;
	for (size_t i = 0; i < taken->count; i++) {
		if (open)
			permit_drop(taken->entry[i], false, lk__now_ns());
		else
			lk__permit_give_up(taken->entry[i]);
	}
	if (!open && taken->count < count) /* out of memory: close says so */
		atomic_store(&queue->client->unreleased, true);
	if (!open)
		return;
	pthread_mutex_lock(&queue->mutex);
	lk__entry_release_in_background(queue, grant->number);
	pthread_mutex_unlock(&queue->mutex);
}

int lk__permits_hold(struct lk__entry *queue, struct lk__thread *thread,
		     const struct lk__want *want, const struct lk__grant *grant,
		     struct lk__permits_taken *taken, const char *operation, lk_error *error)
{
	lk_client *client = queue->client;
	size_t count = (size_t)want->count;
	int rc = 0;
	assert(count > 0 && grant->number != 0 && taken->count == 0);
	assert(atomic_load(&client->unclaimed_grants) > 0);
	while (rc == 0 && taken->count < count)
		rc = permit_keep(taken, queue, thread, want, grant, operation, error);
	if (rc == 0)
		rc = permits_check(queue, grant, operation, error);
	if (rc < 0)
		permits_give_back(queue, grant, count, taken);
	atomic_fetch_sub(&client->unclaimed_grants, 1);
	return rc;
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

/* ---- asking ---- */

static bool changes(const struct lk__counting *counting)
{
	return counting->way == LK__COUNTING_CHANGE || counting->way == LK__COUNTING_LEASE;
}

static int64_t answer_until_ns(const struct lk__counting *counting)
{
	return lk__after_ms(lk__now_ns(), counting->counter->client->config->command_timeout_ms);
}

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

/* Ends it with a code and a text about what it is about. */
static int counting_fail(const struct lk__counting *counting, int code, const char *text)
{
	return lk__fail(counting->error, code, "%s \"%.100s\": %s", counting->operation,
			counting->counter->entry->name, text);
}

/* ---- changes ---- */

static int change_ask(struct lk__counting *counting)
{
	struct lk__change change = counting->change;
	const struct lk__entry *entry = counting->counter->entry;
	char field[LK__FIELD_SIZE];
	assert(counting->number != 0 && counting->number != counting->settled);
	lk__field_of(entry->client->id, counting->number, field);
	change.target = &entry->target;
	change.field = field;
	change.settled = counting->settled;
	change.ttl_ms = counting->counter->ttl_ms;
	counting->until_ns = answer_until_ns(counting);
	return ask_send(counting, change.request(&change));
}

/* Reads a reply without an integer: its code, or 1 when the request is to be made anew: under the
 * same number, so that what an earlier copy has done is found. */
static int change_refused(struct lk__counting *counting, const struct lk__request *request)
{
	const redisReply *reply = request->reply;
	int64_t server_us = 0;
	bool late = lk__reply_late(reply, &server_us);
	if (late)
		lk__node_learn_time(request->conn->node, server_us, lk__now_ns());
	if (late && !counting->made_anew) {
		counting->made_anew = true;
		return 1;
	}
	if (late)
		return counting_fail(counting, LK_EUNAVAILABLE, "the server's clock jumps");
	if (reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "OVERFLOW") == 0)
		return lk__fail(counting->error, LK_EINVAL,
				"%s \"%.100s\": the count would leave its range (%" PRId32
				" … %" PRId32 ")",
				counting->operation, counting->counter->entry->name, INT32_MIN,
				INT32_MAX);
	return counting_fail(counting, LK_EPROTOCOL, "unexpected reply");
}

int lk__change_read(struct lk__counting *counting, const struct lk__request *request)
{
	assert(request->reply);
	counting->copied |= lk__reply_is_of_copy(request);
	if (request->reply->type != REDIS_REPLY_INTEGER)
		return change_refused(counting, request);
	counting->answer = request->reply->integer;
	return 0;
}

/* It is over, with 0 or a code. Returns what its caller is told. */
static int change_end(const struct lk__counting *counting, int rc)
{
	struct lk__counter *counter = counting->counter;
	assert(rc <= 0);
	if (rc < 0 && counting->settled) /* nothing says that its record was deleted */
		counter_settle(counter, counting->settled);
	if (rc < 0)
		return counting->copied ? counting_fail(counting, LK_EMAYBEHELD,
							"refused, but an earlier copy of the "
							"request may have run")
					: rc;
	if (!counting->copied) /* else the record of it is still needed */
		counter_settle(counter, counting->number);
	return 0;
}

/* ---- the count ---- */

/* Reads the answer; `rc`: 0, or the code without an answer. The count is 0 without a key. */
static int count_read(struct lk__counting *counting, const struct lk__request *request, int rc)
{
	const struct lk__entry *entry = counting->counter->entry;
	bool latch = entry->target.recipe->flags & LK__FOR_ALL;
	if (rc == LK_EWRONGTYPE)
		return lk__fail(counting->error, rc,
				"%s \"%.100s\": the key is not a string, so not a %s",
				counting->operation, entry->name, entry->target.recipe->type);
	if (rc == LK_EMAYBEHELD)
		return lk__fail(counting->error, LK_EUNREACHABLE,
				"%s: no answer within the command limit", counting->operation);
	if (rc < 0)
		return rc;
	const redisReply *reply = request->reply;
	assert(reply && request->code == 0);
	int64_t count = 0;
	if (reply->type != REDIS_REPLY_STRING && reply->type != REDIS_REPLY_NIL)
		return counting_fail(counting, LK_EPROTOCOL, "unexpected reply");
	if (reply->type == REDIS_REPLY_STRING &&
	    !lk__reply_number(reply, INT64_MIN, INT64_MAX, &count))
		return lk__fail(counting->error, LK_EWRONGTYPE,
				"%s \"%.100s\": the key is a string that is not a count, not a %s",
				counting->operation, entry->name, entry->target.recipe->type);
	counting->answer = latch && count < 0 ? 0 : count;
	return counting->way == LK__COUNTING_AWAIT && count > 0
		       ? lk__counter_waited(entry, 0, LK_ETIMEDOUT, counting->error)
		       : 0;
}

/* ---- another lease of a permit ---- */

/* LK_ELOST: a permit of ours is. */
static int lease_shorten(struct lk__counting *counting)
{
	struct lk__entry *entry = counting->permit;
	int64_t now_ns = lk__now_ns();
	pthread_mutex_lock(&entry->mutex);
	struct lk__hold *hold = entry->hold;
	int64_t deadline_ns = hold ? lk__hold_deadline(hold) : LK__NEVER;
	if (hold && now_ns < deadline_ns) {
		int64_t end_ns = lk__lease_end_ns(now_ns, counting->change.lease_ms);
		counting->was_watched = hold->watched;
		counting->was_own_until_ns = hold->own_until_ns;
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

static int lease_lost(const struct lk__counting *counting)
{
	return lk__fail(counting->error, LK_ELOST, "%s: %s was lost", counting->operation,
			counting->change.id);
}

/* The server may let the permit end with the new lease from now on: so do we. Each begin of 0 has
 * its end. */
static int lease_begin(struct lk__counting *counting)
{
	int rc = lk__permit_entry(&counting->permit, counting->counter->entry, counting->change.id);
	if (rc < 0)
		return lk__fail(counting->error, rc, "%s: out of memory", counting->operation);
	if (counting->permit && lease_shorten(counting) == LK_ELOST) {
		lk__entry_unref(counting->permit);
		return lease_lost(counting);
	}
	return 0;
}

/* Sets a hold by the answer, `rc`. The server remembers the first copy that it ran, however often
 * it is sent. */
static void lease_set(const struct lk__counting *counting, struct lk__hold *hold, int rc)
{
	struct lk__entry *entry = hold->entry;
	int64_t lease_ms = counting->change.lease_ms;
	if (rc == 0) {
		hold->warned = false;
		hold->lease_ms = entry->grant.lease_ms = lease_ms;
		hold->own_until_ns = lk__lease_end_ns(counting->begun_ns, lease_ms);
		entry->grant.valid_until_ns = hold->own_until_ns;
	} else {
		hold->watched = counting->was_watched;
		hold->own_until_ns = counting->was_own_until_ns;
	}
	lk__watch_hold(entry, lk__now_ns());
}

/* A permit of ours that is not in use any more is lost; one that was lost meanwhile stays so. */
static int lease_conclude(const struct lk__counting *counting, int rc)
{
	struct lk__entry *entry = counting->permit;
	int64_t now_ns = lk__now_ns();
	pthread_mutex_lock(&entry->mutex);
	struct lk__hold *hold = entry->hold;
	bool late = rc == 0 && hold && now_ns >= lk__hold_deadline(hold);
	bool gone = hold && (late || rc == LK_ENOTOWNER);
	if (gone && !entry->passing)
		lk__entry_lose(entry, now_ns);
	else if (hold)
		lease_set(counting, hold, rc);
	bool lost = !entry->hold && entry->lost && (rc == 0 || rc == LK_ENOTOWNER);
	if (lost && rc == 0)
		lk__entry_release_in_background(entry, entry->grant.number);
	pthread_mutex_unlock(&entry->mutex);
	return lost ? LK_ELOST : rc;
}

/* The change has ended with `rc`. Returns what its caller is told. */
static int lease_end(const struct lk__counting *counting, int rc)
{
	if (rc == 0 && counting->answer != 1)
		rc = lk__fail(counting->error, LK_ENOTOWNER, "%s \"%.100s\": %s is not in use",
			      counting->operation, counting->counter->entry->name,
			      counting->change.id);
	if (!counting->permit)
		return rc;
	/* Where the server has it, or may have it, it is not ours beyond the shorter of the two. */
	if (rc != LK_EMAYBEHELD && rc != LK_ENOTDURABLE)
		rc = lease_conclude(counting, rc);
	lk__entry_unref(counting->permit);
	return rc == LK_ELOST ? lease_lost(counting) : rc;
}

/* ---- permits that go back: one limit for all that is asked ---- */

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
			lk__entry_release_in_background(entry, entry->grant.number);
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

/* Sends what is not lost. */
static int give_send(struct lk__counting *counting)
{
	struct lk__giving *giving = counting->giving;
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
	struct lk__request *request = lk__permits_release(&counting->counter->entry->target,
							  giving->ids[0], giving->sent);
	if (request)
		request->durable = LK__DURABLE_WHOLLY;
	return ask_send(counting, request);
}

/* Asks which of ours are in use still. */
static int give_look(struct lk__counting *counting)
{
	struct lk__giving *giving = counting->giving;
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
	return ask_send(counting, lk__permit_recipe.renew(giving->renewals, asked));
}

static int give_uncertain(const struct lk__counting *counting)
{
	return counting_fail(counting, LK_EMAYBEHELD,
			     "sent twice; the effect of the first copy is unknown");
}

static int give_unknown(const struct lk__counting *counting)
{
	const struct lk__giving *giving = counting->giving;
	return lk__fail(counting->error, LK_ENOTOWNER, "%s \"%.100s\": %s is not in use",
			counting->operation, counting->counter->entry->name,
			giving->count == 1 ? giving->part[0].permit.id : "one of the permits");
}

/* Reads the answer to the release. If one is not in use, it has done nothing, or its first copy has
 * done all. */
static int give_released(struct lk__counting *counting, const struct lk__request *answer)
{
	struct lk__giving *giving = counting->giving;
	assert(giving->sent > 0);
	giving->repeated |= answer->sends > 1;
	if (answer->reply->type != REDIS_REPLY_NIL)
		return 0;
	if (giving->ours > 0 && giving->looks < LOOKS_MAX)
		return give_look(counting);
	if (giving->repeated && giving->ours == 0)
		return giving->sent == 1 ? 0 : give_uncertain(counting);
	return give_unknown(counting);
}

/* Ours that are not in use are lost, and do not keep the others back: these are sent again. But if
 * all of ours are gone after two copies, the first one has freed them. */
static int give_looked(struct lk__counting *counting, const struct lk__request *answer)
{
	struct lk__giving *giving = counting->giving;
	size_t at = 0, gone = 0;
	for (size_t i = 0; i < giving->count; i++) {
		struct lk__giving_part *part = &giving->part[i];
		if (!part->entry || !part->sends)
			continue;
		part->gone = lk__reply_renewed(answer, giving->ours, at++) == 0;
		gone += part->gone;
	}
	assert(at == giving->ours);
	if (gone == 0)
		return give_unknown(counting);
	if (giving->repeated && gone == giving->ours)
		return 0;
	return give_send(counting);
}

/* Goes on after the request was answered, or has ended with `rc`. */
static int give_next(struct lk__counting *counting, int rc, const struct lk__request *answer)
{
	const struct lk__giving *giving = counting->giving;
	bool looking = giving->looking;
	if (rc == 0)
		rc = looking ? give_looked(counting, answer) : give_released(counting, answer);
	bool no_look = rc < 0 && rc != LK_ENOTOWNER && giving->looking;
	return no_look && giving->repeated ? give_uncertain(counting) : rc;
}

/* It is over, with 0 or a code. Returns what the caller is told. */
static int give_end(const struct lk__counting *counting, int rc)
{
	const struct lk__giving *giving = counting->giving;
	bool unsure = rc == LK_EMAYBEHELD || rc == LK_ENOTDURABLE;
	for (size_t i = 0; i < giving->count; i++) {
		const struct lk__giving_part *part = &giving->part[i];
		if (part->entry && (rc == 0 || unsure))
			permit_drop(part->entry, unsure, counting->begun_ns);
		else if (part->entry)
			part_stay(part);
	}
	if (rc == 0 && giving->sent < giving->count)
		return lk__fail(counting->error, LK_ELOST,
				"%s \"%.100s\": %zu of %zu were lost before", counting->operation,
				counting->counter->entry->name, giving->count - giving->sent,
				giving->count);
	return rc;
}

/* ---- from its begin to its end ---- */

static int counting_ask(struct lk__counting *counting)
{
	counting->connects = false;
	counting->until_ns = answer_until_ns(counting);
	if (changes(counting))
		return change_ask(counting);
	if (counting->giving)
		return give_send(counting);
	return ask_send(counting, lk__question(lk__count_look(&counting->counter->entry->target)));
}

/* A change waits for a connection first: a caller without one is told why. So do permits that
 * go back to a cluster, whose map says which replicas must have that. */
static int counting_first(struct lk__counting *counting)
{
	const struct lk__entry *entry = counting->counter->entry;
	bool routes = changes(counting) || (counting->giving && entry->client->topo->slotted);
	if (changes(counting)) {
		counting->number = atomic_fetch_add(&entry->client->last_number, 1) + 1;
		counting->settled = counter_settled(counting->counter);
	}
	counting->connects = routes && lk__op_connect(&counting->op, lk__entry_scripts(entry),
						      false, answer_until_ns(counting));
	return counting->connects ? LK__OP_WAITS : counting_ask(counting);
}

static int connect_look(struct lk__counting *counting)
{
	lk_error why = {.code = LK_EUNREACHABLE};
	int rc = lk__op_connect_look(&counting->op, 0, &why);
	if (rc == LK__OP_WAITS)
		return rc;
	return rc == LK__WAIT_READY
		       ? counting_ask(counting)
		       : lk__op_unconnected(counting->counter->entry, counting->operation, rc, &why,
					    counting->error);
}

static int answer_look(struct lk__counting *counting)
{
	const struct lk__entry *entry = counting->counter->entry;
	struct lk__request *request; /* NULL: it had no answer */
	char what[192];
	if (!lk__op_ask_look(&counting->op, &request))
		return LK__OP_WAITS;
	snprintf(what, sizeof(what), "%s \"%.100s\"", counting->operation, entry->name);
	int rc = lk__ask_read(entry->client, request, what, counting->error);
	rc = rc < 0 ? rc : 0;
	if (counting->giving)
		rc = give_next(counting, rc, request);
	else if (!changes(counting))
		rc = count_read(counting, request, rc);
	else if (rc == 0)
		rc = lk__change_read(counting, request);
	lk__request_free(request);
	return rc == 1 ? change_ask(counting) : rc;
}

/* It is over, with 0 or a code. */
static int counting_end(const struct lk__counting *counting, int rc)
{
	assert(rc <= 0);
	if (counting->giving)
		return give_end(counting, rc);
	if (!changes(counting))
		return rc;
	rc = change_end(counting, rc);
	return counting->way == LK__COUNTING_LEASE ? lease_end(counting, rc) : rc;
}

static int counting_step(struct lk__op *op)
{
	struct lk__counting *counting = (struct lk__counting *)op;
	int rc = 0;
	if (counting->connects) {
		rc = connect_look(counting);
	} else if (counting->begun) {
		rc = answer_look(counting);
	} else {
		counting->begun = true;
		counting->begun_ns = lk__now_ns();
		if (counting->way == LK__COUNTING_LEASE)
			rc = lease_begin(counting);
		if (rc < 0)
			return rc;
		rc = counting_first(counting);
	}
	return rc == LK__OP_WAITS ? rc : counting_end(counting, rc);
}

struct lk__op *lk__counting_begin(struct lk__counting *counting, struct lk__thread *thread,
				  lk_error *error)
{
	lk__op_begin(&counting->op, counting_step, thread, NULL);
	counting->error = error;
	return &counting->op;
}
