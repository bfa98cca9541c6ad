/* SPDX-License-Identifier: MIT */
#include "lock/election.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/fail.h"
#include "lock/hold.h"

void lk__election_unref(lk_election *election)
{
	lk_client *client = election->client;
	if (atomic_fetch_sub(&election->refs, 1) > 1)
		return;
	pthread_mutex_lock(&election->entry->mutex);
	election->entry->target.stand = NULL;
	pthread_mutex_unlock(&election->entry->mutex);
	lk__notices_hush(client, &election->teller);
	lk__entry_unref(election->entry);
	lk__client_unref(client);
	pthread_mutex_destroy(&election->mutex);
	pthread_mutex_destroy(&election->stand.mutex);
	free(election);
}

void lk__election_drop(lk_election *election, bool release)
{
	const struct lk__owner owner = lk__election_owner(election);
	struct lk__entry *entry = election->entry;
	pthread_mutex_lock(&entry->mutex);
	if (lk__release_count(entry, &owner, NULL) == 1) {
		uint64_t number = entry->grant.number;
		lk__entry_drop_hold(entry, lk__now_ns());
		if (release)
			lk__entry_release_unasked(entry, number);
		lk__entry_promote(entry);
	}
	pthread_mutex_unlock(&entry->mutex);
}

void lk__election_lose(const lk_election *election, uint64_t term)
{
	const struct lk__owner owner = lk__election_owner(election);
	struct lk__entry *entry = election->entry;
	pthread_mutex_lock(&entry->mutex);
	const struct lk__hold *hold = lk__entry_hold_of(entry, &owner);
	if (hold && !hold->lost && lk__hold_extra(hold)->fence == term) {
		lk__entry_lose(entry, lk__now_ns());
		lk__entry_promote(entry);
	}
	pthread_mutex_unlock(&entry->mutex);
}

/* ---- an acquire ---- */

#define AGAIN_NS (1000 * LK__MS) /* not sooner behind the last time: no storm of refusals */

/* Whether to stand once more helps: its grant came later than its lease, or what stood in the way
 * may pass. */
static bool stands_again(const lk_election *election, int code)
{
	return election->joins && !election->withdrawn && lk_error_is_retryable(code) &&
	       lk__now_ns() - election->stood_ns >= AGAIN_NS &&
	       atomic_load(&election->client->state) == LK__CLIENT_OPEN;
}

/* It does not stand any more. Each call hears of this end, also if another thread has it stand
 * again before that call looks. */
static void awaiting_wake(const lk_election *election)
{
	struct lk__awaiting *each;
	DL_FOREACH(election->awaiting, each)
	{
		each->over = true;
		lk__thread_wake(each->thread);
	}
}

/* It was left, and is to join again: whether it stands. */
static bool rejoin(lk_election *election, bool *told_out)
{
	int rc = lk__election_stand(election, LK_WAIT_MAX_MS, true, &election->result);
	*told_out = rc < 0;
	return rc == 0;
}

/* The loop has carried it out: it leads, stands once more, or does not stand any more. */
static void standing_over(struct lk__completion *completion)
{
	lk_election *election = completion->context;
	lk__async_taken(completion);
	int code = completion->value.error.code;
	pthread_mutex_lock(&election->mutex);
	election->async = NULL;
	election->result = completion->value.error;
	bool again = code && stands_again(election, code) &&
		     lk__election_stand(election, LK_WAIT_MAX_MS, true, &election->result) == 0;
	bool told = code && !again && election->joins && !election->withdrawn;
	if (election->left && !code)
		lk__election_drop(election, true);
	if (election->rejoins)
		again = rejoin(election, &told);
	if (told)
		lk__notices_unelected(election->entry, election->tag, &election->result);
	if (!again)
		awaiting_wake(election);
	pthread_mutex_unlock(&election->mutex);
	free(completion);
	lk__election_unref(election);
}

int lk__election_stand(lk_election *election, int64_t wait_ms, bool joins, lk_error *error)
{
	struct lk__completion *completion = calloc(1, sizeof(*completion));
	if (!completion)
		return lk__fail(error, LK_ENOMEM, "stand for \"%.100s\": out of memory",
				election->entry->name);
	completion->context = election;
	completion->over = standing_over;
	completion->value.operation = LK_OP_ACQUIRE;
	completion->owner = lk__election_owner(election);
	const struct lk__async_want want = {
		.way = LK__ASYNC_ACQUIRE,
		.operation = "stand",
		.acquire = {.wait_ms = wait_ms,
			    .margin_ms = election->margin_ms,
			    .tag = election->tag,
			    .owner = completion->owner},
	};
	election->joins = joins;
	election->withdrawn = election->left = election->rejoins = false;
	election->stood_ns = lk__now_ns();
	atomic_fetch_add(&election->refs, 1);
	int rc = lk__async_start(completion, election->entry, &want, error);
	if (rc < 0) {
		free(completion);
		atomic_fetch_sub(&election->refs, 1); /* never the last: the caller has one */
		return rc;
	}
	election->async = completion->async;
	return 0;
}

bool lk__election_await(lk_election *election, struct lk__thread *thread, int64_t until_ns,
			lk_cancel *cancel)
{
	struct lk__awaiting self = {.thread = thread};
	pthread_mutex_lock(&election->mutex);
	self.over = !election->async;
	DL_APPEND(election->awaiting, &self);
	while (!self.over && !lk__cancelled(cancel) && lk__now_ns() < until_ns) {
		pthread_mutex_unlock(&election->mutex);
		lk__cancel_park(cancel, &thread->park, until_ns);
		pthread_mutex_lock(&election->mutex);
	}
	DL_DELETE(election->awaiting, &self);
	pthread_mutex_unlock(&election->mutex);
	return self.over;
}

/* With the election's mutex held. */
static void withdraw(lk_election *election)
{
	election->withdrawn = true;
	election->rejoins = false;
	if (election->async)
		lk__async_cancel(election->async);
}

void lk__election_withdraw(lk_election *election)
{
	pthread_mutex_lock(&election->mutex);
	withdraw(election);
	pthread_mutex_unlock(&election->mutex);
}

bool lk__election_leave(lk_election *election)
{
	pthread_mutex_lock(&election->mutex);
	withdraw(election);
	bool left = election->left = election->async != NULL;
	pthread_mutex_unlock(&election->mutex);
	return left;
}

bool lk__election_has_left(const lk_election *election)
{
	return election->async && election->left && !election->rejoins;
}

int lk__election_await_left(lk_election *election, struct lk__thread *thread, int64_t *wait_ms,
			    lk_cancel *cancel, lk_error *error)
{
	int64_t until_ns = *wait_ms < 0 ? LK__NEVER : lk__after_ms(lk__now_ns(), *wait_ms);
	pthread_mutex_lock(&election->mutex);
	bool left = lk__election_has_left(election);
	pthread_mutex_unlock(&election->mutex);
	if (!left)
		return 0;
	if (!lk__election_await(election, thread, until_ns, cancel))
		return lk__fail(error, lk__cancelled(cancel) ? LK_ECANCELLED : LK_EUNREACHABLE,
				"stand for \"%.100s\": the last try before has no answer yet",
				election->entry->name);
	if (*wait_ms > 0) /* 0 would be one try, and no wait */
		*wait_ms = lk__now_ns() < until_ns ? (until_ns - lk__now_ns()) / LK__MS + 1 : 1;
	return 0;
}
