/* SPDX-License-Identifier: MIT */
#include "drive/multi_ask.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "drive/fan_out.h"
#include "drive/release.h"
#include "drive/compensation.h"
#include "sync/multi/multi.h"

/* Parts of one client that go in one script: neighbours, since the parts are in order. */
struct group {
	size_t count;
	const size_t *part;        /* their places in the multi lock */
	struct lk__multi_key *key; /* of each */
	uint64_t number;           /* of an acquire */
	uint64_t epoch;
	int64_t lease_ms, until_ns;
};

struct lk__multi_work {
	struct lk__multi_ask *ask;
	bool was_late; /* an earlier one */
	struct lk__caller waiter[LK__MULTI_MAX];
	bool reserved[LK__MULTI_MAX];
	size_t asked; /* parts that go on the wire: part[], key[] */
	size_t part[LK__MULTI_MAX];
	struct lk__multi_key key[LK__MULTI_MAX];
	size_t group_count;
	struct group group[LK__MULTI_MAX];
	struct lk__release release[LK__MULTI_MAX];
	lk_error why; /* of the part that was given back last */
	int code;     /* that ends it; 0: none */
};

static struct lk__entry *part_of(const struct lk__multi_work *attempt, size_t part)
{
	return attempt->ask->multi->part[part];
}

static void attempt_busy(struct lk__multi_work *attempt, size_t part, int code)
{
	struct lk__multi_ask *ask = attempt->ask;
	if (part >= ask->busy)
		return;
	ask->busy = part; /* the first in the order of all */
	ask->code = code;
}

static bool attempt_is_busy(const struct lk__multi_work *attempt)
{
	return attempt->ask->busy < attempt->ask->multi->count;
}

/* Puts a part on the list for the wire; its key is to be filled in. */
static struct group *attempt_add(struct lk__multi_work *attempt, size_t part)
{
	const struct lk__entry *entry = part_of(attempt, part);
	struct group *group = &attempt->group[attempt->group_count];
	const struct lk__entry *last = attempt->asked
					       ? part_of(attempt, attempt->part[attempt->asked - 1])
					       : NULL;
	attempt->part[attempt->asked] = part;
	attempt->key[attempt->asked].target = &entry->target;
	if (last && last->client == entry->client && last->node == entry->node)
		group--;
	else
		*group = (struct group){.part = &attempt->part[attempt->asked],
					.key = &attempt->key[attempt->asked]};
	attempt->group_count = (size_t)(group - attempt->group) + 1;
	attempt->asked++;
	group->count++;
	return group;
}

int lk__multi_begin(struct lk__multi_ask *ask)
{
	const struct lk__multi *multi = ask->multi;
	for (size_t i = 0; i < multi->count; i++) {
		ask->threads[i] = lk__client_thread(multi->part[i]->client);
		if (!ask->threads[i])
			return LK_ENOMEM;
	}
	ask->work = malloc(sizeof(*ask->work));
	return ask->work ? 0 : LK_ENOMEM;
}

void lk__multi_end(struct lk__multi_ask *ask)
{
	free(ask->work);
}

/* ---- places in the lines ---- */

/* Whether nobody of this client has the lock, waits for it, or lets others go first, as a mere try
 * does not. */
static bool entry_is_free(struct lk__entry *entry, bool once)
{
	int64_t now_ns = lk__now_ns();
	if (entry->hold && now_ns >= lk__hold_deadline(entry->hold))
		lk__entry_lose(entry, now_ns);
	return !entry->hold && !entry->queue && !entry->head && !entry->passing &&
	       !entry->request && !entry->answered && entry->attempt.state == LK__ATTEMPT_IDLE &&
	       (once || now_ns >= entry->hold_off_until_ns);
}

/* Takes a part that the owner has already; `busy` may be set. 0 or a code. */
static int part_look(struct lk__multi_work *attempt, size_t part)
{
	struct lk__multi_ask *ask = attempt->ask;
	struct lk__entry *entry = part_of(attempt, part);
	struct lk__want want = *ask->want;
	want.owner = lk__multi_owner(ask->threads[part], &ask->want->owner);
	int rc = lk__caller_reenter(entry, &want, ask->error);
	ask->taken[part] = rc == 1;
	if (rc == 0 && !entry_is_free(entry, want.wait_ms == 0))
		attempt_busy(attempt, part, LK_EBUSY);
	return rc < 0 ? rc : 0;
}

/* Makes the caller the head of the wait queue, so that nobody of this client comes between. */
static int part_reserve(struct lk__multi_work *attempt, size_t part)
{
	struct lk__multi_ask *ask = attempt->ask;
	struct lk__entry *entry = part_of(attempt, part);
	struct lk__caller *waiter = &attempt->waiter[part];
	struct lk__want want = *ask->want;
	want.owner = lk__multi_owner(ask->threads[part], &ask->want->owner);
	int rc = part_look(attempt, part);
	if (rc < 0 || ask->taken[part] || attempt_is_busy(attempt))
		return rc;
	*waiter = (struct lk__caller){.thread = ask->threads[part], .until_ns = LK__NEVER};
	waiter->hold = lk__caller_hold(waiter->thread, &want);
	if (!waiter->hold)
		return lk__fail(ask->error, LK_ENOMEM, "acquire \"%.100s\": out of memory",
				entry->name);
	entry->asked_lease_ms = lk__entry_lease_ms(entry, waiter->hold);
	DL_APPEND(entry->queue, waiter);
	lk__count(&entry->client->counters.waiting, 1);
	lk__entry_promote(entry);
	attempt->reserved[part] = true;
	return 0;
}

static void part_leave(struct lk__multi_work *attempt, size_t part)
{
	struct lk__entry *entry = part_of(attempt, part);
	if (!attempt->reserved[part])
		return;
	attempt->reserved[part] = false;
	pthread_mutex_lock(&entry->mutex);
	lk__entry_leave_queue(entry, &attempt->waiter[part]);
	lk__hold_free(attempt->waiter[part].hold);
	lk__entry_promote(entry);
	pthread_mutex_unlock(&entry->mutex);
}

/* Looks at, or reserves, what is not taken, until one is busy. 0 or a code. */
static int attempt_parts(struct lk__multi_work *attempt,
			 int (*visit)(struct lk__multi_work *attempt, size_t part))
{
	struct lk__multi_ask *ask = attempt->ask;
	int rc = 0;
	for (size_t i = 0; i < ask->multi->count && rc == 0 && !attempt_is_busy(attempt); i++) {
		struct lk__entry *entry = part_of(attempt, i);
		if (ask->taken[i])
			continue;
		pthread_mutex_lock(&entry->mutex);
		rc = visit(attempt, i);
		pthread_mutex_unlock(&entry->mutex);
	}
	return rc;
}

/* What is reserved, by client. */
static void attempt_group(struct lk__multi_work *attempt)
{
	for (size_t i = 0; i < attempt->ask->multi->count; i++)
		if (attempt->reserved[i])
			attempt_add(attempt, i);
}

/* ---- asking ---- */

static struct lk__request *group_request(struct lk__multi_work *attempt, struct group *group)
{
	struct lk__entry *entry = part_of(attempt, group->part[0]);
	lk_client *client = entry->client;
	group->number = atomic_fetch_add(&client->last_number, 1) + 1;
	for (size_t i = 0; i < group->count; i++)
		group->epoch = lk__entry_begin_try(part_of(attempt, group->part[i]));
	group->lease_ms = lk__entry_lease_ms(entry, attempt->waiter[group->part[0]].hold);
	group->until_ns = lk__after_ms(lk__now_ns(), client->config->command_timeout_ms);
	lk__field(entry, group->number, group->key[0].field);
	struct lk__request *request = lk__multi_acquire_request(
		group->key, group->count, group->lease_ms,
		lk__node_server_us(entry->node, group->until_ns));
	if (request) {
		request->resend = true;
		request->return_unsent = true;
		request->deadline_ns = group->until_ns;
	}
	return request;
}

/* One that came while its client was closed is nobody's: close has released all holds before. */
static bool part_granted(struct lk__multi_work *attempt, size_t part, const struct group *group,
			 const struct lk__request *request)
{
	struct lk__entry *entry = part_of(attempt, part);
	if (atomic_load(&entry->client->state) != LK__CLIENT_OPEN) {
		lk__entry_release_unasked(entry, group->number);
		return false;
	}
	entry->grant.fence = 0;
	entry->grant.epoch = group->epoch;
	entry->grant.repeated_until_ns = request->sends > 1 ? request->deadline_ns : 0;
	lk__entry_grant(entry, &attempt->waiter[part], group->number, request->sent_ns,
			group->lease_ms);
	lk__count(&entry->client->counters.acquires, 1);
	attempt->reserved[part] = false;
	attempt->ask->taken[part] = true;
	return true;
}

static void group_granted(struct lk__multi_work *attempt, const struct group *group,
			  const struct lk__request *request)
{
	for (size_t i = 0; i < group->count; i++) {
		struct lk__entry *entry = part_of(attempt, group->part[i]);
		pthread_mutex_lock(&entry->mutex);
		bool granted = part_granted(attempt, group->part[i], group, request);
		pthread_mutex_unlock(&entry->mutex);
		if (!granted)
			attempt->code = lk__fail(attempt->ask->error, LK_ECLOSED,
						 "acquire %zu locks, \"%.100s\": %s",
						 attempt->ask->multi->count, entry->name,
						 lk_error_text(LK_ECLOSED));
	}
}

static void group_compensate(struct lk__multi_work *attempt, const struct group *group)
{
	for (size_t i = 0; i < group->count; i++) {
		struct lk__entry *entry = part_of(attempt, group->part[i]);
		pthread_mutex_lock(&entry->mutex);
		lk__compensate(entry, group->number, group->until_ns);
		pthread_mutex_unlock(&entry->mutex);
	}
}

/* Its acquire is still on its way: a release behind it, which close waits for as well. */
static void group_release_behind(struct group *group, struct lk__entry *first)
{
	for (size_t i = 1; i < group->count; i++)
		memcpy(group->key[i].field, group->key[0].field, LK__FIELD_SIZE);
	struct lk__request *request = lk__multi_release_request(group->key, group->count);
	if (!request)
		return; /* out of memory: it is compensated all the same, later */
	request->resend = true;
	request->deadline_ns = lk__after_ms(group->until_ns, group->lease_ms);
	request->finish = lk__request_forget;
	if (!lk__conn_offer(first->scripts, request))
		lk__request_free(request); /* the client is closed: their leases end them */
}

/* Held perhaps: each is compensated; whoever waits for the first finds out the rest. */
static void group_unknown(struct lk__multi_work *attempt, const struct group *group)
{
	group_compensate(attempt, group);
	attempt_busy(attempt, group->part[0], LK_EMAYBEHELD);
}

static void group_failed(struct lk__multi_work *attempt, const struct group *group,
			 const struct lk__request *request, const struct lk__attempt_event *event)
{
	struct lk__entry *entry = part_of(attempt, group->part[0]);
	if (!attempt->code)
		lk__fail(attempt->ask->error, event->code,
			 "acquire %zu locks, \"%.100s\" … on %.100s: %s",
			 attempt->ask->multi->count, entry->name, entry->client->config->url,
			 request->reason);
	if (!attempt->code && !event->retryable)
		attempt->code = event->code;
	attempt_busy(attempt, group->part[0], event->code);
}

static void group_late(struct lk__multi_work *attempt, const struct group *group, int64_t server_us)
{
	lk__node_learn_time(part_of(attempt, group->part[0])->node, server_us, lk__now_ns());
	attempt->ask->late = true;
	attempt_busy(attempt, group->part[0], LK_EUNAVAILABLE);
}

static void group_read(void *context, size_t index, const struct lk__request *request)
{
	struct lk__multi_work *attempt = context;
	struct group *group = &attempt->group[index];
	struct lk__attempt_event event = {.type = LK__ATTEMPT_UNKNOWN};
	bool again = false;
	size_t busy = 0;
	if (request)
		event = lk__multi_read_acquire(request, group->count, &busy);
	if (event.type == LK__ATTEMPT_GRANTED &&
	    lk__now_ns() >= lk__lease_end_ns(request->sent_ns, group->lease_ms))
		event.type = LK__ATTEMPT_UNKNOWN; /* later than its lease */
	switch (event.type) {
	case LK__ATTEMPT_GRANTED:
		again = true;
		group_granted(attempt, group, request);
		break;
	case LK__ATTEMPT_BUSY:
		lk__count(&part_of(attempt, group->part[0])->client->counters.busy, 1);
		attempt_busy(attempt, group->part[busy], LK_EBUSY);
		break;
	case LK__ATTEMPT_LATE:
		again = !attempt->was_late;
		group_late(attempt, group, event.server_us);
		break;
	case LK__ATTEMPT_FAILED:
		again = request->code == LK_EUNREACHABLE && request->sends == 0;
		group_failed(attempt, group, request, &event);
		break;
	default:
		if (!request)
			group_release_behind(group, part_of(attempt, group->part[0]));
		group_unknown(attempt, group);
	}
	attempt->ask->again &= again;
	/* Refused, but the first copy may have been granted. */
	bool copies = event.type != LK__ATTEMPT_UNKNOWN && request->sends > 1;
	if (copies && !attempt->ask->taken[group->part[0]])
		group_compensate(attempt, group);
}

/* A client's connection; one that is down is left to the wait for its part. */
static int part_connect(struct lk__multi_work *attempt, size_t part)
{
	struct lk__multi_ask *ask = attempt->ask;
	struct lk__entry *entry = part_of(attempt, part);
	int64_t until_ns = lk__after_ms(lk__now_ns(), entry->client->config->connect_timeout_ms);
	if (ask->until_ns < until_ns)
		until_ns = ask->until_ns;
	lk_error why = {.code = LK_EUNREACHABLE, .message = "the server cannot be reached"};
	lk__cancel_move(ask->want->cancel, ask->threads[part]);
	int rc = lk__conn_ready(entry->scripts, ask->threads[part], true, until_ns,
				ask->want->cancel, &why);
	if (rc == LK__WAIT_READY)
		return 0;
	if (rc == LK_ECANCELLED || rc == LK_ECLOSED)
		return lk__fail(ask->error, rc, "acquire: %s", lk_error_text(rc));
	lk__fail(ask->error, why.code, "acquire \"%.100s\": %.300s", entry->name, why.message);
	attempt_busy(attempt, part, why.code);
	return lk_error_is_fatal(why.code) ? why.code : 0;
}

/* Once a client, and before it joins a wait queue: callers of one part alone need not wait for the
 * servers of the others. */
static int attempt_connect(struct lk__multi_work *attempt)
{
	struct lk__multi_ask *ask = attempt->ask;
	const struct lk__node *last = NULL;
	int rc = 0;
	for (size_t i = 0; i < ask->multi->count && rc == 0; i++) {
		const struct lk__node *node = part_of(attempt, i)->node;
		if (ask->taken[i] || node == last)
			continue;
		rc = part_connect(attempt, i);
		last = node;
	}
	if (rc == 0 && last && lk__cancelled(ask->want->cancel))
		rc = lk__fail(ask->error, LK_ECANCELLED, "acquire: %s",
			      lk_error_text(LK_ECANCELLED));
	return rc;
}

static int attempt_ask(struct lk__multi_work *attempt)
{
	struct lk__multi_ask *ask = attempt->ask;
	struct lk__ask asks[LK__MULTI_MAX];
	int64_t until_ns = ask->until_ns;
	for (size_t i = 0; i < attempt->group_count; i++) {
		struct group *group = &attempt->group[i];
		asks[i].conn = part_of(attempt, group->part[0])->scripts;
		asks[i].request = group_request(attempt, group);
		if (group->until_ns < until_ns)
			until_ns = group->until_ns;
		if (!asks[i].request) {
			while (i > 0)
				lk__request_free(asks[--i].request);
			return lk__fail(ask->error, LK_ENOMEM, "acquire: out of memory");
		}
	}
	struct lk__thread *thread = ask->threads[attempt->part[0]];
	lk__cancel_move(ask->want->cancel, thread);
	ask->again = true; /* until an answer says otherwise */
	lk__ask_each(asks, attempt->group_count, thread, until_ns, ask->want->cancel, group_read,
		     attempt);
	return attempt->code;
}

int lk__multi_ask(struct lk__multi_ask *ask)
{
	struct lk__multi_work *attempt = ask->work;
	int rc = lk__cancel_enter(ask->want->cancel, ask->threads[0], ask->error);
	if (rc < 0)
		return rc;
	memset(attempt, 0, sizeof(*attempt));
	attempt->ask = ask;
	attempt->was_late = ask->late;
	ask->busy = ask->multi->count;
	ask->again = false;
	rc = attempt_parts(attempt, part_look);
	if (rc == 0 && !attempt_is_busy(attempt))
		rc = attempt_connect(attempt);
	if (rc == 0 && !attempt_is_busy(attempt))
		rc = attempt_parts(attempt, part_reserve);
	attempt_group(attempt);
	if (rc == 0 && !attempt_is_busy(attempt) && attempt->group_count > 0)
		rc = attempt_ask(attempt);
	for (size_t i = 0; i < ask->multi->count; i++)
		part_leave(attempt, i);
	lk__cancel_leave(ask->want->cancel);
	if (rc < 0)
		return rc;
	return attempt_is_busy(attempt) ? LK__MULTI_BUSY : LK__MULTI_ALL;
}

/* ---- giving back ---- */

/* What became of a part: the first failure is told. */
static void attempt_told(struct lk__multi_work *attempt, int rc)
{
	if (rc >= 0 || attempt->code)
		return;
	attempt->code = rc;
	if (attempt->ask->error)
		*attempt->ask->error = attempt->why;
}

/* A count off; the last one goes on the wire. */
static int part_give_back(struct lk__multi_work *attempt, size_t part)
{
	struct lk__multi_ask *ask = attempt->ask;
	struct lk__entry *entry = part_of(attempt, part);
	struct lk__release *release = &attempt->release[part];
	struct lk__owner owner = lk__multi_owner(ask->threads[part], &ask->want->owner);
	int rc = lk__release_count(entry, &owner, &attempt->why);
	if (rc < 1)
		return rc;
	lk__release_begin(release, entry, &attempt->why);
	lk__entry_drop_hold(entry, lk__now_ns());
	release->passes = entry->passing = entry->queue != NULL;
	struct group *group = attempt_add(attempt, part);
	lk__field(entry, release->number, group->key[group->count - 1].field);
	if (release->valid_until_ns > group->until_ns)
		group->until_ns = release->valid_until_ns;
	return 0;
}

static void group_freed(void *context, size_t index, const struct lk__request *request)
{
	struct lk__multi_work *attempt = context;
	const struct group *group = &attempt->group[index];
	for (size_t i = 0; i < group->count; i++) {
		struct lk__release *release = &attempt->release[group->part[i]];
		struct lk__entry *entry = release->entry;
		int64_t listeners = 0;
		pthread_mutex_lock(&entry->mutex);
		int rc = !request ? lk__release_unanswered(release)
				  : lk__release_read(release, request,
						     lk__multi_read_release(request, i, &listeners),
						     listeners);
		pthread_mutex_unlock(&entry->mutex);
		/* The hold is gone: what was not done may be held. */
		if (rc < 0 && rc != LK_ELOST)
			rc = attempt->why.code = LK_EMAYBEHELD;
		attempt_told(attempt, rc);
	}
}

static void attempt_free(struct lk__multi_work *attempt, int64_t most_ns)
{
	struct lk__multi_ask *ask = attempt->ask;
	struct lk__ask asks[LK__MULTI_MAX];
	struct lk__request none = {.code = LK_ENOMEM, .reason = "out of memory"};
	size_t count = 0;
	int64_t until_ns = 0;
	for (size_t i = 0; i < attempt->group_count; i++) {
		struct group *group = &attempt->group[i];
		struct lk__request *request = lk__multi_release_request(group->key, group->count);
		if (!request) {
			group_freed(attempt, i, &none); /* left to compensation */
			continue;
		}
		request->resend = true;
		request->deadline_ns = group->until_ns;
		if (group->until_ns > until_ns)
			until_ns = group->until_ns;
		if (count != i)
			attempt->group[count] = *group;
		asks[count].conn = part_of(attempt, group->part[0])->scripts;
		asks[count++].request = request;
	}
	if (count > 0)
		lk__ask_each(asks, count, ask->threads[attempt->part[0]],
			     until_ns < most_ns ? until_ns : most_ns, NULL, group_freed, attempt);
}

int lk__multi_give_back(struct lk__multi_ask *ask, int64_t most_ns)
{
	struct lk__multi_work *attempt = ask->work;
	memset(attempt, 0, sizeof(*attempt));
	attempt->ask = ask;
	for (size_t i = 0; i < ask->multi->count; i++) {
		struct lk__entry *entry = part_of(attempt, i);
		if (!ask->taken[i])
			continue;
		ask->taken[i] = false;
		pthread_mutex_lock(&entry->mutex);
		int rc = part_give_back(attempt, i);
		pthread_mutex_unlock(&entry->mutex);
		attempt_told(attempt, rc);
	}
	attempt_free(attempt, most_ns);
	return attempt->code;
}
