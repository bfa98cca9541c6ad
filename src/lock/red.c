/* SPDX-License-Identifier: MIT */
#include "lock/red.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "lock/client.h"
#include "lock/compensation.h"
#include "lock/entry.h"
#include "lock/hold.h"
#include "lock/operation.h"
#include "lock/release.h"
#include "resp/reply.h"
#include "sync/script.h"

#define ROUTE_MS 500 /* for a cluster to tell who has the name */

/* ---- making ---- */

static bool red_has_clients(const struct lk__red *red, lk_client *const *clients, size_t count,
			    const struct lk__recipe *kind)
{
	if (red->count != count)
		return false;
	for (size_t i = 0; i < count; i++)
		if (red->node[i].client != clients[i] || red->node[i].member->target.recipe != kind)
			return false;
	return true;
}

/* From here on a lost connection of a node puts the lock in doubt. */
static void red_join_fronts(struct lk__red *red, struct lk__entry *entry)
{
	for (size_t i = 0; i < red->count; i++) {
		struct lk__red_node *node = &red->node[i];
		node->front.entry = entry;
		pthread_mutex_lock(&node->client->mutex);
		DL_APPEND(node->member->reds->fronts, &node->front);
		pthread_mutex_unlock(&node->client->mutex);
	}
}

static void red_leave_fronts(struct lk__red_node *node)
{
	if (!node->front.entry)
		return;
	pthread_mutex_lock(&node->client->mutex);
	DL_DELETE(node->member->reds->fronts, &node->front);
	pthread_mutex_unlock(&node->client->mutex);
}

static void red_free(struct lk__red *red)
{
	for (size_t i = 0; red && i < red->count; i++) {
		struct lk__red_node *node = &red->node[i];
		red_leave_fronts(node);
		if (node->member)
			lk__entry_unref(node->member);
		if (i > 0 && node->client)
			lk__client_unref(node->client);
	}
	free(red);
}

/* Prepares the entry of a node for red locks: from now on it always has memory for compensations,
 * and stays on its connection. False when out of memory. */
static bool entry_serve_reds(struct lk__entry *entry)
{
	pthread_mutex_lock(&entry->mutex);
	assert(!entry->is_quorum);
	if (!entry->reds) {
		struct lk__reds *reds = calloc(1, sizeof(*reds));
		lk__entry_rejoin_first(entry);
		pthread_mutex_lock(&entry->client->mutex);
		entry->reds = reds;
		pthread_mutex_unlock(&entry->client->mutex);
	}
	bool serves = entry->reds && lk__compensation_reserve(entry);
	pthread_mutex_unlock(&entry->mutex);
	return serves;
}

static struct lk__red *red_new(const struct lk__entry *entry, lk_client *const *clients,
			       size_t count, const struct lk__recipe *kind, lk_error *error)
{
	struct lk__red *red = calloc(1, sizeof(*red));
	if (!red) {
		lk__fail(error, LK_ENOMEM, "lk_red_lock_new: out of memory");
		return NULL;
	}
	assert(count > 0 && count <= LK__RED_MAX);
	red->count = count;
	red->majority = count / 2 + 1;
	red->questions = LK__IDENTITY_QUESTIONS;
	for (size_t i = 0; i < count; i++) {
		struct lk__red_node *node = &red->node[i];
		bool made = lk__entry_get(&node->member, clients[i], kind, entry->name,
					  lk__entry_name_size(entry), NULL, error) == 0;
		if (made && !entry_serve_reds(node->member)) {
			lk__fail(error, LK_ENOMEM, "lk_red_lock_new: out of memory");
			made = false;
		}
		if (!made) {
			red_free(red);
			return NULL;
		}
		node->client = clients[i];
		if (clients[i]->topo->slotted)
			red->questions = LK__IDENTITY_QUESTIONS_MAX;
		if (i > 0)
			lk__client_ref(clients[i]);
	}
	return red;
}

int lk__red_make(struct lk__entry *entry, lk_client *const *clients, size_t count,
		 const struct lk__recipe *kind, int64_t quarantine_ms, int64_t node_limit_ms,
		 lk_error *error)
{
	struct lk__red *red = red_new(entry, clients, count, kind, error);
	if (!red)
		return LK_ENOMEM;
	pthread_mutex_lock(&entry->mutex);
	struct lk__red *old = lk__red_of(entry);
	bool fits = !old || red_has_clients(old, clients, count, kind);
	if (!old) {
		pthread_mutex_lock(&entry->client->mutex);
		entry->data = red;
		entry->is_quorum = true;
		pthread_mutex_unlock(&entry->client->mutex);
		red_join_fronts(red, entry);
		atomic_fetch_add(&entry->client->quorums, 1);
		red->quarantine_ms = quarantine_ms;
		red->node_limit_ms = node_limit_ms;
		red = NULL;
	} else if (fits) {
		old->quarantine_ms = quarantine_ms;
		old->node_limit_ms = node_limit_ms;
	}
	pthread_mutex_unlock(&entry->mutex);
	red_free(red);
	return fits ? 0
		    : lk__fail(
			      error, LK_EINVAL,
			      "lk_red_lock_new: \"%.100s\" is in use on other nodes, or as another "
			      "kind, with the same first client",
			      entry->name);
}

static void call_free(void *context)
{
	struct lk__nodes_call *call = context;
	lk__entry_let_go(call->entry);
	free(call);
}

void *lk__red_call_new(size_t size, struct lk__entry *entry, struct lk__thread *thread,
		       const struct lk__fan_out_use *use, int64_t until_ns)
{
	assert(size >= sizeof(struct lk__nodes_call));
	struct lk__nodes_call *call = calloc(1, size);
	if (!call)
		return NULL;
	struct lk__fan_out_use own = *use;
	own.context = call;
	own.end = call_free;
	call->fan_out = lk__fan_out_new(lk__red_of(entry)->count, &own, thread);
	if (!call->fan_out) {
		free(call);
		return NULL;
	}
	int64_t limit_ns = lk__after_ms(lk__now_ns(), entry->client->config->command_timeout_ms);
	call->until_ns = lk__earlier(limit_ns, until_ns);
	call->entry = entry;
	lk__entry_keep(entry);
	return call;
}

bool lk__red_add(const struct lk__nodes_call *call, size_t index, struct lk__conn *conn,
		 struct lk__request *request, int64_t deadline_ns)
{
	if (request) {
		request->resend = true;
		request->deadline_ns = deadline_ns;
	}
	return lk__fan_out_add(call->fan_out, index, conn, request);
}

bool lk__red_answered(const struct lk__op *op, struct lk__entry *entry)
{
	pthread_mutex_unlock(&entry->mutex);
	bool answered = lk__fan_out_look(op->fan_out, op->until_ns);
	pthread_mutex_lock(&entry->mutex);
	return answered;
}

/* ---- what its files have in common ---- */

void lk__red_give_back(struct lk__red_node *node, uint64_t number, bool unsure, int64_t until_ns,
		       int64_t lease_ms)
{
	struct lk__entry *member = node->member;
	assert(number != 0);
	pthread_mutex_lock(&member->mutex);
	lk__entry_note_red_lease(member, lease_ms);
	lk__entry_release_in_background(member, number);
	if (unsure)
		lk__compensate(member, number, until_ns);
	pthread_mutex_unlock(&member->mutex);
}

void lk__red_note_given_back(struct lk__red_node *node, uint64_t number, bool unsure)
{
	node->given_back = (struct lk__given_back){.number = number, .unsure = unsure};
}

void lk__red_note_answered(struct lk__red_node *node, uint64_t number, bool once)
{
	struct lk__given_back *given = &node->given_back;
	if (given->number != number)
		return;
	given->unsure |= !once;
	given->over = node->asked == 0 && !given->unsure;
	if (given->over)
		lk__compensation_hasten(node->member, number, true);
}

struct lk__request *lk__red_request(const struct lk__red_node *node, uint64_t number,
				    int64_t lease_ms)
{
	struct lk__entry *member = node->member;
	char field[LK__FIELD_SIZE];
	lk__field(member, number, field);
	struct lk__try wanted = {
		.target = &member->target,
		.field = field,
		.number = number,
		.lease_ms = lease_ms,
		.wait_ms = -1,
		.once = true,
	};
	return member->target.recipe->acquire(&wanted);
}

/* ---- inspection ---- */

struct inquiry {
	struct lk__nodes_call call;
	size_t answered, yes, sure; /* nodes; sure: they have done it, or have not */
};

static void inquiry_take(void *context, size_t index, const struct lk__fan_out_part *answers)
{
	struct inquiry *inquiry = context;
	const struct lk__request *request = answers->request[0];
	int64_t told = 0;
	(void)index;
	if (request->code) {
		inquiry->sure += request->code != LK_EMAYBEHELD && request->code != LK_ENOTDURABLE;
		return;
	}
	bool tells = lk__reply_integer(request->reply, 0, INT64_MAX, &told);
	inquiry->sure += tells;
	inquiry->answered += tells;
	inquiry->yes += tells && told > 0;
}

static void inquiry_ask(const struct inquiry *inquiry, struct lk__thread *thread, bool force)
{
	const struct lk__red *red = lk__red_of(inquiry->call.entry);
	const struct lk__recipe *kind = red->node[0].member->target.recipe;
	for (size_t i = 0; i < red->count; i++) {
		struct lk__entry *member = red->node[i].member;
		if (force)
			lk__ask_route(member, thread, lk__after_ms(lk__now_ns(), ROUTE_MS));
		struct lk__request *request = force ? kind->force(&member->target)
						    : kind->is_locked(&member->target);
		if (request && force)
			lk__request_frees(request);
		lk__red_add(&inquiry->call, i, lk__entry_scripts(member), request,
			    inquiry->call.until_ns);
	}
}

int lk__red_ask(struct lk__entry *entry, struct lk__thread *thread, bool force,
		size_t *answered_out, size_t *yes_out, lk_error *error)
{
	static const struct lk__fan_out_use use = {.take = inquiry_take};
	struct inquiry *inquiry = lk__red_call_new(sizeof(*inquiry), entry, thread, &use,
						   LK__NEVER);
	if (!inquiry)
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", entry->name);
	inquiry_ask(inquiry, thread, force);
	struct lk__fan_out *fan_out = inquiry->call.fan_out;
	lk__fan_out_go(fan_out);
	lk__fan_out_wait(fan_out, inquiry->call.until_ns, NULL);
	lk__fan_out_withdraw(fan_out, true);
	*answered_out = inquiry->answered;
	*yes_out = inquiry->yes;
	int unsure = (int)(lk__red_of(entry)->count - inquiry->sure);
	lk__fan_out_end(fan_out);
	return unsure;
}

/* ---- what it does for its entry ---- */

static void entry_free(struct lk__entry *entry)
{
	red_free(lk__red_of(entry));
	atomic_fetch_sub(&entry->client->quorums, 1);
	entry->data = NULL;
}

static size_t red_compensating(const struct lk__entry *entry, struct lk__node **nodes_out)
{
	const struct lk__red *red = lk__red_of(entry);
	size_t nodes = 0;
	for (size_t i = 0; i < red->count; i++) {
		struct lk__entry *member = red->node[i].member;
		if (atomic_load(&member->compensating) == 0)
			continue;
		if (nodes_out)
			nodes_out[nodes] = lk__entry_node(member);
		nodes++;
	}
	return nodes;
}

static bool red_compensated(const struct lk__entry *entry)
{
	const struct lk__red *red = lk__red_of(entry);
	return red->count - red_compensating(entry, NULL) >= red->majority;
}

const struct lk__quorum_parts lk__red_parts = {
	.free = entry_free,
	.compensating = red_compensating,
	.compensated = red_compensated,
};
