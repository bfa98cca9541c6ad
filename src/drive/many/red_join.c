/* SPDX-License-Identifier: MIT */
/*
 * A node joins the grant that is held: one that was too slow for the majority, or that has lost it.
 *
 * It is asked for the lock under the number that it has for this grant, in the background, on the
 * connection where a release would come behind. One question a node and grant is under way at a
 * time; one that was not sent yet is withdrawn when the grant ends. Where another has the lock, a
 * release may be on its way: that node is asked again after pauses that double.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "conf/config.h"
#include "drive/many/red.h"
#include "drive/entry/watch_heap.h"
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
