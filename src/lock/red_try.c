/* SPDX-License-Identifier: MIT */
/*
 * One try of a red lock: all nodes at once, until a majority is certain or out of reach.
 *
 * What is then still unanswered goes on without us; what is granted late belongs to the hold, if
 * that still stands, or goes back. A node that could not be asked yet joins the grant later. One
 * that leaves too much unanswered is not asked any more. What the answers come to is counted in
 * src/sync/red/votes.c.
 */
#include "lock/red.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "lock/acquire.h"
#include "lock/client.h"
#include "lock/loop.h"
#include "sync/red/votes.h"
#include "sync/script.h"

#define NODE_LIMIT_PARTS 4   /* of the lease: what asking may take */
#define NODE_LIMIT_MIN_MS 25 /* also so late that a wait limit leaves less */
#define WORTH_PARTS 10       /* of the lease: what must be left of it */
#define UNIDENTIFIED "INFO server shows no run_id, or CLUSTER MYID no id of a cluster's node"
#define SLOT_MOVED "no vote: another master of the cluster has the slot now"

struct ballot {
	struct lk__vote vote;
	uint64_t number;
	struct lk__node *place; /* that is asked: it had the slot */
	uint64_t epoch;         /* before it was asked */
	bool turned;            /* it is not the node that was asked first */
	bool strayed;           /* another has answered the try */
	bool introduced;        /* asked who it is, and not answered yet */
	bool repeated;          /* it was late, and has taught us the time */
	char reason[120];
};

struct round {
	struct lk__nodes_call call;
	struct lk__red *red;
	struct lk__caller *waiter; /* NULL when it has gone */
	uint64_t number;           /* the front's */
	int64_t lease_ms, begun_ns;
	lk_error why; /* a reason that no other try can change */
	struct ballot ballot[LK__RED_MAX];
};

/* ---- what a node's answer is worth ---- */

static void ballot_cast(struct ballot *ballot, enum lk__vote_type type, int code,
			const char *reason)
{
	ballot->vote.type = type;
	ballot->vote.code = code;
	snprintf(ballot->reason, sizeof(ballot->reason), "%.*s", (int)sizeof(ballot->reason) - 1,
		 reason);
}

/* Tells whether the same is to be expected of the next try. */
static bool event_lasts(const struct lk__attempt_event *event)
{
	if (event->type == LK__ATTEMPT_UNKNOWN)
		return event->lasting;
	return event->type == LK__ATTEMPT_FAILED && !event->retryable && !event->passing;
}

/* The node's vote, as of now. */
static struct lk__vote round_vote(const struct round *round, size_t index)
{
	const struct ballot *ballot = &round->ballot[index];
	struct lk__vote vote = ballot->vote;
	vote.cut_off = ballot->strayed || atomic_load(&ballot->place->epoch) != ballot->epoch;
	return vote;
}

/* `worth`: a grant would have enough of its lease left. */
static struct lk__verdict round_verdict(const struct round *round, bool worth)
{
	struct lk__vote votes[LK__RED_MAX];
	for (size_t i = 0; i < round->red->count; i++)
		votes[i] = round_vote(round, i);
	return lk__votes_judge(votes, round->red->count, round->red->majority, worth);
}

/* Tells whether who it is was asked on a connection that still stands. */
static bool node_is_known(const struct lk__red_node *node)
{
	return node->known && node->epoch == atomic_load(&node->place->epoch);
}

/* Two servers of one cluster may both have the slot for a moment. */
static bool is_twin(const struct lk__red_node *node, const struct lk__red_node *other)
{
	const struct lk__identity *identity = &node->identity, *others = &other->identity;
	return strcmp(identity->run_id, others->run_id) == 0 ||
	       (others->member[0] && lk__topo_has(node->client->topo, others->member)) ||
	       (identity->member[0] && lk__topo_has(other->client->topo, identity->member));
}

/* Two addresses of one server, or of one cluster, would be two votes of one. */
static void round_check_twins(struct round *round, size_t index)
{
	const struct lk__red *red = round->red;
	const struct lk__red_node *node = &red->node[index];
	for (size_t i = 0; i < red->count; i++) {
		const struct lk__red_node *other = &red->node[i];
		bool cluster = other->client->topo->slotted || node->client->topo->slotted;
		if (i != index && node_is_known(other) && is_twin(node, other))
			lk__fail(&round->why, LK_EINVAL,
				 "acquire \"%.100s\": %.100s and %.100s are one %s",
				 round->call.entry->name, other->client->config->url,
				 node->client->config->url, cluster ? "cluster" : "server");
	}
}

static enum lk__heirs node_heirs(const struct lk__red_node *node, const struct lk__node *place)
{
	if (node->client->config->deployment == LK__SINGLE)
		return LK__NO_HEIRS;
	return place->acks == LK__ACKS_ALL ? LK__HEIRS_WITH_ALL : LK__HEIRS;
}

/* Another shard of a cluster has no part in the history of the one that had the slot. */
static void node_judge(struct lk__red_node *node, struct lk__node *place, struct lk__identity *told)
{
	bool same = node->met && node->place == place;
	lk__identity_judge(told, same ? &node->identity : NULL, node_heirs(node, place),
			   lk__now_ns());
	node->identity = *told;
	node->place = place;
	node->met = true;
}

/* Tells whether the slot is elsewhere: the client has just connected, or has heard of a move. */
static bool round_is_astray(const struct round *round, size_t index)
{
	return lk__entry_node(round->red->node[index].member) != round->ballot[index].place;
}

/* Who the node is. The front's mutex is held. */
static void round_introduce(struct round *round, size_t index,
			    const struct lk__fan_out_part *answers)
{
	struct ballot *ballot = &round->ballot[index];
	struct lk__red_node *node = &round->red->node[index];
	unsigned count = round->red->questions;
	struct lk__request *const *asked = answers->request + answers->count - count;
	struct lk__identity told;
	assert(ballot->introduced && answers->count >= count && !ballot->vote.tried);
	ballot->introduced = false;
	if (round_is_astray(round, index)) {
		ballot_cast(ballot, LK__VOTE_REFUSED, LK_EUNAVAILABLE, SLOT_MOVED);
		return;
	}
	node->known = lk__identity_read(asked, count, lk__now_ns(), &told);
	node->epoch = ballot->epoch;
	if (!node->known && asked[0]->code) {
		const struct lk__attempt_event refused = lk__reply_refusal(asked[0]);
		ballot->vote.lasting = event_lasts(&refused);
	}
	if (!node->known) {
		ballot_cast(ballot, LK__VOTE_REFUSED,
			    asked[0]->code ? asked[0]->code : LK_EPROTOCOL,
			    asked[0]->code ? asked[0]->reason : UNIDENTIFIED);
		return;
	}
	node_judge(node, ballot->place, &told);
	round_check_twins(round, index);
}

static int64_t round_quarantine_ms(const struct round *round)
{
	int64_t watchdog_ms = round->call.entry->client->config->watchdog_ms;
	if (round->red->quarantine_ms != 0)
		return round->red->quarantine_ms;
	return round->lease_ms > watchdog_ms ? round->lease_ms : watchdog_ms;
}

/* Tells whether a grant of this node counts; else the ballot says why not. */
static bool node_may_vote(const struct round *round, size_t index, struct ballot *ballot)
{
	const struct lk__red_node *node = &round->red->node[index];
	char reason[120];
	int64_t quarantine_ms = round_quarantine_ms(round);
	if (atomic_load(&ballot->place->epoch) != ballot->epoch) {
		ballot_cast(ballot, LK__VOTE_NO_VOTE, LK_EUNREACHABLE, "the connection was lost");
		return false;
	}
	if (ballot->strayed) {
		ballot_cast(ballot, LK__VOTE_NO_VOTE, LK_EUNAVAILABLE, SLOT_MOVED);
		return false;
	}
	if (!node->known || node->place != ballot->place || node->epoch != ballot->epoch) {
		ballot_cast(ballot, LK__VOTE_NO_VOTE, LK_EDENIED,
			    "no vote: INFO server does not identify it");
		return false;
	}
	int64_t moved_ns = lk__topo_moved_ns(node->client->topo, node->member->target.slot);
	bool moved = moved_ns && moved_ns > node->identity.since_ns;
	int64_t from_ns = lk__after_ms(moved ? moved_ns : node->identity.since_ns, quarantine_ms);
	if (quarantine_ms < 0 || lk__now_ns() >= from_ns)
		return true;
	int64_t left_ms = (from_ns - lk__now_ns()) / LK__MS + 1;
	snprintf(
		reason, sizeof(reason), "no vote for %lld ms: it %s its grants", (long long)left_ms,
		node->identity.taken_over || moved ? "has taken over from a master and may not have"
						   : "restarted recently and may have forgotten");
	ballot_cast(ballot, LK__VOTE_NO_VOTE, LK_EUNAVAILABLE, reason);
	return false;
}

/* A node has answered the try. The front's mutex is held. */
static void round_read_answer(struct round *round, size_t index, const struct lk__request *request)
{
	struct ballot *ballot = &round->ballot[index];
	struct lk__entry *member = round->red->node[index].member;
	assert(ballot->vote.tried && !ballot->vote.granted);
	struct lk__answer answer = lk__answer_take(request, member->target.recipe->read_acquire,
						   round->lease_ms, lk__now_ns());
	ballot->vote.copies |= answer.event.copied;
	ballot->vote.lasting = event_lasts(&answer.event);
	ballot->vote.ran = answer.event.ran;
	ballot->strayed = request->conn->node != ballot->place;
	switch (answer.event.type) {
	case LK__ATTEMPT_GRANTED:
		ballot->vote.granted = true;
		lk__client_record_want(member->client);
		lk__client_record_show(member->client, request->conn); /* which may be new */
		if (node_may_vote(round, index, ballot))
			ballot_cast(ballot, LK__VOTE_GRANTED, 0, "granted");
		break;
	case LK__ATTEMPT_BUSY:
		ballot->vote.ttl_ms = answer.event.ttl_ms;
		ballot_cast(ballot, LK__VOTE_BUSY, LK_EBUSY, "held by another owner");
		break;
	case LK__ATTEMPT_LATE:
		ballot_cast(ballot, LK__VOTE_LATE, LK_EUNAVAILABLE, "the request arrived too late");
		break;
	case LK__ATTEMPT_FAILED:
		ballot_cast(ballot, LK__VOTE_REFUSED, answer.event.code, answer.reason);
		break;
	default:
		ballot_cast(ballot, LK__VOTE_UNKNOWN, LK_EMAYBEHELD, answer.reason);
	}
}

static bool round_decided(void *context)
{
	const struct round *round = context;
	return round->why.code != 0 || round_verdict(round, true).decided;
}

/* ---- asking ---- */

/* The connection for a member's scripts at a node of its client. */
static struct lk__conn *node_conn(const struct lk__entry *member, struct lk__node *place)
{
	return lk__node_scripts_at(place, atomic_load(&member->conn_index));
}

static struct lk__request *round_request(const struct round *round, size_t index)
{
	const struct lk__red_node *node = &round->red->node[index];
	lk__client_record_show(node->member->client, NULL);
	return lk__red_request(node, round->ballot[index].number, round->lease_ms);
}

/* To the node that has the slot now. */
static void round_address(struct round *round, size_t index)
{
	struct ballot *ballot = &round->ballot[index];
	ballot->place = lk__entry_node(round->red->node[index].member);
	ballot->epoch = atomic_load(&ballot->place->epoch);
}

static void round_add(struct round *round, size_t index, struct lk__request *request)
{
	struct ballot *ballot = &round->ballot[index];
	struct lk__conn *conn = node_conn(round->red->node[index].member, ballot->place);
	/* Also on a connection that is still to be made; a vote over one that was lost does not
	 * count. */
	if (!lk__red_add(&round->call, index, conn, request, round->call.until_ns))
		ballot_cast(ballot, LK__VOTE_REFUSED, LK_ENOMEM, "out of memory");
}

/* Asks it who it is: all questions, or none. */
static void round_question(struct round *round, size_t index)
{
	struct lk__request *request[LK__IDENTITY_QUESTIONS_MAX];
	unsigned count = 0;
	while (count < round->red->questions && (request[count] = lk__identity_question(count)))
		count++;
	if (count < round->red->questions) {
		while (count > 0)
			lk__request_free(request[--count]);
		round_add(round, index, NULL);
	}
	for (unsigned i = 0; i < count; i++)
		round_add(round, index, request[i]);
}

/* Introduces itself first, where it has not on this connection: only then is its clock known. */
static void round_ask(struct round *round, size_t index)
{
	struct ballot *ballot = &round->ballot[index];
	struct lk__red_node *node = &round->red->node[index];
	round_address(round, index);
	ballot->number = index == 0 ? round->number
				    : atomic_fetch_add(&node->client->last_number, 1) + 1;
	if (node->asked >= LK__RED_ASKED_MAX) {
		ballot_cast(ballot, LK__VOTE_UNASKED, LK_EUNREACHABLE,
			    "has not answered earlier requests");
		return;
	}
	ballot->introduced = !node_is_known(node) || node->place != ballot->place;
	if (ballot->introduced) {
		round_question(round, index);
		return;
	}
	round_check_twins(round, index);
	ballot->vote.tried = node_may_vote(round, index, ballot);
	if (ballot->vote.tried)
		round_add(round, index, round_request(round, index));
}

/* A node has answered: who it is, or the try. */
static void round_take(void *context, size_t index, const struct lk__fan_out_part *answers)
{
	struct round *round = context;
	struct ballot *ballot = &round->ballot[index];
	pthread_mutex_lock(&round->call.entry->mutex);
	bool try_now = false,
	     turns = ballot->introduced && !ballot->turned && round_is_astray(round, index);
	if (turns) { /* the node that has the slot now is asked the same */
		ballot->turned = true;
		round_address(round, index);
		round_question(round, index);
	} else if (ballot->introduced) {
		round_introduce(round, index, answers);
		try_now = ballot->vote.type == LK__VOTE_NONE && node_may_vote(round, index, ballot);
	} else {
		round_read_answer(round, index, answers->request[answers->count - 1]);
		try_now = ballot->vote.type == LK__VOTE_LATE && !ballot->repeated;
		ballot->repeated |= try_now;
		if (try_now)
			ballot->vote.type = LK__VOTE_NONE;
	}
	ballot->vote.tried |= try_now;
	pthread_mutex_unlock(&round->call.entry->mutex);
	if (try_now)
		round_add(round, index, round_request(round, index));
}

/* A node that has not granted it may still do so: the majority stands without it, for now. */
static void round_join(const struct round *round, size_t index)
{
	const struct lk__vote *vote = &round->ballot[index].vote;
	bool busy = vote->type == LK__VOTE_BUSY;
	if (busy || lk__vote_means(vote).wants_more)
		lk__red_join(round->call.entry, index, round->lease_ms,
			     lk__lease_end_ns(round->begun_ns, round->lease_ms), busy);
}

/* Applies a late answer to the node's part of a grant that a majority has given. The front's mutex
 * is held. */
static void round_late_part(const struct round *round, size_t index)
{
	const struct ballot *ballot = &round->ballot[index];
	struct lk__red_node *node = &round->red->node[index];
	node->copies |= ballot->vote.copies;
	if (ballot->vote.granted)
		node->part = LK__RED_HELD;
	else if (!node->joined && !lk__vote_means(&ballot->vote).unsure)
		node->part = LK__RED_NOT_HELD;
	round_join(round, index);
}

/* Tells whether no copy of the try can run any more, and none has on another node. */
static bool ballot_tells(const struct ballot *ballot)
{
	const struct lk__vote *vote = &ballot->vote;
	bool refused = vote->type == LK__VOTE_BUSY || vote->type == LK__VOTE_LATE;
	return (vote->granted || refused) && !vote->copies && !ballot->strayed;
}

/* A node has answered after the round was over. */
static void round_late(void *context, size_t index, const struct lk__fan_out_part *answers)
{
	struct round *round = context;
	struct ballot *ballot = &round->ballot[index];
	struct lk__red *red = round->red;
	struct lk__red_node *node = &red->node[index];
	pthread_mutex_lock(&round->call.entry->mutex);
	assert(node->asked > 0 && !round->waiter);
	node->asked--;
	if (ballot->introduced)
		round_introduce(round, index, answers);
	else
		round_read_answer(round, index, answers->request[answers->count - 1]);
	if (red->number == round->number && ballot->vote.tried)
		round_late_part(round, index);
	else if (ballot->vote.tried)
		lk__red_note_answered(node, ballot->number, ballot_tells(ballot));
	pthread_mutex_unlock(&round->call.entry->mutex);
}

/* ---- the outcome ---- */

/* Nobody has it: what may have been granted goes back, also where there was no answer. */
static void round_give_back(const struct round *round)
{
	for (size_t i = 0; i < round->red->count; i++) {
		const struct lk__vote vote = round_vote(round, i);
		bool stays = lk__vote_means(&vote).may_stay;
		bool unsure = stays && !(vote.ran && !vote.cut_off);
		lk__red_note_given_back(&round->red->node[i], round->ballot[i].number, vote.copies);
		if (stays || vote.granted)
			lk__red_give_back(&round->red->node[i], round->ballot[i].number, unsure,
					  round->call.until_ns, round->lease_ms);
	}
}

static void round_keep(const struct round *round)
{
	struct lk__red *red = round->red;
	assert(round->number != 0);
	red->number = round->number;
	red->until_ns = round->call.until_ns;
	for (size_t i = 0; i < red->count; i++) {
		const struct lk__vote *vote = &round->ballot[i].vote;
		red->node[i].number = round->ballot[i].number;
		red->node[i].part = vote->granted                 ? LK__RED_HELD
				    : lk__vote_means(vote).unsure ? LK__RED_UNSURE
								  : LK__RED_NOT_HELD;
		red->node[i].copies = vote->copies;
		red->node[i].joined = false;
		round_join(round, i);
	}
}

/* Tells whether there is something to say of it: it has answered, and not granted; or it had the
 * time. */
static bool ballot_explains(const struct round *round, const struct ballot *ballot)
{
	if (ballot->vote.type == LK__VOTE_NONE)
		return lk__now_ns() >= round->call.until_ns;
	return ballot->vote.type != LK__VOTE_GRANTED;
}

/* The reasons of those who did not grant it, as far as they fit. */
static void round_explain(const struct round *round, size_t granted, int code, lk_error *error)
{
	const struct lk__red *red = round->red;
	char text[400];
	size_t used = 0;
	text[0] = 0;
	for (size_t i = 0; i < red->count && used < sizeof(text); i++) {
		const struct ballot *ballot = &round->ballot[i];
		if (!ballot_explains(round, ballot))
			continue;
		int size = snprintf(text + used, sizeof(text) - used, "; %.60s: %.100s",
				    red->node[i].client->config->url,
				    ballot->vote.type == LK__VOTE_NONE ? "no answer in time"
								       : ballot->reason);
		used += (size_t)size;
	}
	if (granted >= red->majority)
		snprintf(text, sizeof(text), ", but too late: the lease is nearly over");
	lk__fail(error, code, "acquire \"%.60s\": %zu of %zu nodes grant it, %zu are needed%s",
		 round->call.entry->name, granted, red->count, red->majority, text);
}

/* Tells the attempt that the lock was not had, and why. */
static void round_lost(const struct round *round, size_t granted, struct lk__attempt_event *event,
		       lk_error *error)
{
	if (round->why.code) {
		*event = (struct lk__attempt_event){.type = LK__ATTEMPT_FAILED,
						    .code = round->why.code};
		*error = round->why;
		return;
	}
	int code = event->code;
	if (event->type == LK__ATTEMPT_BUSY)
		code = LK_EBUSY;
	else if (event->type == LK__ATTEMPT_LATE)
		code = LK_EUNAVAILABLE;
	round_explain(round, granted, code, error);
}

static int round_over(const struct round *round)
{
	int ends = lk__entry_ends(round->call.entry, &round->waiter->settings);
	if (ends)
		return ends;
	return lk__caller_cancelled(round->waiter) ? LK_ECANCELLED : 0;
}

/* True while enough is left of the lease, which counts from before the first node was asked. */
static bool round_is_worth_it(const struct round *round)
{
	int64_t end_ns = lk__lease_end_ns(round->begun_ns, round->lease_ms);
	return lk__now_ns() + round->lease_ms * LK__MS / WORTH_PARTS < end_ns;
}

static int round_end(struct round *round, struct lk__attempt_event *event, lk_error *error)
{
	struct lk__red *red = round->red;
	const struct lk__verdict verdict = round_verdict(round, round_is_worth_it(round));
	int over = round_over(round);
	*event = verdict.event;
	for (size_t i = 0; i < red->count; i++)
		red->node[i].asked += round->ballot[i].vote.type == LK__VOTE_NONE;
	if (event->type == LK__ATTEMPT_GRANTED && !over && !round->why.code) {
		round_keep(round);
		event->sent_ns = round->begun_ns;
	} else {
		round_give_back(round);
		if (!over)
			round_lost(round, verdict.granted, event, error);
	}
	return over;
}

static int64_t round_limit_ms(const struct round *round)
{
	int64_t limit_ms = round->red->node_limit_ms;
	int64_t most_ms = round->call.entry->client->config->command_timeout_ms;
	if (!limit_ms) {
		limit_ms = round->lease_ms / NODE_LIMIT_PARTS;
		limit_ms = limit_ms < NODE_LIMIT_MIN_MS ? NODE_LIMIT_MIN_MS : limit_ms;
	}
	return limit_ms < most_ms ? limit_ms : most_ms;
}

/* A wait limit that is very short buys one try all the same. It bounds the further ones, and the
 * first of a caller that has waited behind others of this client. */
static bool caller_is_bounded(const struct lk__caller *waiter)
{
	return waiter->tried || (waiter->contended && !waiter->once);
}

static int64_t round_until_ns(const struct round *round)
{
	const struct lk__caller *waiter = round->waiter;
	int64_t until_ns = lk__after_ms(round->begun_ns, round_limit_ms(round));
	int64_t least_ns = lk__after_ms(round->begun_ns, NODE_LIMIT_MIN_MS);
	bool fits = until_ns <= waiter->until_ns || until_ns <= least_ns;
	if (!caller_is_bounded(waiter) || fits)
		return until_ns;
	return waiter->until_ns > least_ns ? waiter->until_ns : least_ns;
}

static struct round *round_new(struct lk__entry *entry, struct lk__caller *waiter)
{
	static const struct lk__fan_out_use use = {
		.take = round_take, .decided = round_decided, .late = round_late};
	struct round *round = lk__red_call_new(sizeof(*round), entry, waiter->thread, &use,
					       LK__NEVER);
	if (!round)
		return NULL;
	round->red = lk__red_of(entry);
	round->waiter = waiter;
	round->number = entry->waiting->attempt.number;
	round->lease_ms = entry->waiting->attempt.asked_lease_ms;
	round->begun_ns = lk__now_ns();
	round->call.until_ns = round_until_ns(round);
	waiter->tried = true;
	return round;
}

static int red_send_look(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	struct round *round = (struct round *)head->call;
	struct lk__fan_out *fan_out = round->call.fan_out;
	if (!lk__red_answered(head->op, entry) && !lk__head_end_untimed(head))
		return LK__OP_WAITS;
	pthread_mutex_unlock(&entry->mutex);
	/* Where it is decided, what is missing joins the grant. */
	lk__fan_out_withdraw(fan_out, !round_decided(round));
	pthread_mutex_lock(&entry->mutex);
	int rc = round_end(round, &head->event, head->error);
	round->waiter = NULL;
	head->call = NULL;
	pthread_mutex_unlock(&entry->mutex);
	lk__fan_out_end(fan_out);
	pthread_mutex_lock(&entry->mutex);
	if (rc == 0 && head->event.type == LK__ATTEMPT_BUSY) {
		lk__entry_count(entry, busy, 1);
		lk__entry_note_wait(entry, head->waiter);
	}
	return rc;
}

/* A try under the attempt's number. The front's mutex is held, and given up meanwhile. */
int lk__red_send(struct lk__head *head)
{
	struct lk__entry *entry = head->entry;
	const struct lk__red *red = lk__red_of(entry);
	entry->asked_lease_ms = entry->waiting->attempt.asked_lease_ms;
	head->epoch = lk__entry_begin_try(entry);
	for (size_t i = 1; i < red->count; i++)
		lk__loop_start(red->node[i].client, NULL);
	lk__entry_route(entry);
	struct round *round = round_new(entry, head->waiter);
	if (!round) {
		head->event = (struct lk__attempt_event){.type = LK__ATTEMPT_FAILED,
							 .code = LK_ENOMEM};
		lk__fail(head->error, LK_ENOMEM, "acquire \"%.100s\": out of memory", entry->name);
		return 0;
	}
	for (size_t i = 0; i < red->count; i++)
		round_ask(round, i);
	pthread_mutex_unlock(&entry->mutex);
	lk__fan_out_go(round->call.fan_out);
	pthread_mutex_lock(&entry->mutex);
	head->call = &round->call;
	head->look = red_send_look;
	lk__op_wait_nodes(head->op, round->call.fan_out, round->call.until_ns);
	return red_send_look(head);
}
