/* SPDX-License-Identifier: MIT */
/* Tells what is known of a lock: from memory, and as the server sees it. */
#include <lockkeeper/fenced_lock.h>

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

#include "api/check.h"
#include "api/lock_handle.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "lock/ear.h"
#include "lock/async.h"
#include "lock/loop.h"
#include "lock/question.h"
#include "lock/red.h"
#include "resp/reply.h"
#include "sync/script.h"

#define NO_KEY (-2) /* what PTTL answers where there is none */

/* ---- from memory ---- */

struct holding {
	char field[LK__FIELD_SIZE];
	uint64_t fence;
	int64_t deadline_ns;
	unsigned count;
};

/* 0, LK_ENOTOWNER or LK_ELOST; `holding` is filled but for LK_ENOTOWNER. */
static int holding_of(const struct lk__call *call, struct holding *holding)
{
	int rc = LK_ENOTOWNER;
	if (call->multi) {
		struct lk__multi_hold all = {.count = 0};
		rc = lk__multi_hold_of(call->multi, &call->owner, &all);
		holding->count = all.count;
		holding->deadline_ns = all.deadline_ns;
		return rc;
	}
	pthread_mutex_lock(&call->entry->mutex);
	const struct lk__hold *hold = lk__entry_hold_of(call->entry, &call->owner);
	if (hold) {
		lk__field(call->entry, hold->number, holding->field);
		holding->fence = lk__hold_extra(hold)->fence;
		holding->count = hold->count;
		holding->deadline_ns = lk__hold_deadline(hold);
		rc = hold->lost || lk__now_ns() >= holding->deadline_ns ? LK_ELOST : 0;
	}
	pthread_mutex_unlock(&call->entry->mutex);
	return rc;
}

/* The whole of a call that reads memory. */
static int lock_holding(lk_lock *lock, const char *operation, const char *owner,
			struct holding *holding, lk_error *error)
{
	struct lk__call call;
	int rc = lk__lock_enter_briefly(&call, lock, operation, owner, error);
	if (rc < 0)
		return rc;
	rc = holding_of(&call, holding);
	lk__lock_leave(&call);
	return rc < 0 ? lk__fail(error, rc, "%s: %s", operation, lk_error_text(rc)) : 0;
}

int lk_lock_is_held(lk_lock *lock, const char *owner, lk_error *error)
{
	struct holding holding = {0};
	return lock_holding(lock, "lk_lock_is_held", owner, &holding, error) == 0;
}

int lk_lock_hold_count(lk_lock *lock, const char *owner, lk_error *error)
{
	struct holding holding = {.count = 0};
	lock_holding(lock, "lk_lock_hold_count", owner, &holding, error);
	return (int)holding.count;
}

int lk_lock_deadline_ns(lk_lock *lock, const char *owner, int64_t *deadline_ns_out, lk_error *error)
{
	struct holding holding = {0};
	if (!deadline_ns_out)
		return lk__fail(error, LK_EINVAL, "lk_lock_deadline_ns: deadline_ns_out is NULL");
	int rc = lock_holding(lock, "lk_lock_deadline_ns", owner, &holding, error);
	if (rc == 0)
		*deadline_ns_out = holding.deadline_ns;
	return rc;
}

int lk_lock_remaining_ms(lk_lock *lock, const char *owner, int64_t *remaining_ms_out,
			 lk_error *error)
{
	struct holding holding = {0};
	if (!remaining_ms_out)
		return lk__fail(error, LK_EINVAL, "lk_lock_remaining_ms: remaining_ms_out is NULL");
	int rc = lock_holding(lock, "lk_lock_remaining_ms", owner, &holding, error);
	if (rc == 0)
		*remaining_ms_out = (holding.deadline_ns - lk__now_ns()) / LK__MS;
	return rc;
}

int lk__lock_lease_added(lk_lock *lock, const char *operation, const char *owner, int64_t *lease_ms,
			 lk_error *error)
{
	struct holding holding = {0};
	int rc = lock_holding(lock, operation, owner, &holding, error);
	if (rc < 0)
		return rc;
	*lease_ms += (holding.deadline_ns - lk__now_ns()) / LK__MS + 1;
	if (*lease_ms > LK_LEASE_MAX_MS)
		*lease_ms = LK_LEASE_MAX_MS;
	return 0;
}

int lk_lock_fence(lk_lock *lock, const char *owner, uint64_t *token_out, lk_error *error)
{
	struct holding holding = {.fence = 0};
	if (!token_out)
		return lk__fail(error, LK_EINVAL, "lk_lock_fence: token_out is NULL");
	int rc = lock_holding(lock, "lk_lock_fence", owner, &holding, error);
	if (rc == 0 && !holding.fence)
		return lk__fail(error, LK_EINVAL, "lk_lock_fence: a %s has no fence tokens",
				lk__lock_recipe_of(lock)->type);
	if (rc == 0)
		*token_out = holding.fence;
	return rc;
}

/* 0, or LK_EINVAL for a lock that has not one field on one server. */
static int check_single(const struct lk_lock *lock, const char *operation, lk_error *error)
{
	bool red = lock && lock->entry && lock->entry->is_quorum;
	if (!lock || (!lk__lock_multi(lock) && !red))
		return 0;
	return lk__fail(error, LK_EINVAL, "%s: not for a %s lock, which has no single field",
			operation, red ? "red" : "multi");
}

int lk_lock_export(lk_lock *lock, const char *owner, char *field_out, size_t size, lk_error *error)
{
	struct holding holding = {0};
	if (!field_out || size < LK_FIELD_SIZE)
		return lk__fail(error, LK_EINVAL,
				"lk_lock_export: field_out needs LK_FIELD_SIZE bytes");
	int rc = check_single(lock, "lk_lock_export", error);
	if (rc == 0)
		rc = lock_holding(lock, "lk_lock_export", owner, &holding, error);
	if (rc == 0)
		memcpy(field_out, holding.field, sizeof(holding.field));
	return rc;
}

/* ---- as the server sees it ---- */

static int lock_command(struct lk__call *call, struct lk__request *request, const char *operation,
			lk_error *error)
{
	int64_t limit_ms = call->entry->client->config->command_timeout_ms;
	return lk__ask_entry(call->entry, call->thread, request, operation,
			     lk__after_ms(lk__now_ns(), limit_ms), error);
}

/* The server does not have what was asked for, or not any more: if that was ours, it is lost. */
static void entry_is_gone(struct lk__entry *entry)
{
	const struct lk__target *target = &entry->target;
	lk__doubt_key(entry->client, target->key, target->key_size);
}

/* One thing that is asked of one lock. */
struct question {
	const char *operation;
	struct lk__request *(*make)(const struct lk__target *target, const char *field);
	int (*read)(const struct lk__questioned *of, struct lk__entry *entry,
		    const struct lk__request *request, int64_t *answer_out, lk_error *error);
};

static uint64_t grant_number(struct lk__entry *entry)
{
	pthread_mutex_lock(&entry->mutex);
	uint64_t number = entry->grant.number;
	pthread_mutex_unlock(&entry->mutex);
	return number;
}

/* The call is begun. 0, or LK_ENOMEM. */
static int question_make(const struct question *question, struct lk__entry *entry,
			 const char *field, struct lk__questioned *of, lk_error *error)
{
	*of = (struct lk__questioned){.request = question->make(&entry->target, field),
				      .read = question->read,
				      .number = grant_number(entry),
				      .field = field};
	return of->request ? 0
			   : lk__fail(error, LK_ENOMEM, "%s: out of memory", question->operation);
}

/* Asks, and waits for the answer. */
static int question_call(const struct question *question, lk_lock *lock, const char *field,
			 int64_t *answer_out, lk_error *error)
{
	struct lk__call call;
	struct lk__questioned of;
	struct lk__question asked;
	int rc = lk__lock_enter(&call, lock, question->operation, NULL, error);
	if (rc < 0)
		return rc;
	rc = question_make(question, call.entry, field, &of, error);
	if (rc == 0) {
		lk__question_init(&asked, call.entry, call.thread, &of, question->operation,
				  answer_out, error);
		rc = lk__op_run(&asked.op);
	}
	lk__lock_leave(&call);
	return rc;
}

/* Starts to ask, for a queue. */
static int question_start(const struct question *question, const struct lk__start *start)
{
	lk_lock *lock = start->handle;
	struct lk__call call;
	struct lk__async_want want = {.way = LK__ASYNC_ASK};
	if (lk__lock_multi(lock) || (lock->entry && lock->entry->is_quorum))
		return lk__fail(start->error, LK_EINVAL,
				"%s: not for a lock of several keys or nodes: it has a blocking "
				"call only",
				start->operation);
	int rc = lk__lock_enter_briefly(&call, lock, start->operation, NULL, start->error);
	if (rc < 0)
		return rc;
	rc = lk__loop_start(call.entry->client, start->error);
	if (rc == 0)
		rc = question_make(question, call.entry, NULL, &want.asked, start->error);
	if (rc == 0) {
		rc = lk__start_go(start, call.entry, NULL, &want);
		if (rc < 0)
			lk__request_free(want.asked.request);
	}
	lk__lock_leave(&call);
	return rc;
}

/* Reads one integer, or a text that is to be the field (1) or not (0). `gone`: the answer that
 * contradicts a hold. */
static int answer_read(struct lk__entry *entry, const redisReply *reply, const char *field,
		       int64_t gone, int64_t *answer_out, lk_error *error)
{
	if (field && reply->type == REDIS_REPLY_STRING)
		*answer_out = strcmp(reply->str, field) == 0;
	else if (field && reply->type == REDIS_REPLY_NIL)
		*answer_out = 0;
	else if (!lk__reply_integer(reply, INT64_MIN, INT64_MAX, answer_out))
		return lk__fail(error, LK_EPROTOCOL, "\"%.100s\": unexpected reply", entry->name);
	if (*answer_out == gone)
		entry_is_gone(entry);
	return 0;
}

/* Asks `call` of each part of a multi lock until one fails. 0 or a code; and the sum of the answers
 * by then. */
static int lock_each(const lk_lock *lock, int (*call)(lk_lock *lock, lk_error *error), int *sum,
		     lk_error *error)
{
	for (size_t i = 0; i < lk__lock_multi(lock)->count; i++) {
		struct lk__entry *part = lk__lock_multi(lock)->part[i];
		lk_lock single = {.entry = part};
		int rc = call(&single, error);
		if (rc < 0)
			return rc;
		*sum += rc;
	}
	return 0;
}

/* It is freed, so the client has it no more under that number; other owners are asked for. */
static void force_lose(struct lk__entry *entry, uint64_t number)
{
	pthread_mutex_lock(&entry->mutex);
	if (entry->hold && entry->grant.number == number) {
		lk__entry_lose(entry, lk__now_ns());
		lk__entry_promote(entry);
	}
	pthread_mutex_unlock(&entry->mutex);
	entry_is_gone(entry);
}

/* Asks all nodes of a red lock: how many say yes, or a code when no majority answers. */
static int red_ask(lk_lock *lock, const char *operation, bool force, size_t *answered,
		   lk_error *error)
{
	struct lk__call call;
	size_t yes = 0;
	int rc = lk__lock_enter(&call, lock, operation, NULL, error);
	if (rc < 0)
		return rc;
	const struct lk__red *red = lk__red_of(call.entry);
	uint64_t number = grant_number(call.entry);
	rc = lk__red_ask(call.entry, call.thread, force, answered, &yes, error);
	bool unsure = force && (rc > 0 || yes > 0);
	if (rc >= 0 && force && yes >= red->majority)
		force_lose(call.entry, number);
	else if (rc >= 0 && *answered - yes >= red->majority)
		entry_is_gone(call.entry);
	if (rc >= 0 && *answered < red->majority)
		rc = lk__fail(error, unsure ? LK_EMAYBEHELD : LK_ENOQUORUM,
			      "%s: %zu of %zu nodes answered", operation, *answered, red->count);
	lk__lock_leave(&call);
	return rc < 0 ? rc : (int)yes;
}

static int red_is_locked(lk_lock *lock, lk_error *error)
{
	const struct lk__red *red = lk__red_of(lock->entry);
	size_t answered = 0;
	int yes = red_ask(lock, "lk_lock_is_locked", false, &answered, error);
	if (yes < 0 || (size_t)yes >= red->majority)
		return yes < 0 ? yes : 1;
	if ((size_t)yes + red->count - answered < red->majority)
		return 0;
	return lk__fail(error, LK_ENOQUORUM, "lk_lock_is_locked: %zu of %zu nodes answered, %d yes",
			answered, red->count, yes);
}

static int red_force_release(lk_lock *lock, lk_error *error)
{
	size_t answered = 0;
	int yes = red_ask(lock, "lk_lock_force_release", true, &answered, error);
	return yes > 0 ? 1 : yes;
}

static struct lk__request *locked_make(const struct lk__target *target, const char *field)
{
	(void)field;
	return lk__question(target->recipe->is_locked(target));
}

static int locked_read(const struct lk__questioned *of, struct lk__entry *entry,
		       const struct lk__request *request, int64_t *answer_out, lk_error *error)
{
	(void)of;
	int rc = answer_read(entry, request->reply, NULL, 0, answer_out, error);
	*answer_out = *answer_out > 0;
	return rc;
}

static const struct question is_locked = {"lk_lock_is_locked", locked_make, locked_read};

/* 1, 0 or a code. */
static int lock_is_locked(lk_lock *lock, lk_error *error)
{
	if (lock && lk__lock_multi(lock)) {
		int locked = 0;
		int rc = lock_each(lock, lock_is_locked, &locked, error);
		return rc < 0 ? rc : locked > 0;
	}
	if (lock && lock->entry && lock->entry->is_quorum)
		return red_is_locked(lock, error);
	int64_t answer = 0;
	int rc = question_call(&is_locked, lock, NULL, &answer, error);
	return rc < 0 ? rc : answer > 0;
}

int lk_lock_is_locked(lk_lock *lock, int *locked_out, lk_error *error)
{
	if (!locked_out)
		return lk__fail(error, LK_EINVAL, "lk_lock_is_locked: locked_out is NULL");
	int rc = lock_is_locked(lock, error);
	if (rc < 0)
		return rc;
	*locked_out = rc;
	return 0;
}

static struct lk__request *held_by_make(const struct lk__target *target, const char *field)
{
	return lk__question(target->recipe->is_held_by(target, field));
}

static int held_by_read(const struct lk__questioned *of, struct lk__entry *entry,
			const struct lk__request *request, int64_t *answer_out, lk_error *error)
{
	return answer_read(entry, request->reply, of->field, 0, answer_out, error);
}

static const struct question is_held_by = {"lk_lock_is_held_by", held_by_make, held_by_read};

int lk_lock_is_held_by(lk_lock *lock, const char *field, int *held_out, lk_error *error)
{
	const char *operation = is_held_by.operation;
	int64_t answer = 0;
	if (!held_out)
		return lk__fail(error, LK_EINVAL, "%s: held_out is NULL", operation);
	int rc = lk__field_check(operation, field, error);
	if (rc == 0)
		rc = check_single(lock, operation, error);
	if (rc == 0)
		rc = question_call(&is_held_by, lock, field, &answer, error);
	if (rc == 0)
		*held_out = answer > 0;
	return rc;
}

static struct lk__request *ttl_make(const struct lk__target *target, const char *field)
{
	(void)field;
	return lk__question(lk__request_new(2, (const char *[]){"PTTL", target->key},
					    (size_t[]){4, target->key_size}));
}

static int ttl_read(const struct lk__questioned *of, struct lk__entry *entry,
		    const struct lk__request *request, int64_t *answer_out, lk_error *error)
{
	(void)of;
	return answer_read(entry, request->reply, NULL, NO_KEY, answer_out, error);
}

static const struct question server_ttl = {"lk_lock_server_ttl_ms", ttl_make, ttl_read};

int lk_lock_server_ttl_ms(lk_lock *lock, int64_t *ttl_ms_out, lk_error *error)
{
	int64_t answer = 0;
	if (!ttl_ms_out)
		return lk__fail(error, LK_EINVAL, "lk_lock_server_ttl_ms: ttl_ms_out is NULL");
	int rc = check_single(lock, server_ttl.operation, error);
	if (rc == 0)
		rc = question_call(&server_ttl, lock, NULL, &answer, error);
	if (rc == 0)
		*ttl_ms_out = answer;
	return rc;
}

/* ---- asked for ---- */

struct asked {
	int owners, listeners;
};

/* One lock; adds to the numbers. */
static int ask_single(lk_lock *lock, const char *reason, struct asked *asked, lk_error *error)
{
	const char *operation = "lk_lock_ask";
	struct lk__call call;
	int64_t owners = 0, listeners = 0;
	int rc = lk__lock_enter(&call, lock, operation, NULL, error);
	if (rc < 0)
		return rc;
	struct lk__request *request = lk__ask_request(&call.entry->target, reason);
	rc = lock_command(&call, request, operation, error);
	if (rc == LK__WAIT_READY) {
		const redisReply *reply = request->reply;
		bool fits = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
			    lk__reply_integer(reply->element[0], 0, INT32_MAX, &owners) &&
			    lk__reply_integer(reply->element[1], 0, INT32_MAX, &listeners);
		rc = fits ? 0 : lk__fail(error, LK_EPROTOCOL, "%s: unexpected reply", operation);
		lk__request_free(request);
	}
	asked->owners += (int)owners;
	asked->listeners += (int)listeners;
	lk__lock_leave(&call);
	return rc;
}

int lk_lock_ask(lk_lock *lock, const char *reason, int *owners_out, int *listeners_out,
		lk_error *error)
{
	const char *operation = "lk_lock_ask";
	struct asked asked = {0, 0};
	if (!owners_out || !listeners_out)
		return lk__fail(error, LK_EINVAL, "%s: an argument is NULL", operation);
	int rc = reason ? lk__check_note(operation, "reason", reason, error) : 0;
	if (rc == 0 && lock && lock->entry && lock->entry->is_quorum)
		rc = lk__fail(error, LK_EINVAL, "%s: a red lock cannot be asked for", operation);
	const struct lk__multi *multi = lock ? lk__lock_multi(lock) : NULL;
	reason = reason ? reason : "";
	if (rc == 0 && !multi)
		rc = ask_single(lock, reason, &asked, error);
	for (size_t i = 0; rc == 0 && multi && i < multi->count; i++) {
		lk_lock part = {.entry = multi->part[i]};
		rc = ask_single(&part, reason, &asked, error);
	}
	if (rc < 0)
		return rc;
	*owners_out = asked.owners;
	*listeners_out = asked.listeners;
	return 0;
}

/* ---- by wire field, or by force ---- */

/* Part by part, until one fails: what is freed by then is not "not done". */
static int multi_force_release(const lk_lock *lock, lk_error *error)
{
	lk_error why = {.code = 0};
	int freed = 0;
	int rc = lock_each(lock, lk_lock_force_release, &freed, &why);
	if (rc == 0)
		return freed > 0;
	if (freed == 0 && error)
		*error = why;
	return freed == 0 ? rc
			  : lk__fail(error, LK_EMAYBEHELD, "%d of %zu locks freed, then %s", freed,
				     lk__lock_multi(lock)->count, why.message);
}

static struct lk__request *force_make(const struct lk__target *target, const char *field)
{
	(void)field;
	struct lk__request *request = target->recipe->force(target);
	if (request)
		lk__request_frees(request);
	return request;
}

/* Freed, a failover may undo it all the same: the client does not have it any more. */
static int force_read(const struct lk__questioned *of, struct lk__entry *entry,
		      const struct lk__request *request, int64_t *answer_out, lk_error *error)
{
	force_lose(entry, of->number);
	if (request->code < 0)
		return request->code;
	return lk__reply_integer(request->reply, 0, 1, answer_out)
		       ? 0
		       : lk__fail(error, LK_EMAYBEHELD, "lk_lock_force_release: unexpected reply");
}

static const struct question force_release = {"lk_lock_force_release", force_make, force_read};

int lk__lock_question_start(const struct lk__start *start)
{
	switch (start->request->operation) {
	case LK_OP_IS_LOCKED:
		return question_start(&is_locked, start);
	case LK_OP_SERVER_TTL:
		return question_start(&server_ttl, start);
	default:
		assert(start->request->operation == LK_OP_FORCE_RELEASE);
		return question_start(&force_release, start);
	}
}

int lk_lock_force_release(lk_lock *lock, lk_error *error)
{
	int64_t freed = 0;
	if (lock && lk__lock_multi(lock))
		return multi_force_release(lock, error);
	if (lock && lock->entry && lock->entry->is_quorum)
		return red_force_release(lock, error);
	int rc = question_call(&force_release, lock, NULL, &freed, error);
	return rc < 0 ? rc : freed > 0;
}

int lk__lock_release_field(lk_lock *lock, const char *field, lk_error *error)
{
	struct lk__call call;
	const char *operation = "lk_lock_release";
	int rc = lk__field_check(operation, field, error);
	if (rc == 0)
		rc = check_single(lock, operation, error);
	if (rc == 0)
		rc = lk__lock_enter(&call, lock, operation, NULL, error);
	if (rc < 0)
		return rc;
	struct lk__request *request = call.entry->target.recipe->release(&call.entry->target,
									 field);
	if (request)
		request->durable = LK__DURABLE_WHOLLY;
	rc = lock_command(&call, request, operation, error);
	entry_is_gone(call.entry); /* whatever the answer: it was meant to be */
	if (rc == LK__WAIT_READY) {
		int64_t listeners;
		enum lk__released released = call.entry->target.recipe->read_release(request,
										     &listeners);
		rc = 0;
		if (released == LK__RELEASED_FAILED)
			rc = lk__fail(error, LK_EMAYBEHELD, "%s \"%.100s\": unexpected reply",
				      operation, call.entry->name);
		else if (released == LK__RELEASED_NOT_OWNER && request->sends < 2)
			rc = lk__fail(error, LK_ENOTOWNER, "%s \"%.100s\": not held under %.256s",
				      operation, call.entry->name, field);
		lk__request_free(request);
	}
	lk__lock_leave(&call);
	return rc;
}

int lk__lock_extend_field(lk_lock *lock, const char *field, int64_t lease_ms, lk_error *error)
{
	struct lk__call call;
	const char *operation = "lk_lock_extend";
	int rc = lk__field_check(operation, field, error);
	if (rc == 0)
		rc = check_single(lock, operation, error);
	if (rc == 0)
		rc = LK__CHECK(operation, error, {LK__LEASE, lease_ms});
	if (rc == 0)
		rc = lk__lock_enter(&call, lock, operation, NULL, error);
	if (rc < 0)
		return rc;
	struct lk__renewal renewal = {&call.entry->target, field, lease_ms};
	struct lk__request *request = call.entry->target.recipe->renew(&renewal, 1);
	rc = lock_command(&call, request, operation, error);
	if (rc == LK__WAIT_READY) {
		int renewed = lk__reply_renewed(request, 1, 0);
		lk__request_free(request);
		rc = renewed > 0 ? 0 : renewed < 0 ? LK_EMAYBEHELD : LK_ENOTOWNER;
		if (rc == LK_ENOTOWNER)
			entry_is_gone(call.entry);
		if (rc < 0)
			lk__fail(error, rc, "%s \"%.100s\": %s %.256s", operation, call.entry->name,
				 renewed < 0 ? "no answer says whether it was done for"
					     : "not held under",
				 field);
	}
	lk__lock_leave(&call);
	return rc;
}

/* ---- what a wait in progress waits for, for another thread ---- */

#define OWNERS_MAX 64 /* of a fair or read/write lock, so many owners are looked at */

static void info_reason(lk_wait_info *info, int code, const char *reason)
{
	info->code = code;
	snprintf(info->reason, sizeof(info->reason), "%s", reason);
}

/* It was up, and neither brings answers nor messages now. */
static bool node_is_down(struct lk__node *node, struct lk__conn *scripts)
{
	return atomic_load(&node->was_up) && !lk__conn_is_up(scripts) &&
	       !lk__conn_is_up(&node->messages);
}

static void info_unreachable(lk_wait_info *info, struct lk__conn *scripts)
{
	struct lk__fault fault;
	lk__conn_fault(scripts, &fault);
	info->code = LK_EUNREACHABLE;
	snprintf(info->reason, sizeof(info->reason), "%s: %s", lk_error_text(LK_EUNREACHABLE),
		 fault.reason);
}

/* Why the head has no grant yet. A refusal that the attempt has got over is not told any more. */
static void info_explain(lk_wait_info *info, const struct lk__entry *entry)
{
	const struct lk__caller *head = lk__entry_head(entry);
	const lk_error *why = head ? head->why : NULL;
	bool told = why &&
		    (why->code == LK_EBUSY || (why->code && entry->waiting->attempt.failures > 0));
	if (entry->hold)
		info_reason(info, LK_EBUSY, "another caller of this client holds it");
	else if (told)
		info_reason(info, why->code, why->message);
	else if (entry->waiting->attempt.down_since_ns ||
		 node_is_down(entry->target.node, lk__entry_conn(entry)))
		info_unreachable(info, lk__entry_conn(entry));
	else if (entry->waiting->attempt.busy)
		info_reason(info, LK_EBUSY, lk_error_text(LK_EBUSY));
}

/* 1 when somebody waits for the entry's lock. */
static int entry_wait_info(struct lk__entry *entry, lk_wait_info *info)
{
	const struct lk__caller *waiter, *oldest = NULL;
	int64_t now_ns = lk__now_ns();
	pthread_mutex_lock(&entry->mutex);
	DL_FOREACH(lk__entry_first(entry), waiter)
	{
		info->callers++;
		if (!oldest || waiter->since_ns < oldest->since_ns)
			oldest = waiter;
	}
	if (oldest) {
		info->waited_ms = (now_ns - oldest->since_ns) / LK__MS;
		info->left_ms = -1;
		if (oldest->until_ns != LK__NEVER)
			info->left_ms = lk__ms_until(now_ns, oldest->until_ns, INT32_MAX);
		info_explain(info, entry);
	}
	pthread_mutex_unlock(&entry->mutex);
	return oldest != NULL;
}

/* The first entries of the lock, each with a reference, where each owner has its own. */
static size_t find_entries(const struct lk__lookup *lookup, struct lk__entry *found[OWNERS_MAX])
{
	lk_client *client = lookup->client;
	struct lk__entry *entry = NULL;
	size_t count = 0;
	pthread_mutex_lock(&client->mutex);
	while ((entry = lk__entries_next(&client->entries, entry))) {
		bool same = entry->target.recipe == lookup->recipe &&
			    lk__entry_name_size(entry) == lookup->name_size &&
			    memcmp(entry->name, lookup->name, lookup->name_size) == 0;
		if (same && count < OWNERS_MAX && lk__entry_ref_if_alive(entry))
			found[count++] = entry;
	}
	pthread_mutex_unlock(&client->mutex);
	return count;
}

/* Tells it where each owner has an entry: callers of all, the rest of the wait that is older. */
static int owners_wait_info(const struct lk__lookup *lookup, lk_wait_info *info)
{
	struct lk__entry *found[OWNERS_MAX];
	size_t count = find_entries(lookup, found);
	uint64_t callers = 0;
	for (size_t i = 0; i < count; i++) {
		lk_wait_info one = {.struct_size = info->struct_size};
		if (entry_wait_info(found[i], &one) == 1 &&
		    (!callers || one.waited_ms > info->waited_ms))
			*info = one;
		callers += one.callers;
		lk__entry_unref(found[i]);
	}
	info->callers = callers;
	return callers > 0;
}

static int lock_wait_info(const lk_lock *lock, lk_wait_info *info)
{
	int answer = 0;
	const struct lk__multi *multi = lk__lock_multi(lock);
	if (multi) {
		for (size_t i = 0; i < multi->count && !answer; i++)
			answer = entry_wait_info(multi->part[i], info);
	} else if (lock->entry) {
		answer = entry_wait_info(lock->entry, info);
	} else {
		answer = owners_wait_info(lock->lookup, info);
	}
	return answer;
}

int lk_lock_wait_info(lk_lock *lock, lk_wait_info *info_out, lk_error *error)
{
	if (!lock || !info_out)
		return lk__fail(error, LK_EINVAL, "lk_lock_wait_info: an argument is NULL");
	int rc = lk__check_size("lk_lock_wait_info", info_out, sizeof(size_t), sizeof(*info_out),
				error);
	if (rc == 0)
		rc = lk__client_check(lk__lock_client(lock), "lk_lock_wait_info", error);
	if (rc < 0)
		return rc;
	lk_wait_info info = {.struct_size = sizeof(info)};
	rc = lock_wait_info(lock, &info);
	if (rc == 1)
		lk__copy_sized(info_out, info_out->struct_size, &info, sizeof(info));
	return rc;
}
