/* SPDX-License-Identifier: MIT */
#include "lock/async.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conn/node.h"
#include "lock/adopt.h"
#include "lock/counter.h"
#include "lock/extend.h"
#include "lock/loop.h"
#include "lock/multi.h"
#include "lock/release.h"
#include "sync/recipes.h"
#include "topo/topo.h"

enum async_state {
	ASYNC_FREE,    /* waits for the next request */
	ASYNC_STARTED, /* not resumed yet */
	ASYNC_WAITING,
};

struct lk__async {
	struct lk__thread thread;      /* first: it is found by that */
	struct lk__ready place;        /* in the list of those that are ready, */
	_Atomic bool ready;            /* where it is */
	struct lk__async *prev, *next; /* among those in flight, the loop's; or the free ones */
	struct lk__heap_node timer;
	_Atomic int state;
	lk_client *client;
	struct lk__completion *completion;
	struct lk__async_want want;
	char *note, *adopts; /* of its acquire; NULL: none */
	_Atomic bool cancelled;
	struct lk__async_multi *multi; /* of a multi lock; else NULL */
	struct lk__op *op;             /* one of these, or that of `multi` */
	union {
		struct {
			union {
				struct lk__acquire acquire;
				struct lk__adopting adopting;
			};
			struct lk__grant grant;
		};
		struct lk__releasing releasing;
		struct lk__extending extending;
		struct lk__question question;
	};
};

/* ---- what is granted, until it is taken ---- */

/* Until when all of them are held; 0 when one is lost, or was given up. */
static int64_t permits_deadline_ns(const struct lk__permits_taken *taken)
{
	int64_t first_ns = LK__NEVER;
	for (size_t i = 0; i < taken->count; i++) {
		struct lk__entry *entry = taken->entry[i];
		pthread_mutex_lock(&entry->mutex);
		int64_t deadline_ns = entry->hold ? lk__hold_deadline(entry->hold) : 0;
		pthread_mutex_unlock(&entry->mutex);
		if (deadline_ns < first_ns)
			first_ns = deadline_ns;
	}
	return first_ns;
}

/* NULL when out of memory. */
static struct lk__multi_taken *multi_taken_new(const struct lk__multi *multi)
{
	struct lk__multi_taken *taken = calloc(1, sizeof(*taken));
	if (!taken)
		return NULL;
	taken->multi = *multi;
	lk__multi_keep(multi);
	return taken;
}

static void multi_taken_free(struct lk__multi_taken *taken)
{
	if (taken)
		lk__multi_let_go(&taken->multi);
	free(taken);
}

/* ---- what was granted ---- */

/* Notes in the completion what an acquire was granted, when it ends and when it is taken. */

static void acquire_note(struct lk__async *async)
{
	struct lk__completion *completion = async->completion;
	struct lk__entry *entry = completion->entry;
	lk_completion *value = &completion->value;
	pthread_mutex_lock(&entry->mutex);
	const struct lk__hold *hold = lk__entry_hold_of(entry, &completion->owner);
	bool holds = hold && hold->number == async->grant.number; /* else it has released it */
	assert(async->grant.number != 0);
	completion->number = async->grant.number;
	value->deadline_ns = holds ? lk__hold_deadline(hold) : async->grant.valid_until_ns;
	value->fence = async->grant.fence;
	if (!entry->is_quorum) /* else it has another on each node */
		lk__field(entry, async->grant.number, value->field);
	pthread_mutex_unlock(&entry->mutex);
}

/* Makes holds of what was granted, one for each permit. The first one's id says those of all. */
static int permits_begin(struct lk__async *async, lk_error *error)
{
	struct lk__completion *completion = async->completion;
	struct lk__entry *queue = completion->entry;
	int rc = lk__permits_hold(queue, &async->thread, &async->want.acquire, &async->grant,
				  completion->permits, async->want.operation, error);
	if (rc == 0)
		lk__field(queue, async->grant.number, completion->value.field);
	return rc;
}

/* An acquire has ended with `rc`: what the completion says of it. Returns what its caller hears. */
static int async_acquire_end(struct lk__async *async, int rc)
{
	const struct lk__entry *entry = async->completion->entry;
	lk_error *error = &async->completion->value.error;
	if (entry->target.recipe->sharing == LK__NO_HOLD) {
		rc = lk__counter_waited(entry, async->want.acquire.count, rc, error);
		return rc == 0 && async->completion->permits ? permits_begin(async, error) : rc;
	}
	if (rc == 0)
		acquire_note(async);
	return rc;
}

/* ---- taken ---- */

static void async_acquired(struct lk__completion *completion)
{
	struct lk__entry *entry = completion->entry;
	lk_completion *value = &completion->value;
	pthread_mutex_lock(&entry->mutex);
	struct lk__hold *hold = lk__entry_hold_of(entry, &completion->owner);
	bool ours = hold && hold->number == completion->number;
	if (!ours) {
		/* given up by a call that did not wait for this completion, or a count */
	} else if (!hold->lost && lk__now_ns() < lk__hold_deadline(hold)) {
		value->deadline_ns = lk__hold_deadline(hold);
	} else {
		lk__release_count(entry, &completion->owner, NULL); /* it is lost, and given up */
		lk__fail(&value->error, LK_EMAYBEHELD,
			 "acquire \"%.100s\": the lease ended before the completion was taken",
			 entry->name);
	}
	pthread_mutex_unlock(&entry->mutex);
}

/* All or none: where one has ended, all go back. */
static void async_permits_acquired(struct lk__completion *completion)
{
	const struct lk__permits_taken *taken = completion->permits;
	lk_completion *value = &completion->value;
	int64_t deadline_ns = permits_deadline_ns(taken);
	if (lk__now_ns() < deadline_ns) {
		value->deadline_ns = deadline_ns;
		value->answer = (int64_t)taken->count;
		return;
	}
	for (size_t i = 0; i < taken->count; i++)
		lk__permit_give_up(taken->entry[i]);
	lk__fail(&value->error, LK_EMAYBEHELD,
		 "acquire %zu of \"%.100s\": a permit ended before the completion was taken",
		 taken->count, completion->entry->name);
}

/* ---- the calls of a multi lock ---- */

/*
 * The calls of a multi lock that a loop resumes: that of the first part's client. The other
 * clients' loops read for it meanwhile, and wake it.
 */

struct lk__async_multi {
	struct lk__op *call;
	struct lk__guest guest[LK__MULTI_MAX]; /* in each other client, by its first part */
};

static void async_multi_free(struct lk__async *async);

static int async_multi_new(struct lk__async *async)
{
	struct lk__completion *completion = async->completion;
	const struct lk__multi *locks = async->want.multi;
	enum lk__multi_way way = async->want.way == LK__ASYNC_ACQUIRE   ? LK__MULTI_ACQUIRE
				 : async->want.way == LK__ASYNC_RELEASE ? LK__MULTI_RELEASE
									: LK__MULTI_EXTEND;
	struct lk__want want = {.owner = completion->owner};
	if (way == LK__MULTI_ACQUIRE)
		want = async->want.acquire;
	int64_t time_ms = way == LK__MULTI_EXTEND    ? async->want.lease_ms
			  : way == LK__MULTI_RELEASE ? async->want.keep_ms
						     : 0;
	completion->multi = multi_taken_new(locks);
	async->multi = calloc(1, sizeof(*async->multi));
	if (async->multi && completion->multi)
		async->multi->call = lk__multi_call_new(way, &completion->multi->multi, &want,
							time_ms, &async->thread,
							&completion->value.error);
	if (async->multi && async->multi->call)
		return 0;
	async_multi_free(async);
	multi_taken_free(completion->multi);
	completion->multi = NULL;
	return LK_ENOMEM;
}

/* ---- its other clients ---- */

static void guest_enter(struct lk__guest *guest, struct lk__thread *thread, lk_client *client)
{
	lk__client_ref(client);
	guest->thread = thread;
	guest->client = client;
	pthread_mutex_lock(&client->mutex);
	DL_APPEND(client->asyncs.guests, guest);
	pthread_mutex_unlock(&client->mutex);
}

/* Any client but that of the first part, whose loop drives the call. */
static void guests_enter(struct lk__async *async)
{
	const struct lk__multi *multi = &async->completion->multi->multi;
	struct lk__entry *const *parts = multi->part;
	assert(parts[0]->client == async->client);
	for (size_t i = 1; i < multi->count; i++)
		if (parts[i]->client != parts[i - 1]->client)
			guest_enter(&async->multi->guest[i], &async->thread, parts[i]->client);
}

static void guest_leave(struct lk__guest *guest)
{
	lk_client *client = guest->client;
	if (!client)
		return;
	pthread_mutex_lock(&client->mutex);
	DL_DELETE(client->asyncs.guests, guest);
	pthread_mutex_unlock(&client->mutex);
	lk__client_unref(client);
}

/* The sooner of `until_ns` and the end of the close of another of its clients. */
static int64_t async_multi_until_ns(const struct lk__async_multi *multi, int64_t until_ns)
{
	for (size_t i = 1; i < LK__MULTI_MAX; i++)
		if (multi->guest[i].client)
			until_ns = lk__earlier(until_ns,
					       lk__client_until_ns(multi->guest[i].client));
	return until_ns;
}

/* Frees the call's multi part. */
static void async_multi_free(struct lk__async *async)
{
	struct lk__async_multi *multi = async->multi;
	if (!multi)
		return;
	for (size_t i = 1; i < LK__MULTI_MAX; i++)
		guest_leave(&multi->guest[i]);
	free(multi->call);
	free(multi);
	async->multi = NULL;
}

static struct lk__op *async_multi_op(struct lk__async *async)
{
	guests_enter(async);
	return async->multi->call;
}

/* All are its owner's. */
static void async_multi_granted(struct lk__completion *completion)
{
	struct lk__multi_taken *taken = completion->multi;
	struct lk__multi_hold all = {.deadline_ns = 0};
	lk__multi_hold_of(&taken->multi, &completion->owner, &all);
	completion->value.deadline_ns = all.deadline_ns;
	for (size_t i = 0; i < taken->multi.count; i++) {
		struct lk__entry *entry = taken->multi.part[i];
		pthread_mutex_lock(&entry->mutex);
		const struct lk__hold *hold = lk__entry_hold_of(entry, &completion->owner);
		taken->number[i] = hold ? hold->number : 0;
		pthread_mutex_unlock(&entry->mutex);
	}
}

/* ---- taken ---- */

/* Tells whether every hold still is what was granted; else its owner has given one up. */
static bool taken_is_whole(const struct lk__completion *completion)
{
	const struct lk__multi_taken *taken = completion->multi;
	bool whole = true;
	for (size_t i = 0; i < taken->multi.count && whole; i++) {
		struct lk__entry *entry = taken->multi.part[i];
		pthread_mutex_lock(&entry->mutex);
		const struct lk__hold *hold = lk__entry_hold_of(entry, &completion->owner);
		whole = hold && hold->number == taken->number[i];
		pthread_mutex_unlock(&entry->mutex);
	}
	return whole;
}

/* The lease of a part ended before its owner could know of it: all are given up. */
static void part_give_up(struct lk__entry *entry, const struct lk__owner *owner)
{
	pthread_mutex_lock(&entry->mutex);
	lk__release_drop(entry, owner, true, NULL);
	pthread_mutex_unlock(&entry->mutex);
}

/* The completion of an acquire is taken: what it says is true now. */
static void async_multi_acquired(struct lk__completion *completion)
{
	const struct lk__multi *multi = &completion->multi->multi;
	struct lk__multi_hold all = {.deadline_ns = 0};
	assert(multi->count > 0 && multi->part[0] == completion->entry);
	if (!taken_is_whole(completion))
		return;
	if (lk__multi_hold_of(multi, &completion->owner, &all) == 0) {
		completion->value.deadline_ns = all.deadline_ns;
		return;
	}
	for (size_t i = 0; i < multi->count; i++)
		part_give_up(multi->part[i], &completion->owner);
	lk__fail(&completion->value.error, LK_EMAYBEHELD,
		 "acquire %zu locks, \"%.100s\": a lease ended before the completion was taken",
		 multi->count, completion->entry->name);
}

/* ---- the life of a call ---- */

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

/* The texts of its acquire. */
static void async_forget(struct lk__async *async)
{
	free(async->note);
	free(async->adopts);
	async->note = async->adopts = NULL;
}

static void async_put_back(struct lk__async *async)
{
	lk_client *client = async->client;
	async_forget(async);
	pthread_mutex_lock(&client->mutex);
	DL_APPEND(client->asyncs.free, async);
	pthread_mutex_unlock(&client->mutex);
	atomic_fetch_sub(&client->asyncs.count, 1);
}

/* Room for what is granted to it, until its completion is taken. */
static int permits_prepare(struct lk__completion *completion, const struct lk__entry *entry,
			   const struct lk__async_want *want)
{
	if (want->way != LK__ASYNC_ACQUIRE || entry->target.recipe != &lk__permit_queue_recipe)
		return 0;
	completion->permits = lk__permits_taken_new(want->acquire.count);
	return completion->permits ? 0 : LK_ENOMEM;
}

/* Copies the texts of its acquire; false when out of memory. */
static bool async_copy(struct lk__async *async)
{
	struct lk__want *want = &async->want.acquire;
	if (want->note && !(async->note = strdup(want->note)))
		return false;
	if (want->adopts && !(async->adopts = strdup(want->adopts)))
		return false;
	want->note = async->note;
	want->adopts = async->adopts;
	return true;
}

/* It is what the completion says, and nothing has happened yet. */
static int async_prepare(struct lk__async *async, struct lk__completion *completion,
			 const struct lk__entry *entry, const struct lk__async_want *want)
{
	async->completion = completion;
	async->want = *want;
	async->multi = NULL;
	async->note = async->adopts = NULL;
	if (want->way == LK__ASYNC_ACQUIRE && !async_copy(async))
		return LK_ENOMEM;
	if (want->way == LK__ASYNC_ACQUIRE) {
		async->want.acquire.owner = completion->owner;
		async->want.acquire.stop = &async->cancelled;
		async->want.acquire.grant_out = &async->grant;
	}
	atomic_store(&async->cancelled, false);
	return want->multi ? async_multi_new(async) : permits_prepare(completion, entry, want);
}

int lk__async_start(struct lk__completion *completion, struct lk__entry *entry,
		    const struct lk__async_want *want, lk_error *error)
{
	struct lk__async *async;
	lk_client *client = entry ? entry->client : want->driven.client;
	assert(!completion->entry && !completion->async);
	int rc = async_get(client, &async);
	if (rc == 0) {
		assert(async->client == client && atomic_load(&async->state) == ASYNC_FREE);
		rc = async_prepare(async, completion, entry, want);
		if (rc < 0)
			async_put_back(async);
	}
	if (rc < 0)
		return lk__fail(error, rc, "%.100s: %s", entry ? entry->name : want->operation,
				lk_error_text(rc));
	if (entry)
		lk__entry_ref(entry);
	lk__client_ref(client);
	completion->client = client;
	completion->entry = entry;
	completion->async = async;
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
		if (async->completion->over) {
			struct lk__completion *completion = async->completion;
			async->completion = NULL;
			async = async->next;
			completion->over(completion);
			continue;
		}
		struct lk__completion *same = asyncs_same_queue(&async);
		lk__queue_deliver(same->queue, same);
	}
	DL_FOREACH(asyncs->over, async)
	async_multi_free(async); /* now its other clients may end */
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
	if (async->want.way == LK__ASYNC_ASK && async->want.asked.request)
		lk__request_free(async->want.asked.request); /* it never began */
	if (async->want.way == LK__ASYNC_DRIVE)
		async->want.driven.end(async->want.driven.of);
	async_forget(async);
	if (rc == 0)
		completion->value.error = (lk_error){0};
	else
		completion->value.error.code = rc;
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
		async->op = async_multi_op(async);
		return;
	}
	switch (want->way) {
	case LK__ASYNC_ACQUIRE:
		if (want->acquire.adopts) {
			lk__adopt_init(&async->adopting, completion->entry, thread, &want->acquire,
				       error);
			async->op = &async->adopting.op;
			break;
		}
		lk__acquire_init(&async->acquire, completion->entry, thread, &want->acquire, error);
		async->op = &async->acquire.op;
		break;
	case LK__ASYNC_RELEASE:
		atomic_fetch_add(&async->client->releasing, 1); /* close waits for it */
		lk__release_init(&async->releasing, completion->entry, thread, &completion->owner,
				 want->keep_ms, false, error);
		async->op = &async->releasing.op;
		break;
	case LK__ASYNC_EXTEND:
		lk__extend_init(&async->extending, completion->entry, thread, &completion->owner,
				want->lease_ms, error);
		async->op = &async->extending.op;
		break;
	case LK__ASYNC_DRIVE:
		async->op = want->driven.begin(want->driven.of, thread, &async->cancelled, error);
		break;
	case LK__ASYNC_ASK:
		lk__question_init(&async->question, completion->entry, thread, &async->want.asked,
				  want->operation, &completion->value.answer, error);
		async->op = &async->question.op;
		break;
	}
}

/* Its operation has ended with `rc`: what its caller is told. */
static int async_end(struct lk__async *async, int rc)
{
	switch (async->want.way) {
	case LK__ASYNC_ACQUIRE:
		if (!async->multi)
			return async_acquire_end(async, rc);
		if (rc == 0)
			async_multi_granted(async->completion);
		return rc;
	case LK__ASYNC_RELEASE:
		if (!async->multi)
			atomic_fetch_sub(&async->client->releasing, 1);
		return rc;
	case LK__ASYNC_DRIVE:
		if (async->want.driven.answer)
			async->completion->value.answer = *async->want.driven.answer;
		return rc;
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
		op->until_ns = async_multi_until_ns(async->multi, op->until_ns);
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

/* The client is being drained or closed: those that wait hear of it. */
static void asyncs_hear_ends(lk_client *client)
{
	struct lk__async *async;
	int ends = lk__client_ends(client);
	if (client->asyncs.told == ends)
		return;
	client->asyncs.told = ends;
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
	asyncs_hear_ends(client);
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
	client->asyncs.told = 0;
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
	return atomic_load(&entry->client->trying) == 0 && !lk__entry_compensates(entry);
}

/* Tells whether nothing of what was asked for may be held that nobody wants. */
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
		async_multi_acquired(completion);
	else if (granted && completion->permits)
		async_permits_acquired(completion);
	else if (granted)
		async_acquired(completion);
	else if (completion->value.operation == LK_OP_ACQUIRE)
		async_refused(completion);
	multi_taken_free(completion->multi);
	lk__permits_taken_free(completion->permits);
	if (completion->entry)
		lk__entry_unref(completion->entry);
	lk__client_unref(completion->client);
}
