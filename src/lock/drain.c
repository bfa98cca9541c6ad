/* SPDX-License-Identifier: MIT */
#include "lock/drain.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conn/node.h"
#include "lock/close.h"
#include "lock/loop.h"
#include "lock/notice.h"
#include "lock/release.h"
#include "sync/recipes.h"

#define LOOK_MIN_NS LK__MS
#define LOOK_MAX_NS (20 * LK__MS)

static const char asked[] = "the client is being drained";

/* ---- what is told to those who hold ---- */

static void entry_tell(struct lk__entry *entry)
{
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

int lk__drain_begin(lk_client *client, lk_error *error)
{
	size_t count;
	if (atomic_exchange(&client->draining, true))
		return 0;
	lk__client_wake_waiters(client);
	wake_readers(client);
	lk__loop_wake(client);
	struct lk__entry **entries = lk__client_entries(client, &count);
	if (!entries)
		return lk__fail(error, LK_ENOMEM, "drain: out of memory to tell those who hold");
	for (size_t i = 0; i < count; i++) {
		entry_tell(entries[i]);
		lk__entry_unref(entries[i]);
	}
	free(entries);
	return 0;
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

int lk__drain_held(lk_client *client, void *held_out, size_t size, size_t most, lk_error *error)
{
	lk_held held;
	size_t entry_count, count = 0;
	struct lk__entry **entries = lk__client_entries(client, &entry_count);
	if (!entries)
		return lk__fail(error, LK_ENOMEM, "lk_client_held: out of memory");
	for (size_t i = 0; i < entry_count; i++) {
		struct lk__entry *entry = entries[i];
		pthread_mutex_lock(&entry->mutex);
		bool holds = entry->hold && lk__now_ns() < lk__hold_deadline(entry->hold);
		if (holds && count < most)
			held_fill(entry, &held);
		pthread_mutex_unlock(&entry->mutex);
		if (holds && count < most)
			lk__copy_sized((char *)held_out + count * size, size, &held, sizeof(held));
		count += holds;
		lk__entry_unref(entry);
	}
	free(entries);
	return (int)count;
}

/* ---- the wait ---- */

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

static int draining_end(const struct lk__draining *draining, bool settled, uint64_t held)
{
	if (!settled)
		return lk__fail(draining->error, LK_EMAYBEHELD,
				"drain: what was under way has not ended within the command limit");
	return lk__fail(draining->error, LK_EHELD, "drain: %llu are held",
			(unsigned long long)held);
}

static int draining_step(struct lk__op *op)
{
	struct lk__draining *draining = (struct lk__draining *)op;
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

void lk__draining_init(struct lk__draining *draining, lk_client *client, struct lk__thread *thread,
		       int64_t wait_ms, lk_cancel *cancel, const _Atomic bool *stop,
		       lk_error *error)
{
	int64_t now_ns = lk__now_ns();
	lk__op_begin(&draining->op, draining_step, thread, cancel);
	draining->client = client;
	draining->stop = stop;
	draining->until_ns = wait_ms < 0 ? LK__NEVER : lk__after_ms(now_ns, wait_ms);
	draining->settles_ns = lk__after_ms(now_ns, client->config->command_timeout_ms);
	draining->pause_ns = LOOK_MIN_NS;
	draining->error = error;
}
