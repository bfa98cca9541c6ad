/* SPDX-License-Identifier: MIT */
#include "drive/take_back.h"

#include <stdlib.h>
#include <utlist.h>

#include <lockkeeper/error.h>

#include "base/clock.h"
#include "conf/config.h"
#include "drive/entry.h"
#include "drive/loop.h"

#define AGAIN_NS (200 * LK__MS) /* between attempts that were refused, doubled each time */
#define AGAIN_MAX_NS (16 * AGAIN_NS)
#define SPARES 2 /* kept ready by an entry: for a hold that goes, and for a try */

struct lk__take_back {
	struct lk__take_back *prev, *next;
	struct lk__take_back *next_due; /* or the next of the entry's spares */
	struct lk__entry *entry;
	uint64_t number;
	int64_t until_ns;  /* a copy of the acquire may run until then, as the clocks were then: */
	int64_t offset_ns; /* the server's time less ours, when that was computed, or more */
	int64_t end_ns;    /* by then its lease has ended it; LK__NEVER where there is none */
	int64_t at_ns;     /* the next attempt; LK__NEVER while one is under way */
	int64_t pause_ns;  /* before it, if this one is refused */
};

/* ---- memory ---- */

bool lk__take_back_reserve(struct lk__entry *entry)
{
	while (entry->spare_count < SPARES) {
		struct lk__take_back *spare = calloc(1, sizeof(*spare));
		if (!spare)
			return false;
		spare->next_due = entry->spares;
		entry->spares = spare;
		entry->spare_count++;
	}
	return true;
}

static struct lk__take_back *spare_take(struct lk__entry *entry)
{
	struct lk__take_back *spare = entry->spares;
	if (!spare)
		return calloc(1, sizeof(*spare));
	entry->spares = spare->next_due;
	entry->spare_count--;
	*spare = (struct lk__take_back){0};
	return spare;
}

void lk__take_back_unreserve(struct lk__entry *entry)
{
	while (entry->spares)
		free(spare_take(entry));
}

/* ---- one ---- */

/* Entry's mutex held. NULL when out of memory, which close will tell of. */
static struct lk__take_back *take_back_new(struct lk__entry *entry, uint64_t number,
					   int64_t until_ns, int64_t at_ns)
{
	lk_client *client = entry->client;
	int64_t now_ns = lk__now_ns();
	/* No acquire is sent with a later deadline. */
	int64_t most_ns = lk__after_ms(now_ns, client->config->command_timeout_ms);
	struct lk__take_back *take_back = spare_take(entry);
	if (!take_back) {
		atomic_store(&client->unreleased, true);
		return NULL;
	}
	lk__entry_ref(entry);
	atomic_fetch_add(&entry->taking_back, 1);
	take_back->entry = entry;
	take_back->number = number;
	take_back->until_ns = until_ns < most_ns ? until_ns : most_ns;
	take_back->offset_ns = lk__node_most_offset_ns(entry->node, now_ns);
	take_back->end_ns = lk__entry_outlived_ns(entry, until_ns);
	take_back->at_ns = at_ns;
	take_back->pause_ns = AGAIN_NS;
	lk__count(&client->counters.take_backs, 1);
	pthread_mutex_lock(&client->mutex);
	DL_APPEND(client->take_backs, take_back);
	pthread_mutex_unlock(&client->mutex);
	return take_back;
}

static void take_back_later(struct lk__take_back *take_back, int64_t at_ns)
{
	lk_client *client = take_back->entry->client;
	pthread_mutex_lock(&client->mutex);
	take_back->at_ns = at_ns;
	pthread_mutex_unlock(&client->mutex);
	lk__loop_wake(client);
}

static void take_back_end(struct lk__take_back *take_back)
{
	struct lk__entry *entry = take_back->entry;
	pthread_mutex_lock(&entry->client->mutex);
	DL_DELETE(entry->client->take_backs, take_back);
	pthread_mutex_unlock(&entry->client->mutex);
	free(take_back);
	atomic_fetch_sub(&entry->taking_back, 1);
	lk__entry_unref(entry);
}

/* By how much the server's clock has been set back since: for so much longer the acquire's deadline
 * there is still to come. */
static int64_t take_back_moved_ns(const struct lk__take_back *take_back)
{
	int64_t moved_ns = take_back->offset_ns - atomic_load(&take_back->entry->node->offset_ns);
	return moved_ns > 0 ? moved_ns : 0;
}

static int64_t take_back_end_ns(const struct lk__take_back *take_back)
{
	int64_t end_ns = take_back->end_ns;
	return end_ns == LK__NEVER ? end_ns : end_ns + take_back_moved_ns(take_back);
}

/* When to try again after one that was refused, or got no answer. */
static int64_t take_back_refused(struct lk__take_back *take_back, int64_t now_ns)
{
	int64_t at_ns = now_ns + take_back->pause_ns;
	if (take_back->pause_ns < AGAIN_MAX_NS)
		take_back->pause_ns *= 2;
	return at_ns;
}

static void take_back_finish(struct lk__request *request)
{
	struct lk__take_back *take_back = request->owner;
	int64_t now_ns = lk__now_ns();
	int64_t until_ns = take_back->until_ns + take_back_moved_ns(take_back);
	/* What is no lock of this kind any more holds nothing of ours. */
	bool answered = request->code == 0 || request->code == LK_EWRONGTYPE;
	bool sure = answered && request->sent_ns >= until_ns;
	bool outlived = now_ns >= take_back_end_ns(take_back);
	lk__request_free(request);
	if (sure || outlived)
		take_back_end(take_back);
	else
		take_back_later(take_back, answered ? until_ns + LK__MS
						    : take_back_refused(take_back, now_ns));
}

/* Asks what time it is on the server, so that the answer behind it is judged by that. */
static void clock_send(struct lk__conn *conn)
{
	struct lk__request *request = lk__request_new(1, (const char *[]){"TIME"}, (size_t[]){4});
	if (!request)
		return;
	request->tells_time = true;
	request->finish = lk__request_forget;
	lk__conn_submit(conn, request);
}

/* False when out of memory. */
static bool take_back_send(struct lk__take_back *take_back, struct lk__conn *conn)
{
	struct lk__entry *entry = take_back->entry;
	char field[LK__FIELD_SIZE];
	lk__field(entry, take_back->number, field);
	struct lk__request *request = entry->recipe->release(&entry->target, field);
	if (!request)
		return false;
	request->owner = take_back;
	request->finish = take_back_finish;
	request->resend = true;
	request->deadline_ns = take_back_end_ns(take_back);
	lk__conn_submit(conn, request);
	return true;
}

/* Where a grant takes nothing there is nothing to give back. */
static bool takes_nothing(const struct lk__entry *entry)
{
	return entry->recipe->flags & LK__FOR_ALL;
}

void lk__take_back(struct lk__entry *entry, uint64_t number, int64_t until_ns)
{
	if (!takes_nothing(entry) && take_back_new(entry, number, until_ns, lk__now_ns()))
		lk__loop_wake(entry->client);
}

void lk__take_back_copies(struct lk__entry *entry, uint64_t number, int64_t until_ns)
{
	if (!takes_nothing(entry) && take_back_new(entry, number, until_ns, until_ns + LK__MS))
		lk__loop_wake(entry->client);
}

/* Until when a copy of this number's acquire may run, or now. */
static int64_t copies_until_ns(const struct lk__entry *entry, uint64_t number, int64_t now_ns)
{
	const struct lk__grant *grant = &entry->grant;
	bool repeated = grant->number == number && grant->repeated_until_ns > now_ns;
	return repeated ? grant->repeated_until_ns : now_ns;
}

void lk__take_back_behind(struct lk__entry *entry, uint64_t number)
{
	int64_t now_ns = lk__now_ns();
	if (takes_nothing(entry))
		return;
	int64_t until_ns = copies_until_ns(entry, number, now_ns);
	struct lk__take_back *take_back = take_back_new(entry, number, until_ns, LK__NEVER);
	if (take_back && !take_back_send(take_back, entry->scripts))
		take_back_later(take_back, now_ns);
}

/* ---- the loop's turn ---- */

/* Those that are due, in a row, marked as under way. `next_ns`: when the next is. */
static struct lk__take_back *take_back_due(lk_client *client, int64_t now_ns, int64_t *next_ns)
{
	struct lk__take_back *take_back, *first = NULL, **end = &first;
	*next_ns = LK__NEVER;
	pthread_mutex_lock(&client->mutex);
	DL_FOREACH(client->take_backs, take_back)
	{
		if (take_back->at_ns <= now_ns) {
			take_back->at_ns = LK__NEVER;
			take_back->next_due = NULL;
			*end = take_back;
			end = &take_back->next_due;
		} else if (take_back->at_ns < *next_ns) {
			*next_ns = take_back->at_ns;
		}
	}
	pthread_mutex_unlock(&client->mutex);
	return first;
}

int64_t lk__take_back_turn(lk_client *client)
{
	int64_t next_ns;
	struct lk__take_back *take_back = take_back_due(client, lk__now_ns(), &next_ns);
	while (take_back) {
		struct lk__take_back *next = take_back->next_due;
		int64_t now_ns = lk__now_ns();
		struct lk__conn *work = lk__node_work(take_back->entry->node);
		if (now_ns >= take_back->until_ns)
			clock_send(work);
		if (!take_back_send(take_back, work))
			take_back_later(take_back, take_back_refused(take_back, now_ns));
		take_back = next;
	}
	return next_ns;
}

bool lk__take_back_pending(lk_client *client)
{
	pthread_mutex_lock(&client->mutex);
	bool pending = client->take_backs != NULL;
	pthread_mutex_unlock(&client->mutex);
	return pending;
}

void lk__take_back_free(lk_client *client)
{
	struct lk__take_back *take_back, *next;
	DL_FOREACH_SAFE(client->take_backs, take_back, next)
	{
		DL_DELETE(client->take_backs, take_back);
		free(take_back);
	}
}
