/* SPDX-License-Identifier: MIT */
/*
 * Renewals and extensions of a red lock: a majority must confirm. A node that has it no more, while
 * the majority stands, is given it anew under the same number; a lock that was lost never is.
 */
#include "lock/red.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "lock/hold.h"
#include "lock/loop.h"
#include "lock/renewal.h"
#include "lock/tracked.h"
#include "sync/script.h"

struct renewal {
	struct lk__red_round *round; /* NULL: an extension */
	size_t index;
	uint64_t number;
	bool open;      /* when it was asked, an earlier try or join had no answer yet, and went
			 * over another connection */
	unsigned joins; /* how often it had been asked to join by then */
	bool answered;
	bool gone; /* the node has it no more, and was not given it again */
};

/* One question to all nodes, and what they have said so far. */
struct tally {
	struct lk__entry *entry;
	int64_t lease_ms;
	size_t yes, no, count, majority;
	struct renewal of[LK__RED_MAX];
};

/* Under the entry's mutex. */
struct lk__red_round {
	struct lk__renewed renewed;
	size_t waiting; /* answers, and those who look at it: the last frees it */
	bool overdue, concluded, held;
	int64_t sent_ns, until_ns;
	struct lk__trouble trouble; /* of the first node that did not confirm it; code 0: none */
	struct tally tally;
};

static struct lk__request *renewal_request(const struct lk__entry *member, uint64_t number,
					   int64_t lease_ms)
{
	char field[LK__FIELD_SIZE];
	lk__field(member, number, field);
	struct lk__renewal renewal = {&member->target, field, lease_ms};
	return member->target.recipe->renew(&renewal, 1);
}

/* Tells whether that was asked of the grant that is held, and is certain, now. Its mutex is
 * held. */
static bool renewal_is_current(const struct lk__entry *entry, const struct renewal *renewal)
{
	const struct lk__red *red = lk__red_of(entry);
	const struct lk__hold *hold = entry->hold;
	return hold && red->number == entry->grant.number &&
	       red->node[renewal->index].number == renewal->number &&
	       lk__now_ns() < lk__hold_deadline(hold);
}

/* Both with the entry's mutex held. */
static void node_has_it(struct lk__entry *entry, const struct renewal *renewal)
{
	if (renewal_is_current(entry, renewal))
		lk__red_of(entry)->node[renewal->index].part = LK__RED_HELD;
}

static void node_gets_it_again(struct lk__entry *entry, const struct renewal *renewal,
			       int64_t lease_ms)
{
	if (renewal_is_current(entry, renewal))
		lk__red_join(entry, renewal->index, lease_ms, lk__hold_deadline(entry->hold));
}

/* ---- counting ---- */

static void tally_begin(struct tally *tally, struct lk__entry *entry, int64_t lease_ms)
{
	const struct lk__red *red = lk__red_of(entry);
	tally->entry = entry;
	tally->lease_ms = lease_ms;
	tally->count = red->count;
	tally->majority = red->majority;
}

/* The numbers of the grant; false when it is another's by now. The entry's mutex is held. */
static bool tally_numbers(struct tally *tally, uint64_t number, struct lk__red_round *round)
{
	const struct lk__red *red = lk__red_of(tally->entry);
	for (size_t i = 0; i < red->count; i++) {
		const struct lk__red_node *node = &red->node[i];
		tally->of[i] = (struct renewal){.round = round,
						.index = i,
						.number = node->number,
						.open = round && node->part == LK__RED_UNSURE,
						.joins = node->joins};
	}
	return red->number == number;
}

/* "No" does not count where a try or a join was on its way when the node was asked, or left since:
 * it may be granted behind that. The entry's mutex is held. */
static bool renewal_is_no(const struct lk__entry *entry, const struct renewal *renewal, int answer)
{
	const struct lk__red_node *node = &lk__red_of(entry)->node[renewal->index];
	return answer == 0 && !renewal->open && node->joins == renewal->joins;
}

/* Counts an answer. The entry's mutex is held. */
static void tally_add(struct tally *tally, size_t index, int answer)
{
	struct renewal *renewal = &tally->of[index];
	assert(index < tally->count && tally->yes + tally->no < tally->count);
	if (answer == 1)
		node_has_it(tally->entry, renewal);
	tally->yes += answer == 1;
	tally->no += renewal_is_no(tally->entry, renewal, answer);
	renewal->answered = true;
	renewal->gone = answer == 0;
}

/* A majority has it: only then may a node be given it again. Else another may have had it. */
static bool tally_held(const struct tally *tally)
{
	return tally->yes >= tally->majority;
}

static bool tally_lost(const struct tally *tally)
{
	return tally->no > tally->count - tally->majority;
}

/* ---- a round ---- */

/* The outcome, once it is certain: 1, 0 or -1; 2 while it is not. */
static int round_outcome(const struct lk__red_round *round)
{
	if (tally_held(&round->tally))
		return 1;
	if (tally_lost(&round->tally))
		return 0;
	return round->waiting == 0 || round->overdue ? -1 : 2;
}

/* Without a majority: what of its first node that did not answer, or refused. */
static void round_trouble(const struct lk__red_round *round, struct lk__trouble *trouble)
{
	const struct tally *tally = &round->tally;
	const struct lk__red *red = lk__red_of(tally->entry);
	struct lk__trouble first = round->trouble;
	for (size_t i = 0; i < tally->count && !first.code; i++)
		if (!tally->of[i].answered)
			lk__trouble_of_node(&first, lk__entry_node(red->node[i].member));
	*trouble = first;
	trouble->code = LK_ENOQUORUM;
	snprintf(trouble->reason, sizeof(trouble->reason),
		 "%zu of %zu nodes have confirmed it, %zu are a majority: %.150s", tally->yes,
		 tally->count, tally->majority, first.code ? first.reason : "others have it");
}

/* Tells whether a no did not count because of a join that is under way, or has ended since. */
static bool round_met_join(const struct lk__red_round *round, bool ended)
{
	const struct tally *tally = &round->tally;
	const struct lk__red *red = lk__red_of(tally->entry);
	for (size_t i = 0; i < tally->count; i++) {
		const struct renewal *renewal = &tally->of[i];
		const struct lk__red_node *node = &red->node[i];
		bool met = renewal->gone && !renewal_is_no(tally->entry, renewal, 0);
		if (met && (ended ? node->part != LK__RED_UNSURE : node->join != NULL))
			return true;
	}
	return false;
}

static void round_conclude(struct lk__red_round *round, int outcome)
{
	struct lk__entry *entry = round->tally.entry;
	struct lk__red *red = lk__red_of(entry);
	struct lk__trouble trouble;
	assert(!round->concluded && red->round == round);
	round->concluded = true;
	round->held = outcome == 1;
	if (outcome < 0)
		round_trouble(round, &trouble);
	red->round = NULL;
	lk__watch_told(&round->renewed, outcome, round->sent_ns, &trouble);
	red->again = outcome < 0 && round_met_join(round, false);
	if (outcome < 0 && !red->again && round_met_join(round, true))
		lk__red_ask_again(entry);
	atomic_fetch_sub(&entry->refs,
			 1); /* that of `renewed`, never the last: the round has one */
}

static void round_repair(struct lk__red_round *round)
{
	struct tally *tally = &round->tally;
	for (size_t i = 0; i < tally->count; i++) {
		if (tally->of[i].gone)
			node_gets_it_again(tally->entry, &tally->of[i], tally->lease_ms);
		tally->of[i].gone = false;
	}
}

/* Draws what follows from what is known by now, and gives up the entry's mutex. */
static void round_leave(struct lk__red_round *round)
{
	struct lk__entry *entry = round->tally.entry;
	assert(round->waiting > 0);
	bool last = --round->waiting == 0;
	int outcome = round_outcome(round);
	if (!round->concluded && outcome != 2)
		round_conclude(round, outcome);
	if (round->held)
		round_repair(round);
	pthread_mutex_unlock(&entry->mutex);
	if (!last)
		return;
	free(round);
	lk__entry_let_go(entry);
}

static void renewal_finish(struct lk__request *request)
{
	const struct renewal *renewal = request->owner;
	struct lk__red_round *round = renewal->round;
	struct lk__entry *entry = round->tally.entry;
	int answer = lk__reply_renewed(request, 1, 0);
	struct lk__trouble trouble = {.code = 0};
	if (answer < 0)
		lk__trouble_read(&trouble, request);
	lk__request_free(request);
	pthread_mutex_lock(&entry->mutex);
	if (!round->trouble.code)
		round->trouble = trouble;
	tally_add(&round->tally, renewal->index, answer);
	round_leave(round);
}

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

static struct lk__red_round *round_new(const struct lk__renewed *renewed)
{
	struct lk__red_round *round = calloc(1, sizeof(*round));
	if (!round)
		return NULL;
	round->renewed = *renewed;
	round->sent_ns = lk__now_ns();
	round->until_ns = lk__after_ms(round->sent_ns,
				       renewed->entry->client->config->command_timeout_ms);
	round->waiting = 1; /* ours, until all are sent */
	tally_begin(&round->tally, renewed->entry, renewed->lease_ms);
	lk__entry_keep(renewed->entry);
	return round;
}

/* False when the grant is another's by now. */
static bool round_begin(struct lk__red_round *round)
{
	struct lk__entry *entry = round->tally.entry;
	pthread_mutex_lock(&entry->mutex);
	bool current = tally_numbers(&round->tally, round->renewed.number, round);
	lk__red_of(entry)->round = round;
	lk__watch_at(entry, round->until_ns);
	pthread_mutex_unlock(&entry->mutex);
	return current;
}

static void renew(const struct lk__renewed *renewed)
{
	struct lk__entry *entry = renewed->entry;
	struct lk__red *red = lk__red_of(entry);
	struct lk__red_round *round = round_new(renewed);
	if (!round) {
		static const struct lk__trouble no_memory = {.code = LK_ENOMEM,
							     .reason = "no memory to ask for it"};
		lk__watch_renewed(renewed, -1, 0, &no_memory);
		return;
	}
	bool current = round_begin(round);
	for (size_t i = 0; current && i < red->count; i++) {
		struct lk__red_node *node = &red->node[i];
		struct renewal *renewal = &round->tally.of[i];
		struct lk__request *request = renewal_request(node->member, renewal->number,
							      renewed->lease_ms);
		if (!request)
			continue;
		request->owner = renewal;
		request->finish = renewal_finish;
		request->resend = true;
		request->deadline_ns = lk__after_ms(round->sent_ns,
						    node->client->config->command_timeout_ms);
		pthread_mutex_lock(&entry->mutex);
		round->waiting++;
		pthread_mutex_unlock(&entry->mutex);
		struct lk__conn *conn = lk__node_work(lk__entry_node(node->member));
		/* In one write with the look: what is written over in between is told by nobody. */
		lk__conn_put(conn, request);
		node_look(node);
		lk__conn_send_queued(conn);
		lk__conn_forgo(conn);
		lk__conn_settle(conn); /* its client may be closed: then it is done already */
	}
	pthread_mutex_lock(&entry->mutex);
	round_leave(round);
}

static void red_renew(struct lk__batch *batch)
{
	assert(batch->count == 1);
	renew(&batch->of[0]);
	free(batch);
}

/* A node that is being connected to answers when that ends, which may take longer than the lease
 * lasts: the others are asked again without it. */
static void red_turn(struct lk__entry *entry)
{
	int64_t now_ns = lk__now_ns();
	pthread_mutex_lock(&entry->mutex);
	lk__red_join_turn(entry, now_ns);
	struct lk__red_round *round = lk__red_of(entry)->round;
	if (round && now_ns >= round->until_ns) {
		round->overdue = true;
		round->waiting++; /* ours */
		round_leave(round);
		return;
	}
	if (round)
		lk__watch_at(entry, round->until_ns);
	bool looks = entry->hold && now_ns >= lk__tracked_due_ns(entry);
	if (looks)
		entry->tracked = 1; /* from now on a look goes behind each renewal */
	pthread_mutex_unlock(&entry->mutex);
	const struct lk__red *red = lk__red_of(entry);
	for (size_t i = 0; looks && i < red->count; i++)
		node_look(&red->node[i]);
}

/* ---- by the caller ---- */

struct extension {
	struct lk__nodes_call call;
	bool current; /* it was of the grant that is held */
	bool held;    /* the verdict */
	struct tally tally;
};

static void extension_take(void *context, size_t index, const struct lk__fan_out_part *answers)
{
	struct extension *extension = context;
	struct lk__entry *entry = extension->tally.entry;
	pthread_mutex_lock(&entry->mutex);
	tally_add(&extension->tally, index, lk__reply_renewed(answers->request[0], 1, 0));
	pthread_mutex_unlock(&entry->mutex);
}

/* After the verdict: several readers may be here at once. */
static void extension_late(void *context, size_t index, const struct lk__fan_out_part *answers)
{
	const struct extension *extension = context;
	const struct tally *tally = &extension->tally;
	struct lk__entry *entry = tally->entry;
	int answer = lk__reply_renewed(answers->request[0], 1, 0);
	pthread_mutex_lock(&entry->mutex);
	if (answer == 1)
		node_has_it(entry, &tally->of[index]);
	else if (answer == 0 && extension->held)
		node_gets_it_again(entry, &tally->of[index], tally->lease_ms);
	pthread_mutex_unlock(&entry->mutex);
}

static bool extension_decided(void *context)
{
	const struct extension *extension = context;
	return tally_held(&extension->tally) || tally_lost(&extension->tally);
}

/* Notes the lease of a member: what takes long to be compensated may outlast what was held. */
static void member_note_lease(struct lk__entry *member, int64_t lease_ms)
{
	pthread_mutex_lock(&member->mutex);
	lk__entry_note_red_lease(member, lease_ms);
	pthread_mutex_unlock(&member->mutex);
}

/* The entry's mutex is held. */
static void extension_ask(const struct extension *extension, int64_t until_ns)
{
	const struct tally *tally = &extension->tally;
	const struct lk__red *red = lk__red_of(tally->entry);
	for (size_t i = 0; i < tally->count; i++) {
		struct lk__entry *member = red->node[i].member;
		struct lk__request *request = renewal_request(member, tally->of[i].number,
							      tally->lease_ms);
		member_note_lease(member, tally->lease_ms);
		lk__red_add(&extension->call, i, lk__entry_scripts(member), request, until_ns);
	}
}

static int extension_verdict(struct extension *extension, lk_error *error)
{
	const struct tally *tally = &extension->tally;
	pthread_mutex_lock(&tally->entry->mutex);
	extension->held = tally_held(tally);
	for (size_t i = 0; extension->held && i < tally->count; i++)
		if (tally->of[i].gone)
			node_gets_it_again(tally->entry, &tally->of[i], tally->lease_ms);
	pthread_mutex_unlock(&tally->entry->mutex);
	if (extension_decided(extension))
		return extension->held;
	return lk__fail(error, LK_ENOQUORUM,
			"extend \"%.100s\": confirmed by %zu nodes, %zu are a majority",
			tally->entry->name, tally->yes, tally->majority);
}

/* Without the mutex: 0, LK_ENOMEM or LK_ESYSTEM. */
static int extend_begin(struct lk__nodes_call **call_out, struct lk__entry *entry,
			struct lk__thread *thread, struct lk__extension *wanted, lk_error *error)
{
	static const struct lk__fan_out_use use = {
		.take = extension_take, .decided = extension_decided, .late = extension_late};
	struct extension *extension = lk__red_call_new(sizeof(*extension), entry, thread, &use,
						       wanted->until_ns);
	if (!extension)
		return lk__fail(error, LK_ENOMEM, "extend \"%.100s\": out of memory", entry->name);
	tally_begin(&extension->tally, entry, wanted->lease_ms);
	pthread_mutex_lock(&entry->mutex);
	extension->current = tally_numbers(&extension->tally, wanted->number, NULL);
	if (extension->current)
		extension_ask(extension, wanted->until_ns);
	pthread_mutex_unlock(&entry->mutex);
	wanted->sent_ns = lk__now_ns();
	lk__fan_out_go(extension->call.fan_out);
	*call_out = &extension->call;
	return 0;
}

/* 1 extended, 0 not ours any more, or a code. */
static int extend_end(struct lk__nodes_call *call, lk_error *error)
{
	struct extension *extension = (struct extension *)call;
	lk__fan_out_withdraw(call->fan_out, false);
	int rc = extension->current ? extension_verdict(extension, error) : 0;
	lk__fan_out_end(call->fan_out);
	return rc;
}

static int red_extend_look(struct lk__extending *extending)
{
	if (!lk__red_answered(&extending->op))
		return LK__OP_WAITS;
	return extend_end(extending->call, extending->error);
}

static int red_extend(struct lk__extending *extending)
{
	struct lk__op *op = &extending->op;
	int rc = extend_begin(&extending->call, extending->entry, op->thread, &extending->extension,
			      extending->error);
	if (rc < 0)
		return rc;
	lk__op_wait_nodes(op, extending->call->fan_out, extending->call->until_ns);
	return red_extend_look(extending);
}

const struct lk__quorum_renewals lk__red_renewals = {
	.renew = red_renew,
	.turn = red_turn,
	.extend = red_extend,
	.extend_look = red_extend_look,
};
