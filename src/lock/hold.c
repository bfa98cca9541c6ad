/* SPDX-License-Identifier: MIT */
#include "lock/hold.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/probe.h"
#include "conf/config.h"
#include "conn/conn.h"
#include "conn/node.h"
#include "conn/request.h"
#include "lock/compensation.h"
#include "lock/loop.h"
#include "lock/notice.h"
#include "lock/told.h"
#include "sync/recipes.h"
#include "sync/script.h"
#include "sync/trace.h"

#define TOGETHER_NS (10 * LK__MS) /* questions that are due within this time leave in one batch */
#define JUST_LOOK_MS 1            /* a lease that renews nothing: only the owner is verified */
#define BATCH_MAX 100             /* locks in one renewal script: about 1 ms of the server */
#define DUE_MAX (5 * BATCH_MAX)   /* entries in one turn; the rest comes with the next */
#define LOST_MAX 1000             /* as <lockkeeper/permit_semaphore.h> says */
#define RENEW_AGAIN_PARTS 30      /* of a lease, between attempts that got no answer */

/* ---- whose it is ---- */

static char *hold_owner_name(const struct lk__hold *hold)
{
	return (char *)(hold + 1) + (hold->has_extra ? sizeof(struct lk__hold_extra) : 0);
}

struct lk__owner lk__hold_owner(const struct lk__hold *hold)
{
	bool named = hold->owner_serial == 0;
	return (struct lk__owner){hold->owner_serial, named ? hold_owner_name(hold) : NULL,
				  hold->owner_name_size};
}

bool lk__owner_is(const struct lk__hold *hold, const struct lk__owner *owner)
{
	if (hold->owner_serial != owner->serial)
		return false;
	return owner->serial || (hold->owner_name_size == owner->name_size &&
				 memcmp(hold_owner_name(hold), owner->name, owner->name_size) == 0);
}

struct lk__hold *lk__entry_hold_of(struct lk__entry *entry, const struct lk__owner *owner)
{
	struct lk__hold *hold;
	if (entry->hold && lk__owner_is(entry->hold, owner))
		return entry->hold;
	LL_FOREACH(entry->lost, hold)
	{
		if (lk__owner_is(hold, owner))
			return hold;
	}
	return NULL;
}

/* ---- whether it is renewed, and what stands in the way ---- */

/* Tells whether it has been held for longer than its owner allows. */
static bool hold_is_too_long(const struct lk__hold *hold, int64_t now_ns)
{
	int64_t max_hold_ms = lk__hold_extra(hold)->max_hold_ms;
	return max_hold_ms && now_ns >= lk__after_ms(hold->granted_ns, max_hold_ms);
}

/* Tells whether the work that it is for shows no progress. */
static bool hold_is_idle(const struct lk__hold *hold, int64_t now_ns)
{
	const struct lk__stand *stand = hold->entry->target.stand;
	return stand && now_ns >= atomic_load(&stand->progress_ns);
}

/* Tells whether the watchdog renews it. */
static bool hold_is_renewed(const struct lk__hold *hold, int64_t now_ns)
{
	bool wanted = hold->watched || hold->wanted_until_ns > hold->own_until_ns;
	bool too_long = hold_is_too_long(hold, now_ns) || hold_is_idle(hold, now_ns);
	bool open = atomic_load(&hold->entry->client->state) == LK__CLIENT_OPEN;
	return wanted && !too_long && !hold->abandoned && open;
}

/* Where "… of URL: reason", "URL: reason" or "place: reason" goes on. */
static const char *behind(const char *text, const char *prefix)
{
	size_t size = strlen(prefix);
	return size > 0 && strncmp(text, prefix, size) == 0 ? text + size : text;
}

/* The reason without the server, which is told beside it. */
static const char *reason_alone(const char *reason, const char *place, const char *url)
{
	const char *at = behind(reason, place);
	at = at > reason ? behind(at, " of ") : at;
	at = behind(at, url);
	const char *alone = behind(at, ": ");
	return alone > at && at > reason ? alone : reason;
}

static void trouble_fill(struct lk__trouble *trouble, struct lk__node *node, int code,
			 const char *reason)
{
	trouble->code = code;
	lk__node_place_at(node, atomic_load(&node->epoch), trouble->place);
	snprintf(trouble->reason, sizeof(trouble->reason), "%s",
		 reason_alone(reason, trouble->place, node->config->url));
}

/* The caller need not know that a renewal may have been done, so LK_EMAYBEHELD becomes
 * LK_EREFUSED. */
static int refusal_code(const char *error)
{
	int code = lk__refusal(error).code;
	return code == LK_EMAYBEHELD ? LK_EREFUSED : code;
}

void lk__trouble_read(struct lk__trouble *trouble, struct lk__node *node,
		      const struct lk__request *request)
{
	struct lk__fault fault;
	if (!request) {
		lk__conn_fault(&node->work, &fault);
		trouble_fill(trouble, node, fault.code, fault.reason);
		return;
	}
	const char *reason = request->reason;
	int code = request->code;
	if (!code) {
		code = LK_EPROTOCOL;
		reason = "the answer does not say whether it was renewed";
	} else if (code == LK_EMAYBEHELD) {
		bool refused = request->reply && request->reply->type == REDIS_REPLY_ERROR;
		code = refused ? refusal_code(request->reply->str) : LK_EUNREACHABLE;
	}
	trouble_fill(trouble, request->conn->node, code, reason);
}

/* The thread that takes the notices reads it. */
static void trouble_set(struct lk__hold *hold, const struct lk__trouble *trouble)
{
	lk_client *client = hold->entry->client;
	pthread_mutex_lock(&client->notices.mutex);
	if (!hold->told)
		hold->told = calloc(1, sizeof(*hold->told));
	if (hold->told)
		hold->told->trouble = *trouble;
	pthread_mutex_unlock(&client->notices.mutex);
}

/* Why the watchdog leaves it alone. */
static const char *unrenewed(const struct lk__hold *hold, int64_t now_ns)
{
	if (hold->abandoned)
		return "the thread that acquired it has ended";
	if (atomic_load(&hold->entry->client->state) != LK__CLIENT_OPEN)
		return "the client is closed";
	if (hold_is_too_long(hold, now_ns))
		return "max_hold_ms is over";
	if (hold_is_idle(hold, now_ns))
		return "its work shows no progress";
	return "its lease was named, and nobody has extended it";
}

/* A server has said it. */
static void trouble_lost(struct lk__trouble *trouble, const struct lk__entry *entry)
{
	bool is_quorum = entry->is_quorum;
	trouble->code = LK_ELOST;
	if (!is_quorum && entry->grant.node)
		lk__node_place_at(entry->grant.node, entry->grant.epoch, trouble->place);
	snprintf(trouble->reason, sizeof(trouble->reason), "%s does not have it any more",
		 is_quorum ? "a majority" : "the server");
}

static void trouble_unanswered(struct lk__trouble *trouble, const struct lk__entry *entry)
{
	if (!entry->is_quorum) {
		lk__trouble_read(trouble, lk__entry_node(entry), NULL);
		return;
	}
	trouble->code = LK_ENOQUORUM;
	snprintf(trouble->reason, sizeof(trouble->reason), "no majority has confirmed it yet");
}

/* The current hold is about to end, or ends: what its notice says. */
static void trouble_explain(struct lk__entry *entry, int64_t now_ns, bool ends)
{
	struct lk__hold *hold = entry->hold;
	struct lk__trouble trouble = {.code = 0};
	assert(hold && !hold->lost);
	if (ends && now_ns < lk__hold_deadline(hold))
		trouble_lost(&trouble, entry);
	else if (!hold_is_renewed(hold, now_ns))
		snprintf(trouble.reason, sizeof(trouble.reason), "%s", unrenewed(hold, now_ns));
	else if (hold->in_trouble)
		return;
	else if (entry->renewing)
		trouble_unanswered(&trouble, entry);
	else
		snprintf(trouble.reason, sizeof(trouble.reason),
			 "this process did not run in time to renew it");
	trouble_set(hold, &trouble);
}

/* ---- lost permits ---- */

/*
 * Their owners have to learn of the loss, but often nobody asks for a permit again: another process
 * gives it back, or it ends with its lease. So a client remembers the last LOST_MAX losses, and
 * none of the permits whose end is not a loss.
 */

/* A permit that is lost is remembered until it is released. */
static void lost_note(struct lk__hold *hold)
{
	lk_client *client = hold->entry->client;
	if (!(hold->entry->target.recipe->flags & LK__FORGETS))
		return;
	assert(!lk__hold_thread(hold)); /* which it would be in the list of */
	pthread_mutex_lock(&client->mutex);
	hold->noted = true;
	client->lost_count++;
	if (lk__hold_extra(hold)->no_loss)
		DL_PREPEND2(client->lost, hold, lost_prev, lost_next);
	else
		DL_APPEND2(client->lost, hold, lost_prev, lost_next);
	bool due = lk__hold_extra(hold)->no_loss || client->lost_count > LOST_MAX;
	pthread_mutex_unlock(&client->mutex);
	if (due)
		lk__loop_wake(client);
}

static void lost_forget(struct lk__hold *hold)
{
	lk_client *client = hold->entry->client;
	if (!hold->noted)
		return;
	pthread_mutex_lock(&client->mutex);
	DL_DELETE2(client->lost, hold, lost_prev, lost_next);
	client->lost_count--;
	hold->noted = false;
	pthread_mutex_unlock(&client->mutex);
}

/* The next that is to be freed, and its entry with a reference; NULL when there is none. */
static struct lk__entry *lost_due(lk_client *client, const struct lk__hold **hold_out)
{
	pthread_mutex_lock(&client->mutex);
	const struct lk__hold *hold = client->lost;
	bool due = hold && (lk__hold_extra(hold)->no_loss || client->lost_count > LOST_MAX);
	struct lk__entry *entry = due ? hold->entry : NULL;
	if (entry)
		lk__entry_ref(entry); /* the hold has one, until it is out of the list */
	pthread_mutex_unlock(&client->mutex);
	*hold_out = hold;
	return entry;
}

/* ---- what follows from a change ---- */

static void hold_log_loss(const struct lk__hold *hold)
{
	char place[LK__CONN_PLACE_SIZE];
	const struct lk__told *told = hold->told; /* NULL, or without a reason: no memory */
	const struct lk__trouble *trouble = told && *told->trouble.reason ? &told->trouble : NULL;
	lk__notices_place(hold, place);
	lk__log(&hold->entry->client->log, LK_LOG_WARNING, "lock lost: %.200s%s%s%s%s%s%s",
		hold->entry->name, *place ? ", last confirmed by " : "", place, trouble ? ": " : "",
		trouble ? trouble->place : "", trouble && *trouble->place ? ": " : "",
		trouble ? trouble->reason : "");
}

static enum lk_loss_cause loss_cause(const struct lk__told *told)
{
	if (!told)
		return LK_LOST_UNKNOWN;
	switch (told->trouble.code) {
	case 0:
		return LK_LOST_EXPIRED;
	case LK_ELOST:
		return LK_LOST_BROKEN;
	case LK_EUNREACHABLE:
	case LK_ENOQUORUM:
	case LK_ENOTDURABLE:
		return LK_LOST_UNREACHABLE;
	case LK_ENOMEM:
	case LK_ESYSTEM:
	case LK_EPROTOCOL:
		return LK_LOST_UNKNOWN;
	default:
		return LK_LOST_REFUSED;
	}
}

static void hold_tell_loss(struct lk__hold *hold)
{
	const struct lk__entry *entry = hold->entry;
	lk_client *client = entry->client;
	lost_note(hold);
	if (!lk__hold_extra(hold)->no_loss) {
		lk__probe4(lost, entry->name, client->id, hold->number, loss_cause(hold->told));
		lk__entry_count(entry, lost, 1);
		lk__entry_count(entry, lost_by[loss_cause(hold->told)], 1);
		lk__notices_give(client, hold, LK__NOTICE_LOST);
		hold_log_loss(hold);
	}
}

/* On a single server no promise is left to be kept: another may have the lock by now. The nodes of
 * a quorum keep their parts until `promised_ns`. */
static void release_in_background(struct lk__entry *entry, uint64_t number, int64_t promised_ns)
{
	const struct lk__quorum *quorum = lk__entry_quorum(entry);
	if (quorum)
		quorum->holds->release_in_background(entry, number, promised_ns);
	else
		lk__compensate_behind(entry, number);
}

void lk__entry_release_in_background(struct lk__entry *entry, uint64_t number)
{
	release_in_background(entry, number, 0);
}

/* Tells whether the number is that of a leader that was told to stop, and has not yet: it gives its
 * place back when it has. */
static bool still_stops(const struct lk__entry *entry, uint64_t number)
{
	const struct lk__hold *hold;
	LL_FOREACH(entry->lost, hold)
	{
		if (hold->number == number)
			return entry->target.recipe->flags & LK__ELECTS;
	}
	return false;
}

void lk__entry_release_unheld(struct lk__entry *entry, uint64_t number)
{
	bool held = entry->hold && entry->grant.number == number; /* by whomever it was passed to */
	bool given_up = entry->passing || atomic_load(&entry->releasing) > 0 ||
			(entry->abandoned && entry->grant.number == number);
	if (!held && !given_up && !still_stops(entry, number))
		lk__entry_release_in_background(entry, number);
}

static void hold_leave_thread(struct lk__hold *hold)
{
	struct lk__thread *thread = lk__hold_thread(hold);
	if (!thread || !hold->thread_prev)
		return;
	pthread_mutex_lock(&thread->mutex);
	DL_DELETE2(thread->holds, hold, thread_prev, thread_next);
	pthread_mutex_unlock(&thread->mutex);
	hold->thread_prev = NULL;
}

/* Tells the caller that waited for it, and has not learned of its grant yet, that another call of
 * the same owner has given it up. */
static void hold_tell_taker(const struct lk__hold *hold)
{
	struct lk__caller *taker = hold->owner_serial ? NULL : hold->taker;
	if (!taker)
		return;
	taker->hold = NULL;
	taker->given_up = hold->lost ? LK_ELOST : 0;
	if (hold->entry)
		taker->was = hold->entry->grant;
}

void lk__hold_free(struct lk__hold *hold)
{
	if (!hold)
		return;
	hold_tell_taker(hold);
	if (hold->entry) {
		hold_leave_thread(hold);
		lk__notices_forget(hold->entry->client, hold);
		lost_forget(hold);
		lk__note_end(hold->entry->client, lk__hold_extra(hold)->note);
	}
	free(lk__hold_extra(hold)->note);
	lk__ear_free(lk__hold_extra(hold)->ear);
	free(hold->told);
	free(hold);
}

/* ---- the changes ---- */

/* What follows from a change beyond the entry is done before the mutex is free, and needs no
 * memory: an entry has its place in the watchdog's heap, and memory reserved for each compensation
 * that may follow from what it has sent. */

static void trace_hold(const struct lk__entry *entry, const char *what)
{
	if (entry->hold)
		lk__trace_hold(&entry->client->log, entry->name, entry->hold->number, what);
}

/* The watchdog has it before its caller returns. */
static void hold_begin(struct lk__entry *entry, struct lk__hold *hold, int64_t now_ns)
{
	assert(!entry->hold); /* two owners never */
	hold->entry = entry;
	hold->count = 1;
	hold->number = entry->grant.number;
	assert(hold->has_extra || !entry->grant.fence);
	if (hold->has_extra)
		((struct lk__hold_extra *)(hold + 1))->fence = entry->grant.fence;
	lk__note_begin(entry->client, lk__hold_extra(hold)->note, hold->number);
	hold->granted_ns = now_ns;
	hold->own_until_ns = hold->watched ? LK__NEVER : entry->grant.valid_until_ns;
	hold->wanted_until_ns = 0;
	hold->lost = hold->warned = false;
	entry->hold = hold;
	lk__holders_add(entry);
	atomic_fetch_add(&entry->refs, 1);
	lk__entry_count(entry, held, 1);
	struct lk__thread *thread = lk__hold_thread(hold);
	if (thread) {
		pthread_mutex_lock(&thread->mutex);
		DL_APPEND2(thread->holds, hold, thread_prev, thread_next);
		pthread_mutex_unlock(&thread->mutex);
	}
	if (lk__hold_extra(hold)->ear)
		lk__ear_open(entry);
	lk__watch_hold(entry, now_ns);
}

/* Others who wait under the same name re-enter. */
static void wake_namesakes(struct lk__entry *entry)
{
	struct lk__owner owner = lk__hold_owner(entry->hold);
	struct lk__caller *other;
	DL_FOREACH(lk__entry_first(entry), other)
	{
		if (lk__owner_is(other->hold, &owner))
			lk__thread_wake(other->thread);
	}
}

static void grant_hand(struct lk__entry *entry, struct lk__caller *waiter, int64_t now_ns)
{
	assert(waiter->state != LK__WAITER_GRANTED);
	lk__entry_leave_queue(entry, waiter);
	waiter->state = LK__WAITER_GRANTED;
	if (entry->target.recipe->sharing == LK__NO_HOLD) {
		/* A copy of a try that was sent twice may still run: its record has to stay. */
		entry->settled = entry->grant.repeated_until_ns ? 0 : entry->grant.number;
		if (entry->target.recipe->flags & LK__BECOMES_HOLDS)
			atomic_fetch_add(&entry->client->unclaimed_grants, 1);
		lk__entry_promote(entry);
		return;
	}
	hold_begin(entry, waiter->hold, now_ns);
	lk__entry_wake_askers(entry);
	if (entry->hold->owner_serial == 0)
		wake_namesakes(entry);
}

void lk__entry_hand(struct lk__entry *entry, struct lk__caller *waiter, int64_t now_ns)
{
	grant_hand(entry, waiter, now_ns);
	trace_hold(entry, "handed to the next caller in this client");
}

/* The others who were in the wait queue before the try was sent. */
static void grant_all(struct lk__entry *entry, const struct lk__caller *first, int64_t sent_ns)
{
	struct lk__caller *waiter, *next;
	DL_FOREACH_SAFE(lk__entry_first(entry), waiter, next)
	{
		if (waiter == first || waiter->since_ns >= sent_ns)
			continue;
		lk__entry_leave_queue(entry, waiter);
		waiter->state = LK__WAITER_GRANTED;
		lk__thread_wake(waiter->thread);
	}
}

void lk__entry_grant(struct lk__entry *entry, struct lk__caller *waiter, uint64_t number,
		     int64_t sent_ns, int64_t lease_ms)
{
	int64_t now_ns = lk__now_ns();
	assert(number != 0 && sent_ns <= now_ns);
	if (entry->hold) /* adopted meanwhile (lock/adopt.h), and gone since */
		lk__entry_lose(entry, now_ns);
	entry->grant.number = number;
	entry->downgraded = entry->abandoned = false;
	entry->grant.outlives_ns = 0;
	entry->grant.lease_ms = lease_ms;
	entry->grant.valid_until_ns = lk__lease_end_ns(sent_ns, lease_ms);
	entry->grant.seen_ns = sent_ns;
	lk__term_begin(&entry->term, now_ns);
	lk__entry_count(entry, wire_grants, 1);
	lk__client_record_want(entry->client);
	if (entry->target.recipe->flags & LK__FOR_ALL)
		grant_all(entry, waiter, sent_ns);
	grant_hand(entry, waiter, now_ns);
	if (atomic_load(&entry->client->entries.mixed) ||
	    atomic_load(&entry->client->holders.count) > 0)
		lk__doubt_others(entry);
}

void lk__entry_move_grant(struct lk__entry *entry, struct lk__hold *hold,
			  const struct lk__grant *grant)
{
	entry->grant = *grant;
	entry->abandoned = false;
	hold_begin(entry, hold, lk__now_ns());
	trace_hold(entry, "held");
}

/* A renewal for so long got no answer. It may have been done, or a copy of it may still run: then
 * the server has the lock for a lease longer than is known here. */
static void note_unanswered(struct lk__entry *entry, int64_t lease_ms)
{
	struct lk__grant *grant = &entry->grant;
	int64_t from_ns = lk__later(lk__now_ns(), grant->valid_until_ns);
	if (entry->is_quorum)
		return; /* its parts are given back in any case */
	grant->outlives_ns = lk__later(grant->outlives_ns, lk__after_ms(from_ns, lease_ms));
}

/* The owner knows of it before its number is released; and the release is queued before the next
 * head can send a try. */
void lk__entry_lose(struct lk__entry *entry, int64_t now_ns)
{
	struct lk__hold *hold = entry->hold;
	assert(hold && !hold->lost);
	if (!lk__hold_extra(hold)->no_loss)
		trouble_explain(entry, now_ns, true);
	trace_hold(entry, "lost");
	if (entry->renewing && (hold->watched || hold->wanted_until_ns))
		note_unanswered(entry, lk__entry_lease_ms(entry, hold));
	int64_t promised_ns = lk__hold_deadline(hold);
	hold->own_until_ns = lk__earlier(promised_ns, now_ns);
	hold->lost = true;
	lk__entry_take_hold(entry);
	LL_APPEND(entry->lost, hold);
	lk__entry_count(entry, held, (uint64_t)-1);
	/* The other side may keep the key: what is over would stay in it. Of several nodes, some
	 * may have it still, and for longer than was ever confirmed; so may a node whose answer to
	 * an extension or a renewal is missing. A copy of the acquire may still run, and take the
	 * lock. A leader keeps what is left of its place until it has stopped. */
	bool may_be_left = entry->target.recipe->other_side || entry->is_quorum ||
			   entry->grant.outlives_ns > now_ns ||
			   entry->grant.repeated_until_ns > now_ns;
	hold_tell_loss(hold);
	if (may_be_left && !(entry->target.recipe->flags & LK__ELECTS))
		release_in_background(entry, hold->number, promised_ns);
}

void lk__entry_drop_hold(struct lk__entry *entry, int64_t now_ns)
{
	struct lk__hold *hold = entry->hold;
	assert(hold);
	trace_hold(entry, "given up by its owner");
	lk__entry_take_hold(entry);
	lk__entry_count(entry, held, (uint64_t)-1);
	lk__entry_count_us(entry, hold, now_ns - hold->granted_ns);
	lk__probe4(release, entry->name, entry->client->id, hold->number,
		   now_ns - hold->granted_ns);
	atomic_fetch_sub(&entry->refs, 1); /* never the last: the caller has one */
	lk__hold_free(hold);
}

void lk__entry_undo_grant(struct lk__entry *entry, struct lk__caller *waiter)
{
	struct lk__hold *hold = waiter->hold;
	assert(waiter->state == LK__WAITER_GRANTED && hold->entry == entry);
	if (entry->hold == hold) {
		lk__entry_take_hold(entry);
		lk__entry_count(entry, held, (uint64_t)-1);
		lk__entry_release_in_background(entry, hold->number);
	} else {
		LL_DELETE(entry->lost, hold);
	}
	hold_leave_thread(hold);
	lk__notices_forget(entry->client, hold);
	hold->entry = NULL;
	hold->lost = false;
	atomic_fetch_sub(&entry->refs, 1);
	waiter->state = LK__WAITER_WAITS;
	waiter->undone = true;
	DL_PREPEND(entry->waiting->queue, waiter);
	lk__entry_count(entry, waiting, 1);
	lk__entry_promote(entry);
}

/* ---- an acquire and the holds that there are ---- */

/* A copy of a note; NULL when out of memory. */
static struct lk__note *note_new(const char *text)
{
	size_t size = strlen(text) + 1;
	struct lk__note *note = calloc(1, sizeof(*note) + size);
	if (note)
		memcpy(note->text, text, size);
	return note;
}

/* `extra` may be NULL. NULL when out of memory. */
static struct lk__hold *hold_new(struct lk__thread *thread, const struct lk__owner *owner,
				 const struct lk__hold_extra *extra)
{
	bool named = owner->serial == 0;
	struct lk__hold *hold = calloc(1, sizeof(*hold) + (extra ? sizeof(*extra) : 0) +
						  (named ? owner->name_size + 1 : 0));
	if (!hold)
		return NULL;
	assert(owner->name_size <= INT16_MAX); /* LK_OWNER_SIZE_MAX, or an id of ours */
	hold->owner_serial = owner->serial;
	hold->has_extra = extra != NULL;
	if (extra)
		memcpy(hold + 1, extra, sizeof(*extra));
	if (named) {
		hold->owner_name_size = (uint16_t)(owner->name_size & INT16_MAX);
		memcpy(hold_owner_name(hold), owner->name, owner->name_size + 1);
	} else {
		hold->thread = thread;
	}
	return hold;
}

struct lk__hold *lk__hold_wanted(struct lk__thread *thread, const struct lk__recipe *recipe,
				 const struct lk__want *want)
{
	struct lk__hold_extra extra = {.margin_ms = want->margin_ms,
				       .max_hold_ms = want->max_hold_ms,
				       .tag = want->tag,
				       .no_loss = want->no_loss};
	if (want->note)
		extra.note = note_new(want->note);
	if (want->hears)
		extra.ear = calloc(1, sizeof(*extra.ear));
	bool lacks = (want->note && !extra.note) || (want->hears && !extra.ear);
	bool has_extra = extra.margin_ms || extra.max_hold_ms || extra.tag || extra.no_loss ||
			 extra.note || extra.ear || (recipe->flags & LK__FENCES);
	struct lk__hold *hold = lacks ? NULL
				      : hold_new(thread, &want->owner, has_extra ? &extra : NULL);
	if (!hold) {
		free(extra.note);
		free(extra.ear);
		return NULL;
	}
	hold->lease_ms = want->lease_ms;
	hold->watched = !want->lease_ms || want->renews;
	return hold;
}

/* Lets a hold last as long as a re-entry asks for: the watchdog sees to it, at once. */
static void hold_lengthen(struct lk__hold *hold, const struct lk__want *want, int64_t now_ns)
{
	struct lk__entry *entry = hold->entry;
	int64_t watchdog_ms = entry->client->config->watchdog_ms;
	int64_t lease_ms = want->lease_ms ? want->lease_ms : watchdog_ms;
	bool renews = !want->lease_ms || want->renews;
	if (hold->watched && (!renews || lease_ms <= lk__entry_lease_ms(entry, hold)))
		return;
	if (!renews && lk__after_ms(now_ns, lease_ms) <= hold->own_until_ns)
		return;
	if (renews) {
		hold->watched = true;
		hold->lease_ms = want->lease_ms;
	}
	hold->wanted_until_ns = renews ? now_ns : lk__after_ms(now_ns, lease_ms);
	lk__watch_at(entry, now_ns);
}

int lk__hold_reenter(struct lk__entry *entry, const struct lk__want *want, lk_error *error)
{
	struct lk__hold *hold = lk__entry_hold_of(entry, &want->owner);
	if (!hold)
		return 0;
	int64_t now_ns = lk__now_ns();
	if (!hold->lost && now_ns >= lk__hold_deadline(hold))
		lk__entry_lose(entry, now_ns);
	if (hold->lost) {
		lk__entry_promote(entry);
		return lk__fail(error, LK_ELOST, "acquire \"%.100s\": %s", entry->name,
				lk_error_text(LK_ELOST));
	}
	if (hold->count == INT32_MAX)
		return lk__fail(error, LK_ELIMIT, "acquire \"%.100s\": held 2147483647 times",
				entry->name);
	hold->count++;
	if (want->grant_out)
		*want->grant_out = entry->grant;
	hold_lengthen(hold, want, now_ns);
	lk__entry_count(entry, reentries, 1);
	return 1;
}

/* ---- the watchdog: when a hold needs attention ---- */

/* How long before the end of the hold its owner is warned. */
static int64_t hold_margin_ns(const struct lk__hold *hold)
{
	int64_t margin_ms = lk__hold_extra(hold)->margin_ms;
	if (!margin_ms)
		margin_ms = hold->entry->grant.lease_ms / 10;
	return margin_ms * LK__MS;
}

/* A third of the lease after it was last confirmed; at once when more is wanted. */
static int64_t renewal_due_ns(const struct lk__hold *hold, int64_t now_ns)
{
	const struct lk__entry *entry = hold->entry;
	int64_t lease_ns = lk__entry_lease_ms(entry, hold) * LK__MS;
	if (hold->wanted_until_ns > hold->own_until_ns)
		return now_ns;
	return entry->grant.valid_until_ns - lease_ns / 3 * 2;
}

/* When to look whether the server still has it: others can free it, and tell nobody who would tell
 * us. */
static int64_t look_due_ns(const struct lk__hold *hold)
{
	const struct lk__entry *entry = hold->entry;
	int64_t lease_ms = lk__earlier(lk__entry_lease_ms(entry, hold),
				       entry->client->config->watchdog_ms);
	return entry->grant.seen_ns + lease_ms * LK__MS / 3;
}

/* Counted from the client's start: several clients do not all ask at the same moments. */
static int64_t due_together_ns(const lk_client *client, int64_t due_ns)
{
	return due_ns - (due_ns - client->record.since_ns) % TOGETHER_NS;
}

/* When to ask the server next, for more time or whether it still has it. */
static int64_t question_due_ns(const struct lk__hold *hold, int64_t now_ns)
{
	int64_t due_ns = look_due_ns(hold);
	if (hold_is_renewed(hold, now_ns))
		due_ns = lk__earlier(due_ns, renewal_due_ns(hold, now_ns));
	return due_together_ns(hold->entry->client, due_ns);
}

int64_t lk__tracked_due_ns(const struct lk__entry *entry)
{
	int64_t first_ns = lk__after_ms(entry->hold->granted_ns, LK__TRACKED_AFTER_MS);
	if (!lk__entry_is_tracked_kind(entry) || !entry->client->config->chosen.tracks)
		return LK__NEVER;
	if (entry->is_quorum) /* of its members, at their nodes, by the renewal */
		return entry->tracked ? LK__NEVER : first_ns;
	const struct lk__node *node = lk__entry_node(entry);
	if (entry->tracked == lk__tracking_generation(&node->tracking) ||
	    !lk__entry_may_be_tracked(entry) || !lk__node_may_track(node))
		return LK__NEVER;
	if (lk__tracking_is_wanted(&node->tracking) && !lk__tracking_is_on(&node->tracking))
		return LK__NEVER; /* it comes up when that begins */
	return first_ns;
}

void lk__watch_hold(struct lk__entry *entry, int64_t now_ns)
{
	const struct lk__hold *hold = entry->hold;
	assert(hold && !hold->lost);
	int64_t deadline_ns = lk__hold_deadline(hold);
	int64_t at_ns = hold->warned ? deadline_ns : deadline_ns - hold_margin_ns(hold);
	if (hold_is_renewed(hold, now_ns))
		at_ns = lk__earlier(at_ns, lk__node_prepare(entry->target.node, now_ns));
	if (!entry->renewing)
		at_ns = lk__earlier(at_ns, question_due_ns(hold, now_ns));
	at_ns = lk__earlier(at_ns, lk__tracked_due_ns(entry));
	if (lk__entry_in_doubt(entry) && !entry->renewing)
		at_ns = now_ns;
	lk__watch_at(entry, at_ns > now_ns ? at_ns : now_ns + LK__MS);
}

/* ---- the watchdog: its renewals ---- */

/* The renewals of one script, or one of several nodes alone. */
struct batch {
	struct lk__node *node;
	int64_t needed_ns; /* when the first of them is needed */
	size_t count;
	struct lk__sent_renewal of[BATCH_MAX];
};

/* Empty; NULL when out of memory. */
static struct batch *batch_new(struct lk__node *node)
{
	struct batch *batch = malloc(sizeof(*batch));
	if (!batch)
		return NULL;
	batch->node = node;
	batch->count = 0;
	batch->needed_ns = LK__NEVER;
	return batch;
}

/* A margin that shrinks shows that a server or a network slows down, before a lock is lost. */
static void renewal_count(struct lk__entry *entry, int64_t sent_ns, int64_t until_ns)
{
	int64_t now_ns = lk__now_ns();
	lk__entry_count(entry, renewals, 1);
	lk__entry_count_us(entry, renewal, now_ns - sent_ns);
	lk__entry_count_us(entry, margin, until_ns - now_ns);
	lk__probe5(renew__done, entry->name, entry->client->id, entry->grant.number,
		   until_ns - now_ns, now_ns - sent_ns);
}

static void renewal_confirm(struct lk__entry *entry, const struct lk__sent_renewal *renewal,
			    int64_t sent_ns)
{
	struct lk__hold *hold = entry->hold;
	assert(!hold->lost && hold->entry == entry);
	int64_t end_ns = lk__lease_end_ns(sent_ns, renewal->lease_ms);
	int64_t until_ns = lk__hold_deadline(hold);
	entry->grant.valid_until_ns = lk__later(entry->grant.valid_until_ns, end_ns);
	if (renewal->lease_ms > entry->grant.lease_ms)
		entry->grant.lease_ms = renewal->lease_ms;
	if (hold->watched)
		hold->own_until_ns = LK__NEVER;
	else if (renewal->wanted_until_ns > hold->own_until_ns && end_ns > hold->own_until_ns)
		hold->own_until_ns = end_ns;
	if (hold->wanted_until_ns == renewal->wanted_until_ns)
		hold->wanted_until_ns = 0; /* else more was asked for meanwhile */
	entry->grant.node = renewal->node;
	entry->grant.epoch = renewal->epoch;
	entry->grant.seen_ns = sent_ns;
	if (renewal->lease_ms > JUST_LOOK_MS) {
		hold->warned = false;
		hold->in_trouble = false; /* what was told stays, for an unread notice */
		renewal_count(entry, sent_ns, until_ns);
	}
}

static void watch_lose(struct lk__entry *entry, int64_t now_ns)
{
	lk__entry_lose(entry, now_ns);
	lk__entry_promote(entry);
}

/* The old deadline stands: it is asked again, soon. */
static void renewal_failed(const struct lk__sent_renewal *renewal, int64_t sent_ns,
			   const struct lk__trouble *trouble)
{
	struct lk__entry *entry = renewal->entry;
	int64_t lease_ns = entry->grant.lease_ms * LK__MS;
	if (sent_ns && renewal->lease_ms > JUST_LOOK_MS) {
		lk__compensation_reserve(entry); /* without it, close tells of it */
		note_unanswered(entry, renewal->lease_ms);
	}
	trouble_set(entry->hold, trouble);
	entry->hold->in_trouble = true;
	lk__watch_at(entry, lk__now_ns() + lease_ns / RENEW_AGAIN_PARTS);
}

void lk__renewal_answered(const struct lk__sent_renewal *renewal, int answer, int64_t sent_ns,
			  const struct lk__trouble *trouble)
{
	struct lk__entry *entry = renewal->entry;
	int64_t now_ns = lk__now_ns();
	bool current = entry->hold && entry->grant.number == renewal->number;
	if (answer < 0 && entry->verifying)
		atomic_store(&entry->doubt, true);
	entry->renewing = entry->verifying = false;
	if (answer == 1)
		lk__entry_release_unheld(entry, renewal->number);
	if (!current) { /* the answer is of an earlier grant */
		if (entry->hold)
			lk__watch_hold(entry, now_ns);
	} else if (answer == 0 && !entry->passing) { /* else its release was there first */
		watch_lose(entry, now_ns);
	} else if (answer == 1 && !entry->passing && now_ns >= lk__hold_deadline(entry->hold)) {
		/* It has ended, and stays lost whatever a server says behind that. */
		lk__compensation_reserve(entry); /* without it, close tells of it */
		note_unanswered(entry, renewal->lease_ms);
		watch_lose(entry, now_ns);
	} else if (answer == 1) { /* the server has it for another lease */
		renewal_confirm(entry, renewal, sent_ns);
		lk__entry_free_spares(entry);
		lk__watch_hold(entry, now_ns);
	} else {
		renewal_failed(renewal, sent_ns, trouble);
	}
}

static void renewal_done(const struct lk__sent_renewal *renewal, int answer, int64_t sent_ns,
			 const struct lk__trouble *trouble)
{
	pthread_mutex_lock(&renewal->entry->mutex);
	lk__renewal_answered(renewal, answer, sent_ns, trouble);
	pthread_mutex_unlock(&renewal->entry->mutex);
	lk__entry_unref(renewal->entry);
}

static const struct lk__trouble no_memory = {.code = LK_ENOMEM,
					     .reason = "no memory to ask for it"};

static void batch_send(struct batch *batch);

/* Each of them alone: some keys of a slot that moves are on the new node, and some are not. */
static void batch_split(const struct batch *batch)
{
	for (size_t i = 0; i < batch->count; i++) {
		struct batch *one = batch_new(batch->node);
		if (!one) {
			renewal_done(&batch->of[i], -1, 0, &no_memory);
			continue;
		}
		one->of[one->count++] = batch->of[i];
		batch_send(one);
	}
}

static void batch_finish(struct lk__request *request)
{
	struct batch *batch = request->owner;
	bool splits = batch->count > 1 && request->code && request->parted;
	if (splits)
		batch_split(batch);
	for (size_t i = 0; !splits && i < batch->count; i++) {
		struct lk__trouble trouble;
		int answer = lk__reply_renewed(request, batch->count, i);
		if (answer < 0)
			lk__trouble_read(&trouble, batch->node, request);
		renewal_done(&batch->of[i], answer, request->sent_ns, &trouble);
	}
	lk__request_free(request);
	free(batch);
}

/* A look at all of them, whose tracking a renewal ends; NULL: nothing is tracked. */
static struct lk__looks *batch_looks(const struct batch *batch)
{
	struct lk__looks *looks = NULL;
	for (size_t i = 0; i < batch->count; i++) {
		struct lk__entry *entry = batch->of[i].entry;
		pthread_mutex_lock(&entry->mutex);
		if (entry->hold)
			lk__looks_add(&looks, entry);
		pthread_mutex_unlock(&entry->mutex);
	}
	return looks;
}

/* One script for all of them; NULL when out of memory. */
static struct lk__request *batch_request(struct batch *batch)
{
	struct lk__renewal renewals[BATCH_MAX];
	for (size_t i = 0; i < batch->count; i++)
		renewals[i] = (struct lk__renewal){&batch->of[i].entry->target, batch->of[i].field,
						   batch->of[i].lease_ms};
	struct lk__request *request = batch->of[0].entry->target.recipe->renew(renewals,
									       batch->count);
	if (!request)
		return NULL;
	request->owner = batch;
	request->finish = batch_finish;
	request->resend = true; /* it never shortens a lease, and never makes a key */
	request->deadline_ns = lk__after_ms(lk__now_ns(), batch->node->config->command_timeout_ms);
	request->needed_ns = batch->needed_ns;
	return request;
}

/* Renews what is on one node, or on several nodes. */
static void batch_send(struct batch *batch)
{
	const struct lk__quorum *quorum = lk__entry_quorum(batch->of[0].entry);
	struct lk__request *request = quorum ? NULL : batch_request(batch);
	if (request) {
		struct lk__conn *conn = lk__node_work(batch->node);
		struct lk__looks *looks = batch_looks(batch);
		/* In one write with the look: what is written over in between is told by nobody. */
		lk__conn_put(conn, request); /* and its batch may be gone */
		lk__looks_send(looks);
		lk__conn_send_queued(conn);
		lk__conn_forgo(conn);
		return;
	}
	bool begun = quorum && quorum->holds->renew(&batch->of[0]);
	for (size_t i = 0; !begun && i < batch->count; i++)
		renewal_done(&batch->of[i], -1, 0, &no_memory);
	free(batch);
}

/* Before its holder is warned; or, once that is done, before it is lost. */
static int64_t renewal_needed_ns(const struct lk__hold *hold, int64_t now_ns)
{
	int64_t deadline_ns = lk__hold_deadline(hold);
	int64_t warning_ns = deadline_ns - hold_margin_ns(hold);
	return now_ns < warning_ns ? warning_ns : deadline_ns;
}

/* Puts the entry, which is locked, into the batch, which has room. */
static void batch_add(struct batch **batch, struct lk__entry *entry)
{
	if (!*batch)
		*batch = batch_new(lk__entry_node(entry));
	if (!*batch)
		return;
	struct lk__sent_renewal *renewal = &(*batch)->of[(*batch)->count++];
	const struct lk__hold *hold = entry->hold;
	int64_t now_ns = lk__now_ns();
	int64_t wanted_ms = (hold->wanted_until_ns - now_ns) / LK__MS + 1;
	renewal->entry = entry;
	renewal->number = entry->grant.number;
	renewal->node = (*batch)->node;
	renewal->epoch = atomic_load(&renewal->node->epoch);
	renewal->lease_ms = hold_is_renewed(hold, now_ns) ? lk__entry_lease_ms(entry, hold)
							  : JUST_LOOK_MS;
	renewal->wanted_until_ns = hold->wanted_until_ns;
	if (hold->wanted_until_ns > hold->own_until_ns)
		renewal->lease_ms = wanted_ms;
	lk__field(entry, renewal->number, renewal->field);
	(*batch)->needed_ns = lk__earlier((*batch)->needed_ns, renewal_needed_ns(hold, now_ns));
	lk__probe4(renew__start, entry->name, entry->client->id, entry->grant.number,
		   lk__hold_deadline(hold) - now_ns);
	entry->renewing = true;
	entry->verifying = atomic_exchange(&entry->doubt, false);
	lk__entry_ref(entry);
}

/* ---- the watchdog: its turn ---- */

static void watch_linger(struct lk__entry *entry, int64_t now_ns)
{
	if (entry->lingers && now_ns < entry->term.hold_off_until_ns) {
		lk__watch_at(entry, entry->term.hold_off_until_ns);
	} else if (entry->lingers) {
		entry->lingers = false;
		atomic_fetch_sub(&entry->refs, 1); /* never the last: the turn has one */
	}
}

/* A release that nobody waits for keeps the next waiter back no longer than its lease. */
static void watch_sent_off(struct lk__entry *entry, int64_t now_ns)
{
	if (!entry->sent_off)
		return;
	assert(entry->passing && !entry->hold);
	if (now_ns < entry->grant.valid_until_ns) {
		lk__watch_at(entry, entry->grant.valid_until_ns);
		return;
	}
	entry->passing = entry->sent_off = false;
	lk__entry_promote(entry);
}

/* Both are for one node, and hold no more than one script may have. */
struct due {
	struct batch *batch; /* of renewals */
	struct lk__looks *looks;
};

static void due_look(struct due *due, struct lk__entry *entry)
{
	if (lk__looks_add(&due->looks, entry))
		return;
	lk__looks_send(due->looks);
	due->looks = NULL;
	lk__looks_add(&due->looks, entry);
}

static void watch_entry(struct lk__entry *entry, struct due *due)
{
	int64_t now_ns = lk__now_ns();
	struct lk__hold *hold = entry->hold;
	watch_linger(entry, now_ns);
	watch_sent_off(entry, now_ns);
	if (!hold || entry->passing)
		return;
	int64_t deadline_ns = lk__hold_deadline(hold);
	if (now_ns >= deadline_ns) {
		watch_lose(entry, now_ns);
		return;
	}
	if (!hold->warned && now_ns >= deadline_ns - hold_margin_ns(hold)) {
		hold->warned = true;
		lk__entry_count(entry, at_risk, 1);
		trouble_explain(entry, now_ns, false);
		lk__notices_give(entry->client, hold, LK__NOTICE_AT_RISK);
	}
	bool renews = now_ns >= question_due_ns(hold, now_ns);
	bool looks = now_ns >= lk__tracked_due_ns(entry);
	bool had_gap = looks && entry->tracked && !entry->is_quorum; /* since its last look */
	bool doubt = lk__entry_in_doubt(entry) || had_gap;
	if (!entry->renewing && (renews || doubt)) {
		batch_add(&due->batch, entry);
		lk__ear_look(entry);
	} else if (looks) {
		due_look(due, entry);
	}
	lk__watch_hold(entry, now_ns);
}

/* The next entry that is due, with a reference; NULL when there is none. */
static struct lk__entry *watch_pop(lk_client *client, int64_t now_ns)
{
	struct lk__watch *watch = &client->watch;
	struct lk__entry *entry = NULL;
	pthread_mutex_lock(&watch->mutex);
	struct lk__heap_node *first;
	while (!entry && (first = lk__heap_first(&watch->heap, now_ns))) {
		lk__heap_remove(&watch->heap, first);
		entry = (struct lk__entry *)((char *)first - offsetof(struct lk__entry, watch));
		if (!lk__entry_ref_if_alive(entry))
			entry = NULL;
	}
	pthread_mutex_unlock(&watch->mutex);
	return entry;
}

/* Frees lost permits that are too many. */
static void watch_forget_lost(lk_client *client)
{
	const struct lk__hold *due;
	struct lk__hold *hold, *next;
	struct lk__entry *entry;
	while ((entry = lost_due(client, &due))) {
		pthread_mutex_lock(&entry->mutex);
		LL_FOREACH_SAFE(entry->lost, hold, next)
		{
			if (hold != due) /* its owner may have given it up meanwhile */
				continue;
			LL_DELETE(entry->lost, hold);
			lk__hold_free(hold);
			atomic_fetch_sub(&entry->refs, 1); /* never the last: ours */
		}
		pthread_mutex_unlock(&entry->mutex);
		lk__entry_unref(entry);
	}
}

static bool batch_takes(const struct batch *batch, const struct lk__entry *entry)
{
	const struct lk__target *first = &batch->of[0].entry->target;
	return batch->count < BATCH_MAX && first->slot == entry->target.slot &&
	       first->recipe == entry->target.recipe && !entry->is_quorum &&
	       !atomic_load(&batch->node->spreads);
}

/* Makes every grant of the client come up at once: a connection was lost or made. */
static void watch_all(lk_client *client)
{
	struct lk__entry *entry = NULL;
	pthread_mutex_lock(&client->mutex);
	while ((entry = lk__entries_next(&client->entries, entry))) {
		lk__watch_at(entry, lk__now_ns());
		lk__doubt_fronts(entry);
	}
	pthread_mutex_unlock(&client->mutex);
}

int64_t lk__watch_turn(lk_client *client, bool verify)
{
	struct due due = {NULL, NULL};
	struct lk__entry *entry;
	if (verify)
		watch_all(client);
	int64_t now_ns = lk__now_ns();
	for (int left = DUE_MAX; left > 0 && (entry = watch_pop(client, now_ns)); left--) {
		if (due.batch && !batch_takes(due.batch, entry)) {
			batch_send(due.batch);
			due.batch = NULL;
		}
		if (lk__entry_quorum(entry))
			lk__entry_quorum(entry)->holds->turn(entry);
		pthread_mutex_lock(&entry->mutex);
		watch_entry(entry, &due);
		pthread_mutex_unlock(&entry->mutex);
		lk__entry_unref(entry);
	}
	if (due.batch)
		batch_send(due.batch);
	lk__looks_send(due.looks);
	watch_forget_lost(client);
	pthread_mutex_lock(&client->watch.mutex);
	int64_t next_ns = lk__heap_first_key(&client->watch.heap);
	client->watch.armed_ns = next_ns;
	pthread_mutex_unlock(&client->watch.mutex);
	return next_ns;
}
