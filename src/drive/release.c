/* SPDX-License-Identifier: MIT */
/*
 * Giving up a hold: down the line in memory, by one exchange on the wire, or by a release.
 */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "drive/caller.h"
#include "drive/parting.h"
#include "drive/take_back.h"
#include "drive/watch.h"

static int parting_fail(const struct lk__parting *parting, int code, const char *reason)
{
	return lk__fail(parting->error, code, "release \"%.100s\" on %.100s: %s",
			parting->entry->name, parting->entry->client->config->url, reason);
}

/* The hold is given up: whatever kept the server from freeing the lock, it may have it still. */
static int parting_code(int code)
{
	return code == LK_EWRONGTYPE || code == LK_ECLOSED ? code : LK_EMAYBEHELD;
}

void lk__parting_begin(struct lk__parting *parting, struct lk__entry *entry, lk_error *error)
{
	parting->entry = entry;
	parting->number = entry->grant.number;
	parting->valid_until_ns = entry->grant.valid_until_ns;
	parting->repeated_until_ns = entry->grant.repeated_until_ns;
	parting->echo = entry->channel != NULL;
	parting->passes = false;
	parting->error = error;
	entry->grant.repeated_until_ns = 0;
	parting->lingers = !parting->echo && entry->target.channel &&
			   lk__channel_lingers(&entry->node->messages, entry->target.channel,
					       entry->target.channel_size);
	if (parting->echo) {
		lk__channel_mark(&entry->node->messages, entry->channel, &entry->mark);
		lk__channel_expect_echo(&entry->node->messages, entry->channel);
	}
}

/* Freed on the wire: others who listen are let in first, also by a caller who comes right back. */
static void parting_hold_off(struct lk__entry *entry, int64_t listeners)
{
	if (entry->recipe->flags & LK__NO_TERMS)
		return;
	bool ours = entry->channel && lk__channel_listens(&entry->node->messages, entry->channel);
	entry->hold_off_until_ns = lk__term_hold_off(&entry->term, lk__now_ns(),
						     listeners - (ours ? 1 : 0));
	if (entry->hold_off_until_ns && !entry->lingers) {
		/* The next caller may come with another handle: the entry outlasts this one. */
		entry->lingers = true;
		lk__entry_ref(entry);
		lk__watch_at(entry, entry->hold_off_until_ns);
	}
}

/* A copy of its acquire may still run: once more, when none can. */
static void parting_take_back_copies(const struct lk__parting *parting)
{
	if (parting->repeated_until_ns > lk__now_ns())
		lk__take_back_copies(parting->entry, parting->number, parting->repeated_until_ns);
}

/* Nobody knows whether it is released. */
static void parting_take_back(const struct lk__parting *parting)
{
	int64_t until_ns = parting->valid_until_ns;
	if (until_ns < parting->repeated_until_ns)
		until_ns = parting->repeated_until_ns;
	lk__take_back(parting->entry, parting->number, until_ns);
}

/* The next in line goes on. */
static void parting_end(struct lk__entry *entry)
{
	entry->passing = false;
	lk__entry_promote(entry);
}

int lk__parting_read(const struct lk__parting *parting, const struct lk__request *request,
		     enum lk__released released, int64_t listeners)
{
	struct lk__entry *entry = parting->entry;
	int rc = 0;
	switch (released) {
	case LK__RELEASED:
		lk__count(&entry->client->counters.releases, 1);
		listeners -= parting->lingers;
		entry->contended = listeners > 0;
		parting_hold_off(entry, listeners);
		parting_take_back_copies(parting);
		break;
	case LK__RELEASED_NOT_OWNER:
		/* Sent twice, the first one may have freed it: that is what was asked for. */
		if (request->sends < 2)
			rc = parting_fail(parting, LK_ELOST, "it was lost before the release");
		parting_take_back_copies(parting);
		break;
	case LK__RELEASED_FAILED:
		rc = parting_fail(parting, parting_code(request->code), request->reason);
		parting_take_back(parting);
		break;
	}
	if (rc && parting->echo && entry->channel)
		lk__channel_drop_echo(&entry->node->messages, entry->channel);
	if (parting->passes)
		parting_end(entry);
	return rc;
}

static int parting_answered(const struct lk__parting *parting, const struct lk__request *request)
{
	int64_t listeners = 0;
	enum lk__released released = parting->entry->recipe->read_release(request, &listeners);
	return lk__parting_read(parting, request, released, listeners);
}

int lk__parting_unanswered(const struct lk__parting *parting)
{
	parting_take_back_copies(parting);
	if (parting->passes)
		parting_end(parting->entry);
	return parting_fail(parting, LK_EMAYBEHELD, "no answer before the end of the lease");
}

/* ---- releases that nobody waits for ---- */

struct farewell {
	struct lk__parting parting;
	lk_client *client;
};

static void farewell_finish(struct lk__request *request)
{
	struct farewell *farewell = request->owner;
	struct lk__entry *entry = farewell->parting.entry;
	pthread_mutex_lock(&entry->mutex);
	int rc = parting_answered(&farewell->parting, request);
	pthread_mutex_unlock(&entry->mutex);
	if (rc < 0)
		lk__log(&entry->client->log, LK_LOG_WARNING, "release not waited for: %s (%.200s)",
			lk_error_name(rc), entry->name);
	atomic_fetch_sub(&farewell->client->releasing, 1);
	lk__request_free(request);
	free(farewell);
	lk__entry_unref(entry);
}

/* True when it is on its way; false when it has to be waited for after all. */
static bool farewell_send(const struct lk__parting *parting, struct lk__request *request)
{
	lk_client *client = parting->entry->client;
	if (atomic_load(&client->releasing) >= (uint64_t)client->config->release_queue)
		return false;
	struct farewell *farewell = malloc(sizeof(*farewell));
	if (!farewell)
		return false;
	farewell->parting = *parting;
	farewell->parting.error = NULL;
	farewell->client = client;
	request->owner = farewell;
	request->finish = farewell_finish;
	atomic_fetch_add(&client->releasing, 1);
	lk__entry_ref(parting->entry);
	lk__conn_submit(parting->entry->scripts, request);
	return true;
}

/* ---- on the wire ---- */

static int release_wire(struct lk__entry *entry, struct lk__thread *thread,
			struct lk__request *request, bool no_wait, lk_error *error)
{
	struct lk__parting parting;
	lk__parting_begin(&parting, entry, error);
	request->resend = true;
	request->contended = entry->contended;
	request->deadline_ns = parting.valid_until_ns;
	parting.passes = entry->passing = entry->line != NULL;
	if (no_wait && farewell_send(&parting, request))
		return 0;
	request->thread = thread;
	lk__conn_submit(entry->scripts, request);
	pthread_mutex_unlock(&entry->mutex);
	int rc = lk__conn_await(entry->scripts, request, thread, parting.valid_until_ns, NULL);
	pthread_mutex_lock(&entry->mutex);
	if (rc != LK__WAIT_READY && lk__conn_leave(entry->scripts, request, lk__request_forget))
		return lk__parting_unanswered(&parting);
	rc = parting_answered(&parting, request);
	lk__request_free(request);
	return rc;
}

/* ---- exchange: release and acquire in one ---- */

struct exchange {
	struct lk__parting parting; /* the giver's */
	struct lk__waiter *waiter;
	uint64_t number; /* the taker's */
	int64_t lease_ms;
	int64_t deadline_ns;
};

static struct lk__request *exchange_request(const struct exchange *exchange,
					    const struct lk__entry *entry)
{
	char from[LK__FIELD_SIZE], to[LK__FIELD_SIZE];
	lk__field(entry, entry->grant.number, from);
	lk__field(entry, exchange->number, to);
	struct lk__try wanted = {
		.target = &entry->target,
		.field = to,
		.number = exchange->number,
		.lease_ms = exchange->lease_ms,
		.deadline_us = lk__node_server_us(entry->node, exchange->deadline_ns),
		.flags = exchange->waiter->settings.flags,
	};
	struct lk__request *request = entry->recipe->exchange(&wanted, from);
	if (request) {
		request->resend = true;
		request->deadline_ns = exchange->deadline_ns;
	}
	return request;
}

static void exchange_grant(const struct exchange *exchange, const struct lk__request *request,
			   uint64_t fence)
{
	struct lk__entry *entry = exchange->parting.entry;
	struct lk__term term = entry->term; /* it goes on */
	entry->grant.repeated_until_ns = request->sends > 1 ? request->deadline_ns : 0;
	entry->grant.fence = fence;
	lk__entry_grant(entry, exchange->waiter, exchange->number, request->sent_ns,
			exchange->lease_ms);
	entry->term = term;
	lk__park_wake(&exchange->waiter->thread->park);
}

/* What became of it; `request` is NULL when there was no answer. */
static enum lk__exchanged exchange_read(const struct exchange *exchange,
					const struct lk__request *request)
{
	struct lk__entry *entry = exchange->parting.entry;
	struct lk__answer said = {.fence = 0};
	enum lk__exchanged answer = LK__EXCHANGE_UNKNOWN;
	if (request)
		answer = entry->recipe->read_exchange(request, &said);
	if (answer == LK__EXCHANGED)
		exchange_grant(exchange, request, said.fence);
	/* Of one that was sent twice, the first copy may have run, or have freed it. */
	if (answer == LK__EXCHANGE_NOT_DONE && request->sends > 1)
		answer = LK__EXCHANGE_UNKNOWN;
	if (answer == LK__EXCHANGE_NOT_OWNER && request->sends > 1)
		answer = LK__EXCHANGE_FREED;
	return answer;
}

static int exchange_end(const struct exchange *exchange, enum lk__exchanged answer)
{
	const struct lk__parting *parting = &exchange->parting;
	struct lk__entry *entry = parting->entry;
	if (answer == LK__EXCHANGE_UNKNOWN) {
		entry->grant.outlives_ns = lk__after_ms(exchange->deadline_ns, exchange->lease_ms);
		lk__take_back(entry, exchange->number, exchange->deadline_ns);
		parting_take_back(parting);
	} else {
		parting_take_back_copies(parting);
	}
	lk__entry_promote(entry);
	if (answer == LK__EXCHANGE_NOT_OWNER)
		return parting_fail(parting, LK_ELOST, "it was lost before the release");
	if (answer == LK__EXCHANGE_UNKNOWN)
		return parting_fail(parting, LK_EMAYBEHELD, "no answer to the hand-over");
	return 0;
}

/* Sends it and waits for what becomes of it. */
static enum lk__exchanged exchange_call(struct exchange *exchange, struct lk__thread *thread,
					struct lk__request *request)
{
	struct lk__entry *entry = exchange->parting.entry;
	request->thread = thread;
	exchange->waiter->state = LK__WAITER_TAKES;
	entry->passing = true;
	lk__entry_begin_try(entry);
	lk__conn_submit(entry->scripts, request);
	pthread_mutex_unlock(&entry->mutex);
	int rc = lk__conn_await(entry->scripts, request, thread, exchange->deadline_ns, NULL);
	pthread_mutex_lock(&entry->mutex);
	bool left = rc != LK__WAIT_READY &&
		    lk__conn_leave(entry->scripts, request, lk__request_forget);
	exchange->waiter->state = LK__WAITER_WAITS;
	entry->passing = false;
	enum lk__exchanged answer = exchange_read(exchange, left ? NULL : request);
	if (!left)
		lk__request_free(request);
	return answer;
}

/* `release` is what is sent when the exchange is not to be had: no memory, refused, or late. */
static int release_exchange(struct lk__entry *entry, struct lk__thread *thread,
			    struct lk__request *release, lk_error *error)
{
	int64_t limit_ms = entry->client->config->command_timeout_ms;
	struct exchange exchange = {
		.waiter = entry->line,
		.number = atomic_fetch_add(&entry->client->last_number, 1) + 1,
		.lease_ms = lk__entry_lease_ms(entry, entry->line->hold),
		.deadline_ns = lk__after_ms(lk__now_ns(), limit_ms),
	};
	struct lk__request *request = exchange_request(&exchange, entry);
	if (!request)
		return release_wire(entry, thread, release, false, error);
	lk__parting_begin(&exchange.parting, entry, error);
	if (exchange.parting.echo)
		lk__channel_drop_echo(&entry->node->messages, entry->channel);
	enum lk__exchanged answer = exchange_call(&exchange, thread, request);
	if (answer == LK__EXCHANGE_NOT_DONE) {
		entry->grant.repeated_until_ns = exchange.parting.repeated_until_ns;
		return release_wire(entry, thread, release, false, error);
	}
	lk__request_free(release);
	return exchange_end(&exchange, answer);
}

/* ---- the last hold is given up ---- */

static int release_last(struct lk__entry *entry, struct lk__thread *thread, bool no_wait,
			lk_error *error)
{
	struct lk__waiter *next = entry->line;
	char field[LK__FIELD_SIZE];
	int64_t now_ns = lk__now_ns();
	if (entry->ops)
		return entry->ops->release(entry, thread, no_wait, error);
	bool named = next && (next->hold->lease_ms || (entry->recipe->flags & LK__NEEDS_SERVER) ||
			      entry->grant.lease_ms != lk__entry_lease_ms(entry, next->hold));
	struct lk__passing passing = {
		.now_ns = now_ns,
		.valid_until_ns = entry->grant.valid_until_ns,
		.lease_ms = entry->grant.lease_ms,
		.waiting = next != NULL,
		.doubt = lk__entry_in_doubt(entry),
		.needs_server = named,
	};
	enum lk__pass pass = entry->recipe->flags & LK__NO_TERMS
				     ? LK__PASS_WIRE
				     : lk__term_pass(&entry->term, &passing);
	if (pass == LK__PASS_MEMORY) {
		lk__entry_drop_hold(entry, now_ns);
		lk__count(&entry->client->counters.handovers, 1);
		lk__entry_hand(entry, next, now_ns);
		lk__park_wake(&next->thread->park);
		return 0;
	}
	lk__field(entry, entry->grant.number, field);
	struct lk__request *request = entry->recipe->release(&entry->target, field);
	if (!request || !lk__take_back_reserve(entry)) {
		lk__request_free(request);
		entry->hold->count = 1;
		return lk__fail(error, LK_ENOMEM, "release \"%.100s\": out of memory, still held",
				entry->name);
	}
	lk__entry_drop_hold(entry, now_ns);
	if (pass == LK__PASS_EXCHANGE && !no_wait)
		return release_exchange(entry, thread, request, error);
	return release_wire(entry, thread, request, no_wait, error);
}

/* A hold that was lost is given up; nothing is left on the server that we know of. */
static int release_lost(struct lk__entry *entry, struct lk__hold *hold)
{
	if (--hold->count > 0)
		return LK_ELOST;
	DL_DELETE(entry->lost, hold);
	lk__hold_free(hold);
	atomic_fetch_sub(&entry->refs, 1); /* never the last: the caller has one */
	return LK_ELOST;
}

int lk__release_count(struct lk__entry *entry, const struct lk__owner *owner, lk_error *error)
{
	int rc = 0;
	struct lk__hold *hold = lk__entry_hold_of(entry, owner);
	if (!hold) {
		rc = LK_ENOTOWNER;
	} else if (!hold->lost && lk__now_ns() >= lk__hold_deadline(hold)) {
		uint64_t number = entry->grant.number;
		lk__entry_lose(entry, lk__now_ns());
		lk__entry_release_unasked(entry, number);
		lk__entry_promote(entry);
	}
	if (hold && hold->lost)
		rc = release_lost(entry, hold);
	if (rc)
		return lk__fail(error, rc, "release \"%.100s\": %s", entry->name,
				lk_error_text(rc));
	return --hold->count == 0;
}

int lk__caller_release(struct lk__entry *entry, struct lk__thread *thread,
		       const struct lk__owner *owner, bool no_wait, lk_error *error)
{
	pthread_mutex_lock(&entry->mutex);
	int rc = lk__release_count(entry, owner, error);
	if (rc == 1)
		rc = release_last(entry, thread, no_wait, error);
	pthread_mutex_unlock(&entry->mutex);
	return rc;
}
