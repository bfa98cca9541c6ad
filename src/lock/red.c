/* SPDX-License-Identifier: MIT */
#include "lock/red.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "lock/client.h"
#include "lock/compensation.h"
#include "lock/entry.h"
#include "lock/entry_table.h"
#include "lock/hold.h"
#include "lock/operation.h"
#include "lock/release.h"
#include "resp/reply.h"

#define ROUTE_MS 500 /* for a cluster to tell who has the name */

/* ---- making ---- */

static bool red_is_over(const struct lk__red *red, lk_client *const *clients, size_t count,
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
		if (made && !lk__entry_serve_reds(node->member)) {
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
	bool fits = !old || red_is_over(old, clients, count, kind);
	if (!old) {
		pthread_mutex_lock(&entry->client->mutex);
		entry->data = red;
		entry->spreads = true;
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

void lk__red_ref(struct lk__entry *entry)
{
	lk__client_ref(entry->client);
	lk__entry_ref(entry);
}

void lk__red_unref(struct lk__entry *entry)
{
	lk_client *client = entry->client;
	lk__entry_unref(entry);
	lk__client_unref(client);
}

static void call_free(void *context)
{
	struct lk__nodes_call *call = context;
	lk__red_unref(call->entry);
	free(call);
}

void *lk__red_call_new(size_t size, struct lk__entry *entry, struct lk__thread *thread,
		       const struct lk__fan_out_use *use, int64_t until_ns)
{
	assert(size >= sizeof(struct lk__nodes_call));
	struct lk__nodes_call *call = calloc(1, size);
	if (!call) {
		errno = ENOMEM;
		return NULL;
	}
	struct lk__fan_out_use own = *use;
	own.context = call;
	if (!own.end)
		own.end = call_free;
	call->fan_out = lk__fan_out_new(lk__red_of(entry)->count, &own, thread);
	if (!call->fan_out) {
		int failed = errno;
		free(call);
		errno = failed;
		return NULL;
	}
	int64_t limit_ns = lk__after_ms(lk__now_ns(), entry->client->config->command_timeout_ms);
	call->until_ns = lk__earlier(limit_ns, until_ns);
	call->entry = entry;
	lk__red_ref(entry);
	return call;
}

void lk__red_free(struct lk__entry *entry)
{
	red_free(lk__red_of(entry));
	atomic_fetch_sub(&entry->client->quorums, 1);
	entry->data = NULL;
	lk__watch_forget(entry->client, entry); /* a node may have been lost until now */
}

/* ---- which node of a client ---- */

struct lk__conn *lk__red_conn(const struct lk__entry *member, struct lk__node *place)
{
	return lk__node_scripts_at(place, atomic_load(&member->conn_index));
}

/* ---- giving back ---- */

void lk__red_give_back(struct lk__red_node *node, uint64_t number, bool unsure, int64_t until_ns,
		       int64_t lease_ms)
{
	struct lk__entry *member = node->member;
	assert(number != 0);
	pthread_mutex_lock(&member->mutex);
	lk__entry_note_red_lease(member, lease_ms);
	lk__entry_release_unasked(member, number);
	if (unsure)
		lk__compensate(member, number, until_ns);
	pthread_mutex_unlock(&member->mutex);
}

/* A renewal may have found the lock there before the try itself was answered: a copy of that try
 * may still run. */
static bool node_is_unsure(const struct lk__red_node *node)
{
	return node->part == LK__RED_UNSURE || node->copies || node->asked > 0;
}

/* The node has released it: see lk__compensate_given(). */
static void red_given(struct lk__red_node *node, uint64_t number, int64_t lease_ms,
		      const struct lk__request *request)
{
	struct lk__entry *member = node->member;
	pthread_mutex_lock(&member->mutex);
	lk__entry_note_red_lease(member, lease_ms);
	lk__compensate_given(member, number, request);
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
		lk__compensation_hasten(node->member, number);
}

/* The node's part of the current grant goes back. Returns whether a copy of a try may still run. */
static bool node_end_part(struct lk__red_node *node)
{
	bool unsure = node_is_unsure(node);
	bool unsure_before = node->joined && node->before_join == LK__RED_UNSURE;
	lk__red_note_given_back(node, node->number, node->copies || unsure_before);
	node->part = LK__RED_NOT_HELD;
	return unsure;
}

/* The part stays until then: see lk__red_release_unasked(). */
static void node_keep_part(struct lk__red_node *node, bool unsure, int64_t until_ns,
			   int64_t promised_ns, int64_t lease_ms)
{
	struct lk__entry *member = node->member;
	pthread_mutex_lock(&member->mutex);
	lk__entry_note_red_lease(member, lease_ms);
	node->kept = node->number;
	lk__compensate_kept(member, node->number, unsure ? until_ns : lk__now_ns(), promised_ns);
	pthread_mutex_unlock(&member->mutex);
}

void lk__red_let_go(struct lk__entry *entry, uint64_t number)
{
	struct lk__red *red = lk__red_of(entry);
	for (size_t i = 0; red->kept == number && i < red->count; i++) {
		struct lk__red_node *node = &red->node[i];
		if (node->kept)
			lk__compensate_no_longer(node->member, node->kept);
		node->kept = 0;
	}
}

/*
 * A lock that is lost before the time that its owner was told keeps the parts that it has until
 * then, or until the owner has released it. They can be what keeps others out: nodes that restarted
 * empty have no vote yet, and with ours another would have a majority while the owner believes its
 * deadline.
 */
void lk__red_release_unasked(struct lk__entry *entry, uint64_t number, int64_t promised_ns)
{
	struct lk__red *red = lk__red_of(entry);
	bool promised = lk__now_ns() < promised_ns;
	if (red->number != number)
		return;
	red->number = 0;
	if (promised)
		red->kept = number;
	for (size_t i = 0; i < red->count; i++) {
		struct lk__red_node *node = &red->node[i];
		lk__red_unjoin(node);
		node->kept = 0; /* of an earlier one, whose owner is another: it stays */
		if (node->part == LK__RED_NOT_HELD)
			continue;
		bool unsure = node_end_part(node);
		if (promised)
			node_keep_part(node, unsure, red->until_ns, promised_ns,
				       entry->grant.lease_ms);
		else
			lk__red_give_back(node, node->number, unsure, red->until_ns,
					  entry->grant.lease_ms);
	}
}

/* ---- release ---- */

struct release {
	struct lk__nodes_call call;
	bool passes; /* it has set entry->passing */
	size_t majority;
	size_t released, lost; /* nodes; lost: it was gone, or never there */
	int64_t valid_until_ns, until_ns, lease_ms;
	int64_t keep_ms, begun_ns; /* as in struct lk__release */
	bool unsure[LK__RED_MAX];
	uint64_t number[LK__RED_MAX];
	/* Of one that nobody waits for but close, which waits for a majority: */
	_Atomic size_t confirmed;
	_Atomic bool detached; /* it counts as under way */
};

static void release_settle(struct release *release)
{
	if (atomic_exchange(&release->detached, false))
		atomic_fetch_sub(&release->call.entry->client->releasing, 1);
}

static void release_free(void *context)
{
	release_settle(context); /* what failed is being compensated */
	call_free(context);
}

static enum lk__released release_read(const struct release *release,
				      const struct lk__red_node *node,
				      const struct lk__request *request)
{
	const struct lk__recipe *kind = node->member->target.recipe;
	int64_t listeners;
	return (release->keep_ms ? kind->read_keep : kind->read_release)(request, &listeners);
}

/* The node has done it; `request`: NULL, an earlier copy of it did. */
static void release_given(const struct release *release, size_t index,
			  const struct lk__request *request)
{
	struct lk__red_node *node = &lk__red_of(release->call.entry)->node[index];
	if (!release->keep_ms)
		red_given(node, release->number[index], release->lease_ms, request);
	else
		lk__client_record_keep(node->client, lk__after_ms(lk__now_ns(), release->keep_ms));
}

/* It failed there. What was to be kept is left to its lease. */
static void release_failed(const struct release *release, size_t index)
{
	struct lk__red_node *node = &lk__red_of(release->call.entry)->node[index];
	if (!release->keep_ms)
		lk__red_give_back(node, release->number[index], true, release->valid_until_ns,
				  release->lease_ms);
}

static void release_take(void *context, size_t index, const struct lk__fan_out_part *answers)
{
	struct release *release = context;
	const struct lk__red_node *node = &lk__red_of(release->call.entry)->node[index];
	const struct lk__request *request = answers->request[0];
	assert(release->number[index] != 0);
	switch (release_read(release, node, request)) {
	case LK__RELEASED:
		release->released++;
		release_given(release, index, request);
		break;
	case LK__RELEASED_NOT_OWNER:
		if (lk__release_is_lost(request, release->keep_ms, release->begun_ns)) {
			release->lost++;
			break;
		}
		release->released++;
		release_given(release, index, NULL);
		break;
	case LK__RELEASED_FAILED:
		release->unsure[index] = true;
		release_failed(release, index);
		break;
	}
}

/* After the verdict: several readers may be here at once. */
static void release_late(void *context, size_t index, const struct lk__fan_out_part *answers)
{
	struct release *release = context;
	const struct lk__red_node *node = &lk__red_of(release->call.entry)->node[index];
	const struct lk__request *request = answers->request[0];
	enum lk__released said = release_read(release, node, request);
	if (said == LK__RELEASED)
		release_given(release, index, request);
	if (said == LK__RELEASED_FAILED)
		release_failed(release, index);
	else if (atomic_fetch_add(&release->confirmed, 1) + 1 == release->majority)
		release_settle(release);
}

/* Whether no majority had it any more, whatever the others say. */
static bool release_is_lost(const struct release *release)
{
	const struct lk__red *red = lk__red_of(release->call.entry);
	return release->lost > red->count - release->majority;
}

static bool release_decided(void *context)
{
	const struct release *release = context;
	return release->released >= release->majority || release_is_lost(release);
}

/* The releases of all that was, or may have been, granted. */
static void release_ask(struct release *release)
{
	struct lk__red *red = lk__red_of(release->call.entry);
	char field[LK__FIELD_SIZE];
	for (size_t i = 0; i < red->count; i++) {
		struct lk__red_node *node = &red->node[i];
		lk__red_unjoin(node);
		release->lost += node->part == LK__RED_NOT_HELD;
		if (node->part == LK__RED_NOT_HELD)
			continue;
		release->unsure[i] = node_end_part(node);
		release->number[i] = node->number;
		lk__field(node->member, node->number, field);
		struct lk__request *request = lk__release_request(&node->member->target, field,
								  release->keep_ms);
		if (request) {
			request->resend = true;
			request->deadline_ns = release->valid_until_ns;
		} else {
			release->unsure[i] = true; /* out of memory: later, in the background */
		}
		lk__fan_out_add(release->call.fan_out, i, lk__entry_scripts(node->member), request);
	}
}

/* Where a try has had no answer, a copy of it may still run. The front's mutex is held. */
static void release_compensate(const struct release *release)
{
	const struct lk__red *red = lk__red_of(release->call.entry);
	int64_t now_ns = lk__now_ns();
	for (size_t i = 0; i < red->count; i++) {
		const struct lk__given_back *given = &red->node[i].given_back;
		struct lk__entry *member = red->node[i].member;
		bool over = given->over && given->number == release->number[i];
		if (!release->unsure[i])
			continue;
		pthread_mutex_lock(&member->mutex);
		lk__entry_note_red_lease(member, release->lease_ms);
		lk__compensate_copies(member, release->number[i],
				      over ? now_ns : release->until_ns);
		pthread_mutex_unlock(&member->mutex);
	}
}

static int release_verdict(const struct release *release, lk_error *error)
{
	const char *name = release->call.entry->name;
	assert(release->released + release->lost <= lk__red_of(release->call.entry)->count);
	if (release->released >= release->majority)
		return 0;
	if (release_is_lost(release))
		return lk__fail(error, LK_ELOST,
				"release \"%.100s\": %zu of the nodes had lost it before", name,
				release->lost);
	return lk__fail(error, LK_EMAYBEHELD,
			"release \"%.100s\": confirmed by %zu nodes, %zu are a majority", name,
			release->released, release->majority);
}

static struct release *release_new(struct lk__entry *entry, struct lk__thread *thread,
				   int64_t keep_ms)
{
	static const struct lk__fan_out_use use = {
		.take = release_take,
		.decided = release_decided,
		.late = release_late,
		.end = release_free,
	};
	const struct lk__red *red = lk__red_of(entry);
	struct release *release = lk__red_call_new(sizeof(*release), entry, thread, &use,
						   entry->grant.valid_until_ns);
	if (!release)
		return NULL;
	release->majority = red->majority;
	release->valid_until_ns = entry->grant.valid_until_ns;
	release->until_ns = red->until_ns;
	release->lease_ms = entry->grant.lease_ms;
	release->keep_ms = keep_ms;
	release->begun_ns = lk__now_ns();
	return release;
}

static struct lk__nodes_call *red_release_begin(struct lk__entry *entry, struct lk__thread *thread,
						int64_t keep_ms, lk_error *error)
{
	struct release *release = release_new(entry, thread, keep_ms);
	if (!release) {
		entry->hold->count = 1;
		lk__fail(error, LK_ENOMEM,
			 "release \"%.100s\": out of memory or descriptors, still held",
			 entry->name);
		return NULL;
	}
	assert(entry->hold && lk__red_of(entry)->number == entry->grant.number);
	release_ask(release);
	lk__red_of(entry)->number = 0;
	lk__entry_drop_hold(entry, lk__now_ns());
	release->passes = entry->passing = lk__entry_first(entry) != NULL;
	atomic_fetch_add(&entry->client->releasing, 1);
	pthread_mutex_unlock(&entry->mutex);
	lk__fan_out_go(release->call.fan_out);
	pthread_mutex_lock(&entry->mutex);
	release_compensate(release);
	return &release->call;
}

static int red_release_end(struct lk__nodes_call *call, bool waited, lk_error *error)
{
	struct release *release = (struct release *)call;
	struct lk__entry *entry = call->entry;
	bool passes = release->passes;
	int rc = waited ? release_verdict(release, error) : 0;
	if (rc == 0)
		lk__entry_count(entry, releases, 1);
	pthread_mutex_unlock(&entry->mutex);
	atomic_store(&release->detached, !waited);
	lk__fan_out_end(call->fan_out);
	if (waited)
		atomic_fetch_sub(&entry->client->releasing, 1);
	pthread_mutex_lock(&entry->mutex);
	if (passes) {
		entry->passing = false;
		lk__entry_promote(entry);
	}
	return rc;
}

/* ---- inspection ---- */

struct inquiry {
	size_t answered, yes, unsure;
};

static void inquiry_read(void *context, size_t index, const struct lk__request *request)
{
	struct inquiry *inquiry = context;
	(void)index;
	assert(!request || request->code || request->reply);
	inquiry->unsure += !request || request->code == LK_EMAYBEHELD ||
			   request->code == LK_ENOTDURABLE;
	if (!request || request->code)
		return;
	int64_t told = 0;
	if (!lk__reply_integer(request->reply, 0, INT64_MAX, &told)) {
		inquiry->unsure++;
		return;
	}
	inquiry->answered++;
	inquiry->yes += told > 0;
}

int lk__red_ask(struct lk__entry *entry, struct lk__thread *thread, bool force,
		size_t *answered_out, size_t *yes_out, lk_error *error)
{
	struct lk__red *red = lk__red_of(entry);
	const struct lk__recipe *kind = red->node[0].member->target.recipe;
	struct inquiry inquiry = {0};
	struct lk__asks asks = {.count = red->count, .read = inquiry_read, .context = &inquiry};
	int64_t until_ns = lk__after_ms(lk__now_ns(), entry->client->config->command_timeout_ms);
	for (size_t i = 0; i < red->count; i++) {
		struct lk__entry *member = red->node[i].member;
		if (force)
			lk__ask_route(member, thread, lk__after_ms(lk__now_ns(), ROUTE_MS));
		struct lk__request *request = force ? kind->force(&member->target)
						    : kind->is_locked(&member->target);
		if (!request) {
			while (i > 0)
				lk__request_free(asks.of[--i].request);
			return lk__fail(error, LK_ENOMEM, "%s: out of memory", entry->name);
		}
		request->resend = true;
		if (force)
			lk__request_frees(request);
		request->deadline_ns = until_ns;
		asks.of[i] = (struct lk__ask){lk__entry_scripts(member), request};
	}
	lk__asks_run(&asks, thread, until_ns);
	*answered_out = inquiry.answered;
	*yes_out = inquiry.yes;
	return (int)inquiry.unsure;
}

size_t lk__red_compensating_nodes(const struct lk__entry *entry,
				  struct lk__node *nodes_out[LK__RED_MAX])
{
	const struct lk__red *red = lk__red_of(entry);
	size_t nodes = 0;
	for (size_t i = 0; i < red->count; i++)
		if (atomic_load(&red->node[i].member->compensating) > 0)
			nodes_out[nodes++] = lk__entry_node(red->node[i].member);
	return nodes;
}

bool lk__red_compensating(const struct lk__entry *entry)
{
	struct lk__node *nodes[LK__RED_MAX];
	return lk__red_compensating_nodes(entry, nodes) > 0;
}

bool lk__red_compensated(const struct lk__entry *entry)
{
	const struct lk__red *red = lk__red_of(entry);
	struct lk__node *nodes[LK__RED_MAX];
	return red->count - lk__red_compensating_nodes(entry, nodes) >= red->majority;
}

/* ---- the calls ---- */

/* The calls of a red lock: each is begun at all nodes, waited for, and ended. */

/* Whether all that is needed of the nodes is there, or is not waited for any more. Their answers
 * are taken without the entry's mutex. */
static bool nodes_answered(const struct lk__op *op)
{
	return lk__fan_out_look(op->fan_out) || lk__now_ns() >= op->until_ns;
}

/* The same for one who has that mutex. */
static bool nodes_answered_under(const struct lk__op *op, struct lk__entry *entry)
{
	pthread_mutex_unlock(&entry->mutex);
	bool answered = nodes_answered(op);
	pthread_mutex_lock(&entry->mutex);
	return answered;
}

/* ---- tries ---- */

/* Each node of a try connects on its own. */
struct lk__conn *lk__red_route(struct lk__head *head)
{
	(void)head;
	return NULL;
}

int lk__red_send(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	entry->asked_lease_ms = entry->waiting->attempt.asked_lease_ms;
	head->epoch = lk__entry_begin_try(entry);
	head->event = (struct lk__attempt_event){.type = LK__ATTEMPT_FAILED};
	lk__entry_try_begins(entry); /* the next step ends it, also where nothing is sent */
	head->call = lk__red_try_begin(entry, head->waiter, &head->event, head->error);
	if (!head->call)
		return 0;
	head->wait = LK__HEAD_ANSWER;
	lk__op_wait_nodes(head->op, head->call->fan_out, head->call->until_ns);
	return lk__red_send_look(head);
}

int lk__red_send_look(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	if (!nodes_answered_under(head->op, entry) && !lk__head_gone(head))
		return LK__OP_WAITS;
	int rc = lk__red_try_end(head->call, &head->event, head->error);
	head->call = NULL;
	if (rc == 0 && head->event.type == LK__ATTEMPT_BUSY) {
		lk__entry_count(entry, busy, 1);
		lk__entry_note_wait(entry, head->waiter);
	}
	return rc;
}

/* ---- what is held ---- */

int lk__red_release(struct lk__releasing *releasing)
{
	struct lk__op *op = &releasing->op;
	releasing->call = red_release_begin(releasing->entry, op->thread, releasing->keep_ms,
					    releasing->error);
	if (!releasing->call)
		return LK_ENOMEM;
	if (releasing->no_wait)
		return red_release_end(releasing->call, false, releasing->error);
	lk__op_wait_nodes(op, releasing->call->fan_out, releasing->call->until_ns);
	return lk__red_release_look(releasing);
}

int lk__red_release_look(struct lk__releasing *releasing)
{
	if (!nodes_answered_under(&releasing->op, releasing->entry))
		return LK__OP_WAITS;
	return red_release_end(releasing->call, true, releasing->error);
}

int lk__red_extend(struct lk__extending *extending)
{
	struct lk__op *op = &extending->op;
	int rc = lk__red_extend_begin(&extending->call, extending->entry, op->thread,
				      &extending->extension, extending->error);
	if (rc < 0)
		return rc;
	lk__op_wait_nodes(op, extending->call->fan_out, extending->call->until_ns);
	return lk__red_extend_look(extending);
}

int lk__red_extend_look(struct lk__extending *extending)
{
	if (!nodes_answered(&extending->op))
		return LK__OP_WAITS;
	return lk__red_extend_end(extending->call, extending->error);
}
