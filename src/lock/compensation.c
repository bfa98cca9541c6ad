/* SPDX-License-Identifier: MIT */
#include "lock/compensation.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

#include <lockkeeper/error.h>

#include "base/clock.h"
#include "conf/config.h"
#include "conn/request.h"
#include "lock/entry.h"
#include "lock/loop.h"

#define AGAIN_NS (200 * LK__MS)       /* between attempts that were refused, doubled each time */
#define AGAIN_CLOSE_NS (2 * AGAIN_NS) /* at most, while a caller waits in close */
#define GIVEN_NS (5 * LK__MS)         /* before replicas are asked for a release alone */
#define DUE_MAX 256                   /* in one turn; the rest comes with the next */
#define COUNT_MS INT64_C(3600000)     /* as long as the record of a count that is undone */

/* ---- one ---- */

/* A close waits for no more where a lease ends what a failover may bring back. */
static bool is_left_to_lease(const struct lk__compensation *compensation)
{
	return compensation->told && compensation->entry->target.recipe->sharing != LK__NO_HOLD;
}

static void compensation_list(struct lk__compensation *compensation)
{
	lk_client *client = compensation->entry->client;
	pthread_mutex_lock(&client->mutex);
	DL_APPEND(client->compensations, compensation);
	pthread_mutex_unlock(&client->mutex);
}

/* Entry's mutex held. NULL when out of memory, which close will tell of. */
static struct lk__compensation *compensation_alloc(struct lk__entry *entry, uint64_t number,
						   int64_t at_ns)
{
	struct lk__compensation *compensation = lk__compensation_spare(entry);
	if (!compensation) {
		atomic_store(&entry->client->unreleased, true);
		return NULL;
	}
	lk__entry_ref(entry);
	compensation->entry = entry;
	compensation->number = number;
	compensation->node = lk__entry_node(entry);
	compensation->offset_ns = lk__node_most_offset_ns(compensation->node, lk__now_ns());
	compensation->end_ns = LK__NEVER;
	compensation->at_ns = at_ns;
	compensation->pause_ns = AGAIN_NS;
	compensation->given = compensation->kept = false;
	compensation->unheard = compensation->told = false;
	return compensation;
}

/* When the leases have ended of all holds that the server may have granted here up to `from_ns`. */
static int64_t lease_end_ns(const struct lk__entry *entry, int64_t from_ns)
{
	int64_t lease_ms = entry->client->config->watchdog_ms;
	if (lease_ms < entry->asked_lease_ms)
		lease_ms = entry->asked_lease_ms;
	if (lease_ms < entry->grant.lease_ms)
		lease_ms = entry->grant.lease_ms;
	const struct lk__reds *reds = lk__entry_reds(entry);
	if (reds && lease_ms < reds->lease_ms)
		lease_ms = reds->lease_ms;
	int64_t end_ns = lk__after_ms(from_ns, lease_ms);
	if (end_ns < entry->grant.outlives_ns)
		end_ns = entry->grant.outlives_ns;
	return end_ns > entry->grant.valid_until_ns ? end_ns : entry->grant.valid_until_ns;
}

/* When the lease has ended whatever the server may have granted here up to `from_ns`; LK__NEVER
 * where something without a lease may be left: a place in a queue, a count. */
static int64_t entry_outlived_ns(const struct lk__entry *entry, int64_t from_ns)
{
	bool leased = entry->target.recipe->sharing != LK__NO_HOLD &&
		      !(entry->target.recipe->flags & LK__QUEUES);
	return leased ? lease_end_ns(entry, from_ns) : LK__NEVER;
}

/* Makes a compensation, or NULL. The library leaves a `kept` one so on purpose, and does not count
 * it as held. */
static struct lk__compensation *compensation_make(struct lk__entry *entry, uint64_t number,
						  int64_t until_ns, int64_t at_ns, bool kept)
{
	lk_client *client = entry->client;
	int64_t now_ns = lk__now_ns();
	/* No acquire is sent with a later deadline. */
	int64_t most_ns = lk__after_ms(now_ns, client->config->command_timeout_ms);
	struct lk__compensation *compensation = compensation_alloc(entry, number, at_ns);
	if (!compensation)
		return NULL;
	compensation->kept = kept;
	if (!kept)
		atomic_fetch_add(&entry->compensating, 1);
	atomic_init(&compensation->until_ns, lk__earlier(until_ns, most_ns));
	compensation->end_ns = entry_outlived_ns(entry, until_ns);
	lk__count(&client->counters.compensations, 1);
	compensation_list(compensation);
	return compensation;
}

static struct lk__compensation *compensation_new(struct lk__entry *entry, uint64_t number,
						 int64_t until_ns, int64_t at_ns)
{
	return compensation_make(entry, number, until_ns, at_ns, false);
}

/* The master has released it. Without its lease, a place in a queue is soon taken for dead. */
static void compensation_set_given(struct lk__compensation *compensation)
{
	const struct lk__entry *entry = compensation->entry;
	int64_t now_ns = lk__now_ns();
	int64_t end_ns = entry->target.recipe->sharing == LK__NO_HOLD
				 ? lk__after_ms(now_ns, COUNT_MS)
				 : lease_end_ns(entry, now_ns);
	compensation->given = true;
	compensation->end_ns = lk__earlier(compensation->end_ns, end_ns);
}

static struct lk__compensation *compensation_given(struct lk__entry *entry, uint64_t number)
{
	struct lk__compensation *compensation = compensation_alloc(entry, number, LK__NEVER);
	if (!compensation)
		return NULL;
	compensation_set_given(compensation);
	compensation_list(compensation);
	return compensation;
}

static void compensation_later(struct lk__compensation *compensation, int64_t at_ns)
{
	lk_client *client = compensation->entry->client;
	pthread_mutex_lock(&client->mutex);
	compensation->at_ns = at_ns;
	pthread_mutex_unlock(&client->mutex);
	lk__loop_wake(client);
}

static void compensation_end(struct lk__compensation *compensation)
{
	struct lk__entry *entry = compensation->entry;
	bool counted = !compensation->given && !compensation->kept;
	assert(!counted || atomic_load(&entry->compensating) > 0);
	pthread_mutex_lock(&entry->client->mutex);
	DL_DELETE(entry->client->compensations, compensation);
	pthread_mutex_unlock(&entry->client->mutex);
	if (counted)
		atomic_fetch_sub(&entry->compensating, 1);
	free(compensation);
	lk__entry_unref(entry);
}

/* By how much the server's clock has been set back since: for so much longer the acquire's deadline
 * there is still to come. */
static int64_t compensation_moved_ns(const struct lk__compensation *compensation)
{
	int64_t moved_ns = compensation->offset_ns - atomic_load(&compensation->node->offset_ns);
	return moved_ns > 0 ? moved_ns : 0;
}

static int64_t compensation_end_ns(const struct lk__compensation *compensation)
{
	int64_t end_ns = compensation->end_ns;
	return end_ns == LK__NEVER ? end_ns : end_ns + compensation_moved_ns(compensation);
}

/* When to try again after one that was refused, or got no answer. */
static int64_t compensation_refused(struct lk__compensation *compensation, int64_t now_ns)
{
	const lk_client *client = compensation->entry->client;
	int64_t pause_ns = compensation->pause_ns;
	int64_t most_ns = atomic_load(&client->state) == LK__CLIENT_OPEN
				  ? client->config->backoff_max_ms * LK__MS
				  : AGAIN_CLOSE_NS;
	if (pause_ns < most_ns)
		compensation->pause_ns = lk__earlier(2 * pause_ns, most_ns);
	return now_ns + pause_ns;
}

/* The master has released it; now replicas have to hear of that. */
static void compensation_tell(struct lk__compensation *compensation, int64_t now_ns)
{
	lk_client *client = compensation->entry->client;
	pthread_mutex_lock(&client->mutex);
	compensation->unheard = false;
	compensation->told = true;
	pthread_mutex_unlock(&client->mutex);
	compensation_later(compensation, now_ns + AGAIN_NS);
}

/* From now on nothing is held but what a failover may bring back. */
static void compensation_note_given(struct lk__compensation *compensation)
{
	struct lk__entry *entry = compensation->entry;
	if (compensation->given)
		return;
	pthread_mutex_lock(&entry->mutex);
	compensation_set_given(compensation);
	pthread_mutex_unlock(&entry->mutex);
	if (!compensation->kept)
		atomic_fetch_sub(&entry->compensating, 1);
}

/* Too few replicas have it: they are asked again after a pause. False: the connection on which the
 * master said so is lost. */
static bool compensation_keep(struct lk__compensation *compensation, struct lk__request *request,
			      int64_t now_ns)
{
	int64_t pause_ns = compensation_refused(compensation, now_ns) - now_ns;
	compensation_note_given(compensation);
	lk__request_drop_answer(request);
	request->code = 0;
	atomic_store(&request->done, false);
	request->deadline_ns = compensation_end_ns(compensation);
	return lk__conn_keep(request->conn, request, request->sent_ns, pause_ns);
}

static void compensation_finish(struct lk__request *request)
{
	struct lk__compensation *compensation = request->owner;
	assert(compensation->at_ns == LK__NEVER); /* under way */
	int64_t now_ns = lk__now_ns();
	int64_t until_ns = atomic_load(&compensation->until_ns) +
			   compensation_moved_ns(compensation);
	/* A key that is another kind of lock by now holds nothing of ours. */
	bool answered = request->code == 0 || request->code == LK_EWRONGTYPE;
	bool late = compensation->given || request->sent_ns >= until_ns; /* for all copies */
	bool sure = answered && late;
	bool outlived = now_ns >= compensation_end_ns(compensation);
	if (late && !outlived && request->code == LK_ENOTDURABLE &&
	    compensation_keep(compensation, request, now_ns))
		return;
	lk__request_free(request);
	if (sure && compensation->unheard && !outlived)
		compensation_tell(compensation, now_ns);
	else if (sure || outlived)
		compensation_end(compensation);
	else
		compensation_later(compensation,
				   answered ? until_ns + LK__MS
					    : compensation_refused(compensation, now_ns));
}

/* Asks what time it is on the server, so that the answer behind it is judged by that. */
static void clock_send(struct lk__conn *conn)
{
	struct lk__request *request = lk__time_request(conn->node->config,
						       atomic_load(&conn->node->time_by_script));
	if (!request)
		return;
	request->tells_time = true;
	request->finish = lk__request_forget;
	lk__conn_submit(conn, request);
}

/* NULL when out of memory. Where replicas must have a grant they must have its end, too. */
static struct lk__request *compensation_request(struct lk__compensation *compensation)
{
	struct lk__entry *entry = compensation->entry;
	char field[LK__FIELD_SIZE];
	lk__field(entry, compensation->number, field);
	struct lk__request *request = entry->target.recipe->release(&entry->target, field);
	if (!request)
		return NULL;
	request->owner = compensation;
	request->finish = compensation_finish;
	request->resend = true;
	request->durable = compensation->unheard ? LK__DURABLE_NOT : LK__DURABLE_WHOLLY;
	request->deadline_ns = compensation_end_ns(compensation);
	request->needed_ns = lk__client_until_ns(entry->client); /* a close waits for its answer */
	return request;
}

/* False when out of memory. */
static bool compensation_send(struct lk__compensation *compensation, struct lk__conn *conn)
{
	struct lk__request *request = compensation_request(compensation);
	if (!request)
		return false;
	if (!lk__conn_offer(conn, request))
		lk__request_free(request); /* the client is closed: its lease ends it */
	return true;
}

/* Where a grant takes nothing there is nothing to give back. */
static bool takes_nothing(const struct lk__entry *entry)
{
	return entry->target.recipe->flags & LK__FOR_ALL;
}

void lk__compensate(struct lk__entry *entry, uint64_t number, int64_t until_ns)
{
	if (!takes_nothing(entry) && compensation_new(entry, number, until_ns, lk__now_ns()))
		lk__loop_wake(entry->client);
}

void lk__compensate_unheard(struct lk__entry *entry, uint64_t number, int64_t until_ns)
{
	if (takes_nothing(entry))
		return;
	struct lk__compensation *compensation = compensation_new(entry, number, until_ns,
								 LK__NEVER);
	if (!compensation)
		return;
	compensation->unheard = true;
	compensation_later(compensation, lk__now_ns());
}

void lk__compensate_later(struct lk__entry *entry, uint64_t number, int64_t until_ns,
			  int64_t promised_ns)
{
	int64_t at_ns = lk__later(promised_ns, until_ns + LK__MS);
	if (!takes_nothing(entry) &&
	    compensation_make(entry, number, until_ns, at_ns, promised_ns > 0))
		lk__loop_wake(entry->client);
}

/* Until when a copy of this number's acquire may run, or now. */
static int64_t copies_until_ns(const struct lk__entry *entry, uint64_t number, int64_t now_ns)
{
	const struct lk__grant *grant = &entry->grant;
	bool repeated = grant->number == number && grant->repeated_until_ns > now_ns;
	return repeated ? grant->repeated_until_ns : now_ns;
}

void lk__compensate_behind(struct lk__entry *entry, uint64_t number)
{
	int64_t now_ns = lk__now_ns();
	if (takes_nothing(entry))
		return;
	int64_t until_ns = copies_until_ns(entry, number, now_ns);
	struct lk__compensation *compensation = compensation_new(entry, number, until_ns,
								 LK__NEVER);
	if (compensation && !compensation_send(compensation, lk__entry_scripts(entry)))
		compensation_later(compensation, now_ns);
}

void lk__compensate_given(struct lk__entry *entry, uint64_t number,
			  const struct lk__request *answered)
{
	struct lk__conn *conn = answered ? atomic_load(&answered->conn) : NULL;
	if (!lk__node_is_acked(conn ? conn->node : lk__entry_node(entry)))
		return;
	struct lk__compensation *given = compensation_given(entry, number);
	struct lk__request *request = given && conn ? compensation_request(given) : NULL;
	bool kept = request && lk__conn_keep(conn, request, answered->sent_ns, GIVEN_NS);
	if (given && !kept) {
		lk__request_free(request);
		compensation_later(given, lk__now_ns());
	}
}

void lk__compensation_hasten(const struct lk__entry *entry, uint64_t number, bool over)
{
	struct lk__compensation *compensation;
	int64_t now_ns = lk__now_ns();
	bool found = false;
	pthread_mutex_lock(&entry->client->mutex);
	DL_FOREACH(entry->client->compensations, compensation)
	{
		if (compensation->entry != entry || compensation->number != number)
			continue;
		int64_t until_ns = atomic_load(&compensation->until_ns);
		if (over)
			atomic_store(&compensation->until_ns, lk__earlier(until_ns, now_ns));
		int64_t due_ns = over || until_ns < now_ns ? now_ns : until_ns + LK__MS;
		/* Else it is under way, and is repeated; or it stays for its owner's sake. */
		if (compensation->at_ns != LK__NEVER && !(over && compensation->kept))
			compensation->at_ns = lk__earlier(compensation->at_ns, due_ns);
		found = true;
	}
	pthread_mutex_unlock(&entry->client->mutex);
	if (found)
		lk__loop_wake(entry->client);
}

void lk__compensation_retry(lk_client *client)
{
	struct lk__compensation *compensation;
	bool open = atomic_load(&client->state) == LK__CLIENT_OPEN;
	int64_t now_ns = lk__now_ns();
	pthread_mutex_lock(&client->mutex);
	DL_FOREACH(client->compensations, compensation)
	{
		/* One that is under way decides at its end; one that no server has refused waits
		 * for a copy that may still run, and must not overtake it; or, while the client is
		 * open, for the end of what was promised. */
		bool kept = compensation->kept && !open &&
			    now_ns > atomic_load(&compensation->until_ns);
		bool waits = compensation->pause_ns == AGAIN_NS && !kept;
		if (compensation->at_ns == LK__NEVER || waits)
			continue;
		compensation->at_ns = lk__earlier(compensation->at_ns, now_ns);
		compensation->pause_ns = AGAIN_NS;
	}
	pthread_mutex_unlock(&client->mutex);
}

/* ---- the loop's turn ---- */

/* Takes the compensations that are due, in a row, and marks them as under way. `next_ns`: when the
 * next is due. */
static struct lk__compensation *compensation_due(lk_client *client, int64_t now_ns,
						 int64_t *next_ns)
{
	struct lk__compensation *compensation, *first = NULL, **end = &first;
	bool open = atomic_load(&client->state) == LK__CLIENT_OPEN;
	int left = DUE_MAX;
	*next_ns = LK__NEVER;
	pthread_mutex_lock(&client->mutex);
	DL_FOREACH(client->compensations, compensation)
	{
		if (is_left_to_lease(compensation) && !open)
			continue;
		if (compensation->at_ns <= now_ns && left > 0) {
			left--;
			compensation->at_ns = LK__NEVER;
			compensation->next_due = NULL;
			*end = compensation;
			end = &compensation->next_due;
		} else if (compensation->at_ns < *next_ns) {
			*next_ns = compensation->at_ns;
		}
	}
	pthread_mutex_unlock(&client->mutex);
	return first;
}

int64_t lk__compensation_turn(lk_client *client)
{
	int64_t next_ns;
	struct lk__compensation *compensation = compensation_due(client, lk__now_ns(), &next_ns);
	while (compensation) {
		struct lk__compensation *next = compensation->next_due;
		int64_t now_ns = lk__now_ns();
		struct lk__conn *work = lk__node_work(lk__entry_node(compensation->entry));
		if (now_ns >= atomic_load(&compensation->until_ns))
			clock_send(work);
		if (!compensation_send(compensation, work))
			compensation_later(compensation,
					   compensation_refused(compensation, now_ns));
		compensation = next;
	}
	return next_ns;
}

bool lk__compensation_pending(lk_client *client, const struct lk__node *node)
{
	const struct lk__compensation *compensation;
	bool pending = false;
	pthread_mutex_lock(&client->mutex);
	DL_FOREACH(client->compensations, compensation)
	pending |= !is_left_to_lease(compensation) && (!node || compensation->node == node);
	pthread_mutex_unlock(&client->mutex);
	return pending;
}

void lk__compensation_free(lk_client *client)
{
	struct lk__compensation *compensation, *next;
	DL_FOREACH_SAFE(client->compensations, compensation, next)
	{
		DL_DELETE(client->compensations, compensation);
		free(compensation);
	}
}
