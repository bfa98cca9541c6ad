/* SPDX-License-Identifier: MIT */
/*
 * What keeps a red lock, and what gives it back: joins, renewals, extensions, release.
 *
 * A majority must confirm a renewal or an extension. A node that has it no more, while the majority
 * stands, is given it anew under the same number; a lock that was lost never is. A release frees
 * what was, or may have been, granted on each node.
 */
#include "lock/red.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "lock/compensation.h"
#include "lock/hold.h"
#include "lock/loop.h"
#include "lock/told.h"
#include "sync/script.h"

#define AGAIN_NS (10 * LK__MS) /* the first pause before a node is asked to join again */

/* ---- nodes that join the grant ---- */

/*
 * A node that was too slow for the majority, or that has lost its part, joins the grant that is
 * held. It is asked for the lock under the number that it has for this grant, in the background, on
 * the connection where a release would come behind. One question a node and grant is under way at a
 * time; one that was not sent yet is withdrawn when the grant ends. Where another has the lock, a
 * release may be on its way: that node is asked again after pauses that double.
 */

struct join {
	struct lk__entry *entry;
	size_t index;
	uint64_t grant;  /* the front's number, */
	uint64_t number; /* and the node's */
	int64_t lease_ms, end_ns;
	int64_t asked_lease_ms; /* as long at least */
	bool again;             /* the second question: the first came too late */
};

/* The entry's mutex is held here and below, unless it says otherwise. */

/* Another has it there. */
static void join_later(struct lk__entry *entry, size_t index)
{
	struct lk__red_node *node = &lk__red_of(entry)->node[index];
	node->pause_ns = node->pause_ns ? 2 * node->pause_ns : AGAIN_NS;
	node->again_ns = lk__now_ns() + node->pause_ns;
	lk__watch_at(entry, node->again_ns);
}

/* Asks all nodes at once: a renewal was undecided, and what was in its way is over. */
static void ask_again(struct lk__entry *entry)
{
	lk__red_of(entry)->again = false;
	atomic_store(&entry->doubt, true);
	lk__watch_at(entry, lk__now_ns());
}

static void join_finish(struct lk__request *request);

/* With a lease for as long as the hold is certain, though the renewal that found it missing may
 * have been but a look. Without memory the next renewal finds it missing. `again`: the first
 * question came too late. */
static void join_ask(struct lk__entry *entry, size_t index, int64_t lease_ms, int64_t end_ns,
		     bool again)
{
	struct lk__red *red = lk__red_of(entry);
	struct lk__red_node *node = &red->node[index];
	int64_t now_ns = lk__now_ns();
	if (node->join || node->asked >= LK__RED_ASKED_MAX || now_ns >= end_ns)
		return;
	assert(node->number != 0);
	int64_t until_ns = lk__after_ms(now_ns, node->client->config->command_timeout_ms);
	int64_t asked_ms = lk__later((end_ns - now_ns) / LK__MS + 1, lease_ms);
	until_ns = lk__earlier(until_ns, end_ns);
	struct join *join = malloc(sizeof(*join));
	struct lk__request *request = join ? lk__red_request(node, node->number, asked_ms) : NULL;
	if (request) {
		*join = (struct join){.entry = entry,
				      .index = index,
				      .grant = red->number,
				      .number = node->number,
				      .lease_ms = lease_ms,
				      .asked_lease_ms = asked_ms,
				      .end_ns = end_ns,
				      .again = again};
		request->owner = join;
		request->finish = join_finish;
		request->resend = true;
		request->deadline_ns = until_ns;
	}
	if (!request || !lk__conn_offer(lk__entry_scripts(node->member), request)) {
		lk__request_free(request);
		free(join);
		return;
	}
	lk__entry_keep(entry);
	node->before_join = node->part;
	node->part = LK__RED_UNSURE;
	node->joined = true;
	node->joins++;
	node->asked++;
	node->join = request;
	red->until_ns = lk__later(red->until_ns, until_ns);
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
		join_later(join->entry, join->index);
	if (answer.event.type == LK__ATTEMPT_LATE && !join->again)
		join_ask(join->entry, join->index, join->lease_ms, join->end_ns, true);
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
		ask_again(entry);
	pthread_mutex_unlock(&entry->mutex);
	lk__request_free(request);
	free(join);
	lk__entry_let_go(entry);
}

void lk__red_join(struct lk__entry *entry, size_t index, int64_t lease_ms, int64_t end_ns,
		  bool busy)
{
	if (busy)
		join_later(entry, index);
	else
		join_ask(entry, index, lease_ms, end_ns, false);
}

/* It may have been granted a moment ago, and have no hold yet. */
static void joins_turn(struct lk__entry *entry, int64_t now_ns)
{
	struct lk__red *red = lk__red_of(entry);
	const struct lk__hold *hold = entry->hold;
	for (size_t i = 0; i < red->count; i++) {
		struct lk__red_node *node = &red->node[i];
		if (!node->again_ns)
			continue;
		if (hold && now_ns >= node->again_ns) {
			node->again_ns = 0;
			join_ask(entry, i, lk__entry_lease_ms(entry, hold), lk__hold_deadline(hold),
				 false);
		} else {
			lk__watch_at(entry, hold ? node->again_ns : now_ns + AGAIN_NS);
		}
	}
}

/* The caller has references, too. */
static void join_end(struct lk__red_node *node)
{
	struct lk__request *request = node->join;
	node->join = NULL;
	node->again_ns = node->pause_ns = 0;
	if (!request || !lk__conn_withdraw(request))
		return;
	struct join *join = request->owner;
	assert(node->asked > 0);
	node->asked--;
	node->part = node->before_join;
	atomic_fetch_sub(&join->entry->refs, 1);
	atomic_fetch_sub(&join->entry->client->refs, 1);
	free(join);
	lk__request_free(request);
}

/* ---- questions that a majority decides ---- */

struct poll {
	struct lk__nodes_call call;
	size_t yes, no;
};

/* A majority has it: only then may a node be given it again. Else another may have had it. */
static bool poll_is_won(const struct poll *poll)
{
	return poll->yes >= lk__red_of(poll->call.entry)->majority;
}

static bool poll_is_lost(const struct poll *poll)
{
	const struct lk__red *red = lk__red_of(poll->call.entry);
	return poll->no > red->count - red->majority;
}

static bool poll_decided(void *context)
{
	const struct poll *poll = context;
	return poll_is_won(poll) || poll_is_lost(poll);
}

static int poll_fail(const struct poll *poll, const char *what, int code, lk_error *error)
{
	const struct lk__entry *entry = poll->call.entry;
	return lk__fail(error, code, "%s \"%.100s\": confirmed by %zu nodes, %zu are a majority",
			what, entry->name, poll->yes, lk__red_of(entry)->majority);
}

/* ---- a round of renewals, or an extension ---- */

struct asked {
	uint64_t number;
	bool open;      /* when it was asked, an earlier try or join had no answer yet, and went
			 * over another connection */
	unsigned joins; /* how often it had been asked to join by then */
	bool answered;
	bool gone; /* the node has it no more, and was not given it again */
};

struct lk__red_round {
	struct poll poll;
	int64_t lease_ms;
	size_t waiting; /* answers */
	bool current;   /* it was of the grant that is held */
	bool held;      /* a majority has it */
	struct asked of[LK__RED_MAX];
	/* Of renewals. They are concluded once red->round is another. */
	struct lk__sent_renewal renewal;
	int64_t sent_ns;
	struct lk__trouble trouble; /* of the first node that did not confirm it; code 0: none */
};

static void round_take(void *context, size_t index, const struct lk__fan_out_part *answers);
static void round_look(void *context, size_t index);

static const struct lk__fan_out_use renewals = {.late = round_take, .behind = round_look};
static const struct lk__fan_out_use extension = {
	.take = round_take, .decided = poll_decided, .late = round_take};

/* Asks all, unless the grant is another's by now. `until_ns`: of an extension; 0: it renews. */
static void round_ask(struct lk__red_round *round, uint64_t number, int64_t until_ns)
{
	const struct lk__red *red = lk__red_of(round->poll.call.entry);
	round->current = red->number == number;
	round->sent_ns = lk__now_ns();
	for (size_t i = 0; round->current && i < red->count; i++) {
		const struct lk__red_node *node = &red->node[i];
		struct lk__entry *member = node->member;
		struct lk__conn *conn = lk__entry_scripts(member);
		int64_t deadline_ns = until_ns;
		char field[LK__FIELD_SIZE];
		struct lk__renewal renewal = {&member->target, field, round->lease_ms};
		round->of[i] = (struct asked){.number = node->number, .joins = node->joins};
		if (until_ns) { /* what takes long to be compensated may outlast what was held */
			pthread_mutex_lock(&member->mutex);
			lk__entry_note_red_lease(member, round->lease_ms);
			pthread_mutex_unlock(&member->mutex);
		} else {
			conn = lk__node_work(lk__entry_node(member));
			deadline_ns = lk__after_ms(round->sent_ns,
						   node->client->config->command_timeout_ms);
			round->of[i].open = node->part == LK__RED_UNSURE;
		}
		lk__field(member, node->number, field);
		round->waiting += lk__red_add(&round->poll.call, i, conn,
					      member->target.recipe->renew(&renewal, 1),
					      deadline_ns);
	}
}

/* Tells whether that was asked of the grant that is held, and is certain, now. */
static bool round_is_current(const struct lk__red_round *round, size_t index)
{
	const struct lk__entry *entry = round->poll.call.entry;
	const struct lk__red *red = lk__red_of(entry);
	const struct lk__hold *hold = entry->hold;
	return hold && red->number == entry->grant.number &&
	       red->node[index].number == round->of[index].number &&
	       lk__now_ns() < lk__hold_deadline(hold);
}

/* "No" does not count where a try or a join was on its way when the node was asked, or left since:
 * it may be granted behind that. */
static bool round_counts_no(const struct lk__red_round *round, size_t index)
{
	const struct lk__red_node *node = &lk__red_of(round->poll.call.entry)->node[index];
	return !round->of[index].open && node->joins == round->of[index].joins;
}

static void round_add(struct lk__red_round *round, size_t index, int answer)
{
	struct asked *asked = &round->of[index];
	assert(round->waiting > 0 && !asked->answered);
	if (answer == 1 && round_is_current(round, index))
		lk__red_of(round->poll.call.entry)->node[index].part = LK__RED_HELD;
	round->poll.yes += answer == 1;
	round->poll.no += answer == 0 && round_counts_no(round, index);
	round->waiting--;
	asked->answered = true;
	asked->gone = answer == 0;
}

static void round_repair(struct lk__red_round *round)
{
	struct lk__entry *entry = round->poll.call.entry;
	for (size_t i = 0; i < lk__red_of(entry)->count; i++) {
		if (round->of[i].gone && round_is_current(round, i))
			join_ask(entry, i, round->lease_ms, lk__hold_deadline(entry->hold), false);
		round->of[i].gone = false;
	}
}

/* ---- how renewals end ---- */

/* Without a majority: what of its first node that did not answer, or refused. */
static void round_trouble(const struct lk__red_round *round, struct lk__trouble *trouble)
{
	const struct lk__red *red = lk__red_of(round->poll.call.entry);
	struct lk__trouble first = round->trouble;
	for (size_t i = 0; i < red->count && !first.code; i++)
		if (!round->of[i].answered)
			lk__trouble_read(&first, lk__entry_node(red->node[i].member), NULL);
	*trouble = first;
	trouble->code = LK_ENOQUORUM;
	snprintf(trouble->reason, sizeof(trouble->reason),
		 "%zu of %zu nodes have confirmed it, %zu are a majority: %.150s", round->poll.yes,
		 red->count, red->majority, first.code ? first.reason : "others have it");
}

/* Tells whether a no did not count because of a join that is under way, or has ended since. */
static bool round_met_join(const struct lk__red_round *round, bool ended)
{
	const struct lk__red *red = lk__red_of(round->poll.call.entry);
	for (size_t i = 0; i < red->count; i++) {
		const struct lk__red_node *node = &red->node[i];
		bool met = round->of[i].gone && !round_counts_no(round, i);
		if (met && (ended ? node->part != LK__RED_UNSURE : node->join != NULL))
			return true;
	}
	return false;
}

/* `outcome`: 1, it was renewed; 0, it is lost; -1: neither is certain. */
static void round_conclude(struct lk__red_round *round, int outcome)
{
	struct lk__entry *entry = round->poll.call.entry;
	struct lk__red *red = lk__red_of(entry);
	struct lk__trouble trouble;
	assert(red->round == round);
	round->held = outcome == 1;
	if (outcome < 0)
		round_trouble(round, &trouble);
	red->round = NULL;
	lk__renewal_answered(&round->renewal, outcome, round->sent_ns, &trouble);
	red->again = outcome < 0 && round_met_join(round, false);
	if (outcome < 0 && !red->again && round_met_join(round, true))
		ask_again(entry);
	atomic_fetch_sub(&entry->refs, 1); /* of `renewal`, never the last: the call has one */
}

/* Draws what follows from what is known by now. */
static void round_go_on(struct lk__red_round *round)
{
	bool decided = poll_decided(&round->poll);
	bool concludes = lk__red_of(round->poll.call.entry)->round == round;
	if (concludes && (decided || round->waiting == 0))
		round_conclude(round, decided ? poll_is_won(&round->poll) : -1);
	if (round->held)
		round_repair(round);
}

/* Without the mutex; after the verdict several readers may be here at once. */
static void round_take(void *context, size_t index, const struct lk__fan_out_part *answers)
{
	struct lk__red_round *round = context;
	struct lk__entry *entry = round->poll.call.entry;
	int answer = lk__reply_renewed(answers->request[0], 1, 0);
	struct lk__trouble trouble = {.code = 0};
	if (answer < 0)
		lk__trouble_read(&trouble, answers->request[0]->conn->node, answers->request[0]);
	pthread_mutex_lock(&entry->mutex);
	if (!round->trouble.code)
		round->trouble = trouble;
	round_add(round, index, answer);
	round_go_on(round);
	pthread_mutex_unlock(&entry->mutex);
}

/* ---- by the watchdog, without the mutex ---- */

/* The node's server is to tell its client when the member's key is gone or changed. */
static void node_look(const struct lk__red_node *node)
{
	struct lk__looks *looks = NULL;
	lk__loop_start(node->client, NULL);
	pthread_mutex_lock(&node->member->mutex);
	lk__looks_add(&looks, node->member);
	pthread_mutex_unlock(&node->member->mutex);
	lk__looks_send(looks);
}

/* In one write with the renewal: what is written over in between is told by nobody. */
static void round_look(void *context, size_t index)
{
	const struct lk__red_round *round = context;
	node_look(&lk__red_of(round->poll.call.entry)->node[index]);
}

static bool red_renew(const struct lk__sent_renewal *renewal)
{
	struct lk__entry *entry = renewal->entry;
	struct lk__red_round *round = lk__red_call_new(sizeof(*round), entry, NULL, &renewals,
						       LK__NEVER);
	if (!round)
		return false;
	struct lk__nodes_call *call = &round->poll.call;
	round->renewal = *renewal;
	round->lease_ms = renewal->lease_ms;
	pthread_mutex_lock(&entry->mutex);
	round_ask(round, renewal->number, 0);
	lk__red_of(entry)->round = round;
	lk__watch_at(entry, call->until_ns);
	if (round->waiting == 0)
		round_go_on(round);
	pthread_mutex_unlock(&entry->mutex);
	lk__fan_out_go(call->fan_out);
	lk__fan_out_end(call->fan_out);
	return true;
}

/* A node that is being connected to answers when that ends, which may take longer than the lease
 * lasts: the others are asked again without it. */
static void red_turn(struct lk__entry *entry)
{
	const struct lk__red *red = lk__red_of(entry);
	int64_t now_ns = lk__now_ns();
	pthread_mutex_lock(&entry->mutex);
	joins_turn(entry, now_ns);
	if (red->round && now_ns >= red->round->poll.call.until_ns)
		round_conclude(red->round, -1);
	else if (red->round)
		lk__watch_at(entry, red->round->poll.call.until_ns);
	bool looks = entry->hold && now_ns >= lk__tracked_due_ns(entry);
	if (looks)
		entry->tracked = 1; /* from now on a look goes behind each renewal */
	pthread_mutex_unlock(&entry->mutex);
	for (size_t i = 0; looks && i < red->count; i++)
		node_look(&red->node[i]);
}

/* ---- by the caller, without the mutex ---- */

/* 1 extended, 0 not ours any more, or a code. */
static int red_extend_look(struct lk__extending *extending)
{
	struct lk__red_round *round = (struct lk__red_round *)extending->call;
	struct poll *poll = &round->poll;
	if (!lk__fan_out_look(poll->call.fan_out, extending->op.until_ns))
		return LK__OP_WAITS;
	lk__fan_out_withdraw(poll->call.fan_out, false);
	pthread_mutex_lock(&extending->entry->mutex);
	round->held = poll_is_won(poll);
	round_go_on(round);
	pthread_mutex_unlock(&extending->entry->mutex);
	int rc = round->held;
	if (round->current && !poll_decided(poll))
		rc = poll_fail(poll, "extend", LK_ENOQUORUM, extending->error);
	lk__fan_out_end(poll->call.fan_out);
	return rc;
}

static int red_extend(struct lk__extending *extending)
{
	struct lk__entry *entry = extending->entry;
	struct lk__extension *wanted = &extending->extension;
	struct lk__red_round *round = lk__red_call_new(sizeof(*round), entry, extending->op.thread,
						       &extension, wanted->until_ns);
	if (!round)
		return lk__fail(extending->error, LK_ENOMEM, "extend \"%.100s\": out of memory",
				entry->name);
	extending->call = &round->poll.call;
	extending->look = red_extend_look;
	round->lease_ms = wanted->lease_ms;
	pthread_mutex_lock(&entry->mutex);
	round_ask(round, wanted->number, wanted->until_ns);
	pthread_mutex_unlock(&entry->mutex);
	wanted->sent_ns = lk__now_ns();
	lk__fan_out_go(extending->call->fan_out);
	lk__op_wait_nodes(&extending->op, extending->call->fan_out, extending->call->until_ns);
	return red_extend_look(extending);
}

/* ---- what becomes of a part ---- */

/* The node's part of the current grant goes back. Returns whether a copy of a try may still run: a
 * renewal may have found the lock there before the try itself was answered. */
static bool node_end_part(struct lk__red_node *node)
{
	bool unsure = node->part == LK__RED_UNSURE || node->copies || node->asked > 0;
	bool unsure_before = node->joined && node->before_join == LK__RED_UNSURE;
	lk__red_note_given_back(node, node->number, node->copies || unsure_before);
	node->part = LK__RED_NOT_HELD;
	return unsure;
}

/* The part stays until then: see red_release_in_background(). */
static void node_keep_part(struct lk__red_node *node, bool unsure, int64_t until_ns,
			   int64_t promised_ns, int64_t lease_ms)
{
	struct lk__entry *member = node->member;
	pthread_mutex_lock(&member->mutex);
	lk__entry_note_red_lease(member, lease_ms);
	node->kept = node->number;
	lk__compensate_later(member, node->number, unsure ? until_ns : lk__now_ns(), promised_ns);
	pthread_mutex_unlock(&member->mutex);
}

/* The node has released it: see lk__compensate_given(). */
static void node_has_released(struct lk__red_node *node, uint64_t number, int64_t lease_ms,
			      const struct lk__request *request)
{
	struct lk__entry *member = node->member;
	pthread_mutex_lock(&member->mutex);
	lk__entry_note_red_lease(member, lease_ms);
	lk__compensate_given(member, number, request);
	pthread_mutex_unlock(&member->mutex);
}

static void red_let_go(struct lk__entry *entry, uint64_t number)
{
	struct lk__red *red = lk__red_of(entry);
	for (size_t i = 0; red->kept == number && i < red->count; i++) {
		struct lk__red_node *node = &red->node[i];
		if (node->kept)
			lk__compensation_hasten(node->member, node->kept, false);
		node->kept = 0;
	}
}

/*
 * A lock that is lost before the time that its owner was told keeps the parts that it has until
 * then, or until the owner has released it. They can be what keeps others out: nodes that restarted
 * empty have no vote yet, and with ours another would have a majority while the owner believes its
 * deadline.
 */
static void red_release_in_background(struct lk__entry *entry, uint64_t number, int64_t promised_ns)
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
		join_end(node);
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
	struct poll poll; /* yes: it was released; no: it was gone, or never there */
	bool passes;      /* it has set entry->passing */
	int64_t valid_until_ns, until_ns, lease_ms;
	int64_t keep_ms, begun_ns; /* as in struct lk__release */
	bool unsure[LK__RED_MAX];
	uint64_t number[LK__RED_MAX];
	size_t waiting;   /* answers */
	size_t confirmed; /* that do not leave it held */
	bool detached;    /* nobody waits but close, for a majority: it counts as under way */
};

/* Applies an answer. What was to be kept and failed is left to its lease. */
static void release_add(struct release *release, size_t index, enum lk__released said,
			const struct lk__request *request)
{
	struct lk__red_node *node = &lk__red_of(release->poll.call.entry)->node[index];
	uint64_t number = release->number[index];
	bool lost = said == LK__RELEASED_NOT_OWNER &&
		    lk__release_is_lost(request, release->keep_ms, release->begun_ns);
	release->confirmed += said != LK__RELEASED_FAILED;
	release->poll.yes += said != LK__RELEASED_FAILED && !lost;
	release->poll.no += lost;
	if (lost)
		return;
	if (said == LK__RELEASED_FAILED && !release->keep_ms)
		lk__red_give_back(node, number, true, release->valid_until_ns, release->lease_ms);
	else if (said != LK__RELEASED_FAILED && release->keep_ms)
		lk__client_record_keep(node->client, lk__after_ms(lk__now_ns(), release->keep_ms));
	else if (said != LK__RELEASED_FAILED) /* else an earlier copy has done it */
		node_has_released(node, number, release->lease_ms,
				  said == LK__RELEASED ? request : NULL);
}

/* Without the mutex. */
static void release_take(void *context, size_t index, const struct lk__fan_out_part *answers)
{
	struct release *release = context;
	struct lk__entry *entry = release->poll.call.entry;
	const struct lk__red *red = lk__red_of(entry);
	const struct lk__recipe *kind = red->node[index].member->target.recipe;
	const struct lk__request *request = answers->request[0];
	int64_t listeners;
	enum lk__released said = (release->keep_ms ? lk__reply_released
						   : kind->read_release)(request, &listeners);
	assert(release->number[index] != 0);
	pthread_mutex_lock(&entry->mutex);
	release_add(release, index, said, request);
	release->waiting--;
	/* What failed is being compensated. */
	bool over = release->confirmed >= red->majority || release->waiting == 0;
	if (over && release->detached) {
		release->detached = false;
		atomic_fetch_sub(&entry->client->releasing, 1);
	}
	pthread_mutex_unlock(&entry->mutex);
}

/* The releases of all that was, or may have been, granted. */
static void release_ask(struct release *release)
{
	struct lk__red *red = lk__red_of(release->poll.call.entry);
	char field[LK__FIELD_SIZE];
	for (size_t i = 0; i < red->count; i++) {
		struct lk__red_node *node = &red->node[i];
		join_end(node);
		release->poll.no += node->part == LK__RED_NOT_HELD;
		if (node->part == LK__RED_NOT_HELD)
			continue;
		release->unsure[i] = node_end_part(node);
		release->number[i] = node->number;
		lk__field(node->member, node->number, field);
		struct lk__request *request = lk__release_request(&node->member->target, field,
								  release->keep_ms);
		bool added = lk__red_add(&release->poll.call, i, lk__entry_scripts(node->member),
					 request, release->valid_until_ns);
		release->waiting += added;
		release->unsure[i] |= !added; /* out of memory: later, in the background */
	}
}

/* Where a try has had no answer, a copy of it may still run. */
static void release_compensate(const struct release *release)
{
	const struct lk__red *red = lk__red_of(release->poll.call.entry);
	int64_t now_ns = lk__now_ns();
	for (size_t i = 0; i < red->count; i++) {
		const struct lk__given_back *given = &red->node[i].given_back;
		struct lk__entry *member = red->node[i].member;
		bool over = given->over && given->number == release->number[i];
		if (!release->unsure[i])
			continue;
		pthread_mutex_lock(&member->mutex);
		lk__entry_note_red_lease(member, release->lease_ms);
		lk__compensate_later(member, release->number[i], over ? now_ns : release->until_ns,
				     0);
		pthread_mutex_unlock(&member->mutex);
	}
}

static int release_verdict(const struct release *release, lk_error *error)
{
	const struct poll *poll = &release->poll;
	if (poll_is_won(poll))
		return 0;
	if (poll_is_lost(poll))
		return lk__fail(error, LK_ELOST,
				"release \"%.100s\": %zu of the nodes had lost it before",
				poll->call.entry->name, poll->no);
	return poll_fail(poll, "release", LK_EMAYBEHELD, error);
}

static void release_begin(struct release *release)
{
	struct lk__entry *entry = release->poll.call.entry;
	assert(entry->hold && lk__red_of(entry)->number == entry->grant.number);
	release->valid_until_ns = entry->grant.valid_until_ns;
	release->until_ns = lk__red_of(entry)->until_ns;
	release->lease_ms = entry->grant.lease_ms;
	release->begun_ns = lk__now_ns();
	release_ask(release);
	lk__red_of(entry)->number = 0;
	lk__entry_drop_hold(entry, lk__now_ns());
	release->passes = entry->passing = lk__entry_first(entry) != NULL;
	atomic_fetch_add(&entry->client->releasing, 1);
	pthread_mutex_unlock(&entry->mutex);
	lk__fan_out_go(release->poll.call.fan_out);
	pthread_mutex_lock(&entry->mutex);
	release_compensate(release);
}

static int release_end(struct release *release, bool waited, lk_error *error)
{
	struct lk__entry *entry = release->poll.call.entry;
	bool passes = release->passes;
	int rc = waited ? release_verdict(release, error) : 0;
	if (rc == 0)
		lk__entry_count(entry, releases, 1);
	bool detached = release->detached = !waited && release->waiting > 0;
	pthread_mutex_unlock(&entry->mutex);
	lk__fan_out_end(release->poll.call.fan_out);
	if (!detached)
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
	if (!lk__red_answered(&releasing->op, releasing->entry))
		return LK__OP_WAITS;
	return release_end((struct release *)releasing->call, true, releasing->error);
}

static int red_release(struct lk__releasing *releasing)
{
	static const struct lk__fan_out_use use = {
		.take = release_take, .decided = poll_decided, .late = release_take};
	struct lk__entry *entry = releasing->entry;
	struct lk__op *op = &releasing->op;
	struct release *release = lk__red_call_new(sizeof(*release), entry, op->thread, &use,
						   entry->grant.valid_until_ns);
	if (!release) {
		entry->hold->count = 1;
		return lk__fail(releasing->error, LK_ENOMEM,
				"release \"%.100s\": out of memory, still held", entry->name);
	}
	releasing->call = &release->poll.call;
	releasing->look = red_release_look;
	release->keep_ms = releasing->keep_ms;
	release_begin(release);
	if (releasing->no_wait)
		return release_end(release, false, releasing->error);
	lk__op_wait_nodes(op, releasing->call->fan_out, releasing->call->until_ns);
	return red_release_look(releasing);
}

const struct lk__quorum_holds lk__red_holds = {
	.release_in_background = red_release_in_background,
	.let_go = red_let_go,
	.release = red_release,
	.renew = red_renew,
	.turn = red_turn,
	.extend = red_extend,
};
