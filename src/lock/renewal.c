/* SPDX-License-Identifier: MIT */
#include "lock/renewal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/probe.h"
#include "conf/config.h"
#include "conn/conn.h"
#include "lock/entry.h"
#include "lock/ear.h"
#include "lock/hold.h"
#include "lock/notice.h"
#include "lock/tracked.h"
#include "sync/script.h"

#define JUST_LOOK_MS 1              /* a lease that renews nothing: only the owner is verified */
#define DUE_MAX (5 * LK__BATCH_MAX) /* entries in one turn; the rest comes with the next */
#define RENEW_AGAIN_PARTS 30        /* of a lease, between attempts that got no answer */

/* ---- renewals ---- */

/* Empty; NULL when out of memory. */
static struct lk__batch *batch_new(lk_client *client, uint16_t slot, struct lk__node *node)
{
	struct lk__batch *batch = malloc(sizeof(*batch));
	if (!batch)
		return NULL;
	batch->client = client;
	batch->slot = slot;
	batch->node = node;
	batch->count = 0;
	batch->needed_ns = LK__NEVER;
	return batch;
}

/* A margin that shrinks shows that a server or a network slows down, before a lock is lost. */
static void renewed_count(struct lk__entry *entry, int64_t sent_ns, int64_t until_ns)
{
	int64_t now_ns = lk__now_ns();
	lk__entry_count(entry, renewals, 1);
	lk__entry_count_us(entry, renewal, now_ns - sent_ns);
	lk__entry_count_us(entry, margin, until_ns - now_ns);
	lk__probe5(renew__done, entry->name, entry->client->id, entry->grant.number,
		   until_ns - now_ns, now_ns - sent_ns);
}

static void renewed_confirm(struct lk__entry *entry, const struct lk__renewed *renewed,
			    int64_t sent_ns)
{
	struct lk__hold *hold = entry->hold;
	assert(!hold->lost && hold->entry == entry);
	int64_t end_ns = lk__lease_end_ns(sent_ns, renewed->lease_ms);
	int64_t until_ns = lk__hold_deadline(hold);
	if (end_ns > entry->grant.valid_until_ns)
		entry->grant.valid_until_ns = end_ns;
	if (renewed->lease_ms > entry->grant.lease_ms)
		entry->grant.lease_ms = renewed->lease_ms;
	if (hold->watched)
		hold->own_until_ns = LK__NEVER;
	else if (renewed->wanted_until_ns > hold->own_until_ns && end_ns > hold->own_until_ns)
		hold->own_until_ns = end_ns;
	if (hold->wanted_until_ns == renewed->wanted_until_ns)
		hold->wanted_until_ns = 0; /* else more was asked for meanwhile */
	entry->grant.node = renewed->node;
	entry->grant.epoch = renewed->epoch;
	entry->grant.seen_ns = sent_ns;
	if (renewed->lease_ms > JUST_LOOK_MS) {
		hold->warned = false;
		lk__trouble_over(hold);
		renewed_count(entry, sent_ns, until_ns);
	}
}

static void watch_lost(struct lk__entry *entry, int64_t now_ns)
{
	struct lk__hold *hold = entry->hold;
	lk__entry_lose(entry, now_ns);
	if (hold->abandoned) {
		/* Its thread is gone: nobody will release it. The notice stays until it is read. */
		hold->count = 0;
	}
	lk__entry_promote(entry);
}

void lk__watch_told(const struct lk__renewed *renewed, int answer, int64_t sent_ns,
		    const struct lk__trouble *trouble)
{
	struct lk__entry *entry = renewed->entry;
	int64_t now_ns = lk__now_ns();
	bool current = entry->hold && entry->grant.number == renewed->number;
	if (answer < 0 && entry->verifying)
		atomic_store(&entry->doubt, true);
	entry->renewing = entry->verifying = false;
	if (answer == 1)
		lk__entry_release_unheld(entry, renewed->number);
	if (!current) {
		if (entry->hold)
			lk__watch_hold(entry, now_ns);
	} else if (answer == 0 && !entry->passing) { /* else its release was there first */
		lk__entry_lose(entry, now_ns);
		lk__entry_promote(entry);
	} else if (answer == 1 && !entry->passing && now_ns >= lk__hold_deadline(entry->hold)) {
		/* It has ended, and stays lost whatever a server says behind that. */
		lk__compensation_reserve(entry); /* without it, close tells of it */
		lk__entry_note_unanswered(entry, renewed->lease_ms);
		watch_lost(entry, now_ns);
	} else if (answer == 1) {
		renewed_confirm(entry, renewed, sent_ns);
		lk__entry_free_spares(entry);
		lk__watch_hold(entry, now_ns);
	} else {
		int64_t lease_ns = entry->grant.lease_ms * LK__MS;
		if (sent_ns && renewed->lease_ms > JUST_LOOK_MS) {
			lk__compensation_reserve(entry); /* without it, close tells of it */
			lk__entry_note_unanswered(entry, renewed->lease_ms);
		}
		lk__trouble_note(entry->hold, trouble);
		lk__watch_at(entry, now_ns + lease_ns / RENEW_AGAIN_PARTS);
	}
}

void lk__watch_renewed(const struct lk__renewed *renewed, int answer, int64_t sent_ns,
		       const struct lk__trouble *trouble)
{
	pthread_mutex_lock(&renewed->entry->mutex);
	lk__watch_told(renewed, answer, sent_ns, trouble);
	pthread_mutex_unlock(&renewed->entry->mutex);
	lk__entry_unref(renewed->entry);
}

static const struct lk__trouble no_memory = {.code = LK_ENOMEM,
					     .reason = "no memory to ask for it"};

static void batch_send(struct lk__batch *batch);

/* Each of them alone: some keys of a slot that moves are on the new node, and some are not. */
static void batch_split(const struct lk__batch *batch)
{
	for (size_t i = 0; i < batch->count; i++) {
		struct lk__batch *one = batch_new(batch->client, batch->slot, batch->node);
		if (!one) {
			lk__watch_renewed(&batch->of[i], -1, 0, &no_memory);
			continue;
		}
		one->of[one->count++] = batch->of[i];
		batch_send(one);
	}
}

static void batch_finish(struct lk__request *request)
{
	struct lk__batch *batch = request->owner;
	bool splits = batch->count > 1 && request->code && request->parted;
	if (splits)
		batch_split(batch);
	for (size_t i = 0; !splits && i < batch->count; i++) {
		struct lk__trouble trouble;
		int answer = lk__reply_renewed(request, batch->count, i);
		if (answer < 0)
			lk__trouble_read(&trouble, request);
		lk__watch_renewed(&batch->of[i], answer, request->sent_ns, &trouble);
	}
	lk__request_free(request);
	free(batch);
}

/* A look at all of them, whose tracking a renewal ends; NULL: nothing is tracked. */
static struct lk__looks *batch_looks(const struct lk__batch *batch)
{
	struct lk__looks *looks = NULL;
	for (size_t i = 0; i < batch->count; i++) {
		struct lk__entry *entry = batch->of[i].entry;
		if (!batch->of[i].looks)
			continue;
		pthread_mutex_lock(&entry->mutex);
		if (entry->hold)
			lk__looks_add(&looks, entry);
		pthread_mutex_unlock(&entry->mutex);
	}
	return looks;
}

/* Renews what is on one node by one script for all. */
static void batch_send(struct lk__batch *batch)
{
	const struct lk__quorum *quorum = lk__entry_quorum(batch->of[0].entry);
	if (quorum) {
		quorum->holds->renew(batch);
		return;
	}
	struct lk__renewal renewals[LK__BATCH_MAX];
	for (size_t i = 0; i < batch->count; i++)
		renewals[i] = (struct lk__renewal){&batch->of[i].entry->target, batch->of[i].field,
						   batch->of[i].lease_ms};
	struct lk__request *request = batch->of[0].entry->target.recipe->renew(renewals,
									       batch->count);
	if (!request) {
		for (size_t i = 0; i < batch->count; i++)
			lk__watch_renewed(&batch->of[i], -1, 0, &no_memory);
		free(batch);
		return;
	}
	request->owner = batch;
	request->finish = batch_finish;
	request->resend = true; /* it never shortens a lease, and never makes a key */
	request->deadline_ns = lk__after_ms(lk__now_ns(),
					    batch->client->config->command_timeout_ms);
	request->needed_ns = batch->needed_ns;
	struct lk__looks *looks = batch_looks(batch);
	lk__conn_submit(lk__node_work(batch->node), request); /* and its batch may be gone */
	lk__looks_send(looks);
}

/* Before its holder is warned; or, once that is done, before it is lost. */
static int64_t renewal_needed_ns(const struct lk__hold *hold, int64_t now_ns)
{
	int64_t deadline_ns = lk__hold_deadline(hold);
	int64_t warning_ns = deadline_ns - lk__hold_margin_ns(hold);
	return now_ns < warning_ns ? warning_ns : deadline_ns;
}

/* Puts the entry, which is locked, into the batch, which has room. */
static void batch_add(struct lk__batch **batch, struct lk__entry *entry)
{
	if (!*batch)
		*batch = batch_new(entry->client, entry->target.slot, lk__entry_node(entry));
	if (!*batch)
		return;
	struct lk__renewed *renewed = &(*batch)->of[(*batch)->count++];
	const struct lk__hold *hold = entry->hold;
	int64_t now_ns = lk__now_ns();
	int64_t wanted_ms = (hold->wanted_until_ns - now_ns) / LK__MS + 1;
	renewed->entry = entry;
	renewed->number = entry->grant.number;
	renewed->looks = lk__tracked_has_room(entry);
	renewed->node = (*batch)->node;
	renewed->epoch = atomic_load(&renewed->node->epoch);
	renewed->lease_ms = lk__hold_is_renewed(hold, now_ns) ? lk__entry_lease_ms(entry, hold)
							      : JUST_LOOK_MS;
	renewed->wanted_until_ns = hold->wanted_until_ns;
	if (hold->wanted_until_ns > hold->own_until_ns)
		renewed->lease_ms = wanted_ms;
	lk__field(entry, renewed->number, renewed->field);
	(*batch)->needed_ns = lk__earlier((*batch)->needed_ns, renewal_needed_ns(hold, now_ns));
	lk__probe4(renew__start, entry->name, entry->client->id, entry->grant.number,
		   lk__hold_deadline(hold) - now_ns);
	entry->renewing = true;
	entry->verifying = atomic_exchange(&entry->doubt, false);
	lk__entry_ref(entry);
}

/* ---- the turn ---- */

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
	struct lk__batch *batch; /* of renewals */
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
		watch_lost(entry, now_ns);
		return;
	}
	if (!hold->warned && now_ns >= deadline_ns - lk__hold_margin_ns(hold)) {
		hold->warned = true;
		lk__entry_count(entry, at_risk, 1);
		lk__trouble_explain(entry, now_ns, false);
		lk__notices_give(entry->client, hold, LK__NOTICE_AT_RISK);
	}
	bool renews = now_ns >= lk__question_due_ns(hold, now_ns);
	bool doubt = lk__entry_in_doubt(entry) || lk__tracked_has_gap(entry);
	if (!entry->renewing && (renews || doubt)) {
		batch_add(&due->batch, entry);
		lk__ear_look(entry);
	} else if (now_ns >= lk__tracked_due_ns(entry)) {
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

/* The next lost permit that is to be forgotten, and its entry with a reference; NULL when there is
 * none. */
static struct lk__entry *lost_due(lk_client *client, const struct lk__hold **hold_out)
{
	pthread_mutex_lock(&client->mutex);
	const struct lk__hold *hold = client->lost;
	bool due = hold && (lk__hold_extra(hold)->no_loss || client->lost_count > LK__LOST_MAX);
	struct lk__entry *entry = due ? hold->entry : NULL;
	if (entry)
		lk__entry_ref(entry); /* the hold has one, until it is out of the list */
	pthread_mutex_unlock(&client->mutex);
	*hold_out = hold;
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

static bool batch_takes(const struct lk__batch *batch, const struct lk__entry *entry)
{
	return batch->count < LK__BATCH_MAX && batch->slot == entry->target.slot &&
	       batch->of[0].entry->target.recipe == entry->target.recipe && !entry->is_quorum &&
	       !atomic_load(&batch->node->spreads);
}

int64_t lk__watch_turn(lk_client *client)
{
	struct due due = {NULL, NULL};
	struct lk__entry *entry;
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

void lk__watch_all(lk_client *client)
{
	struct lk__entry *entry = NULL;
	pthread_mutex_lock(&client->mutex);
	while ((entry = lk__entries_next(&client->entries, entry))) {
		lk__watch_at(entry, lk__now_ns());
		lk__doubt_fronts(entry);
	}
	pthread_mutex_unlock(&client->mutex);
}
