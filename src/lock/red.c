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

#define ROUTE_MS 500           /* for a cluster to tell who has the name */
#define AGAIN_NS (10 * LK__MS) /* the first pause before a node is asked to join again */

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
	if (!own.end)
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

bool lk__red_answered(const struct lk__op *op)
{
	return lk__fan_out_look(op->fan_out, op->until_ns);
}

bool lk__red_answered_under(const struct lk__op *op, struct lk__entry *entry)
{
	pthread_mutex_unlock(&entry->mutex);
	bool answered = lk__red_answered(op);
	pthread_mutex_lock(&entry->mutex);
	return answered;
}

static void entry_free(struct lk__entry *entry)
{
	red_free(lk__red_of(entry));
	atomic_fetch_sub(&entry->client->quorums, 1);
	entry->data = NULL;
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

/* The part stays until then: see red_release_unasked(). */
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

static void red_let_go(struct lk__entry *entry, uint64_t number)
{
	struct lk__red *red = lk__red_of(entry);
	for (size_t i = 0; red->kept == number && i < red->count; i++) {
		struct lk__red_node *node = &red->node[i];
		if (node->kept)
			lk__compensate_no_longer(node->member, node->kept);
		node->kept = 0;
	}
}

struct join {
	struct lk__entry *entry;
	size_t index;
	uint64_t grant;  /* the front's number, */
	uint64_t number; /* and the node's */
	int64_t lease_ms, end_ns;
	int64_t asked_lease_ms; /* as long at least */
	bool again;             /* the second question: the first came too late */
};

/* With the front's mutex held: the caller has references too. */
static void join_drop(struct join *join)
{
	atomic_fetch_sub(&join->entry->refs, 1);
	atomic_fetch_sub(&join->entry->client->refs, 1);
	free(join);
}

static void red_unjoin(struct lk__red_node *node)
{
	struct lk__request *request = node->join;
	node->join = NULL;
	node->again_ns = node->pause_ns = 0;
	if (!request || !lk__conn_withdraw(request))
		return;
	assert(node->asked > 0);
	node->asked--;
	node->part = node->before_join;
	join_drop(request->owner);
	lk__request_free(request);
}

/*
 * A lock that is lost before the time that its owner was told keeps the parts that it has until
 * then, or until the owner has released it. They can be what keeps others out: nodes that restarted
 * empty have no vote yet, and with ours another would have a majority while the owner believes its
 * deadline.
 */
static void red_release_unasked(struct lk__entry *entry, uint64_t number, int64_t promised_ns)
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
		red_unjoin(node);
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

/* ---- nodes that join the grant ---- */

/*
 * A node that was too slow for the majority, or that has lost its part, joins the grant that is
 * held. It is asked for the lock under the number that it has for this grant, in the background, on
 * the connection where a release would come behind. One question a node and grant is under way at a
 * time; one that was not sent yet is withdrawn when the grant ends. Where another has the lock, a
 * release may be on its way: that node is asked again after pauses that double.
 */

static void join_finish(struct lk__request *request);

static struct lk__request *join_request(const struct lk__red_node *node, int64_t lease_ms,
					int64_t until_ns)
{
	struct lk__entry *member = node->member;
	char field[LK__FIELD_SIZE];
	lk__field(member, node->number, field);
	struct lk__try wanted = {
		.target = &member->target,
		.field = field,
		.number = node->number,
		.lease_ms = lease_ms,
		.wait_ms = -1,
		.once = true,
	};
	struct lk__request *request = member->target.recipe->acquire(&wanted);
	if (request) {
		request->resend = true;
		request->deadline_ns = until_ns;
	}
	return request;
}

static struct join *join_new(const struct join *wanted, int64_t lease_ms)
{
	struct join *join = malloc(sizeof(*join));
	if (!join)
		return NULL;
	*join = *wanted;
	join->asked_lease_ms = lease_ms;
	lk__entry_keep(join->entry);
	return join;
}

/* With a lease for as long as the hold is certain, though the renewal that found it missing may
 * have been but a look. The front's mutex is held. */
static void join_send(const struct join *wanted)
{
	struct lk__red *red = lk__red_of(wanted->entry);
	struct lk__red_node *node = &red->node[wanted->index];
	int64_t now_ns = lk__now_ns();
	assert(!node->join && node->number != 0 && red->number == wanted->grant);
	int64_t until_ns = lk__after_ms(now_ns, node->client->config->command_timeout_ms);
	int64_t lease_ms = (wanted->end_ns - now_ns) / LK__MS + 1;
	if (wanted->end_ns < until_ns)
		until_ns = wanted->end_ns;
	if (lease_ms < wanted->lease_ms)
		lease_ms = wanted->lease_ms;
	struct join *join = join_new(wanted, lease_ms);
	struct lk__request *request = join ? join_request(node, lease_ms, until_ns) : NULL;
	if (!request) {
		if (join)
			join_drop(join);
		return; /* the next renewal will find it missing */
	}
	request->owner = join;
	request->finish = join_finish;
	if (!lk__conn_offer(lk__entry_scripts(node->member), request)) {
		join_drop(join);
		lk__request_free(request);
		return;
	}
	node->before_join = node->part;
	node->part = LK__RED_UNSURE;
	node->joined = true;
	node->joins++;
	node->asked++;
	node->join = request;
	if (until_ns > red->until_ns)
		red->until_ns = until_ns;
}

static void join_read(const struct join *join, const struct lk__request *request)
{
	struct lk__red_node *node = &lk__red_of(join->entry)->node[join->index];
	struct lk__answer answer = lk__answer_take(request,
						   node->member->target.recipe->read_acquire,
						   join->asked_lease_ms, lk__now_ns());
	bool copies = answer.event.copied;
	if (lk__red_of(join->entry)->number != join->grant) {
		bool refused = answer.event.type == LK__ATTEMPT_BUSY ||
			       answer.event.type == LK__ATTEMPT_LATE;
		bool tells = answer.event.type == LK__ATTEMPT_GRANTED || refused;
		lk__red_note_answered(node, join->number, tells && !copies && !request->redirects);
		return; /* it was released as one that may have it */
	}
	node->copies |= copies;
	if (answer.event.type == LK__ATTEMPT_GRANTED)
		node->part = LK__RED_HELD;
	else if (answer.event.type != LK__ATTEMPT_UNKNOWN && !copies)
		node->part = node->before_join;
	if (answer.event.type == LK__ATTEMPT_BUSY)
		lk__red_join_later(join->entry, join->index);
	bool late = answer.event.type == LK__ATTEMPT_LATE;
	if (late && !join->again && lk__now_ns() < join->end_ns) {
		struct join again = *join;
		again.again = true;
		join_send(&again);
	}
}

static void join_finish(struct lk__request *request)
{
	struct join *join = request->owner;
	struct lk__entry *entry = join->entry;
	struct lk__red *red = lk__red_of(entry);
	struct lk__red_node *node = &red->node[join->index];
	pthread_mutex_lock(&entry->mutex);
	assert(node->asked > 0);
	node->asked--;
	if (node->join == request)
		node->join = NULL;
	join_read(join, request);
	if (red->again && !node->join)
		lk__red_ask_again(entry);
	pthread_mutex_unlock(&entry->mutex);
	lk__request_free(request);
	free(join);
	lk__entry_let_go(entry);
}

void lk__red_ask_again(struct lk__entry *entry)
{
	lk__red_of(entry)->again = false;
	atomic_store(&entry->doubt, true);
	lk__watch_at(entry, lk__now_ns());
}

void lk__red_join(struct lk__entry *entry, size_t index, int64_t lease_ms, int64_t end_ns)
{
	const struct lk__red *red = lk__red_of(entry);
	const struct lk__red_node *node = &red->node[index];
	struct join wanted = {.entry = entry,
			      .index = index,
			      .grant = red->number,
			      .number = node->number,
			      .lease_ms = lease_ms,
			      .end_ns = end_ns};
	if (!node->join && node->asked < LK__RED_ASKED_MAX && lk__now_ns() < end_ns)
		join_send(&wanted);
}

void lk__red_join_later(struct lk__entry *entry, size_t index)
{
	struct lk__red_node *node = &lk__red_of(entry)->node[index];
	node->pause_ns = node->pause_ns ? 2 * node->pause_ns : AGAIN_NS;
	node->again_ns = lk__now_ns() + node->pause_ns;
	lk__watch_at(entry, node->again_ns);
}

/* It may have been granted a moment ago, and have no hold yet. */
void lk__red_join_turn(struct lk__entry *entry, int64_t now_ns)
{
	struct lk__red *red = lk__red_of(entry);
	const struct lk__hold *hold = entry->hold;
	for (size_t i = 0; i < red->count; i++) {
		struct lk__red_node *node = &red->node[i];
		if (!node->again_ns)
			continue;
		if (hold && now_ns >= node->again_ns) {
			node->again_ns = 0;
			lk__red_join(entry, i, lk__entry_lease_ms(entry, hold),
				     lk__hold_deadline(hold));
		} else {
			lk__watch_at(entry, hold ? node->again_ns : now_ns + AGAIN_NS);
		}
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

static void release_count_off(struct release *release)
{
	if (atomic_exchange(&release->detached, false))
		atomic_fetch_sub(&release->call.entry->client->releasing, 1);
}

static void release_free(void *context)
{
	release_count_off(context); /* what failed is being compensated */
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
		release_count_off(release);
}

/* Tells whether no majority had it any more, whatever the others say. */
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
		red_unjoin(node);
		release->lost += node->part == LK__RED_NOT_HELD;
		if (node->part == LK__RED_NOT_HELD)
			continue;
		release->unsure[i] = node_end_part(node);
		release->number[i] = node->number;
		lk__field(node->member, node->number, field);
		struct lk__request *request = lk__release_request(&node->member->target, field,
								  release->keep_ms);
		if (!lk__red_add(&release->call, i, lk__entry_scripts(node->member), request,
				 release->valid_until_ns))
			release->unsure[i] = true; /* out of memory: later, in the background */
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
		lk__fail(error, LK_ENOMEM, "release \"%.100s\": out of memory, still held",
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

static int red_release_look(struct lk__releasing *releasing)
{
	if (!lk__red_answered_under(&releasing->op, releasing->entry))
		return LK__OP_WAITS;
	return red_release_end(releasing->call, true, releasing->error);
}

static int red_release(struct lk__releasing *releasing)
{
	struct lk__op *op = &releasing->op;
	releasing->call = red_release_begin(releasing->entry, op->thread, releasing->keep_ms,
					    releasing->error);
	if (!releasing->call)
		return LK_ENOMEM;
	if (releasing->no_wait)
		return red_release_end(releasing->call, false, releasing->error);
	lk__op_wait_nodes(op, releasing->call->fan_out, releasing->call->until_ns);
	return red_release_look(releasing);
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

static bool red_compensating(const struct lk__entry *entry)
{
	struct lk__node *nodes[LK__RED_MAX];
	return lk__red_compensating_nodes(entry, nodes) > 0;
}

static bool red_compensated(const struct lk__entry *entry)
{
	const struct lk__red *red = lk__red_of(entry);
	struct lk__node *nodes[LK__RED_MAX];
	return red->count - lk__red_compensating_nodes(entry, nodes) >= red->majority;
}

const struct lk__quorum_grants lk__red_grants = {
	.free = entry_free,
	.release_unasked = red_release_unasked,
	.let_go = red_let_go,
	.compensating = red_compensating,
	.compensated = red_compensated,
	.release = red_release,
	.release_look = red_release_look,
};
