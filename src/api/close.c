/* SPDX-License-Identifier: MIT */
#include "api/close.h"

#include <poll.h>
#include <utlist.h>

#include "api/check.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "lock/compensation.h"
#include "lock/completion_queue.h"
#include "lock/hold.h"
#include "lock/loop.h"
#include "lock/notice.h"
#include "lock/red.h"

#define LEAVE_MS 200         /* for those who wait to go */
#define LOOK_NS (2 * LK__MS) /* between looks at what is left */

/*
 * A hold ends for its owner by the time at which it was asked for; the server counts from when it
 * was given, or was renewed by a request whose answer has not come. So the server may still have
 * one that was lost lately.
 */
static void close_release_lost(struct lk__entry *entry, int64_t now_ns)
{
	const struct lk__hold *hold;
	int64_t limit_ms = entry->client->config->command_timeout_ms;
	LL_FOREACH(entry->lost, hold)
	{
		int64_t most_ms = limit_ms + lk__entry_lease_ms(entry, hold);
		if (now_ns < lk__after_ms(hold->own_until_ns, most_ms))
			lk__entry_release_in_background(entry, hold->number);
	}
}

/* The hold stays in memory, as lost, for its owner's thread to find; the lock is freed. */
static void close_release(void *context, struct lk__entry *entry)
{
	(void)context;
	pthread_mutex_lock(&entry->mutex);
	int64_t now_ns = lk__now_ns();
	if (entry->hold && now_ns >= lk__hold_deadline(entry->hold))
		lk__entry_lose(entry, now_ns);
	close_release_lost(entry, now_ns);
	if (entry->hold) {
		lk__entry_release_in_background(entry, entry->grant.number);
		lk__entry_count(entry, held, (uint64_t)-1);
		entry->hold->own_until_ns = now_ns;
		entry->hold->lost = true;
		LL_APPEND(entry->lost, entry->hold);
		lk__entry_take_hold(entry);
	}
	pthread_mutex_unlock(&entry->mutex);
}

/* Notes when the last lease ends that nobody renews or releases any more. */
static void close_abandon(void *until_ns, struct lk__entry *entry)
{
	pthread_mutex_lock(&entry->mutex);
	if (entry->hold)
		*(int64_t *)until_ns = lk__later(*(int64_t *)until_ns,
						 lk__hold_deadline(entry->hold));
	pthread_mutex_unlock(&entry->mutex);
}

static void close_messages(lk_client *client)
{
	struct lk__node *node;
	for (size_t i = 0; (node = client->topo->ops->node_at(client->topo, i)); i++)
		lk__conn_close(&node->messages);
}

/*
 * Asynchronous calls that have had no answer by the command limit end then, with what is known of
 * them (lk__client_until_ns()); a little later the close does, so that it is told after them.
 */
static void close_limit(lk_client *client)
{
	struct lk__closing *close = &client->close;
	int64_t now_ns = lk__now_ns();
	int64_t until_ns = lk__after_ms(now_ns, client->config->command_timeout_ms);
	close->leave_until_ns = lk__after_ms(now_ns, LEAVE_MS);
	close->end_ns = lk__after_ms(until_ns, LEAVE_MS);
	close->calls = 0;
	atomic_store(&close->until_ns, until_ns);
}

/* Tells whether a node has something to answer yet, or is to be asked by the loop. */
static bool close_expects(lk_client *client, struct lk__node *node)
{
	size_t count = atomic_load(&node->script_count);
	for (size_t i = 0; i < count; i++) {
		struct lk__conn *conn = node->scripts[i];
		pthread_mutex_lock(&conn->mutex);
		bool idle = lk__conn_is_idle(conn);
		pthread_mutex_unlock(&conn->mutex);
		if (!idle)
			return true;
	}
	return lk__compensation_pending(client, node);
}

/* When it has said nothing for the command limit; LK__NEVER: it owes nothing. */
static int64_t close_node_ends_ns(const lk_client *client, struct lk__node *node)
{
	int64_t since_ns = lk__node_mute_since_ns(node);
	return since_ns == LK__NEVER ? since_ns
				     : lk__after_ms(since_ns, client->config->command_timeout_ms);
}

/* Notes the end that is latest among the nodes that have to give back parts of a quorum's lock. */
static void close_quorum_ends(void *end_ns, struct lk__entry *entry)
{
	struct lk__node *nodes[LK__RED_MAX];
	int64_t *latest_ns = end_ns;
	pthread_mutex_lock(&entry->mutex);
	const struct lk__quorum *quorum = lk__entry_quorum(entry);
	size_t count = quorum ? quorum->parts->compensating(entry, nodes) : 0;
	for (size_t i = 0; i < count; i++)
		*latest_ns = lk__later(*latest_ns, close_node_ends_ns(entry->client, nodes[i]));
	pthread_mutex_unlock(&entry->mutex);
}

/* When the command limit is over for all nodes that say nothing: one silence is waited for once,
 * and callers may have waited for it already. LK__NEVER where others have something to say. */
static int64_t close_silence_ends_ns(lk_client *client)
{
	struct lk__node *node;
	int64_t end_ns = 0;
	if (atomic_load(&client->quorums) > 0)
		lk__entries_each(client, close_quorum_ends, &end_ns);
	for (size_t i = 0; (node = client->topo->ops->node_at(client->topo, i)); i++) {
		int64_t node_ns = close_node_ends_ns(client, node);
		if (node_ns != LK__NEVER || close_expects(client, node))
			end_ns = lk__later(end_ns, node_ns);
	}
	return end_ns ? end_ns : LK__NEVER;
}

/* Only what is silent is waited for, and that for long enough: no longer. */
static void close_shorten(lk_client *client)
{
	struct lk__closing *close = &client->close;
	int64_t end_ns = close->again ? LK__NEVER : close_silence_ends_ns(client);
	end_ns = lk__later(end_ns, lk__now_ns());
	if (end_ns >= atomic_load(&close->until_ns))
		return;
	atomic_store(&close->until_ns, end_ns);
	close->end_ns = lk__after_ms(end_ns, LEAVE_MS);
}

/* The asynchronous calls that are not told, also those that other clients drive. */
static size_t close_calls(lk_client *client)
{
	const struct lk__guest *guest;
	size_t guests;
	pthread_mutex_lock(&client->mutex);
	DL_COUNT(client->asyncs.guests, guest, guests);
	pthread_mutex_unlock(&client->mutex);
	return atomic_load(&client->asyncs.count) + guests;
}

/* Tells whether the time is over. While some calls are told, the others have time as well: a crowd
 * takes longer, and each looks at the limit. */
static bool close_is_over(lk_client *client)
{
	struct lk__closing *close = &client->close;
	size_t calls = close_calls(client);
	close_shorten(client);
	if (calls < close->calls)
		close->end_ns = lk__later(close->end_ns, lk__after_ms(lk__now_ns(), LEAVE_MS));
	close->calls = calls;
	return lk__now_ns() >= close->end_ns;
}

/* Tells whether nobody waits, and no request is yet to be begun: a release may be among them. */
static bool close_all_have_left(lk_client *client)
{
	return atomic_load(&client->counters.waiting) == 0 && close_calls(client) == 0;
}

/* Waits until those who wait have gone: they send something as they leave a queue on the server. */
static void close_await_leavers(lk_client *client, struct lk__thread *thread)
{
	close_messages(client);
	while (!close_all_have_left(client) && lk__now_ns() < client->close.leave_until_ns)
		lk__park_wait(&thread->park, lk__now_ns() + LOOK_NS);
}

/* Until when answers are awaited; `last`: also what comes of them. */
static int64_t close_awaits_ns(lk_client *client, bool last)
{
	close_shorten(client);
	return last ? client->close.end_ns : atomic_load(&client->close.until_ns);
}

static void close_read(lk_client *client, struct lk__thread *thread, bool last)
{
	struct lk__node *node;
	for (size_t i = 0; (node = client->topo->ops->node_at(client->topo, i)); i++) {
		lk__node_stop_growing(node); /* one more would be open to tries */
		for (size_t j = 0; j < node->script_count; j++) {
			struct lk__conn *conn = node->scripts[j];
			int rc = LK__WAIT_TIME_UP;
			lk__conn_close_to_tries(conn);
			/* In small steps: nobody wakes us when another thread has finished one. */
			while (rc == LK__WAIT_TIME_UP &&
			       lk__now_ns() < close_awaits_ns(client, last))
				rc = lk__conn_wait(conn, thread, lk__conn_is_idle, conn,
						   lk__now_ns() + LOOK_NS, NULL);
		}
	}
}

/* Notes whether of a quorum's lock a majority has been compensated, which the nodes' clients do. */
static void close_quorum_is_free(void *free_all, struct lk__entry *entry)
{
	const struct lk__quorum *quorum = lk__entry_quorum(entry);
	pthread_mutex_lock(&entry->mutex);
	if (quorum && !quorum->parts->compensated(entry))
		*(bool *)free_all = false;
	pthread_mutex_unlock(&entry->mutex);
}

bool lk__client_is_settled(lk_client *client)
{
	bool free_all = true;
	if (atomic_load(&client->trying) > 0 || atomic_load(&client->unclaimed_grants) > 0 ||
	    atomic_load(&client->releasing) > 0 || lk__compensation_pending(client, NULL))
		return false;
	return atomic_load(&client->quorums) == 0 ||
	       (lk__entries_each(client, close_quorum_is_free, &free_all) && free_all);
}

/*
 * Reads until every answer is there, those of releases and of tries left behind among them, and the
 * loop has compensated what may be held; at most for the command limit, which is also the longest
 * that a copy of a try may still run, and a little more for the last answer.
 */
static bool close_await_answers(lk_client *client)
{
	struct lk__thread *thread = lk__client_thread(client);
	if (thread) {
		close_await_leavers(client, thread);
		close_read(client, thread, false);
		while (!(close_calls(client) == 0 && lk__client_is_settled(client)) &&
		       !close_is_over(client))
			lk__park_wait(&thread->park, lk__now_ns() + LOOK_NS);
		/* What was granted meanwhile may go back by another connection. */
		close_read(client, thread, true);
	}
	return lk__client_is_settled(client) && !atomic_exchange(&client->unreleased, false);
}

/* From now on it has its time. The first call: holds and waiters go. */
static int close_begin(lk_client *client, int how, lk_error *error)
{
	int open = LK__CLIENT_OPEN;
	int64_t abandoned_until_ns = 0; /* nothing is held */
	if (how == LK_CLOSE_IF_IDLE && atomic_load(&client->state) == LK__CLIENT_OPEN &&
	    atomic_load(&client->counters.held) > 0)
		return lk__fail(error, LK_EHELD, "close: %llu locks are held",
				(unsigned long long)atomic_load(&client->counters.held));
	close_limit(client); /* before anybody sees that it is closed */
	if (!atomic_compare_exchange_strong(&client->state, &open, LK__CLIENT_CLOSING))
		return 0;
	if (how == LK_CLOSE_RELEASE && !lk__entries_each(client, close_release, NULL)) {
		atomic_store(&client->state, LK__CLIENT_OPEN);
		return lk__fail(error, LK_ENOMEM, "close: out of memory, nothing was released");
	}
	lk__entries_each(client, close_abandon, &abandoned_until_ns);
	lk__client_record_end(client, abandoned_until_ns);
	lk__notices_close(client);
	lk__client_wake_waiters(client);
	lk__compensation_retry(client);
	lk__loop_wake(client); /* asynchronous callers wait there */
	return 0;
}

/* Ends connections and loop, whatever is under way. */
static void client_end(lk_client *client)
{
	client->topo->ops->close(client->topo);
	lk__loop_stop(client);
	/* What the loop still sent while the connections closed comes back to its owners. */
	client->topo->ops->close(client->topo);
	lk__async_end(client);
	atomic_store(&client->state, LK__CLIENT_CLOSED);
	lk__notices_close(client);
	lk__notices_ring(client); /* no loop does it any more */
}

/* Lets one of several callers close. The others wait until it has ended: before that nobody knows
 * what is still held. 1 when another has closed meanwhile, or LK_ENOMEM. */
static int close_claim(lk_client *client, lk_error *error)
{
	int waited = 0;
	struct lk__thread *thread = NULL;
	while (atomic_exchange(&client->closing, true)) {
		if (!waited)
			thread = lk__client_thread(client);
		if (!thread)
			return lk__fail(error, LK_ENOMEM,
					"close: out of memory, and another thread closes it");
		waited = 1;
		lk__park_wait(&thread->park, lk__now_ns() + LOOK_NS);
	}
	return waited;
}

/* Closes it, or says what became of it in the hands of another, which could not close it. */
static int close_run(lk_client *client, int how, bool waited, lk_error *error)
{
	bool tried = waited && atomic_load(&client->state) == LK__CLIENT_CLOSING;
	int rc = close_begin(client, how, error);
	if (rc < 0 || atomic_load(&client->state) == LK__CLIENT_CLOSED)
		return rc;
	if (tried || !close_await_answers(client))
		return lk__fail(error, LK_EMAYBEHELD,
				"close: something may still be held, and is being released");
	client_end(client);
	return 0;
}

int lk_client_close(lk_client *client, int how, lk_error *error)
{
	if (!client)
		return lk__fail(error, LK_EINVAL, "lk_client_close: client is NULL");
	int rc = LK__CHECK("lk_client_close", error, {LK__HOW, how});
	if (rc == 0)
		rc = lk__check_blocking(client, "lk_client_close", error);
	if (rc == 0)
		rc = close_claim(client, error);
	if (rc < 0)
		return rc;
	client->close.again = atomic_load(&client->state) != LK__CLIENT_OPEN;
	rc = close_run(client, how, rc == 1, error);
	atomic_store(&client->closing, false);
	return rc;
}

/* ---- of a threadless client ---- */

static bool close_is_under_way(lk_client *client)
{
	return atomic_load(&client->close.completion) != NULL;
}

int lk__start_close(const struct lk__start *start)
{
	lk_client *client = start->handle;
	struct lk__completion *completion = NULL;
	int rc = lk__check_threadless(client, start->operation, start->error);
	if (rc == 0)
		rc = LK__CHECK(start->operation, start->error, {LK__HOW, start->request->how});
	if (rc < 0)
		return rc;
	if (atomic_exchange(&client->closing, true))
		return lk__fail(start->error, LK_EPENDING, "%s: the client is being closed",
				start->operation);
	client->close.again = atomic_load(&client->state) != LK__CLIENT_OPEN;
	if (atomic_load(&client->state) == LK__CLIENT_CLOSED)
		rc = lk__fail(start->error, LK_ECLOSED, "%s: the client is closed",
			      start->operation);
	if (rc == 0)
		rc = lk__start_reserve(start, &completion, NULL);
	if (rc == 0)
		rc = close_begin(client, start->request->how, start->error);
	if (rc < 0) {
		if (completion)
			lk__start_unreserve(completion);
		atomic_store(&client->closing, false);
		return rc;
	}
	close_messages(client);
	lk__client_ref(client);
	completion->client = client;
	atomic_store(&client->close.completion, completion);
	lk__loop_wake(client);
	return 0;
}

static void close_complete(lk_client *client, int rc)
{
	struct lk__completion *completion = atomic_exchange(&client->close.completion, NULL);
	if (rc < 0)
		lk__fail(&completion->value.error, rc,
			 "close: something may still be held, and is being released");
	atomic_store(&client->closing, false);
	completion->prev = completion; /* a list of one */
	completion->next = NULL;
	lk__queue_deliver(completion->queue, completion);
}

/* Nothing is to be sent, or read, any more. */
static bool close_is_read(lk_client *client)
{
	struct lk__node *node;
	bool idle = true;
	for (size_t i = 0; (node = client->topo->ops->node_at(client->topo, i)); i++) {
		for (size_t j = 0; j < node->script_count; j++) {
			struct lk__conn *conn = node->scripts[j];
			lk__conn_close_to_tries(conn);
			pthread_mutex_lock(&conn->mutex);
			idle &= lk__conn_is_idle(conn);
			pthread_mutex_unlock(&conn->mutex);
		}
	}
	return idle;
}

/* As close_await_answers(), a look at a time: 0 while it goes on, 1, or LK_EMAYBEHELD. */
static int close_look(lk_client *client)
{
	const struct lk__closing *close = &client->close;
	int64_t now_ns = lk__now_ns();
	if (!close_all_have_left(client) && now_ns < close->leave_until_ns)
		return 0;
	/* First: a call that gives up leaves a compensation. */
	bool told = !close_is_under_way(client) || close_calls(client) == 0;
	bool done = close_is_read(client) && lk__client_is_settled(client);
	if (!(done && told) && !close_is_over(client))
		return 0;
	return done && !atomic_exchange(&client->unreleased, false) ? 1 : LK_EMAYBEHELD;
}

int64_t lk__close_turn(lk_client *client)
{
	if (!close_is_under_way(client))
		return LK__NEVER;
	int rc = close_look(client);
	if (rc == 0)
		return lk__now_ns() + LOOK_NS;
	if (rc == 1)
		client_end(client);
	close_complete(client, rc < 0 ? rc : 0);
	return LK__NEVER;
}

/* Takes its turns until it is closed, as long as a close may take. */
static void close_by_turns(lk_client *client)
{
	struct pollfd set = {.fd = lk__loop_fd(client), .events = POLLIN};
	int rc = 0;
	if (atomic_load(&client->state) == LK__CLIENT_OPEN) { /* else it has its time */
		close_begin(client, LK_CLOSE_ABANDON, NULL);
		close_messages(client);
	}
	while (rc == 0 && atomic_load(&client->state) != LK__CLIENT_CLOSED &&
	       close_look(client) == 0) {
		rc = lk__loop_process(client);
		lk__poll(&set, 1, LOOK_NS / LK__MS);
	}
	client_end(client);
	if (close_is_under_way(client))
		close_complete(client, LK_EMAYBEHELD);
}

void lk__close_to_free(lk_client *client)
{
	if (client->config->threadless) {
		close_by_turns(client);
		return;
	}
	client->close.again = false;
	if (close_run(client, LK_CLOSE_ABANDON, false, NULL) < 0)
		client_end(client);
}
