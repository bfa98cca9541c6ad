/* SPDX-License-Identifier: MIT */
/*
 * Draining a client: it takes nothing new, gives its leaderships away, and says what it holds.
 *
 * drain_begin() marks the client, for good. From then on every look at a wait or at a grant that
 * has no owner yet says LK_EDRAINING (lk__entry_ends()): so what is in the entries behind that is
 * all that the client has. Then the operation only waits, looking from time to time, until all who
 * wait have left, no try and no release is out, and nothing is held.
 */
#include <lockkeeper/drain.h>

#include <stdlib.h>
#include <string.h>

#include "api/check.h"
#include "api/close.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conn/node.h"
#include "lock/loop.h"
#include "lock/notice.h"
#include "lock/release.h"
#include "sync/recipes.h"

#define LOOK_MIN_NS LK__MS
#define LOOK_MAX_NS (20 * LK__MS)

static const char asked[] = "the client is being drained";

/* ---- what is told to those who hold ---- */

static void entry_tell(void *context, struct lk__entry *entry)
{
	(void)context;
	pthread_mutex_lock(&entry->mutex);
	const struct lk__stand *stand = entry->target.stand;
	struct lk__hold *hold = entry->hold;
	if (hold && stand && stand->resigns) {
		const struct lk__owner owner = lk__hold_owner(hold);
		lk__release_drop(entry, &owner, true, NULL);
	} else if (hold && (stand || lk__hold_extra(hold)->ear)) {
		lk__notices_ask(entry->client, hold, asked);
	}
	pthread_mutex_unlock(&entry->mutex);
}

/* A thread that reads messages sleeps on the socket. */
static void wake_readers(const lk_client *client)
{
	struct lk__node *node;
	for (size_t i = 0; (node = client->topo->ops->node_at(client->topo, i)); i++) {
		pthread_mutex_lock(&node->messages.mutex);
		if (node->messages.leader)
			lk__conn_wake(&node->messages);
		pthread_mutex_unlock(&node->messages.mutex);
	}
}

/* Nothing new from now on. LK_ENOMEM: it is so, and leaders were not all told. */
static int drain_begin(lk_client *client, lk_error *error)
{
	if (atomic_exchange(&client->draining, true))
		return 0;
	lk__client_wake_waiters(client);
	wake_readers(client);
	lk__loop_wake(client);
	if (lk__entries_each(client, entry_tell, NULL))
		return 0;
	return lk__fail(error, LK_ENOMEM, "drain: out of memory to tell those who hold");
}

/* ---- what is held ---- */

static void held_fill(const struct lk__entry *entry, lk_held *held)
{
	const struct lk__hold *hold = entry->hold;
	const struct lk__owner owner = lk__hold_owner(hold);
	size_t name_size = lk__entry_name_size(entry);
	memset(held, 0, sizeof(*held));
	held->kind = entry->target.recipe->type;
	held->name_size = name_size;
	memcpy(held->name, entry->name,
	       name_size < sizeof(held->name) ? name_size : sizeof(held->name) - 1);
	if (!owner.serial && !entry->target.stand)
		memcpy(held->owner, owner.name,
		       owner.name_size < sizeof(held->owner) ? owner.name_size
							     : sizeof(held->owner) - 1);
	if (!entry->is_quorum) /* else it has another on each node */
		lk__field(entry, hold->number, held->field);
	held->tag = lk__hold_extra(hold)->tag;
	held->fence = lk__hold_extra(hold)->fence;
	held->since_ns = hold->granted_ns;
	held->deadline_ns = lk__hold_deadline(hold);
	held->lease_ms = lk__entry_lease_ms(entry, hold);
	held->is_renewed = hold->watched;
}

/* The first `most` that are held, as elements of the caller's size; and how many are. */
struct helds {
	char *out;
	size_t size, most, count;
};

static void held_add(void *context, struct lk__entry *entry)
{
	struct helds *helds = context;
	lk_held held;
	pthread_mutex_lock(&entry->mutex);
	bool holds = entry->hold && lk__now_ns() < lk__hold_deadline(entry->hold);
	bool fits = holds && helds->count < helds->most;
	if (fits)
		held_fill(entry, &held);
	pthread_mutex_unlock(&entry->mutex);
	if (fits)
		lk__copy_sized(helds->out + helds->count * helds->size, helds->size, &held,
			       sizeof(held));
	helds->count += holds;
}

int lk_client_held(lk_client *client, lk_held *held_out, size_t most, lk_error *error)
{
	const char *operation = "lk_client_held";
	struct lk__thread *thread;
	int saved, rc = 0;
	if (!client || (most && !held_out))
		rc = lk__fail(error, LK_EINVAL, "%s: %s is NULL", operation,
			      client ? "held_out" : "client");
	if (rc == 0 && held_out && most)
		rc = lk__check_size(operation, held_out, sizeof(*held_out), sizeof(*held_out),
				    error);
	if (rc == 0)
		rc = lk__enter_nowait(client, operation, &thread, &saved, error);
	if (rc < 0)
		return rc;
	struct helds helds = {.out = (char *)held_out,
			      .size = held_out && most ? held_out->struct_size : 0,
			      .most = most};
	if (!lk__entries_each(client, held_add, &helds))
		rc = lk__fail(error, LK_ENOMEM, "%s: out of memory", operation);
	lk__leave(saved);
	return rc < 0 ? rc : (int)helds.count;
}

/* ---- the wait ---- */

struct draining {
	struct lk__op op;
	lk_client *client;
	int64_t wait_ms;
	const _Atomic bool *stop; /* of an asynchronous call; NULL */
	int64_t until_ns;         /* so long it waits for what is held, */
	int64_t settles_ns;       /* and so long for what is under way; */
	int64_t pause_ns;         /* between two looks */
	lk_error *error;
};

/* Tells whether no release of any lock is on its way. */
static bool releases_are_over(lk_client *client)
{
	const struct lk__entry *entry = NULL;
	bool over = true;
	pthread_mutex_lock(&client->mutex);
	while (over && (entry = lk__entries_next(&client->entries, entry)))
		over = atomic_load(&entry->releasing) == 0;
	pthread_mutex_unlock(&client->mutex);
	return over;
}

static bool is_settled(lk_client *client)
{
	return atomic_load(&client->counters.waiting) == 0 && lk__client_is_settled(client) &&
	       releases_are_over(client);
}

static int draining_end(const struct draining *draining, bool settled, uint64_t held)
{
	if (!settled)
		return lk__fail(draining->error, LK_EMAYBEHELD,
				"drain: what was under way has not ended within the command limit");
	return lk__fail(draining->error, LK_EHELD, "drain: %llu are held",
			(unsigned long long)held);
}

static int draining_step(struct lk__op *op)
{
	struct draining *draining = (struct draining *)op;
	lk_client *client = draining->client;
	int64_t now_ns = lk__now_ns();
	if (atomic_load(&client->state) != LK__CLIENT_OPEN)
		return lk__fail(draining->error, LK_ECLOSED, "drain: the client is closed");
	uint64_t held = atomic_load(&client->counters.held);
	bool looks = held == 0 || now_ns >= draining->until_ns;
	bool settled = looks && is_settled(client);
	if (settled)
		held = atomic_load(
			&client->counters.held); /* what was granted last is among them */
	if (settled && held == 0)
		return 0;
	if (lk__cancelled(op->cancel) || (draining->stop && atomic_load(draining->stop)))
		return lk__fail(draining->error, LK_ECANCELLED, "drain: cancelled");
	int64_t limit_ns = settled ? draining->until_ns
				   : lk__later(draining->until_ns, draining->settles_ns);
	if (now_ns >= limit_ns)
		return draining_end(draining, settled, held);
	int64_t next_ns = now_ns + draining->pause_ns;
	draining->pause_ns = lk__earlier(2 * draining->pause_ns, LOOK_MAX_NS);
	lk__op_wait(op, lk__earlier(limit_ns, next_ns));
	return LK__OP_WAITS;
}

static void draining_init(struct draining *draining, struct lk__thread *thread, lk_cancel *cancel,
			  lk_error *error)
{
	int64_t now_ns = lk__now_ns(), wait_ms = draining->wait_ms;
	lk__op_begin(&draining->op, draining_step, thread, cancel);
	draining->until_ns = wait_ms < 0 ? LK__NEVER : lk__after_ms(now_ns, wait_ms);
	draining->settles_ns = lk__after_ms(now_ns, draining->client->config->command_timeout_ms);
	draining->pause_ns = LOOK_MIN_NS;
	draining->error = error;
}

int lk_client_drain(lk_client *client, int64_t wait_ms, lk_cancel *cancel, lk_error *error)
{
	const char *operation = "lk_client_drain";
	struct draining draining = {.client = client, .wait_ms = wait_ms};
	struct lk__thread *thread;
	lk_error own = {.code = 0};
	int saved, rc = LK__CHECK(operation, error, {LK__WAIT, wait_ms});
	if (rc == 0 && !client)
		rc = lk__fail(error, LK_EINVAL, "%s: client is NULL", operation);
	if (rc == 0)
		rc = lk__enter(client, operation, &thread, &saved, error);
	if (rc < 0)
		return rc;
	rc = lk__cancel_enter(cancel, thread, error);
	if (rc == 0) {
		rc = drain_begin(client, error);
		draining_init(&draining, thread, cancel, error ? error : &own);
		if (rc == 0)
			rc = lk__op_run(&draining.op);
		lk__cancel_leave(cancel);
	}
	lk__leave(saved);
	return rc;
}

/* ---- through a queue ---- */

static struct lk__op *draining_begin(void *of, struct lk__thread *thread, const _Atomic bool *stop,
				     lk_error *error)
{
	struct draining *draining = of;
	draining->stop = stop;
	draining_init(draining, thread, NULL, error);
	return &draining->op;
}

int lk__start_drain(const struct lk__start *start)
{
	lk_client *client = start->handle;
	struct lk__thread *thread;
	int saved,
		rc = LK__CHECK(start->operation, start->error, {LK__WAIT, start->request->wait_ms});
	if (rc == 0)
		rc = lk__enter_nowait(client, start->operation, &thread, &saved, start->error);
	if (rc < 0)
		return rc;
	struct draining *draining = calloc(1, sizeof(*draining));
	if (!draining)
		rc = lk__fail(start->error, LK_ENOMEM, "%s: out of memory", start->operation);
	if (rc == 0)
		rc = lk__loop_start(client, start->error);
	if (rc == 0) {
		struct lk__async_want want = {.way = LK__ASYNC_DRIVE,
					      .operation = start->operation,
					      .driven = {.client = client,
							 .of = draining,
							 .begin = draining_begin,
							 .end = free}};
		draining->client = client;
		draining->wait_ms = start->request->wait_ms;
		rc = lk__start_go(start, NULL, NULL, &want);
	}
	if (rc == 0)
		drain_begin(client, NULL); /* without memory, leaders are not told */
	else
		free(draining);
	lk__leave(saved);
	return rc;
}
