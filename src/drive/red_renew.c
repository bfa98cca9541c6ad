/*
 * Renewals of a red lock: a majority must confirm. A node that has it no more, while the majority
 * stands, is given it anew under the same number; a lock that was lost never is.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "drive/red.h"
#include "drive/watch.h"
#include "sync/script.h"

struct renewal {
	struct lk__red_round *round;
	size_t index;
	uint64_t number;
};

struct lk__red_round {
	pthread_mutex_t mutex;
	struct lk__renewed renewed;
	size_t waiting, yes, no, count, majority;
	bool concluded;
	int64_t sent_ns;
	struct renewal of[LK__RED_MAX];
};

static struct lk__request *renewal_request(const struct lk__entry *member, uint64_t number,
					   int64_t lease_ms)
{
	char field[LK__FIELD_SIZE];
	lk__field(member, number, field);
	struct lk__renewal renewal = {&member->target, field, lease_ms};
	return member->recipe->renew(&renewal, 1);
}

/* 1, 0, or -1 for no answer. */
static int renewal_answer(const struct lk__entry *member, uint64_t number,
			  const struct lk__request *request)
{
	char field[LK__FIELD_SIZE];
	lk__field(member, number, field);
	return lk__reply_renewed(request, 1, 0, field);
}

/* ---- repair ---- */

/* Whether it is there the next renewal will tell; but it may have been asked first what the node
 * can do, and what time it is there. */
static void repair_finish(struct lk__request *request)
{
	struct lk__entry *member = request->owner;
	struct lk__answer answer = {.fence = 0};
	member->recipe->read_acquire(request, &answer);
	if (answer.event.type == LK__ACQUIRE_LATE)
		lk__node_learn_time(member->node, answer.server_us, lk__now_ns());
	lk__request_free(request);
	lk__entry_unref(member);
}

/* Takes it again on a node that has lost it, behind which a release would come on the same
 * connection, and for as long as the hold is certain, though the renewal may have been but a look.
 * The front's mutex is held, and its hold stands. */
static void node_repair(struct lk__red *red, struct lk__red_node *node, const struct lk__hold *hold,
			int64_t lease_ms)
{
	struct lk__entry *member = node->member;
	char field[LK__FIELD_SIZE];
	int64_t now_ns = lk__now_ns();
	int64_t until_ns = lk__after_ms(now_ns, node->client->config->command_timeout_ms);
	int64_t left_ms = (lk__hold_deadline(hold) - now_ns) / LK__MS + 1;
	if (lk__hold_deadline(hold) < until_ns)
		until_ns = lk__hold_deadline(hold);
	if (lease_ms < left_ms)
		lease_ms = left_ms;
	lk__field(member, node->number, field);
	struct lk__try wanted = {
		.target = &member->target,
		.field = field,
		.number = node->number,
		.lease_ms = lease_ms,
		.deadline_us = lk__node_server_us(member->node, until_ns),
		.wait_ms = -1,
		.once = true,
	};
	struct lk__request *request = member->recipe->acquire(&wanted);
	if (!request)
		return;
	request->deadline_ns = until_ns;
	request->resend = true;
	request->owner = member;
	request->finish = repair_finish;
	lk__entry_ref(member);
	node->part = LK__RED_UNSURE; /* until a renewal finds it there */
	if (until_ns > red->until_ns)
		red->until_ns = until_ns;
	lk__conn_submit(member->scripts, request);
}

/* What a node has said of the current grant. */
static void node_noted(struct lk__entry *entry, const struct renewal *renewal, int answer,
		       int64_t lease_ms)
{
	struct lk__red *red = lk__red_of(entry);
	struct lk__red_node *node = &red->node[renewal->index];
	pthread_mutex_lock(&entry->mutex);
	const struct lk__hold *hold = entry->hold;
	bool current = hold && red->number == entry->grant.number &&
		       node->number == renewal->number && lk__now_ns() < lk__hold_deadline(hold);
	if (current && answer == 1)
		node->part = LK__RED_HELD;
	else if (current && answer == 0)
		node_repair(red, node, hold, lease_ms);
	pthread_mutex_unlock(&entry->mutex);
}

/* ---- a round ---- */

/* The outcome, once it is certain: 1, 0 or -1; 2 while it is not. */
static int round_outcome(const struct lk__red_round *round)
{
	if (round->yes >= round->majority)
		return 1;
	if (round->no > round->count - round->majority)
		return 0;
	return round->waiting == 0 ? -1 : 2;
}

static void round_unlock(struct lk__red_round *round)
{
	struct lk__entry *entry = round->renewed.entry;
	int outcome = round_outcome(round);
	bool concludes = !round->concluded && outcome != 2;
	if (concludes) {
		round->concluded = true;
		round->waiting++; /* ours: the last answer may come meanwhile */
		pthread_mutex_unlock(&round->mutex);
		lk__watch_renewed(&round->renewed, outcome, round->sent_ns);
		pthread_mutex_lock(&round->mutex);
		round->waiting--;
	}
	bool last = round->waiting == 0;
	pthread_mutex_unlock(&round->mutex);
	if (last) {
		pthread_mutex_destroy(&round->mutex);
		free(round);
		lk__red_unref(entry);
	}
}

static void renewal_finish(struct lk__request *request)
{
	struct renewal *renewal = request->owner;
	struct lk__red_round *round = renewal->round;
	const struct lk__red *red = lk__red_of(round->renewed.entry);
	int answer = renewal_answer(red->node[renewal->index].member, renewal->number, request);
	lk__request_free(request);
	pthread_mutex_lock(&round->mutex);
	round->yes += answer == 1;
	round->no += answer == 0;
	bool lost = round_outcome(round) == 0;
	pthread_mutex_unlock(&round->mutex);
	if (!lost)
		node_noted(round->renewed.entry, renewal, answer, round->renewed.lease_ms);
	pthread_mutex_lock(&round->mutex);
	round->waiting--;
	round_unlock(round);
}

static struct lk__red_round *round_new(const struct lk__renewed *renewed)
{
	struct lk__red *red = lk__red_of(renewed->entry);
	struct lk__red_round *round = calloc(1, sizeof(*round));
	if (!round)
		return NULL;
	pthread_mutex_init(&round->mutex, NULL);
	round->renewed = *renewed;
	round->count = red->count;
	round->majority = red->majority;
	round->sent_ns = lk__now_ns();
	round->waiting = 1; /* ours, until all are sent */
	lk__red_ref(renewed->entry);
	return round;
}

/* The numbers of the grant; false when it is another's by now. */
static bool round_numbers(struct lk__red_round *round)
{
	struct lk__entry *entry = round->renewed.entry;
	const struct lk__red *red = lk__red_of(entry);
	pthread_mutex_lock(&entry->mutex);
	bool current = red->number == round->renewed.number;
	for (size_t i = 0; i < red->count; i++)
		round->of[i] = (struct renewal){round, i, red->node[i].number};
	pthread_mutex_unlock(&entry->mutex);
	return current;
}

void lk__red_renew(const struct lk__renewed *renewed)
{
	struct lk__red *red = lk__red_of(renewed->entry);
	struct lk__red_round *round = round_new(renewed);
	if (!round) {
		lk__watch_renewed(renewed, -1, 0);
		return;
	}
	bool current = round_numbers(round);
	for (size_t i = 0; current && i < red->count; i++) {
		struct lk__red_node *node = &red->node[i];
		struct lk__request *request = renewal_request(node->member, round->of[i].number,
							      renewed->lease_ms);
		if (!request)
			continue;
		request->owner = &round->of[i];
		request->finish = renewal_finish;
		request->resend = true;
		request->deadline_ns = lk__after_ms(round->sent_ns,
						    node->client->config->command_timeout_ms);
		pthread_mutex_lock(&round->mutex);
		round->waiting++;
		pthread_mutex_unlock(&round->mutex);
		lk__conn_submit(&node->member->node->work, request);
	}
	pthread_mutex_lock(&round->mutex);
	round->waiting--;
	round_unlock(round);
}

/* ---- by the caller ---- */

struct extension {
	struct lk__entry *entry;
	size_t yes, no, majority, count;
	int64_t lease_ms;
	struct renewal of[LK__RED_MAX];
};

static void extension_take(void *context, size_t index, const struct lk__gathered *answers)
{
	struct extension *extension = context;
	const struct lk__red *red = lk__red_of(extension->entry);
	int answer = renewal_answer(red->node[index].member, extension->of[index].number,
				    answers->request[0]);
	extension->yes += answer == 1;
	extension->no += answer == 0;
	if (extension->no <= extension->count - extension->majority)
		node_noted(extension->entry, &extension->of[index], answer, extension->lease_ms);
}

static bool extension_decided(void *context)
{
	const struct extension *extension = context;
	return extension->yes >= extension->majority ||
	       extension->no > extension->count - extension->majority;
}

int lk__red_extend(struct lk__entry *entry, struct lk__thread *thread, uint64_t number,
		   int64_t lease_ms, int64_t until_ns, int64_t *sent_ns, lk_error *error)
{
	struct lk__red *red = lk__red_of(entry);
	struct lk__gather *gather = lk__gather_new(red->count);
	struct extension extension = {.entry = entry,
				      .majority = red->majority,
				      .count = red->count,
				      .lease_ms = lease_ms};
	int64_t limit_ns = lk__after_ms(lk__now_ns(), entry->client->config->command_timeout_ms);
	if (!gather)
		return lk__fail(error, LK_ENOMEM, "extend \"%.100s\": out of memory", entry->name);
	pthread_mutex_lock(&entry->mutex);
	for (size_t i = 0; red->number == number && i < red->count; i++) {
		extension.of[i] = (struct renewal){NULL, i, red->node[i].number};
		struct lk__request *request = renewal_request(red->node[i].member,
							      red->node[i].number, lease_ms);
		if (request) {
			request->resend = true;
			request->deadline_ns = until_ns;
		}
		lk__gather_add(gather, i, red->node[i].member->scripts, request);
	}
	pthread_mutex_unlock(&entry->mutex);
	*sent_ns = lk__now_ns();
	lk__gather_go(gather);
	lk__gather_wait(gather, thread, extension_take, extension_decided, &extension,
			limit_ns < until_ns ? limit_ns : until_ns, NULL);
	lk__gather_withdraw(gather, extension_take, &extension);
	int rc = extension.yes >= extension.majority ? 1 : 0;
	if (!rc && !extension_decided(&extension))
		rc = lk__fail(error, LK_ENOQUORUM,
			      "extend \"%.100s\": confirmed by %zu nodes, %zu are a majority",
			      entry->name, extension.yes, extension.majority);
	lk__gather_end(gather, NULL, NULL, NULL);
	return rc;
}
