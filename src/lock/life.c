/* SPDX-License-Identifier: MIT */
/* A client from its first to its last reference, and what its nodes and threads tell it. */
#include "lock/life.h"

#include <poll.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/identity.h"
#include "conf/config.h"
#include "lock/async.h"
#include "lock/client.h"
#include "lock/compensation.h"
#include "lock/doubt.h"
#include "lock/completion_queue.h"
#include "lock/entry.h"
#include "lock/entry_table.h"
#include "lock/extend.h"
#include "lock/head.h"
#include "lock/hold.h"
#include "lock/loop.h"
#include "lock/notice.h"
#include "lock/red.h"
#include "lock/release.h"
#include "lock/renewal.h"

/* ---- closing ---- */

/* Closing a client: waiters go, releases arrive, connections end. */

#define LEAVE_MS 200         /* for those who wait to go */
#define LOOK_NS (2 * LK__MS) /* between looks at what is left */

/* A picture of the entries, each with a reference; NULL when there is no memory. */
static struct lk__entry **close_entries(lk_client *client, size_t *count_out)
{
	struct lk__entry *entry = NULL;
	size_t count = 0;
	pthread_mutex_lock(&client->mutex);
	struct lk__entry **entries = calloc(client->entries.count + 1, sizeof(struct lk__entry *));
	while ((entry = lk__entries_next(&client->entries, entry)))
		if (entries && lk__entry_ref_if_alive(entry))
			entries[count++] = entry;
	pthread_mutex_unlock(&client->mutex);
	*count_out = count;
	return entries;
}

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
			lk__entry_release_unasked(entry, hold->number);
	}
}

/* The hold stays in memory, as lost, for its owner's thread to find; the lock is freed. */
static void close_release(struct lk__entry *entry)
{
	pthread_mutex_lock(&entry->mutex);
	int64_t now_ns = lk__now_ns();
	if (entry->hold && now_ns >= lk__hold_deadline(entry->hold))
		lk__entry_lose(entry, now_ns);
	close_release_lost(entry, now_ns);
	if (entry->hold) {
		lk__entry_release_unasked(entry, entry->grant.number);
		lk__count(&entry->client->counters.held, (uint64_t)-1);
		entry->hold->own_until_ns = now_ns;
		entry->hold->lost = true;
		LL_APPEND(entry->lost, entry->hold);
		lk__entry_take_hold(entry);
	}
	pthread_mutex_unlock(&entry->mutex);
}

static bool close_release_all(lk_client *client)
{
	size_t count;
	struct lk__entry **entries = close_entries(client, &count);
	if (!entries)
		return false;
	for (size_t i = 0; i < count; i++) {
		close_release(entries[i]);
		lk__entry_unref(entries[i]);
	}
	free(entries);
	return true;
}

/* When the last lease ends that nobody renews or releases any more; 0 when nothing is held. */
static int64_t close_abandoned_until_ns(lk_client *client)
{
	size_t count;
	int64_t until_ns = 0;
	struct lk__entry **entries = close_entries(client, &count);
	for (size_t i = 0; i < count; i++) {
		pthread_mutex_lock(&entries[i]->mutex);
		const struct lk__hold *hold = entries[i]->hold;
		if (hold && lk__hold_deadline(hold) > until_ns)
			until_ns = lk__hold_deadline(hold);
		pthread_mutex_unlock(&entries[i]->mutex);
		lk__entry_unref(entries[i]);
	}
	free(entries);
	return until_ns;
}

static void close_wake_waiters(lk_client *client)
{
	struct lk__thread *thread;
	const struct lk__guest *guest;
	pthread_mutex_lock(&client->mutex);
	LL_FOREACH(client->threads, thread)
	lk__thread_wake(thread);
	DL_FOREACH(client->asyncs.guests, guest)
	lk__thread_wake(guest->thread);
	pthread_mutex_unlock(&client->mutex);
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

/* Whether the time is over. While some calls are told, the others have time as well: a crowd takes
 * longer, and each looks at the limit. */
static bool close_is_over(lk_client *client)
{
	struct lk__closing *close = &client->close;
	size_t calls = close_calls(client);
	if (calls < close->calls)
		close->end_ns = lk__later(close->end_ns, lk__after_ms(lk__now_ns(), LEAVE_MS));
	close->calls = calls;
	return lk__now_ns() >= close->end_ns;
}

/* Whether nobody waits, and no request is yet to be begun: a release may be among them. */
static bool close_all_have_left(lk_client *client)
{
	return atomic_load(&client->counters.waiting) == 0 && close_calls(client) == 0;
}

/* Those who wait go; what they send as they leave a queue on the server comes before the end. */
static void close_await_leavers(lk_client *client, struct lk__thread *thread)
{
	close_messages(client);
	while (!close_all_have_left(client) && lk__now_ns() < client->close.leave_until_ns)
		lk__park_wait(&thread->park, lk__now_ns() + LOOK_NS);
}

static void close_read(lk_client *client, struct lk__thread *thread, int64_t until_ns)
{
	struct lk__node *node;
	for (size_t i = 0; (node = client->topo->ops->node_at(client->topo, i)); i++) {
		lk__node_stop_growing(node); /* one more would be open to tries */
		for (size_t j = 0; j < node->script_count; j++) {
			struct lk__conn *conn = node->scripts[j];
			int rc = LK__WAIT_TIME_UP;
			lk__conn_close_to_tries(conn);
			/* In small steps: nobody wakes us when another thread has finished one. */
			while (rc == LK__WAIT_TIME_UP && lk__now_ns() < until_ns)
				rc = lk__conn_wait(conn, thread, lk__conn_is_idle, conn,
						   lk__now_ns() + LOOK_NS, NULL);
		}
	}
}

/* What is on several nodes is compensated by their clients: a majority has to be done. */
static bool close_quorums_are_free(lk_client *client)
{
	size_t count;
	if (atomic_load(&client->quorums) == 0)
		return true;
	struct lk__entry **entries = close_entries(client, &count);
	bool free_all = entries != NULL;
	for (size_t i = 0; i < count; i++) {
		pthread_mutex_lock(&entries[i]->mutex);
		free_all = free_all && lk__entry_policy(entries[i])->compensated(entries[i]);
		pthread_mutex_unlock(&entries[i]->mutex);
		lk__entry_unref(entries[i]);
	}
	free(entries);
	return free_all;
}

/* Every release is answered, and so is every try: its waiter may have left, and the next one not
 * have come yet to read that it was granted. Nothing may be held any more that nobody wants. */
static bool close_is_settled(lk_client *client)
{
	return atomic_load(&client->trying) == 0 && atomic_load(&client->becoming) == 0 &&
	       atomic_load(&client->releasing) == 0 && !lk__compensation_pending(client) &&
	       close_quorums_are_free(client);
}

/*
 * Reads until every answer is there, those of releases and of tries left behind among them, and the
 * loop has compensated what may be held; at most for the command limit, which is also the longest
 * that a copy of a try may still run, and a little more for the last answer.
 */
static bool close_await_answers(lk_client *client)
{
	struct lk__thread *thread = lk__client_thread(client);
	const struct lk__closing *close = &client->close;
	if (thread) {
		close_await_leavers(client, thread);
		close_read(client, thread, atomic_load(&close->until_ns));
		while (!(close_calls(client) == 0 && close_is_settled(client)) &&
		       !close_is_over(client))
			lk__park_wait(&thread->park, lk__now_ns() + LOOK_NS);
		/* What was granted meanwhile may go back by another connection. */
		close_read(client, thread, close->end_ns);
	}
	return close_is_settled(client) && !atomic_exchange(&client->unreleased, false);
}

/* From now on it has its time. The first call: holds and waiters go. */
static int close_begin(lk_client *client, int how, lk_error *error)
{
	int open = LK__CLIENT_OPEN;
	if (how == LK_CLOSE_IF_IDLE && atomic_load(&client->state) == LK__CLIENT_OPEN &&
	    atomic_load(&client->counters.held) > 0)
		return lk__fail(error, LK_EHELD, "close: %llu locks are held",
				(unsigned long long)atomic_load(&client->counters.held));
	close_limit(client); /* before anybody sees that it is closed */
	if (!atomic_compare_exchange_strong(&client->state, &open, LK__CLIENT_CLOSING))
		return 0;
	if (how == LK_CLOSE_RELEASE && !close_release_all(client)) {
		atomic_store(&client->state, LK__CLIENT_OPEN);
		return lk__fail(error, LK_ENOMEM, "close: out of memory, nothing was released");
	}
	lk__client_record_end(client, close_abandoned_until_ns(client));
	lk__notices_close(client);
	close_wake_waiters(client);
	lk__compensation_retry(client);
	lk__loop_wake(client); /* asynchronous callers wait there */
	return 0;
}

void lk__client_end(lk_client *client)
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

/* Of several callers one closes. The others wait until it has ended: before that nobody knows what
 * is still held. 1 when another has closed meanwhile, or LK_ENOMEM. */
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
	lk__client_end(client);
	return 0;
}

int lk__client_close(lk_client *client, int how, lk_error *error)
{
	int rc = close_claim(client, error);
	if (rc < 0)
		return rc;
	rc = close_run(client, how, rc == 1, error);
	atomic_store(&client->closing, false);
	return rc;
}

/* ---- of a threadless client ---- */

int lk__close_start(lk_client *client, int how, struct lk__completion *completion, lk_error *error)
{
	struct lk__closing *close = &client->close;
	if (atomic_exchange(&client->closing, true))
		return lk__fail(error, LK_EPENDING, "close: the client is being closed");
	/* Another may have closed it between the caller's look and this. */
	int rc = atomic_load(&client->state) == LK__CLIENT_CLOSED
			 ? lk__fail(error, LK_ECLOSED, "close: the client is closed")
			 : close_begin(client, how, error);
	if (rc < 0) {
		atomic_store(&client->closing, false);
		return rc;
	}
	close_messages(client);
	lk__client_ref(client);
	completion->client = client;
	atomic_store(&close->completion, completion);
	lk__loop_wake(client);
	return 0;
}

bool lk__close_is_under_way(lk_client *client)
{
	return atomic_load(&client->close.completion) != NULL;
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
	bool told = !lk__close_is_under_way(client) || close_calls(client) == 0;
	bool done = close_is_read(client) && close_is_settled(client);
	if (!(done && told) && !close_is_over(client))
		return 0;
	return done && !atomic_exchange(&client->unreleased, false) ? 1 : LK_EMAYBEHELD;
}

/* The loop's turn: goes on with that. Returns when to look again. */
static int64_t close_turn(lk_client *client)
{
	if (!lk__close_is_under_way(client))
		return LK__NEVER;
	int rc = close_look(client);
	if (rc == 0)
		return lk__now_ns() + LOOK_NS;
	if (rc == 1)
		lk__client_end(client);
	close_complete(client, rc < 0 ? rc : 0);
	return LK__NEVER;
}

void lk__close_to_free(lk_client *client)
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
	lk__client_end(client);
	if (lk__close_is_under_way(client))
		close_complete(client, LK_EMAYBEHELD);
}

/* ---- the turn of the loop ---- */

/* What a turn of the loop does for its client. */

/* Connections that are silent, and those that a crowd has left. */
static int64_t client_nodes(lk_client *client, int64_t now_ns)
{
	struct lk__topo *topo = client->topo;
	struct lk__node *node;
	int64_t next_ns = LK__NEVER;
	for (size_t i = 0; (node = topo->ops->node_at(topo, i)); i++) {
		lk__node_judge(node);
		next_ns = lk__earlier(next_ns, lk__node_rest(node, now_ns));
	}
	return next_ns;
}

/* A turn of its loop: see struct lk__client_ops. */
static int64_t client_turn(lk_client *client, bool verify, bool *resumed_out)
{
	if (verify) {
		lk__watch_all(client);
		lk__compensation_retry(client);
	}
	int64_t next_ns = lk__watch_turn(client);
	next_ns = lk__earlier(next_ns, lk__compensation_turn(client));
	next_ns = lk__earlier(next_ns, lk__client_record_turn(client));
	next_ns = lk__earlier(next_ns, lk__async_turn(client, resumed_out));
	next_ns = lk__earlier(next_ns, client_nodes(client, lk__now_ns()));
	lk__notices_ring(client);
	return lk__earlier(next_ns, close_turn(client));
}

/* ---- the two policies ---- */

/* What the targets of a lock make of its calls, side by side (lock/entry.h). */

static void one_nothing(struct lk__entry *entry)
{
	(void)entry;
}

static bool one_compensating(const struct lk__entry *entry)
{
	return atomic_load(&entry->compensating) > 0;
}

static void one_let_go(struct lk__entry *entry, uint64_t number)
{
	(void)entry, (void)number;
}

/* A server that has it no more is another's already: nothing of a promise is left to be kept. */
static void one_release_unasked(struct lk__entry *entry, uint64_t number, int64_t promised_ns)
{
	(void)promised_ns;
	lk__compensate_behind(entry, number);
}

/* The client's compensation is looked at as a whole. */
static bool one_compensated(const struct lk__entry *entry)
{
	(void)entry;
	return true;
}

static const struct lk__policy policies[LK__TARGETS] = {
	[LK__ONE_NODE] =
		{
			.free = one_nothing,
			.release_unasked = one_release_unasked,
			.let_go = one_let_go,
			.compensating = one_compensating,
			.compensated = one_compensated,
			.renew = lk__watch_renew,
			.turn = one_nothing,
			.route = lk__head_route,
			.send = lk__head_send,
			.send_look = lk__head_send_look,
			.release = lk__release_one,
			.release_look = lk__release_one_look,
			.extend = lk__extend_one,
			.extend_look = lk__extend_one_look,
		},
	[LK__MAJORITY] =
		{
			.free = lk__red_free,
			.release_unasked = lk__red_release_unasked,
			.let_go = lk__red_let_go,
			.compensating = lk__red_compensating,
			.compensated = lk__red_compensated,
			.renew = lk__red_renew,
			.turn = lk__red_turn,
			.route = lk__red_route,
			.send = lk__red_send,
			.send_look = lk__red_send_look,
			.release = lk__red_release,
			.release_look = lk__red_release_look,
			.extend = lk__red_extend,
			.extend_look = lk__red_extend_look,
		},
};

/* ---- making a client ---- */

/* ---- what the node tells ---- */

static void client_on_attention(void *context)
{
	lk__loop_attend(context);
}

static void client_on_lost(void *context)
{
	lk__loop_verify(context);
}

/* What was in doubt is looked at now that the node answers again. */
static void client_on_up(void *context)
{
	lk__loop_verify(context);
	lk__loop_wake(context);
}

/* Without a loop, the next caller goes on. */
static void client_on_connecting(void *context)
{
	lk__loop_start(context, NULL);
	lk__loop_wake(context);
}

/* A release was heard of a lock that we may hold: whose was it? One that we only wait for is no
 * work of the loop's, which would be in the way of the waiter's try. */
static void client_on_doubt(void *context, void *owner)
{
	(void)context;
	lk__doubt(owner);
}

static const struct lk__node_events client_events = {
	.attention = client_on_attention,
	.lost = client_on_lost,
	.up = client_on_up,
	.connecting = client_on_connecting,
	.doubt = client_on_doubt,
};

/* ---- the end of a thread ---- */

static void thread_abandon(struct lk__hold *hold)
{
	struct lk__entry *entry = hold->entry;
	pthread_mutex_lock(&entry->mutex);
	hold->abandoned = true;
	if (entry->hold == hold) {
		lk__notices_give(entry->client, hold, LK__NOTICE_ABANDONED);
		lk__log(&entry->client->log, LK_LOG_WARNING, "thread ended while it held: %.200s",
			entry->name);
	}
	pthread_mutex_unlock(&entry->mutex);
}

/* A thread ends: the watchdog renews nothing of it any more. */
static void thread_end(void *argument)
{
	struct lk__thread *thread = argument;
	lk_client *client = thread->client;
	if (lk__client_forked(client))
		return;
	atomic_fetch_add(&client->ending, 1);
	for (;;) {
		pthread_mutex_lock(&thread->mutex);
		struct lk__hold *hold = thread->holds;
		if (hold) {
			DL_DELETE2(thread->holds, hold, thread_prev, thread_next);
			hold->thread_prev = NULL;
			hold->thread = NULL;
		}
		pthread_mutex_unlock(&thread->mutex);
		if (!hold)
			break;
		thread_abandon(hold);
	}
	pthread_mutex_lock(&client->mutex);
	thread->ended = 1;
	pthread_mutex_unlock(&client->mutex);
	atomic_fetch_sub(&client->ending, 1); /* from now on the client may be gone */
}

/* ---- birth and death ---- */

static void entry_end(lk_client *client, struct lk__entry *entry)
{
	struct lk__hold *hold, *next;
	lk__entries_remove(&client->entries, entry);
	lk__hold_free(entry->hold);
	LL_FOREACH_SAFE(entry->lost, hold, next)
	lk__hold_free(hold);
	entry->hold = entry->lost = NULL;
	lk__entry_free(entry);
}

/* One whose lock is on several nodes; it has references of others, which go with it. */
static struct lk__entry *entries_spread(lk_client *client)
{
	struct lk__entry *entry = NULL;
	while ((entry = lk__entries_next(&client->entries, entry)) && !entry->spreads)
		continue;
	return entry;
}

/* Every entry that is left, with its holds. No other thread is in a call. */
static void entries_free(lk_client *client)
{
	struct lk__entry *entry, *next;
	while ((entry = entries_spread(client)))
		entry_end(client, entry);
	for (entry = lk__entries_next(&client->entries, NULL); entry; entry = next) {
		next = lk__entries_next(&client->entries, entry);
		entry_end(client, entry);
	}
	lk__entries_free(&client->entries);
}

static void client_free(lk_client *client)
{
	struct lk__thread *thread, *next;
	if (client->topo) /* what was submitted after the close comes back to its owners */
		client->topo->ops->close(client->topo);
	lk__loop_free(client);
	lk__async_free(client);
	lk__compensation_free(client);
	entries_free(client);
	if (client->topo)
		client->topo->ops->free(client->topo);
	LL_FOREACH_SAFE(client->threads, thread, next)
	{
		pthread_mutex_destroy(&thread->mutex);
		free(thread);
	}
	lk__notices_free(client);
	lk__watch_free(client);
	lk__holders_free(&client->holders);
	pthread_mutex_destroy(&client->record.mutex);
	pthread_mutex_destroy(&client->mutex);
	lk__alive_free(client->alive);
	if (client->config)
		lk__log_end(&client->config->log, 0);
	lk_config_free(client->config);
	free(client);
}

static const struct lk__client_ops client_ops = {
	.turn = client_turn,
	.free = client_free,
	.policies = policies,
};

int lk__client_new(lk_client **client_out, const struct lk_config *config, lk_error *error)
{
	lk_client *client = calloc(1, sizeof(*client));
	if (!client)
		return lk__fail(error, LK_ENOMEM, "lk_client_new: out of memory");
	client->ops = &client_ops;
	client->notices.fd = -1;
	client->record.since_ns = lk__now_ns();
	lk__ready_init(&client->asyncs.ready);
	pthread_mutex_init(&client->record.mutex, NULL);
	atomic_store(&client->refs, 1);
	pthread_mutex_init(&client->mutex, NULL);
	lk__watch_init(client);
	lk__holders_init(&client->holders);
	int rc = lk__notices_init(client, error);
	client->config = lk__config_copy(config);
	if (client->config)
		lk__config_fit_limits(client->config);
	if (rc == 0 && !client->config)
		rc = lk__fail(error, LK_ENOMEM, "lk_client_new: out of memory");
	if (rc == 0 && lk__random_uuid(client->id) < 0)
		rc = lk__fail(error, LK_ESYSTEM, "lk_client_new: no randomness");
	if (rc == 0)
		rc = lk__alive_new(&client->alive, error);
	if (rc == 0)
		rc = lk__log_start(&client->config->log, client->config->threadless, error);
	if (rc == 0) {
		client->log = client->config->log;
		rc = lk__topo_new(&client->topo, client->config, &client_events, client, error);
	}
	if (rc == 0 && lk__thread_key_new(&client->key, thread_end) != 0) {
		client->topo->ops->close(client->topo);
		rc = lk__fail(error, LK_ESYSTEM, "lk_client_new: no thread-specific key is left");
	}
	if (rc == 0 && client->config->threadless)
		rc = lk__loop_start(client, error);
	if (rc < 0) {
		client_free(client);
		return rc;
	}
	*client_out = client;
	return 0;
}
