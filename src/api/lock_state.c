/* What is known of a lock: from memory, and as the server sees it. */
#include <inttypes.h>
#include <string.h>

#include "api/check.h"
#include "api/lock_handle.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "drive/caller.h"

/* ---- from memory ---- */

struct holding {
	uint64_t number;
	int64_t deadline_ns;
	unsigned count;
};

/* 0, LK_ENOTOWNER or LK_ELOST; `holding` is filled but for LK_ENOTOWNER. */
static int holding_of(const struct lk__call *call, struct holding *holding)
{
	int rc = LK_ENOTOWNER;
	pthread_mutex_lock(&call->entry->mutex);
	const struct lk__hold *hold = lk__entry_hold_of(call->entry, &call->owner);
	if (hold) {
		holding->number = hold->number;
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
	int rc = lk__lock_enter(&call, lock, operation, owner, error);
	if (rc < 0)
		return rc;
	rc = holding_of(&call, holding);
	lk__leave(call.saved);
	return rc < 0 ? lk__fail(error, rc, "%s: %s", operation, lk_error_text(rc)) : 0;
}

int lk_lock_is_held(lk_lock *lock, const char *owner, lk_error *error)
{
	struct holding holding = {0};
	int rc = lock_holding(lock, "lk_lock_is_held", owner, &holding, error);
	if (rc == LK_ENOTOWNER || rc == LK_ELOST)
		return 0;
	return rc < 0 ? rc : 1;
}

int lk_lock_hold_count(lk_lock *lock, const char *owner, lk_error *error)
{
	struct holding holding = {.count = 0};
	int rc = lock_holding(lock, "lk_lock_hold_count", owner, &holding, error);
	return rc < 0 && rc != LK_ENOTOWNER && rc != LK_ELOST ? rc : (int)holding.count;
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

int lk_lock_export(lk_lock *lock, const char *owner, char *field_out, size_t size, lk_error *error)
{
	struct holding holding = {0};
	if (!field_out || size < LK_FIELD_SIZE)
		return lk__fail(error, LK_EINVAL,
				"lk_lock_export: field_out needs LK_FIELD_SIZE bytes");
	int rc = lock_holding(lock, "lk_lock_export", owner, &holding, error);
	if (rc == 0)
		lk__field(lock->entry, holding.number, field_out);
	return rc;
}

/* ---- as the server sees it ---- */

/* Sends `words` about the lock and gives the integer that is answered. */
static int lock_query(lk_lock *lock, const char *operation, const char *verb, const char *field,
		      int64_t *answer_out, lk_error *error)
{
	struct lk__call call;
	int rc = lk__lock_enter(&call, lock, operation, NULL, error);
	if (rc < 0)
		return rc;
	const struct lk__target *target = &call.entry->target;
	const char *argv[] = {verb, target->key, field};
	size_t sizes[] = {strlen(verb), target->key_size, field ? strlen(field) : 0};
	struct lk__request *request = lk__request_new(field ? 3 : 2, argv, sizes);
	rc = lk__caller_ask(
		call.entry, call.thread, request, operation,
		lk__after_ms(lk__now_ns(), call.entry->client->config->command_timeout_ms), error);
	if (rc == LK__WAIT_READY) {
		*answer_out = request->reply->integer;
		lk__request_free(request);
		rc = 0;
	}
	lk__leave(call.saved);
	return rc == LK_EMAYBEHELD ? lk__fail(error, LK_EUNREACHABLE,
					      "%s: no answer within the command limit", operation)
				   : rc;
}

int lk_lock_is_locked(lk_lock *lock, lk_error *error)
{
	int64_t answer = 0;
	int rc = lock_query(lock, "lk_lock_is_locked", "EXISTS", NULL, &answer, error);
	return rc < 0 ? rc : answer > 0;
}

static int check_field(const char *operation, const char *field, lk_error *error)
{
	size_t size = field ? strnlen(field, LK_OWNER_SIZE_MAX + 1) : 0;
	if (size > 0 && size <= LK_OWNER_SIZE_MAX)
		return 0;
	return lk__fail(error, LK_EINVAL, "%s: field is %s", operation,
			!field ? "NULL"
			: size ? "longer than 256 bytes"
			       : "empty");
}

int lk_lock_is_held_by(lk_lock *lock, const char *field, lk_error *error)
{
	int64_t answer = 0;
	int rc = check_field("lk_lock_is_held_by", field, error);
	if (rc == 0)
		rc = lock_query(lock, "lk_lock_is_held_by", "HEXISTS", field, &answer, error);
	return rc < 0 ? rc : answer > 0;
}

int lk_lock_server_ttl_ms(lk_lock *lock, int64_t *ttl_ms_out, lk_error *error)
{
	int64_t answer = 0;
	if (!ttl_ms_out)
		return lk__fail(error, LK_EINVAL, "lk_lock_server_ttl_ms: ttl_ms_out is NULL");
	int rc = lock_query(lock, "lk_lock_server_ttl_ms", "PTTL", NULL, &answer, error);
	if (rc == 0)
		*ttl_ms_out = answer;
	return rc;
}

/* ---- by wire field, or by force ---- */

static int lock_command(struct lk__call *call, struct lk__request *request, const char *operation,
			lk_error *error)
{
	int64_t limit_ms = call->entry->client->config->command_timeout_ms;
	return lk__caller_ask(call->entry, call->thread, request, operation,
			      lk__after_ms(lk__now_ns(), limit_ms), error);
}

int lk_lock_force_release(lk_lock *lock, lk_error *error)
{
	struct lk__call call;
	int rc = lk__lock_enter(&call, lock, "lk_lock_force_release", NULL, error);
	if (rc < 0)
		return rc;
	struct lk__request *request = call.entry->recipe->force(&call.entry->target);
	pthread_mutex_lock(&call.entry->mutex);
	uint64_t number = call.entry->grant.number;
	pthread_mutex_unlock(&call.entry->mutex);
	rc = lock_command(&call, request, "lk_lock_force_release", error);
	if (rc == LK__WAIT_READY) {
		/* Sent twice, the first one may have freed it. */
		rc = request->reply->integer == 1 || request->sends > 1;
		lk__request_free(request);
		pthread_mutex_lock(&call.entry->mutex);
		if (call.entry->hold && call.entry->grant.number == number) {
			lk__entry_lose(call.entry, lk__now_ns());
			lk__entry_promote(call.entry);
		}
		pthread_mutex_unlock(&call.entry->mutex);
	}
	lk__leave(call.saved);
	return rc;
}

int lk_lock_release_field(lk_lock *lock, const char *field, lk_error *error)
{
	struct lk__call call;
	const char *operation = "lk_lock_release_field";
	int rc = check_field(operation, field, error);
	if (rc == 0)
		rc = lk__lock_enter(&call, lock, operation, NULL, error);
	if (rc < 0)
		return rc;
	struct lk__request *request = call.entry->recipe->release(&call.entry->target, field);
	rc = lock_command(&call, request, operation, error);
	if (rc == LK__WAIT_READY) {
		bool gone = request->reply->type == REDIS_REPLY_NIL && request->sends < 2;
		rc = gone ? lk__fail(error, LK_ENOTOWNER, "%s \"%.100s\": not held under %.256s",
				     operation, call.entry->name, field)
			  : 0;
		lk__request_free(request);
	}
	lk__leave(call.saved);
	return rc;
}

int lk_lock_extend_field(lk_lock *lock, const char *field, int64_t lease_ms, lk_error *error)
{
	struct lk__call call;
	const char *operation = "lk_lock_extend_field";
	int rc = check_field(operation, field, error);
	if (rc == 0 && (lease_ms < LK_LEASE_MIN_MS || lease_ms > LK_LEASE_MAX_MS))
		rc = lk__fail(error, LK_EINVAL, "%s: lease_ms is %" PRId64, operation, lease_ms);
	if (rc == 0)
		rc = lk__lock_enter(&call, lock, operation, NULL, error);
	if (rc < 0)
		return rc;
	struct lk__renewal renewal = {&call.entry->target, field, lease_ms};
	struct lk__request *request = call.entry->recipe->renew(&renewal, 1);
	rc = lock_command(&call, request, operation, error);
	if (rc == LK__WAIT_READY) {
		const redisReply *reply = request->reply;
		bool ours = reply->type == REDIS_REPLY_ARRAY && reply->elements == 1 &&
			    reply->element[0]->integer == 1;
		rc = ours ? 0
			  : lk__fail(error, LK_ENOTOWNER, "%s \"%.100s\": not held under %.256s",
				     operation, call.entry->name, field);
		lk__request_free(request);
	}
	lk__leave(call.saved);
	return rc;
}
