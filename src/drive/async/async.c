/* SPDX-License-Identifier: MIT */
#include "drive/async/async.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conn/node.h"
#include "drive/async/async_call.h"
#include "drive/client/loop.h"
#include "topo/topo.h"

#define RESUMED_MAX 256  /* in one turn, of those that are ready, and of those that are due */
#define REUSE_LOOKS 8    /* for one whose memory can serve again */
#define TOGETHER_MAX 128 /* completions that are delivered at once */

/* ---- those that are ready ---- */

static void async_wake(struct lk__thread *thread)
{
	struct lk__async *async = (struct lk__async *)thread;
	lk_client *client = async->client;
	if (atomic_exchange(&async->ready, true))
		return;
	lk__ready_put(&client->asyncs.ready, &async->place);
	if (atomic_exchange(&client->asyncs.asleep, false))
		lk__loop_wake(client);
}

/* The one that has been ready for longest; NULL: none is. */
static struct lk__async *asyncs_next_ready(struct lk__asyncs *asyncs)
{
	struct lk__ready *place = lk__ready_take(&asyncs->ready);
	return place ? (struct lk__async *)((char *)place - offsetof(struct lk__async, place))
		     : NULL;
}

/* ---- memory ---- */

static struct lk__async *async_new(lk_client *client)
{
	struct lk__async *async = calloc(1, sizeof(*async));
	if (!async)
		return NULL;
	async->thread.on_wake = async_wake;
	async->client = client;
	return async;
}

/* One that is free. After a wake-up that came too late, one may still be in the list of those that
 * are ready, where a new request would be resumed before older ones. NULL: none was found. */
static struct lk__async *asyncs_free(const struct lk__asyncs *asyncs)
{
	struct lk__async *async;
	int looks = REUSE_LOOKS;
	DL_FOREACH(asyncs->free, async)
	if (!atomic_load(&async->ready) || --looks == 0)
		break;
	return looks > 0 ? async : NULL;
}

/* Takes one from those that are free, or makes one. 0 or a code. */
static int async_get(lk_client *client, struct lk__async **async_out)
{
	int rc = 0;
	pthread_mutex_lock(&client->mutex);
	struct lk__async *async = asyncs_free(&client->asyncs);
	if (client->asyncs.ended)
		rc = LK_ECLOSED;
	else if (async)
		DL_DELETE(client->asyncs.free, async);
	else if (!(async = async_new(client)))
		rc = LK_ENOMEM;
	if (rc == 0)
		atomic_fetch_add(&client->asyncs.count, 1);
	pthread_mutex_unlock(&client->mutex);
	*async_out = async;
	return rc;
}

void lk__async_free(lk_client *client)
{
	struct lk__async *async, *next;
	assert(!client->asyncs.in_flight);
	DL_FOREACH_SAFE(client->asyncs.free, async, next)
	free(async);
	lk__heap_free(&client->asyncs.timers);
}

/* ---- from start to completion ---- */

static void async_put_back(struct lk__async *async)
{
	lk_client *client = async->client;
	pthread_mutex_lock(&client->mutex);
	DL_APPEND(client->asyncs.free, async);
	pthread_mutex_unlock(&client->mutex);
	atomic_fetch_sub(&client->asyncs.count, 1);
}

/* Room for what is granted to it, for whoever takes its completion. */
static int permits_prepare(struct lk__completion *completion, const struct lk__entry *entry,
			   const struct lk__async_want *want)
{
	if (want->way != LK__ASYNC_ACQUIRE || entry->target.recipe != &lk__permit_queue_recipe)
		return 0;
	completion->permits = lk__permits_taken_new((size_t)want->acquire.count);
	return completion->permits ? 0 : LK_ENOMEM;
}

/* It is what the completion says, and nothing has happened yet. */
static int async_prepare(struct lk__async *async, struct lk__completion *completion,
			 const struct lk__entry *entry, const struct lk__async_want *want)
{
	async->completion = completion;
	async->want = *want;
	async->multi = NULL;
	if (want->way == LK__ASYNC_ACQUIRE) {
		async->want.acquire.owner = completion->owner;
		async->want.acquire.stop = &async->cancelled;
		async->want.acquire.grant_out = &async->grant;
	}
	atomic_store(&async->cancelled, false);
	return want->multi ? lk__async_multi_new(async) : permits_prepare(completion, entry, want);
}

int lk__async_start(struct lk__completion *completion, struct lk__entry *entry,
		    const struct lk__async_want *want, lk_error *error)
{
	struct lk__async *async;
	assert(!completion->entry && !completion->async);
	int rc = async_get(entry->client, &async);
	if (rc == 0) {
		assert(async->client == entry->client && atomic_load(&async->state) == ASYNC_FREE);
		rc = async_prepare(async, completion, entry, want);
		if (rc < 0)
			async_put_back(async);
	}
	if (rc < 0)
		return lk__fail(error, rc, "%.100s: %s", entry->name, lk_error_text(rc));
	lk__entry_ref(entry);
	lk__client_ref(entry->client);
	completion->client = entry->client;
	completion->entry = entry;
	completion->async = async;
	if (want->counter)
		lk__counter_ref(want->counter);
	atomic_store(&async->state, ASYNC_STARTED);
	async_wake(&async->thread);
	return 0;
}

void lk__async_cancel(struct lk__async *async)
{
	atomic_store(&async->cancelled, true);
	async_wake(&async->thread);
}

/* The oldest of those that are over, with all that follow it in the same queue. */
static struct lk__completion *asyncs_same_queue(struct lk__async **from)
{
	struct lk__completion *same = NULL;
	const lk_queue *queue = (*from)->completion->queue;
	assert(queue);
	for (; *from && (*from)->completion->queue == queue; *from = (*from)->next) {
		DL_APPEND(same, (*from)->completion);
		(*from)->completion = NULL;
	}
	return same;
}

/* Delivers what is over, several at a time: a mutex and a wake-up for each would cost more than the
 * rest. Then nobody cancels them any more, and their memory is free. */
static void asyncs_deliver(lk_client *client)
{
	struct lk__asyncs *asyncs = &client->asyncs;
	struct lk__async *async = asyncs->over;
	if (!async)
		return;
	while (async) {
		struct lk__completion *same = asyncs_same_queue(&async);
		lk__queue_deliver(same->queue, same);
	}
	DL_FOREACH(asyncs->over, async)
	lk__async_multi_free(async); /* now its other clients may end */
	pthread_mutex_lock(&client->mutex);
	DL_CONCAT(asyncs->over, asyncs->free);
	asyncs->free = asyncs->over;
	atomic_fetch_sub(&asyncs->count, asyncs->over_count);
	pthread_mutex_unlock(&client->mutex);
	asyncs->over = NULL;
	asyncs->over_count = 0;
}

/* It is over, with 0 or a code. */
static void async_complete(struct lk__async *async, int rc)
{
	struct lk__asyncs *asyncs = &async->client->asyncs;
	struct lk__completion *completion = async->completion;
	assert(rc <= 0 && completion);
	lk__giving_free(async->want.giving);
	if (rc == 0)
		completion->value.error = (lk_error){0};
	else
		completion->value.error.code = rc;
	if (async->want.counter)
		lk__counter_unref(async->want.counter); /* the completion has references too */
	lk__heap_remove(&asyncs->timers, &async->timer);
	DL_DELETE(asyncs->in_flight, async);
	atomic_store(&async->state, ASYNC_FREE);
	DL_APPEND(asyncs->over, async);
	if (++asyncs->over_count == TOGETHER_MAX)
		asyncs_deliver(async->client);
}

/* ---- what it does, and waits for ---- */

/* Its operation, and what it is about. */
static void async_init(struct lk__async *async)
{
	const struct lk__async_want *want = &async->want;
	struct lk__completion *completion = async->completion;
	struct lk__thread *thread = &async->thread;
	lk_error *error = &completion->value.error;
	if (async->multi) {
		async->op = lk__async_multi_op(async);
		return;
	}
	switch (want->way) {
	case LK__ASYNC_ACQUIRE:
		lk__acquire_init(&async->acquire, completion->entry, thread, &want->acquire, error);
		async->op = &async->acquire.op;
		return;
	case LK__ASYNC_RELEASE:
		atomic_fetch_add(&async->client->releasing, 1); /* close waits for it */
		lk__release_init(&async->releasing, completion->entry, thread, &completion->owner,
				 want->keep_ms, false, error);
		async->op = &async->releasing.op;
		return;
	case LK__ASYNC_EXTEND:
		lk__extend_init(&async->extending, completion->entry, thread, &completion->owner,
				want->lease_ms, error);
		async->op = &async->extending.op;
		return;
	case LK__ASYNC_CHANGE:
		lk__counting_change(&async->counting, want->counter, thread, &want->change,
				    want->operation, error);
		break;
	case LK__ASYNC_LEASE:
		lk__counting_lease(&async->counting, want->counter, thread, want->permit.id,
				   want->permit.lease_ms, want->operation, error);
		break;
	case LK__ASYNC_COUNT:
		lk__counting_look(&async->counting, want->counter, thread, want->operation, error);
		break;
	case LK__ASYNC_GIVE:
		lk__counting_give(&async->counting, want->counter, thread, want->giving,
				  want->operation, error);
		break;
	}
	async->op = &async->counting.op;
}

/* What the caller of a semaphore or a latch is told of the count. */
static int count_end(struct lk__async *async, int rc)
{
	const struct lk__entry *entry = async->want.counter->entry;
	lk_completion *value = &async->completion->value;
	bool latch = entry->target.recipe->flags & LK__FOR_ALL;
	value->answer = async->counting.answer;
	if (latch && value->answer < 0)
		value->answer = 0;
	if (value->operation != LK_OP_AWAIT)
		return rc;
	if (rc == 0 && value->answer > 0)
		rc = LK_ETIMEDOUT;
	return lk__counter_waited(entry, 0, rc, &value->error);
}

/* Its operation has ended with `rc`: what its caller is told. */
static int async_end(struct lk__async *async, int rc)
{
	switch (async->want.way) {
	case LK__ASYNC_ACQUIRE:
		if (!async->multi)
			return lk__async_acquire_end(async, rc);
		if (rc == 0)
			lk__async_multi_granted(async->completion);
		return rc;
	case LK__ASYNC_RELEASE:
		if (!async->multi)
			atomic_fetch_sub(&async->client->releasing, 1);
		return rc;
	case LK__ASYNC_CHANGE:
		if (rc == 0)
			async->completion->value.answer = async->counting.answer;
		return rc;
	case LK__ASYNC_COUNT:
		return count_end(async, rc);
	default:
		return rc;
	}
}

/* The operation that waits: this one, or a part of it. */
static struct lk__op *async_waits(const struct lk__async *async)
{
	struct lk__op *op = async->op;
	while (op->waits == LK__OP_OTHER)
		op = op->other;
	return op;
}

/* It waits for others no longer than the close of its client; and not at all if no loop resumes it
 * later. */
static void async_bound(struct lk__async *async)
{
	struct lk__op *op = async_waits(async);
	if (op->waits == LK__OP_TIME)
		return; /* its step looks at the client */
	op->until_ns = lk__earlier(op->until_ns, lk__client_until_ns(async->client));
	if (async->multi)
		op->until_ns = lk__async_multi_until_ns(async->multi, op->until_ns);
	if (async->client->asyncs.ended)
		op->until_ns = 0;
}

/* Until it is woken, or its time has come. */
static void async_wait(struct lk__async *async)
{
	struct lk__heap *timers = &async->client->asyncs.timers;
	assert(atomic_load(&async->state) == ASYNC_WAITING);
	async_bound(async);
	int64_t until_ns = async_waits(async)->until_ns;
	if (until_ns == LK__NEVER)
		lk__heap_remove(timers, &async->timer);
	else
		lk__heap_put(timers, &async->timer, until_ns); /* it has room: async_begin() */
}

/* ---- the loop's turn ---- */

/* From now on it is the loop's. False: it is over already. */
static bool async_begin(struct lk__async *async)
{
	struct lk__asyncs *asyncs = &async->client->asyncs;
	atomic_store(&async->state, ASYNC_WAITING);
	DL_APPEND(asyncs->in_flight, async);
	if (lk__heap_reserve(&asyncs->timers, atomic_load(&asyncs->count)) == 0)
		return true;
	lk__fail(&async->completion->value.error, LK_ENOMEM, "out of memory");
	async_complete(async, LK_ENOMEM);
	return false;
}

static void async_resume(struct lk__async *async)
{
	int state = atomic_load(&async->state);
	bool starts = state == ASYNC_STARTED;
	if (state == ASYNC_FREE || (starts && !async_begin(async)))
		return;
	if (starts)
		async_init(async);
	else
		async_bound(async); /* the close may have begun */
	int rc = async->op->step(async->op);
	if (rc == LK__OP_WAITS)
		async_wait(async);
	else
		async_complete(async, async_end(async, rc));
}

/* True when there was anything. Those that are resumed make others ready. */
static bool asyncs_resume_ready(lk_client *client)
{
	int resumed = 0;
	while (resumed < RESUMED_MAX) {
		struct lk__async *async = asyncs_next_ready(&client->asyncs);
		if (!async)
			break;
		resumed++;
		atomic_exchange(&async->ready, false); /* what wakes it from now on, counts anew */
		async_resume(async);
	}
	return resumed > 0;
}

static struct lk__async *async_of_timer(struct lk__heap_node *timer)
{
	return (struct lk__async *)((char *)timer - offsetof(struct lk__async, timer));
}

static bool asyncs_resume_due(lk_client *client)
{
	struct lk__heap *timers = &client->asyncs.timers;
	struct lk__heap_node *first;
	int64_t now_ns = lk__now_ns();
	int resumed = 0;
	while (resumed < RESUMED_MAX && (first = lk__heap_first(timers, now_ns))) {
		struct lk__async *async = async_of_timer(first);
		lk__heap_remove(timers, first);
		resumed++;
		if (!atomic_load(&async->ready)) /* else its turn comes, and it looks at the time */
			async_resume(async);
	}
	return resumed > 0;
}

/* The client is being closed: those that wait hear of it. */
static void asyncs_hear_close(lk_client *client)
{
	struct lk__async *async;
	if (client->asyncs.told || atomic_load(&client->state) == LK__CLIENT_OPEN)
		return;
	client->asyncs.told = true;
	DL_FOREACH(client->asyncs.in_flight, async)
	async_wake(&async->thread);
}

static void asyncs_for_each_conn(const lk_client *client, void (*act)(struct lk__conn *conn))
{
	struct lk__topo *topo = client->topo;
	struct lk__node *node;
	for (size_t i = 0; (node = topo->ops->node_at(topo, i)); i++)
		for (size_t j = 0; j < node->script_count; j++)
			act(node->scripts[j]);
}

int64_t lk__async_turn(lk_client *client, bool *any_out)
{
	atomic_store(&client->asyncs.asleep, false);
	asyncs_hear_close(client);
	bool any = asyncs_resume_ready(client);
	any |= asyncs_resume_due(client);
	if (any)
		asyncs_for_each_conn(client, lk__conn_send_queued);
	asyncs_deliver(client);
	*any_out = any;
	if (lk__ready_any(&client->asyncs.ready))
		return 0;
	return lk__heap_first_key(&client->asyncs.timers);
}

void lk__async_end(lk_client *client)
{
	pthread_mutex_lock(&client->mutex);
	client->asyncs.ended = true;
	pthread_mutex_unlock(&client->mutex);
	client->asyncs.told = false;
	/* Some may be about to start, or be finished elsewhere. */
	while (atomic_load(&client->asyncs.count) > 0) {
		struct lk__park nap = {0};
		bool any;
		int64_t next_ns = lk__async_turn(client, &any);
		asyncs_for_each_conn(client, lk__conn_settle); /* what is refused, being closed */
		if (next_ns > lk__now_ns() && atomic_load(&client->asyncs.count) > 0)
			lk__park_wait(&nap, lk__now_ns() + LK__MS);
	}
}

/* ---- taken ---- */

static bool entry_is_settled(const struct lk__entry *entry)
{
	return atomic_load(&entry->client->trying) == 0 &&
	       !lk__entry_policy(entry)->compensating(entry);
}

/* Whether nothing of what was asked for may be held that nobody wants. */
static bool completion_is_settled(const struct lk__completion *completion)
{
	bool settled = entry_is_settled(completion->entry);
	for (size_t i = 1; completion->multi && i < completion->multi->multi.count; i++)
		settled = settled && entry_is_settled(completion->multi->multi.part[i]);
	return settled;
}

/* A try that had no answer when its client was closed may have been given back since. */
static void async_refused(struct lk__completion *completion)
{
	lk_client *client = completion->client;
	if (completion->value.error.code == LK_EMAYBEHELD &&
	    atomic_load(&client->state) == LK__CLIENT_CLOSED && !atomic_load(&client->unreleased) &&
	    completion_is_settled(completion))
		lk__fail(&completion->value.error, LK_ECLOSED, "acquire \"%.100s\": %s",
			 completion->entry->name, lk_error_text(LK_ECLOSED));
}

void lk__async_taken(struct lk__completion *completion)
{
	bool granted = completion->value.operation == LK_OP_ACQUIRE &&
		       completion->value.error.code == 0 && !lk__client_forked(completion->client);
	if (granted && completion->multi)
		lk__async_multi_acquired(completion);
	else if (granted && completion->permits)
		lk__async_permits_acquired(completion);
	else if (granted)
		lk__async_acquired(completion);
	else if (completion->value.operation == LK_OP_ACQUIRE)
		async_refused(completion);
	lk__multi_taken_free(completion->multi);
	lk__permits_taken_free(completion->permits);
	if (completion->entry)
		lk__entry_unref(completion->entry);
	lk__client_unref(completion->client);
}
