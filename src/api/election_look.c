/* SPDX-License-Identifier: MIT */
/* Elections from outside: who leads, who waits, and what a leader is asked. */
#include <lockkeeper/election.h>

#include <stdlib.h>
#include <string.h>

#include "api/check.h"
#include "api/election_call.h"
#include "api/lock_handle.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "lock/operation.h"
#include "resp/reply.h"

/* ---- asking the server ---- */

/* A question, with its reply's request, or a code. */
static int look_ask(const struct lk__election_call *call, const char *what, int64_t until_ns,
		    struct lk__request **request_out, lk_error *error)
{
	struct lk__entry *entry = call->election->entry;
	struct lk__request *request = lk__question(lk__election_look(&entry->target, what));
	int rc = lk__ask_entry(entry, call->thread, request, call->operation, until_ns, error);
	*request_out = request;
	return rc == LK__WAIT_READY ? 0 : rc;
}

/* Who leads, which term was the one before, and for how long the place is kept. */
struct look {
	lk_leader leader;
	uint64_t previous;
	int64_t left_ms;
};

static int leader_look(const struct lk__election_call *call, int64_t until_ns, struct look *look,
		       lk_error *error)
{
	struct lk__request *request;
	int rc = look_ask(call, "leader", until_ns, &request, error);
	if (rc < 0)
		return rc;
	if (!lk__election_read_leader(request->reply, &look->leader, &look->previous,
				      &look->left_ms))
		rc = lk__fail(error, LK_EPROTOCOL, "%s: unexpected reply", call->operation);
	lk__request_free(request);
	return rc;
}

static void leader_copy(lk_leader *leader_out, const lk_leader *leader)
{
	lk__copy_sized(leader_out, leader_out->struct_size, leader, sizeof(*leader));
}

static int leader_check(const char *operation, const lk_leader *leader_out, lk_error *error)
{
	if (!leader_out)
		return lk__fail(error, LK_EINVAL, "%s: leader_out is NULL", operation);
	return lk__check_size(operation, leader_out, offsetof(lk_leader, value_size),
			      sizeof(*leader_out), error);
}

int lk_election_leader(lk_election *election, lk_leader *leader_out, lk_error *error)
{
	const char *operation = "lk_election_leader";
	struct lk__election_call call;
	struct look look;
	int rc = leader_check(operation, leader_out, error);
	if (rc == 0)
		rc = lk__election_begin(&call, election, operation, error);
	if (rc < 0)
		return rc;
	rc = leader_look(&call, lk__election_until_ns(election), &look, error);
	if (rc == 0)
		leader_copy(leader_out, &look.leader);
	return lk__election_end(&call, rc);
}

/* 1 it was asked; 0 it does not lead any more; or a code. */
static int leader_ask(const struct lk__election_call *call, const char *leader, const char *id,
		      int64_t until_ns, lk_error *error)
{
	int64_t answer;
	struct lk__entry *entry = call->election->entry;
	struct lk__request *request = lk__election_ask(&entry->target, id ? id : "resign", leader);
	int rc = lk__ask_entry(entry, call->thread, request, call->operation, until_ns, error);
	if (rc != LK__WAIT_READY)
		return rc;
	if (!lk__reply_integer(request->reply, -1, 1, &answer))
		rc = lk__fail(error, LK_EPROTOCOL, "%s: unexpected reply", call->operation);
	else if (answer < 0)
		rc = lk__fail(error, LK_EBUSY, "%s \"%.100s\": %.64s does not wait",
			      call->operation, entry->name, id);
	else
		rc = (int)answer;
	lk__request_free(request);
	return rc;
}

/* The leader of this moment is asked, by its id: a copy that comes late asks no other one. */
static int ask_run(const struct lk__election_call *call, const char *id, lk_error *error)
{
	int64_t until_ns = lk__election_until_ns(call->election);
	struct look look;
	int rc;
	do {
		rc = leader_look(call, until_ns, &look, error);
		if (rc == 0 && look.leader.vacant)
			rc = lk__fail(error, LK_ENOTOWNER, "%s \"%.100s\": nobody leads",
				      call->operation, call->election->entry->name);
		if (rc == 0)
			rc = leader_ask(call, look.leader.id, id, until_ns, error);
	} while (rc == 0);
	return rc < 0 ? rc : 0;
}

int lk_election_ask(lk_election *election, const char *id, lk_error *error)
{
	const char *operation = "lk_election_ask";
	struct lk__election_call call;
	if (id && !lk__is_candidate_id(id))
		return lk__fail(error, LK_EINVAL, LK__NOT_A_CANDIDATE, operation);
	int rc = lk__election_begin(&call, election, operation, error);
	if (rc < 0)
		return rc;
	return lk__election_end(&call, ask_run(&call, id, error));
}

static int candidate_order(const void *one, const void *other)
{
	const lk_candidate *left = one, *right = other;
	if (left->standing != right->standing)
		return left->standing < right->standing ? -1 : 1;
	if (left->priority != right->priority)
		return left->priority > right->priority ? -1 : 1;
	if (left->since_us != right->since_us)
		return left->since_us < right->since_us ? -1 : 1;
	return strcmp(left->id, right->id);
}

static int candidates_read(const struct lk__election_call *call, const redisReply *reply,
			   lk_candidate *candidates_out, size_t most, lk_error *error)
{
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements > INT32_MAX)
		return lk__fail(error, LK_EPROTOCOL, "%s: unexpected reply", call->operation);
	size_t count = 0, size = most ? candidates_out->struct_size : 0;
	lk_candidate *all = calloc(reply->elements + 1, sizeof(*all));
	if (!all)
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", call->operation);
	for (size_t i = 0; i < reply->elements; i++)
		count += lk__election_read_candidate(reply->element[i], &all[count]);
	qsort(all, count, sizeof(*all), candidate_order);
	for (size_t i = 0; i < count && i < most; i++)
		lk__copy_sized((char *)candidates_out + i * size, size, &all[i], sizeof(*all));
	free(all);
	return (int)count;
}

int lk_election_candidates(lk_election *election, lk_candidate *candidates_out, size_t most,
			   lk_error *error)
{
	const char *operation = "lk_election_candidates";
	struct lk__election_call call;
	struct lk__request *request;
	if (most && !candidates_out)
		return lk__fail(error, LK_EINVAL, "%s: candidates_out is NULL", operation);
	int rc = most ? lk__check_size(operation, candidates_out, sizeof(*candidates_out),
				       sizeof(*candidates_out), error)
		      : 0;
	if (rc == 0)
		rc = lk__election_begin(&call, election, operation, error);
	if (rc < 0)
		return rc;
	rc = look_ask(&call, "candidates", lk__election_until_ns(election), &request, error);
	if (rc == 0) {
		rc = candidates_read(&call, request->reply, candidates_out, most, error);
		lk__request_free(request);
	}
	return lk__election_end(&call, rc);
}

/* ---- observing ---- */

#define PAUSE_NS (250 * LK__MS) /* between looks while the server cannot be reached */
#define BEHIND_MS 5             /* the end of a lease is looked at a little later */

/* Whether that is another than the last one seen: then it is noted, and whether some were
 * missed. */
static bool leader_note(lk_election *election, struct look *look)
{
	lk_leader *leader = &look->leader;
	const lk_leader *seen = &election->seen;
	bool other = !election->has_seen || seen->vacant != leader->vacant ||
		     seen->term != leader->term || strcmp(seen->asked, leader->asked) != 0 ||
		     seen->value_size != leader->value_size ||
		     memcmp(seen->value, leader->value, leader->value_size) != 0;
	bool next = leader->term == seen->term || look->previous == seen->term;
	leader->missed = election->has_seen && !next;
	if (other) {
		election->seen = *leader;
		election->has_seen = true;
	}
	return other;
}

/* One observation: where it listens. */
struct observation {
	const struct lk__election_call *call;
	lk_cancel *cancel;
	int64_t until_ns;
	char *channel;
	size_t channel_size;
	struct lk__conn *conn;
	struct lk__listening *listening; /* NULL: not yet */
	struct lk__heard mark;
};

static void observe_end(struct observation *observation)
{
	if (observation->listening)
		lk__channel_close(observation->conn, observation->listening);
	free(observation->channel);
}

/* Listens at the node that has the election now, and notes what it has heard. */
static int observe_listen(struct observation *observation)
{
	struct lk__entry *entry = observation->call->election->entry;
	struct lk__conn *conn = &lk__entry_node(entry)->messages;
	if (observation->listening && conn != observation->conn) {
		lk__channel_close(observation->conn, observation->listening);
		observation->listening = NULL;
	}
	if (!observation->channel)
		observation->channel = lk__derived_name(LK__ELECTION_PREFIX, entry->target.key,
							entry->target.key_size,
							&observation->channel_size);
	observation->conn = conn;
	if (!observation->listening && observation->channel)
		observation->listening = lk__channel_open(conn, observation->channel,
							  observation->channel_size, NULL, NULL);
	if (!observation->listening)
		return LK_ENOMEM;
	lk__channel_mark(conn, observation->listening, &observation->mark);
	return 0;
}

/* Waits for a message, or until that time. */
static void observe_wait(struct observation *observation, int64_t until_ns)
{
	struct lk__conn *conn = observation->conn;
	struct lk__thread *thread = observation->call->thread;
	struct lk__standby standby;
	if (!lk__channel_stand_by(conn, &observation->mark, false, &standby, thread, until_ns))
		lk__channel_sleep(conn, &observation->mark, false, thread, until_ns,
				  observation->cancel);
	lk__channel_stand_down(conn, &observation->mark, &standby);
}

/* Tells of an error that asking again does not mend. */
static bool observe_fails(int code)
{
	return code < 0 && (!lk_error_is_retryable(code) || code == LK_ENOMEM);
}

/* 1 something is new; 0 nothing is, and when to look again; or a code. */
static int observe_look(struct observation *observation, lk_leader *leader_out,
			int64_t *next_ns_out, lk_error *error)
{
	lk_election *election = observation->call->election;
	struct look look;
	int64_t now_ns = lk__now_ns();
	int rc = leader_look(observation->call, lk__election_until_ns(election), &look, error);
	if (observe_fails(rc))
		return rc;
	if (rc < 0) {
		*next_ns_out = now_ns + PAUSE_NS;
		return 0;
	}
	if (leader_note(election, &look)) {
		leader_copy(leader_out, &look.leader);
		return 1;
	}
	*next_ns_out = lk__after_ms(now_ns, election->client->config->look_again_ms);
	if (look.left_ms >= 0)
		*next_ns_out = lk__earlier(*next_ns_out,
					   lk__after_ms(now_ns, look.left_ms + BEHIND_MS));
	return 0;
}

/* 1 something is new, 0 the time is over, or a code. */
static int observe_run(struct observation *observation, lk_leader *leader_out, lk_error *error)
{
	const char *operation = observation->call->operation;
	int64_t next_ns;
	for (;;) {
		int rc = observe_listen(observation);
		if (rc < 0)
			return lk__fail(error, rc, "%s: out of memory", operation);
		rc = observe_look(observation, leader_out, &next_ns, error);
		if (rc)
			return rc;
		if (lk__cancelled(observation->cancel))
			return lk__fail(error, LK_ECANCELLED, "%s: cancelled", operation);
		if (lk__now_ns() >= observation->until_ns)
			return 0;
		observe_wait(observation, lk__earlier(next_ns, observation->until_ns));
	}
}

int lk_election_observe(lk_election *election, int64_t wait_ms, lk_cancel *cancel,
			lk_leader *leader_out, lk_error *error)
{
	const char *operation = "lk_election_observe";
	struct lk__election_call call;
	int rc = leader_check(operation, leader_out, error);
	if (rc == 0)
		rc = LK__CHECK(operation, error, {LK__WAIT, wait_ms});
	if (rc == 0)
		rc = lk__election_begin(&call, election, operation, error);
	if (rc < 0)
		return rc;
	rc = lk__cancel_enter(cancel, call.thread, error);
	if (rc < 0)
		return lk__election_end(&call, rc);
	struct observation observation = {
		.call = &call,
		.cancel = cancel,
		.until_ns = wait_ms < 0 ? LK__NEVER : lk__after_ms(lk__now_ns(), wait_ms),
	};
	rc = observe_run(&observation, leader_out, error);
	observe_end(&observation);
	lk__cancel_leave(cancel);
	return lk__election_end(&call, rc);
}
