/* SPDX-License-Identifier: MIT */
#include "lock/acquire.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/probe.h"
#include "conf/config.h"
#include "lock/notice.h"

#define LAST_ANSWER_PART 10 /* of the wait limit, beyond it, for the answer to a try: */
#define LAST_ANSWER_MIN_NS (20 * LK__MS)
#define LAST_ANSWER_MAX_NS (250 * LK__MS)
#define LOOK_NS (5 * LK__MS) /* between looks at a lock that is being passed to us */

/* ---- a caller in the wait queue ---- */

static int caller_fail(const struct lk__entry *entry, int code, lk_error *error)
{
	return lk__fail(error, code, "acquire \"%.100s\": %s", entry->name, lk_error_text(code));
}

/* With what the head was told, if that is why and it is still there. */
static int caller_fail_as(struct lk__entry *entry, int code, lk_error *error)
{
	const struct lk__caller *head = lk__entry_head(entry);
	if (!head || !head->why || head->why->code != entry->waiting->attempt.code)
		return lk__fail(error, code, "acquire \"%.100s\" on %.100s: %s", entry->name,
				entry->client->config->url, lk_error_text(code));
	if (error)
		*error = *head->why;
	if (error)
		error->code = code;
	return code;
}

/* From now on it waits for the answer to the head's try alone, and not for long; a mere try within
 * its limits. */
static void caller_asks(struct lk__entry *entry, struct lk__caller *waiter)
{
	if (waiter->asks_until_ns)
		return;
	waiter->asks_until_ns = waiter->once ? waiter->until_ns
					     : lk__now_ns() + waiter->last_answer_ns;
	entry->waiting->askers++;
}

/* The head has to try again for it, at once or after its present try. */
static void entry_ask_anew(struct lk__entry *entry)
{
	struct lk__caller *head = lk__entry_head(entry);
	entry->waiting->asks_anew = true;
	if (lk__entry_channel(entry))
		lk__channel_wake(lk__entry_messages(entry), lk__entry_channel(entry));
	if (head)
		lk__thread_wake(head->thread);
}

/*
 * A caller behind others does not wait, or not any longer: it leaves with the reason. While that is
 * not known the answer to the head's try is waited for: 0.
 */
static int caller_kept_out(struct lk__entry *entry, struct lk__caller *waiter, lk_error *error)
{
	bool stale = lk__entry_is_stale(entry, waiter);
	int code = stale ? 0 : lk__entry_kept_out(entry);
	if (waiter->undone && lk__entry_compensates(entry))
		return caller_fail(entry, LK_EMAYBEHELD, error);
	if (code == LK_EBUSY)
		return caller_fail(entry, waiter->once ? LK_EBUSY : LK_ETIMEDOUT, error);
	if (code)
		return caller_fail_as(entry, code, error);
	if (waiter->asks_until_ns && lk__now_ns() >= waiter->asks_until_ns)
		return lk__fail(error, LK_EUNREACHABLE,
				"acquire \"%.100s\" on %.100s: no answer within the wait limit",
				entry->name, entry->client->config->url);
	caller_asks(entry, waiter);
	if (stale)
		entry_ask_anew(entry);
	return 0;
}

/* Tells whether a hold of the waiter's owner, other than its own, was lost and not released yet. */
static bool caller_lost(const struct lk__entry *entry, const struct lk__caller *waiter)
{
	const struct lk__owner owner = lk__hold_owner(waiter->hold);
	const struct lk__hold *hold;
	LL_FOREACH(entry->lost, hold)
	if (hold != waiter->hold && lk__owner_is(hold, &owner))
		return true;
	return false;
}

/* An owner's name waits in several threads, and one of them has the lock: the others re-enter. 1, 0
 * where they cannot yet, or why they will not. */
static int caller_joins(struct lk__entry *entry, struct lk__caller *waiter, lk_error *error)
{
	struct lk__want want = {.owner = lk__hold_owner(waiter->hold),
				.lease_ms = waiter->hold->lease_ms};
	const struct lk__hold *hold = entry->hold;
	if (waiter->state != LK__WAITER_WAITS || !hold || !lk__owner_is(hold, &want.owner))
		return 0;
	int rc = lk__hold_reenter(entry, &want, error);
	if (rc == 1) {
		lk__entry_leave_queue(entry, waiter);
		lk__hold_free(waiter->hold);
		waiter->hold = NULL;
	}
	return rc;
}

/* 0, or why a waiter that is not the head leaves the queue. */
static int caller_over(struct lk__entry *entry, struct lk__caller *waiter, lk_error *error)
{
	int code = lk__entry_ends(entry, &waiter->settings);
	if (waiter->state == LK__WAITER_TAKES)
		return 0;
	if (!code && caller_lost(entry, waiter))
		code = LK_ELOST;
	else if (!code && lk__caller_cancelled(waiter))
		code = LK_ECANCELLED;
	else if (!code && (waiter->once || lk__now_ns() >= waiter->until_ns))
		return caller_kept_out(entry, waiter, error);
	return code ? caller_fail(entry, code, error) : 0;
}

/* Tells whether its owner can be told that it has the lock. */
static bool caller_keeps(const struct lk__entry *entry, const struct lk__caller *waiter)
{
	const struct lk__hold *hold = waiter->hold;
	assert(hold);
	if (!hold->entry) /* its kind leaves nothing behind */
		return true;
	return !lk__entry_ends(entry, &waiter->settings) && !hold->lost &&
	       !caller_lost(entry, waiter) && lk__now_ns() < lk__hold_deadline(hold);
}

/* Looks at a caller that is not the head: 1, it has the lock; 0, it waits on, until `until_ns`
 * unless it is woken before; or why it leaves. */
static int caller_look(struct lk__entry *entry, struct lk__caller *waiter, int64_t *until_ns,
		       lk_error *error)
{
	if (waiter->state == LK__WAITER_GRANTED) {
		if (!waiter->hold) /* first it acquired, then its owner released */
			return waiter->given_up ? caller_fail(entry, LK_ELOST, error) : 1;
		if (caller_keeps(entry, waiter))
			return 1;
		lk__entry_undo_grant(entry, waiter);
	}
	*until_ns = waiter->until_ns;
	if (lk__entry_head(entry) == waiter)
		return 0;
	int rc = caller_joins(entry, waiter, error);
	if (rc == 0)
		rc = caller_over(entry, waiter, error);
	if (waiter->asks_until_ns)
		*until_ns = waiter->asks_until_ns;
	/* What is being passed to it comes within the command limit, also after its own. */
	if (waiter->state == LK__WAITER_TAKES)
		*until_ns = lk__now_ns() + LOOK_NS;
	return rc;
}

/* The owner's grant of the other side of the lock. The number serves one downgrade: if two grants
 * had the same, a late release of the first could end the second. */
struct other_side {
	uint64_t number; /* of the grant; 0: none */
	bool downgraded; /* before */
	int code;        /* LK_ENOMEM: not known */
};

static struct other_side caller_other_side(const struct lk__entry *entry,
					   const struct lk__owner *owner)
{
	struct other_side side = {0};
	const struct lk__recipe *recipe = entry->target.recipe->other_side;
	struct lk__entry *other = NULL;
	if (recipe)
		side.code = lk__entry_look(&other, entry->client, recipe, entry->name,
					   lk__entry_name_size(entry), owner);
	if (!other)
		return side;
	pthread_mutex_lock(&other->mutex);
	if (other->hold && lk__now_ns() < lk__hold_deadline(other->hold)) {
		side.number = other->grant.number;
		side.downgraded = other->downgraded;
		other->downgraded = true;
	}
	pthread_mutex_unlock(&other->mutex);
	lk__entry_unref(other);
	return side;
}

static int64_t last_answer_ns(int64_t limit_ns)
{
	int64_t part_ns = limit_ns / LAST_ANSWER_PART;
	return lk__earlier(lk__later(part_ns, LAST_ANSWER_MIN_NS), LAST_ANSWER_MAX_NS);
}

static int caller_prepare(struct lk__entry *entry, struct lk__thread *thread,
			  const struct lk__want *want, const struct other_side *side,
			  struct lk__caller *waiter, lk_error *error)
{
	const struct lk_config *config = entry->client->config;
	int64_t now_ns = lk__now_ns();
	if (side->code)
		return caller_fail(entry, side->code, error);
	if (side->number && !(entry->target.recipe->flags & LK__DOWNGRADES))
		return caller_fail(entry, LK_EUPGRADE, error);
	*waiter = (struct lk__caller){.thread = thread,
				      .once = want->wait_ms == 0,
				      .cancel = want->cancel,
				      .stop = want->stop,
				      .begun_ns = now_ns,
				      .count = want->count,
				      .other_number = side->number,
				      .downgrade_number = side->downgraded ? 0 : side->number,
				      .number = want->number,
				      .settings = want->settings,
				      .since_ns = now_ns,
				      .until_ns = LK__NEVER};
	int64_t once_ms = config->connect_timeout_ms + config->command_timeout_ms;
	if (waiter->once)
		waiter->until_ns = lk__after_ms(now_ns, want->once_ms ? want->once_ms : once_ms);
	else if (want->wait_ms > 0)
		waiter->until_ns = lk__after_ms(now_ns, want->wait_ms);
	waiter->last_answer_ns = last_answer_ns(waiter->until_ns - now_ns);
	if (atomic_load(&entry->client->counters.waiting) >= (uint64_t)config->max_waiters)
		return lk__fail(error, LK_ELIMIT,
				"acquire \"%.100s\": %lld callers wait (max_waiters)", entry->name,
				(long long)config->max_waiters);
	int rc = lk__cancel_enter(want->cancel, thread, error);
	if (rc < 0)
		return rc;
	waiter->hold = lk__hold_wanted(thread, entry->target.recipe, want);
	if (!waiter->hold || !lk__entry_begin_waiting(entry)) {
		lk__hold_free(waiter->hold);
		lk__cancel_leave(want->cancel);
		return caller_fail(entry, LK_ENOMEM, error);
	}
	if (!waiter->hold->owner_serial)
		waiter->hold->taker = waiter;
	return 0;
}

static int caller_queue(struct lk__entry *entry, struct lk__caller *waiter, lk_error *error)
{
	if (entry->hold && lk__now_ns() >= lk__hold_deadline(entry->hold))
		lk__entry_lose(entry, lk__now_ns());
	bool contended = entry->hold || lk__entry_first(entry);
	int rc = waiter->once && contended ? caller_kept_out(entry, waiter, error) : 0;
	if (rc < 0)
		return rc;
	if (contended)
		lk__entry_note_wait(entry, waiter);
	lk__entry_join_queue(entry, waiter);
	return 0;
}

static void caller_count(struct lk__entry *entry, const struct lk__caller *waiter, int rc)
{
	if (rc != 1)
		lk__probe3(acquire__failed, entry->name, entry->client->id, rc);
	if (rc == 1) {
		int64_t waited_ns = lk__now_ns() - waiter->begun_ns;
		lk__entry_count(entry, acquires, 1);
		lk__entry_count(entry, contended, waiter->contended);
		lk__entry_count_us(entry, wait, waited_ns);
		lk__probe4(acquire__granted, entry->name, entry->client->id, entry->grant.number,
			   waited_ns);
	} else if (rc == LK_ETIMEDOUT) {
		lk__entry_count(entry, timeouts, 1);
	} else if (rc == LK_EBUSY) {
		lk__entry_count(entry, refusals, 1);
	} else if (rc == LK_ECANCELLED) {
		lk__entry_count(entry, cancels, 1);
	} else {
		lk__entry_count(entry, failures, 1);
	}
}

/* Gives up what a caller had that is not in the queue any more, and counts how it ended. */
static void caller_finish(struct lk__entry *entry, const struct lk__want *want,
			  const struct lk__caller *waiter, int rc)
{
	bool given_up = waiter->state == LK__WAITER_GRANTED && !waiter->hold;
	lk__cancel_leave(want->cancel);
	if (rc == 1 && want->grant_out)
		*want->grant_out = given_up ? waiter->was : entry->grant;
	if (rc < 0 && waiter->state == LK__WAITER_GRANTED &&
	    entry->target.recipe->flags & LK__BECOMES_HOLDS)
		atomic_fetch_sub(&entry->client->unclaimed_grants, 1);
	if (waiter->hold && !waiter->hold->owner_serial)
		waiter->hold->taker = NULL;
	if (rc == 1 && waiter->hold && entry->target.recipe->flags & LK__ELECTS)
		lk__notices_elected(entry);
	if (rc < 0 || entry->target.recipe->sharing == LK__NO_HOLD)
		lk__hold_free(waiter->hold);
	if (rc < 0 || waiter->state == LK__WAITER_GRANTED) /* else it was counted as a re-entry */
		caller_count(entry, waiter, rc);
	lk__entry_end_waiting(entry);
}

/* 1, the owner re-entered; 0, `waiter` is in the wait queue; or a code. Returns with the entry's
 * mutex held. */
static int caller_begin(struct lk__entry *entry, struct lk__thread *thread,
			const struct lk__want *want, struct lk__caller *waiter, lk_error *error)
{
	struct other_side side = caller_other_side(entry, &want->owner);
	lk__probe2(acquire__start, entry->name, entry->client->id);
	pthread_mutex_lock(&entry->mutex);
	int rc = lk__hold_reenter(entry, want, error);
	if (rc == 0)
		rc = lk__entry_refuses(entry, &want->settings, error);
	if (rc)
		return rc;
	rc = caller_prepare(entry, thread, want, &side, waiter, error);
	if (rc < 0) {
		caller_count(entry, waiter, rc);
		return rc;
	}
	rc = caller_queue(entry, waiter, error);
	if (rc < 0)
		caller_finish(entry, want, waiter, rc);
	return rc;
}

/* After a begin of 0, with 1 or a code. */
static void caller_end(struct lk__entry *entry, const struct lk__want *want,
		       struct lk__caller *waiter, int rc)
{
	if (rc < 0 && waiter->state != LK__WAITER_GRANTED) {
		lk__entry_leave_queue(entry, waiter);
		lk__entry_promote(entry);
	}
	caller_finish(entry, want, waiter, rc);
}

/* ---- from its begin to its end ---- */

/* 1: it has the lock; LK__OP_WAITS; or a code. */
static int acquire_stand(struct lk__acquire *acquire)
{
	struct lk__entry *entry = acquire->entry;
	struct lk__caller *caller = &acquire->caller;
	assert(!acquire->head.op || lk__entry_head(entry) == caller);
	for (;;) {
		int64_t until_ns = LK__NEVER;
		int rc = 0;
		if (lk__entry_head(entry) == caller)
			rc = lk__head_lead(&acquire->head, &acquire->op, entry, caller,
					   acquire->error);
		if (rc == LK__OP_WAITS)
			return rc;
		if (rc >= 0)
			rc = caller_look(entry, caller, &until_ns, acquire->error);
		if (rc)
			return rc;
		if (lk__entry_head(entry) == caller)
			continue;
		lk__op_wait(&acquire->op, until_ns);
		return LK__OP_WAITS;
	}
}

static int acquire_step(struct lk__op *op)
{
	struct lk__acquire *acquire = (struct lk__acquire *)op;
	struct lk__entry *entry = acquire->entry;
	int rc = 0;
	if (acquire->begun)
		pthread_mutex_lock(&entry->mutex);
	else
		rc = caller_begin(entry, op->thread, acquire->want, &acquire->caller,
				  acquire->error);
	acquire->begun = true;
	if (rc == 0) {
		rc = acquire_stand(acquire);
		if (rc != LK__OP_WAITS)
			caller_end(entry, acquire->want, &acquire->caller, rc);
	}
	pthread_mutex_unlock(&entry->mutex);
	return rc == 1 ? 0 : rc;
}

void lk__acquire_init(struct lk__acquire *acquire, struct lk__entry *entry,
		      struct lk__thread *thread, const struct lk__want *want, lk_error *error)
{
	lk__op_begin(&acquire->op, acquire_step, thread, want->cancel);
	acquire->entry = entry;
	acquire->want = want;
	acquire->begun = false;
	acquire->head.op = NULL;
	acquire->error = error;
}

int lk__acquire_run(struct lk__entry *entry, struct lk__thread *thread, const struct lk__want *want,
		    lk_error *error)
{
	lk_error own = {.code = 0};
	struct lk__acquire acquire;
	lk__acquire_init(&acquire, entry, thread, want, error ? error : &own);
	return lk__op_run(&acquire.op);
}
