/* SPDX-License-Identifier: MIT */
#include "lock/release.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/probe.h"
#include "conf/config.h"
#include "lock/client.h"
#include "lock/compensation.h"
#include "lock/hold.h"
#include "sync/script.h"

static int release_fail(const struct lk__release *release, int code, const char *reason)
{
	return lk__fail(release->error, code, "release \"%.100s\" on %.100s: %s",
			release->entry->name, release->entry->client->config->url, reason);
}

/* The hold is given up: whatever kept the server from freeing the lock, it may have it still. */
static int release_code(int code)
{
	return code == LK_EWRONGTYPE || code == LK_ECLOSED ? code : LK_EMAYBEHELD;
}

/* What the server takes us for on the lock's channel; for a stranger without memory for its name,
 * so that we hold off once in vain. */
static enum lk__channel_role release_role(const struct lk__entry *entry)
{
	size_t size;
	char *name = lk__target_channel(&entry->target, &size);
	enum lk__channel_role role = LK__CHANNEL_STRANGER;
	if (name)
		role = lk__channel_role(lk__entry_messages(entry), name, size);
	free(name);
	return role;
}

/* Tells whether the server still takes us for a listener, so that nobody is held off for. */
static bool release_lingers(const struct lk__entry *entry)
{
	return entry->target.recipe->channel_prefix &&
	       lk__channels_leave(lk__entry_messages(entry)) &&
	       release_role(entry) == LK__CHANNEL_LEAVES;
}

void lk__release_begin(struct lk__release *release, struct lk__entry *entry, int64_t keep_ms,
		       lk_error *error)
{
	release->entry = entry;
	release->number = entry->grant.number;
	release->valid_until_ns = entry->grant.valid_until_ns;
	release->repeated_until_ns = entry->grant.repeated_until_ns;
	release->keep_ms = keep_ms;
	release->begun_ns = lk__now_ns();
	release->echo = lk__entry_channel(entry) != NULL;
	release->passes = false;
	release->error = error;
	atomic_fetch_add(&entry->releasing, 1);
	entry->grant.repeated_until_ns = 0;
	release->lingers = !release->echo && release_lingers(entry);
	if (release->echo) {
		lk__channel_expect_echo(lk__entry_messages(entry), lk__entry_channel(entry),
					&entry->waiting->mark);
	}
}

/* Tells whether we are among those who listen. Where each owner has an entry, another of ours may
 * be it: threads of one client do not hold off for each other. */
static bool release_is_heard_by_us(const struct lk__entry *entry)
{
	if (entry->target.recipe->sharing == LK__EACH_OWNER)
		return release_role(entry) == LK__CHANNEL_LISTENER;
	return lk__entry_channel(entry) &&
	       lk__channel_listens(lk__entry_messages(entry), lk__entry_channel(entry));
}

/* Freed on the wire: others who listen are let in first, also by a caller who comes right back. */
static void release_hold_off(struct lk__entry *entry, int64_t listeners)
{
	unsigned flags = entry->target.recipe->flags;
	if (((flags & LK__NO_TERMS) && !(flags & LK__TURNS)) || entry->hold)
		return;
	bool ours = listeners > 0 && release_is_heard_by_us(entry);
	entry->term.hold_off_until_ns = lk__term_hold_off(
		entry->client->config->holdoff_ms * LK__MS, lk__now_ns(),
		listeners - (ours ? lk__node_tellings(entry->target.node) : 0));
	if (entry->term.hold_off_until_ns && !entry->lingers) {
		/* The next caller may come with another handle: the entry outlasts this one. */
		entry->lingers = true;
		lk__entry_ref(entry);
		lk__watch_at(entry, entry->term.hold_off_until_ns);
	}
}

/* A copy of its acquire may have run behind it, or may still: once more, when none can. */
static void release_compensate_copies(const struct lk__release *release)
{
	if (release->repeated_until_ns > release->begun_ns)
		lk__compensate_later(release->entry, release->number, release->repeated_until_ns,
				     0);
}

/* Nobody knows whether it is released. One that was to be kept is left to its lease: others should
 * not have it at once. */
static void release_compensate(const struct lk__release *release)
{
	if (!release->keep_ms)
		lk__compensate(release->entry, release->number,
			       lk__later(release->repeated_until_ns, lk__now_ns()));
}

static void release_ends(struct lk__entry *entry)
{
	assert(atomic_load(&entry->releasing) > 0);
	atomic_fetch_sub(&entry->releasing, 1);
}

/* The next waiter goes on, if this has kept it back, and does still. */
static void release_pass_on(const struct lk__release *release)
{
	struct lk__entry *entry = release->entry;
	if (!release->passes || !entry->passing || entry->grant.number != release->number)
		return;
	entry->passing = entry->sent_off = false;
	lk__entry_promote(entry);
}

/* How many listen. Where nothing was said on the channel, no echo comes. */
static int64_t release_heard(const struct lk__release *release, int64_t listeners)
{
	struct lk__entry *entry = release->entry;
	if (listeners >= 0)
		return listeners;
	if (release->echo && lk__entry_channel(entry))
		lk__channel_drop_echo(lk__entry_messages(entry), lk__entry_channel(entry));
	return -1 - listeners;
}

bool lk__release_is_lost(const struct lk__request *request, int64_t keep_ms, int64_t begun_ns)
{
	return request->sends < 2 || (keep_ms && lk__now_ns() < lk__after_ms(begun_ns, keep_ms));
}

/* The server has done it. */
static void release_done(const struct lk__release *release, const struct lk__request *request,
			 int64_t listeners)
{
	struct lk__entry *entry = release->entry;
	lk__entry_count(entry, releases, 1);
	listeners = release_heard(release, listeners);
	if (release->lingers)
		listeners -= lk__node_tellings(entry->target.node);
	entry->contended = listeners > 0;
	release_compensate_copies(release);
	if (release->keep_ms) {
		/* The answer has waited for replicas, and nobody is let in first. */
		lk__client_record_keep(entry->client, lk__after_ms(lk__now_ns(), release->keep_ms));
		return;
	}
	release_hold_off(entry, listeners);
	lk__compensate_given(entry, release->number, request);
}

/* Before the end of the lease the client is closed, which goes on with the release. */
static int release_unanswered(const struct lk__release *release)
{
	bool ended = lk__now_ns() >= release->valid_until_ns;
	release_ends(release->entry);
	if (ended)
		release_compensate_copies(release);
	else
		release_compensate(release);
	release_pass_on(release);
	return release_fail(release, LK_EMAYBEHELD,
			    ended ? "no answer before the end of the lease"
			    : atomic_load(&release->entry->client->state) == LK__CLIENT_OPEN
				    ? "no answer within the limit"
				    : "no answer before the client was closed");
}

int lk__release_read(const struct lk__release *release, const struct lk__request *request,
		     enum lk__released released, int64_t listeners)
{
	struct lk__entry *entry = release->entry;
	int rc = 0;
	if (!request)
		return release_unanswered(release);
	release_ends(entry);
	switch (released) {
	case LK__RELEASED:
		release_done(release, request, listeners);
		break;
	case LK__RELEASED_NOT_OWNER:
		/* Sent twice, the first one may have freed it: that is what was asked for. */
		if (lk__release_is_lost(request, release->keep_ms, release->begun_ns))
			rc = release_fail(release, LK_ELOST, "it was lost before the release");
		else if (!release->keep_ms)
			lk__compensate_given(entry, release->number, NULL);
		release_compensate_copies(release);
		break;
	case LK__RELEASED_FAILED:
		rc = release_fail(release, release_code(request->code),
				  request->code ? request->reason : "unexpected reply");
		release_compensate(release);
		break;
	}
	bool told = released == LK__RELEASED || (!rc && !release->keep_ms);
	if (!told && release->echo && lk__entry_channel(entry))
		lk__channel_drop_echo(lk__entry_messages(entry), lk__entry_channel(entry));
	release_pass_on(release);
	return rc;
}

/* The end of one that was sent on the wire: its request, which is done, and is freed; NULL: no
 * answer has come, and nobody waits for it any more. 0 or a code. */
static int release_end(const struct lk__release *release, struct lk__request *request)
{
	const struct lk__recipe *recipe = release->entry->target.recipe;
	enum lk__released released = LK__RELEASED_FAILED;
	int64_t listeners = 0;
	if (request)
		released = (release->keep_ms ? lk__reply_released
					     : recipe->read_release)(request, &listeners);
	int rc = lk__release_read(release, request, released, listeners);
	lk__request_free(request);
	return rc;
}

/* ---- releases that nobody waits for ---- */

static void detached_finish(struct lk__request *request)
{
	struct lk__release *release = request->owner;
	struct lk__entry *entry = release->entry;
	lk_client *client = entry->client;
	pthread_mutex_lock(&entry->mutex);
	int rc = release_end(release, request);
	pthread_mutex_unlock(&entry->mutex);
	if (rc < 0)
		lk__log(&client->log, LK_LOG_WARNING, "release not waited for: %s (%.200s)",
			lk_error_name(rc), entry->name);
	free(release);
	atomic_fetch_sub(&client->releasing, 1);
	lk__entry_unref(entry);
}

/* True when it is on its way; false when it has to be waited for after all. */
static bool detached_send(const struct lk__release *release, struct lk__request *request,
			  struct lk__conn *conn)
{
	lk_client *client = release->entry->client;
	if (atomic_load(&client->releasing) >= (uint64_t)client->config->release_queue)
		return false;
	struct lk__release *detached = malloc(sizeof(*detached));
	if (!detached)
		return false;
	*detached = *release;
	detached->error = NULL;
	request->owner = detached;
	request->finish = detached_finish;
	atomic_fetch_add(&client->releasing, 1);
	lk__entry_ref(release->entry);
	lk__conn_submit(conn, request);
	release->entry->sent_off = release->passes;
	if (release->passes)
		lk__watch_at(release->entry, release->valid_until_ns);
	return true;
}

/* ---- on the wire ---- */

/* Who may be given what is released. What was adopted (lock/adopt.h) may have a head beside it,
 * which asks the server for itself. */
static struct lk__caller *release_next(const struct lk__entry *entry)
{
	return lk__entry_head(entry) ? NULL : lk__entry_first(entry);
}

static void release_prepare(struct lk__releasing *releasing, struct lk__request *request)
{
	struct lk__release *release = &releasing->release;
	struct lk__entry *entry = releasing->entry;
	lk__release_begin(release, entry, releasing->keep_ms, releasing->error);
	request->resend = request->patient = true;
	request->contended = entry->contended;
	request->deadline_ns = release->valid_until_ns;
	release->passes = entry->passing = release_next(entry) != NULL;
}

static int wire_look(struct lk__releasing *releasing)
{
	struct lk__request *answer;
	return lk__op_ask_look(&releasing->op, &answer) ? release_end(&releasing->release, answer)
							: LK__OP_WAITS;
}

static int wire_begin(struct lk__releasing *releasing, struct lk__request *request)
{
	struct lk__op *op = &releasing->op;
	struct lk__entry *entry = releasing->entry;
	struct lk__conn *conn = lk__op_join(op, entry, lk__entry_node(entry));
	release_prepare(releasing, request);
	if (releasing->no_wait && detached_send(&releasing->release, request, conn)) {
		lk__op_part(op);
		return 0;
	}
	releasing->look = wire_look;
	lk__op_send(op, conn, request,
		    lk__earlier(releasing->release.valid_until_ns, releasing->until_ns));
	return LK__OP_WAITS;
}

/* ---- exchange: release and acquire in one ---- */

struct lk__request *lk__exchange_request(const struct lk__entry *entry, const char *from,
					 uint64_t number, int64_t lease_ms, unsigned flags)
{
	char to[LK__FIELD_SIZE];
	lk__field(entry, number, to);
	struct lk__try wanted = {
		.target = &entry->target,
		.field = to,
		.number = number,
		.lease_ms = lease_ms,
		.flags = flags,
	};
	struct lk__request *request = entry->target.recipe->exchange(&wanted, from);
	if (request)
		request->resend = true;
	return request;
}

static struct lk__request *exchange_request(const struct lk__exchange *exchange,
					    const struct lk__entry *entry)
{
	char from[LK__FIELD_SIZE];
	lk__field(entry, entry->grant.number, from);
	struct lk__request *request = lk__exchange_request(entry, from, exchange->number,
							   exchange->lease_ms,
							   exchange->waiter->settings.flags);
	if (request)
		request->deadline_ns = exchange->deadline_ns;
	return request;
}

static void exchange_grant(const struct lk__exchange *exchange, const struct lk__request *request,
			   uint64_t fence)
{
	struct lk__entry *entry = exchange->giver->entry;
	struct lk__term term = entry->term; /* it goes on */
	entry->grant.repeated_until_ns = request->sends > 1 ? request->deadline_ns : 0;
	entry->grant.fence = fence;
	lk__entry_grant(entry, exchange->waiter, exchange->number, request->sent_ns,
			exchange->lease_ms);
	entry->term = term;
	lk__thread_wake(exchange->waiter->thread);
}

/* Reads what became of it; `request` is NULL when there was no answer. */
static enum lk__exchanged exchange_read(const struct lk__exchange *exchange,
					const struct lk__request *request)
{
	struct lk__entry *entry = exchange->giver->entry;
	struct lk__answer said = {.fence = 0};
	enum lk__exchanged answer = LK__EXCHANGE_UNKNOWN;
	if (request)
		answer = entry->target.recipe->read_exchange(request, &said);
	if (answer == LK__EXCHANGED)
		exchange_grant(exchange, request, said.fence);
	/* Of one that was sent twice, the first copy may have run, or have freed it. */
	if (answer == LK__EXCHANGE_NOT_DONE && request->sends > 1)
		answer = LK__EXCHANGE_UNKNOWN;
	if (answer == LK__EXCHANGE_NOT_OWNER && request->sends > 1) {
		answer = LK__EXCHANGE_FREED;
		lk__compensate_given(entry, exchange->giver->release.number, NULL);
	}
	return answer;
}

/* `copies_until_ns`: when no copy of it can run any more. */
static int exchange_end(const struct lk__exchange *exchange, enum lk__exchanged answer,
			int64_t copies_until_ns)
{
	const struct lk__release *release = &exchange->giver->release;
	struct lk__entry *entry = release->entry;
	if (answer == LK__EXCHANGE_UNKNOWN) {
		entry->grant.outlives_ns = lk__after_ms(exchange->deadline_ns, exchange->lease_ms);
		lk__compensate(entry, exchange->number, copies_until_ns);
		release_compensate(release);
	} else {
		release_compensate_copies(release);
	}
	lk__entry_promote(entry);
	if (answer == LK__EXCHANGE_NOT_OWNER)
		return release_fail(release, LK_ELOST, "it was lost before the release");
	if (answer == LK__EXCHANGE_UNKNOWN)
		return release_fail(release, LK_EMAYBEHELD, "no answer to the hand-over");
	return 0;
}

static int exchange_look(struct lk__releasing *releasing)
{
	struct lk__op *op = &releasing->op;
	struct lk__entry *entry = releasing->entry;
	struct lk__exchange *exchange = &releasing->exchange;
	bool answered = lk__op_is_answered(op);
	if (!answered && lk__now_ns() < op->until_ns)
		return LK__OP_WAITS;
	bool done = answered || lk__op_leave(op, false, lk__request_forget);
	exchange->waiter->state = LK__WAITER_WAITS;
	entry->passing = false;
	enum lk__exchanged answer = exchange_read(exchange, done ? op->request : NULL);
	int64_t copies_until_ns = done && op->request->ran ? lk__now_ns() : exchange->deadline_ns;
	if (done)
		lk__request_free(op->request);
	release_ends(entry);
	if (answer == LK__EXCHANGE_NOT_DONE) {
		entry->grant.repeated_until_ns = releasing->release.repeated_until_ns;
		return wire_begin(releasing, exchange->fallback);
	}
	lk__request_free(exchange->fallback);
	return exchange_end(exchange, answer, copies_until_ns);
}

/* `release` is what is sent when the exchange is not to be had: no memory, refused, or late. */
static int exchange_begin(struct lk__releasing *releasing, struct lk__request *release)
{
	struct lk__op *op = &releasing->op;
	struct lk__entry *entry = releasing->entry;
	int64_t limit_ms = entry->client->config->command_timeout_ms;
	struct lk__exchange *exchange = &releasing->exchange;
	*exchange = (struct lk__exchange){
		.giver = releasing,
		.fallback = release,
		.waiter = lk__entry_first(entry),
		.number = atomic_fetch_add(&entry->client->last_number, 1) + 1,
		.lease_ms = lk__entry_lease_ms(entry, lk__entry_first(entry)->hold),
		.deadline_ns = lk__earlier(lk__after_ms(lk__now_ns(), limit_ms),
					   entry->grant.valid_until_ns),
	};
	struct lk__request *request = exchange_request(exchange, entry);
	if (!request)
		return wire_begin(releasing, release);
	struct lk__conn *conn = lk__op_join(op, entry, lk__entry_node(entry));
	lk__release_begin(&releasing->release, entry, 0, releasing->error);
	if (releasing->release.echo)
		lk__channel_drop_echo(lk__entry_messages(entry), lk__entry_channel(entry));
	exchange->waiter->state = LK__WAITER_TAKES;
	entry->passing = true;
	releasing->look = exchange_look;
	lk__entry_begin_try(entry);
	lk__op_send(op, conn, request, exchange->deadline_ns);
	return LK__OP_WAITS;
}

/* ---- the last hold is given up ---- */

/* How the last hold is given up: to the next waiter in memory or by an exchange, or on the wire. */
static enum lk__pass release_pass(const struct lk__releasing *releasing, int64_t now_ns)
{
	struct lk__entry *entry = releasing->entry;
	const struct lk__caller *next = release_next(entry);
	bool named = next &&
		     (next->hold->lease_ms || (entry->target.recipe->flags & LK__NEEDS_SERVER) ||
		      entry->grant.lease_ms != lk__entry_lease_ms(entry, next->hold));
	struct lk__passing passing = {
		.now_ns = now_ns,
		.term_ns = entry->client->config->term_ms * LK__MS,
		.valid_until_ns = entry->grant.valid_until_ns,
		.lease_ms = entry->grant.lease_ms,
		.waiting = next != NULL,
		.doubt = entry->verifying || lk__entry_in_doubt(entry),
		.needs_server = named,
	};
	bool wire = releasing->keep_ms || (entry->target.recipe->flags & LK__NO_TERMS);
	return wire ? LK__PASS_WIRE : lk__term_pass(&entry->term, &passing);
}

static int release_hand_over(struct lk__entry *entry, int64_t now_ns)
{
	struct lk__caller *next = lk__entry_first(entry);
	lk__entry_drop_hold(entry, now_ns);
	lk__entry_count(entry, handovers, 1);
	lk__probe2(handover, entry->name, entry->client->id);
	lk__entry_hand(entry, next, now_ns);
	lk__thread_wake(next->thread);
	return 0;
}

struct lk__request *lk__release_request(const struct lk__target *target, const char *field,
					int64_t keep_ms)
{
	return keep_ms ? target->recipe->keep(target, field, keep_ms)
		       : target->recipe->release(target, field);
}

/* The request of a release, and the hold is dropped; NULL: LK_ENOMEM, and it is still held. */
static struct lk__request *release_request(const struct lk__releasing *releasing, int64_t now_ns)
{
	struct lk__entry *entry = releasing->entry;
	char field[LK__FIELD_SIZE];
	lk__field(entry, entry->grant.number, field);
	struct lk__request *request = lk__release_request(&entry->target, field,
							  releasing->keep_ms);
	if (request && lk__compensation_reserve(entry)) {
		lk__entry_drop_hold(entry, now_ns);
		return request;
	}
	lk__request_free(request);
	entry->hold->count = 1;
	lk__fail(releasing->error, LK_ENOMEM, "release \"%.100s\": out of memory, still held",
		 entry->name);
	return NULL;
}

/* The last count of a hold is given up. */
static int release_last(struct lk__releasing *releasing)
{
	struct lk__entry *entry = releasing->entry;
	const struct lk__quorum *quorum = lk__entry_quorum(entry);
	if (quorum)
		return quorum->holds->release(releasing);
	assert(entry->hold && entry->hold->count == 0);
	int64_t now_ns = lk__now_ns();
	enum lk__pass pass = release_pass(releasing, now_ns);
	if (pass == LK__PASS_MEMORY)
		return release_hand_over(entry, now_ns);
	struct lk__request *request = release_request(releasing, now_ns);
	if (!request)
		return LK_ENOMEM;
	if (pass == LK__PASS_EXCHANGE && !releasing->no_wait)
		return exchange_begin(releasing, request);
	return wire_begin(releasing, request);
}

/* ---- from its begin to its end ---- */

/* A hold that was lost is given up; on a single server nothing is left that we know of, but for the
 * place of a leader, which has kept it until now. */
static int release_lost(struct lk__entry *entry, struct lk__hold *hold)
{
	const struct lk__quorum *quorum = lk__entry_quorum(entry);
	assert(hold->lost && hold->count > 0);
	if (--hold->count > 0)
		return LK_ELOST;
	LL_DELETE(entry->lost, hold);
	if (entry->target.recipe->flags & LK__ELECTS)
		lk__entry_release_in_background(entry, hold->number);
	if (quorum)
		quorum->holds->let_go(entry, hold->number);
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
		lk__entry_release_in_background(entry, number);
		lk__entry_promote(entry);
	}
	if (hold && hold->lost)
		rc = release_lost(entry, hold);
	if (rc)
		return lk__fail(error, rc, "release \"%.100s\": %s", entry->name,
				lk_error_text(rc));
	assert(hold->count > 0);
	return --hold->count == 0;
}

int lk__release_drop(struct lk__entry *entry, const struct lk__owner *owner, bool sends,
		     lk_error *error)
{
	int rc = lk__release_count(entry, owner, error);
	if (rc != 1)
		return rc;
	uint64_t number = entry->grant.number;
	lk__entry_drop_hold(entry, lk__now_ns());
	if (sends)
		lk__entry_release_in_background(entry, number);
	lk__entry_promote(entry);
	return rc;
}

static int releasing_step(struct lk__op *op)
{
	struct lk__releasing *releasing = (struct lk__releasing *)op;
	struct lk__entry *entry = releasing->entry;
	int rc;
	pthread_mutex_lock(&entry->mutex);
	if (releasing->look) {
		rc = releasing->look(releasing);
	} else {
		rc = lk__release_count(entry, &releasing->owner, releasing->error);
		if (rc == 1)
			rc = release_last(releasing);
	}
	pthread_mutex_unlock(&entry->mutex);
	return rc;
}

void lk__release_init(struct lk__releasing *releasing, struct lk__entry *entry,
		      struct lk__thread *thread, const struct lk__owner *owner, int64_t keep_ms,
		      bool no_wait, lk_error *error)
{
	lk__op_begin(&releasing->op, releasing_step, thread, NULL);
	releasing->entry = entry;
	releasing->owner = *owner;
	releasing->keep_ms = keep_ms;
	releasing->no_wait = no_wait;
	releasing->until_ns = LK__NEVER;
	releasing->look = NULL;
	releasing->error = error;
}

int lk__release_run(struct lk__entry *entry, struct lk__thread *thread,
		    const struct lk__owner *owner, int64_t keep_ms, bool no_wait, lk_error *error)
{
	struct lk__releasing releasing;
	lk__release_init(&releasing, entry, thread, owner, keep_ms, no_wait, error);
	return lk__op_run(&releasing.op);
}
