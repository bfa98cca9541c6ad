/* SPDX-License-Identifier: MIT */
#include "drive/background/effects.h"

#include <stdlib.h>
#include <utlist.h>

#include "drive/background/compensation.h"
#include "drive/background/due.h"
#include "drive/background/trouble.h"
#include "drive/notices/lost.h"
#include "drive/notices/notices.h"
#include "sync/trace.h"

/* ---- what follows from a change ---- */

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

/* Another call of the same owner gives it up, before the caller who waited for it knows of it. */
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
		lk__lost_forget(hold);
	}
	free(hold->told);
	free(hold);
}

void lk__entry_release_unasked(struct lk__entry *entry, uint64_t number)
{
	lk__entry_policy(entry)->release_unasked(entry, number, 0);
}

void lk__entry_release_unheld(struct lk__entry *entry, uint64_t number)
{
	bool held = entry->hold && entry->grant.number == number; /* by whomever it was passed to */
	bool given_up = entry->passing || atomic_load(&entry->releasing) > 0;
	if (!held && !given_up)
		lk__entry_release_unasked(entry, number);
}

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

static void hold_tell_loss(struct lk__hold *hold)
{
	const struct lk__entry *entry = hold->entry;
	lk_client *client = entry->client;
	lk__lost_note(hold);
	if (!lk__hold_extra(hold)->no_loss) {
		lk__count(&client->counters.lost, 1);
		lk__notices_give(client, hold, LK__NOTICE_LOST);
		hold_log_loss(hold);
	}
}

/* ---- the changes ---- */

static void trace_hold(const struct lk__entry *entry, const char *what)
{
	if (entry->hold)
		lk__trace_hold(&entry->client->log, entry->name, entry->hold->number, what);
}

/*
 * In this order: the owner knows of a loss before its number is released. The release is queued
 * before the mutex is free, so before the next head can send a try. The watchdog has a hold before
 * its caller returns. What ended goes last. None of this needs memory: an entry has its place in
 * the watchdog's heap, and some ready for each compensation that may follow from what it has sent.
 */
static void carry_out(struct lk__entry *entry, struct lk__entry_effects effects)
{
	if (effects.lost)
		hold_tell_loss(effects.lost);
	if (effects.unasked)
		lk__entry_policy(entry)->release_unasked(entry, effects.unasked,
							 effects.promised_ns);
	if (effects.watch)
		lk__watch_hold(entry, effects.now_ns);
	if (effects.ended)
		lk__hold_free(effects.ended);
}

void lk__entry_lose(struct lk__entry *entry, int64_t now_ns)
{
	if (!lk__hold_extra(entry->hold)->no_loss)
		lk__trouble_explain(entry, now_ns, true);
	trace_hold(entry, "lost");
	carry_out(entry, lk__entry_note_loss(entry, now_ns));
}

void lk__entry_drop_hold(struct lk__entry *entry, int64_t now_ns)
{
	trace_hold(entry, "given up by its owner");
	carry_out(entry, lk__entry_note_drop(entry, now_ns));
}

void lk__entry_grant(struct lk__entry *entry, struct lk__caller *waiter, uint64_t number,
		     int64_t sent_ns, int64_t lease_ms)
{
	carry_out(entry, lk__entry_note_grant(entry, waiter, number, sent_ns, lease_ms));
}

void lk__entry_move_grant(struct lk__entry *entry, struct lk__hold *hold,
			  const struct lk__grant *grant)
{
	carry_out(entry, lk__entry_note_moved(entry, hold, grant));
	trace_hold(entry, "held");
}

void lk__entry_hand(struct lk__entry *entry, struct lk__caller *waiter, int64_t now_ns)
{
	carry_out(entry, lk__entry_note_hand(entry, waiter, now_ns));
	trace_hold(entry, "handed to the next caller in this client");
}
