/* SPDX-License-Identifier: MIT */
/*
 * A node joins the grant that is held: one that was too slow for the majority, or that has lost it.
 *
 * It is asked for the lock under the number that it has for this grant, in the background, on the
 * connection where a release would come behind. One question a node and grant is under way at a
 * time; one that was not sent yet is withdrawn when the grant ends. Where another has the lock, a
 * release may be on its way: that node is asked again after pauses that double.
 */
#include "lock/red.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "lock/acquire.h"
#include "lock/entry_table.h"
#include "lock/hold.h"
#include "lock/renewal.h"
#include "sync/script.h"

#define AGAIN_NS (10 * LK__MS) /* the first of the pauses */

struct join {
	struct lk__entry *entry;
	size_t index;
	uint64_t grant;  /* the front's number, */
	uint64_t number; /* and the node's */
	int64_t lease_ms, end_ns;
	int64_t asked_lease_ms; /* as long at least */
	bool again;             /* the answer to the first was not to the try, or too late */
};

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
	lk__red_ref(join->entry);
	return join;
}

/* With the front's mutex held: the caller has references too. */
static void join_drop(struct join *join)
{
	atomic_fetch_sub(&join->entry->refs, 1);
	atomic_fetch_sub(&join->entry->client->refs, 1);
	free(join);
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
	struct lk__red_node *node = &lk__red_of(entry)->node[join->index];
	pthread_mutex_lock(&entry->mutex);
	assert(node->asked > 0);
	node->asked--;
	if (node->join == request)
		node->join = NULL;
	join_read(join, request);
	pthread_mutex_unlock(&entry->mutex);
	lk__request_free(request);
	free(join);
	lk__red_unref(entry);
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

void lk__red_unjoin(struct lk__red_node *node)
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

void lk__red_join_later(struct lk__entry *entry, size_t index)
{
	struct lk__red_node *node = &lk__red_of(entry)->node[index];
	node->pause_ns = node->pause_ns ? 2 * node->pause_ns : AGAIN_NS;
	node->again_ns = lk__now_ns() + node->pause_ns;
	lk__watch_at(entry, node->again_ns);
}

/* It may have been granted a moment ago, and have no hold yet. */
static void red_join_turn(struct lk__entry *entry, int64_t now_ns)
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

/* ---- renewals, extensions ---- */

/*
 * Renewals of a red lock: a majority must confirm. A node that has it no more, while the majority
 * stands, is given it anew under the same number; a lock that was lost never is.
 */

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

/* Whether that was asked of the grant that is held, and is certain, now. Its mutex is held. */
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

/* The same. */
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

static void round_conclude(struct lk__red_round *round, int outcome)
{
	struct lk__entry *entry = round->tally.entry;
	struct lk__trouble trouble;
	assert(!round->concluded && lk__red_of(entry)->round == round);
	round->concluded = true;
	round->held = outcome == 1;
	if (outcome < 0)
		round_trouble(round, &trouble);
	lk__red_of(entry)->round = NULL;
	lk__watch_told(&round->renewed, outcome, round->sent_ns, &trouble);
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
	lk__red_unref(entry);
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
	lk__red_ref(renewed->entry);
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
		lk__conn_submit(conn, request);
		lk__conn_settle(conn); /* its client may be closed: then it is done already */
	}
	pthread_mutex_lock(&entry->mutex);
	round_leave(round);
}

void lk__red_renew(struct lk__batch *batch)
{
	assert(batch->count == 1);
	renew(&batch->of[0]);
	free(batch);
}

/* A node that is being connected to answers when that ends, which may take longer than the lease
 * lasts: the others are asked again without it. */
void lk__red_turn(struct lk__entry *entry)
{
	int64_t now_ns = lk__now_ns();
	pthread_mutex_lock(&entry->mutex);
	red_join_turn(entry, now_ns);
	struct lk__red_round *round = lk__red_of(entry)->round;
	if (round && now_ns >= round->until_ns) {
		round->overdue = true;
		round->waiting++; /* ours */
		round_leave(round);
		return;
	}
	if (round)
		lk__watch_at(entry, round->until_ns);
	pthread_mutex_unlock(&entry->mutex);
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

/* What it takes where it is compensated may outlast what was held. */
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
		if (request) {
			request->resend = true;
			request->deadline_ns = until_ns;
		}
		member_note_lease(member, tally->lease_ms);
		lk__fan_out_add(extension->call.fan_out, i, lk__entry_scripts(member), request);
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

int lk__red_extend_begin(struct lk__nodes_call **call_out, struct lk__entry *entry,
			 struct lk__thread *thread, struct lk__extension *wanted, lk_error *error)
{
	static const struct lk__fan_out_use use = {
		.take = extension_take, .decided = extension_decided, .late = extension_late};
	struct extension *extension = lk__red_call_new(sizeof(*extension), entry, thread, &use,
						       wanted->until_ns);
	if (!extension)
		return lk__fail_system(error, errno, "extend \"%.100s\"", entry->name);
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

int lk__red_extend_end(struct lk__nodes_call *call, lk_error *error)
{
	struct extension *extension = (struct extension *)call;
	lk__fan_out_withdraw(call->fan_out);
	int rc = extension->current ? extension_verdict(extension, error) : 0;
	lk__fan_out_end(call->fan_out);
	return rc;
}
