/* SPDX-License-Identifier: MIT */
/*
 * What keeps a red lock, and what gives it back.
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
#include "lock/renewal.h"
#include "lock/tracked.h"
#include "sync/script.h"

/* A question to all nodes that a majority decides; counted under the entry's mutex. */
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
	struct lk__renewed renewed;
	int64_t sent_ns;
	struct lk__trouble trouble; /* of the first node that did not confirm it; code 0: none */
};

static void round_take(void *context, size_t index, const struct lk__fan_out_part *answers);
static void round_look(void *context, size_t index);

static const struct lk__fan_out_use renewals = {.late = round_take, .behind = round_look};
static const struct lk__fan_out_use extension = {
	.take = round_take, .decided = poll_decided, .late = round_take};

/* The entry's mutex is held here and below, unless it says otherwise. */

/* Notes the lease of a member: what takes long to be compensated may outlast what was held. */
static void member_note_lease(struct lk__entry *member, int64_t lease_ms)
{
	pthread_mutex_lock(&member->mutex);
	lk__entry_note_red_lease(member, lease_ms);
	pthread_mutex_unlock(&member->mutex);
}

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
		if (until_ns) {
			member_note_lease(member, round->lease_ms);
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
			lk__red_join(entry, i, round->lease_ms, lk__hold_deadline(entry->hold));
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
			lk__trouble_of_node(&first, lk__entry_node(red->node[i].member));
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
	lk__watch_told(&round->renewed, outcome, round->sent_ns, &trouble);
	red->again = outcome < 0 && round_met_join(round, false);
	if (outcome < 0 && !red->again && round_met_join(round, true))
		lk__red_ask_again(entry);
	atomic_fetch_sub(&entry->refs, 1); /* of `renewed`, never the last: the call has one */
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
		lk__trouble_read(&trouble, answers->request[0]);
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

static void renew(const struct lk__renewed *renewed)
{
	static const struct lk__trouble no_memory = {.code = LK_ENOMEM,
						     .reason = "no memory to ask for it"};
	struct lk__entry *entry = renewed->entry;
	struct lk__red_round *round = lk__red_call_new(sizeof(*round), entry, NULL, &renewals,
						       LK__NEVER);
	if (!round) {
		lk__watch_renewed(renewed, -1, 0, &no_memory);
		return;
	}
	struct lk__nodes_call *call = &round->poll.call;
	round->renewed = *renewed;
	round->lease_ms = renewed->lease_ms;
	pthread_mutex_lock(&entry->mutex);
	round_ask(round, renewed->number, 0);
	lk__red_of(entry)->round = round;
	lk__watch_at(entry, call->until_ns);
	if (round->waiting == 0)
		round_go_on(round);
	pthread_mutex_unlock(&entry->mutex);
	lk__fan_out_go(call->fan_out);
	lk__fan_out_end(call->fan_out);
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
	const struct lk__red *red = lk__red_of(entry);
	int64_t now_ns = lk__now_ns();
	pthread_mutex_lock(&entry->mutex);
	lk__red_join_turn(entry, now_ns);
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
static int extend_end(struct lk__red_round *round, lk_error *error)
{
	struct lk__entry *entry = round->poll.call.entry;
	pthread_mutex_lock(&entry->mutex);
	round->held = poll_is_won(&round->poll);
	round_go_on(round);
	pthread_mutex_unlock(&entry->mutex);
	if (!round->current || poll_decided(&round->poll))
		return round->held;
	return poll_fail(&round->poll, "extend", LK_ENOQUORUM, error);
}

static int red_extend_look(struct lk__extending *extending)
{
	struct lk__fan_out *fan_out = extending->call->fan_out;
	if (!lk__fan_out_look(fan_out, extending->op.until_ns))
		return LK__OP_WAITS;
	lk__fan_out_withdraw(fan_out, false);
	int rc = extend_end((struct lk__red_round *)extending->call, extending->error);
	lk__fan_out_end(fan_out);
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
	struct poll poll; /* yes: it was released; no: it was gone, or never there */
	bool passes;      /* it has set entry->passing */
	int64_t valid_until_ns, until_ns, lease_ms;
	int64_t keep_ms, begun_ns; /* as in struct lk__release */
	bool unsure[LK__RED_MAX];
	uint64_t number[LK__RED_MAX];
	size_t confirmed; /* answers that do not leave it held */
	bool detached;    /* nobody waits but close, for a majority: it counts as under way */
};

static void release_count_off(struct release *release)
{
	if (release->detached)
		atomic_fetch_sub(&release->poll.call.entry->client->releasing, 1);
	release->detached = false;
}

static void release_free(void *context)
{
	release_count_off(context); /* what failed is being compensated */
	lk__red_call_free(context);
}

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
	if (release->confirmed >= red->majority)
		release_count_off(release);
	pthread_mutex_unlock(&entry->mutex);
}

/* The releases of all that was, or may have been, granted. */
static void release_ask(struct release *release)
{
	struct lk__red *red = lk__red_of(release->poll.call.entry);
	char field[LK__FIELD_SIZE];
	for (size_t i = 0; i < red->count; i++) {
		struct lk__red_node *node = &red->node[i];
		lk__red_unjoin(node);
		release->poll.no += node->part == LK__RED_NOT_HELD;
		if (node->part == LK__RED_NOT_HELD)
			continue;
		release->unsure[i] = node_end_part(node);
		release->number[i] = node->number;
		lk__field(node->member, node->number, field);
		struct lk__request *request = lk__release_request(&node->member->target, field,
								  release->keep_ms);
		if (!lk__red_add(&release->poll.call, i, lk__entry_scripts(node->member), request,
				 release->valid_until_ns))
			release->unsure[i] = true; /* out of memory: later, in the background */
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
		lk__compensate_copies(member, release->number[i],
				      over ? now_ns : release->until_ns);
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

static struct release *release_new(struct lk__entry *entry, struct lk__thread *thread,
				   int64_t keep_ms)
{
	static const struct lk__fan_out_use use = {.take = release_take,
						   .decided = poll_decided,
						   .late = release_take,
						   .end = release_free};
	struct release *release = lk__red_call_new(sizeof(*release), entry, thread, &use,
						   entry->grant.valid_until_ns);
	if (!release)
		return NULL;
	release->valid_until_ns = entry->grant.valid_until_ns;
	release->until_ns = lk__red_of(entry)->until_ns;
	release->lease_ms = entry->grant.lease_ms;
	release->keep_ms = keep_ms;
	release->begun_ns = lk__now_ns();
	return release;
}

static void release_begin(struct release *release)
{
	struct lk__entry *entry = release->poll.call.entry;
	assert(entry->hold && lk__red_of(entry)->number == entry->grant.number);
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
	release->detached = !waited;
	pthread_mutex_unlock(&entry->mutex);
	lk__fan_out_end(release->poll.call.fan_out);
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
	if (!lk__red_answered(&releasing->op, releasing->entry))
		return LK__OP_WAITS;
	return release_end((struct release *)releasing->call, true, releasing->error);
}

static int red_release(struct lk__releasing *releasing)
{
	struct lk__entry *entry = releasing->entry;
	struct lk__op *op = &releasing->op;
	struct release *release = release_new(entry, op->thread, releasing->keep_ms);
	if (!release) {
		entry->hold->count = 1;
		return lk__fail(releasing->error, LK_ENOMEM,
				"release \"%.100s\": out of memory, still held", entry->name);
	}
	releasing->call = &release->poll.call;
	release_begin(release);
	if (releasing->no_wait)
		return release_end(release, false, releasing->error);
	lk__op_wait_nodes(op, releasing->call->fan_out, releasing->call->until_ns);
	return red_release_look(releasing);
}

const struct lk__quorum_holds lk__red_holds = {
	.release_unasked = red_release_unasked,
	.let_go = red_let_go,
	.release = red_release,
	.release_look = red_release_look,
	.renew = red_renew,
	.turn = red_turn,
	.extend = red_extend,
	.extend_look = red_extend_look,
};
