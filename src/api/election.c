/* SPDX-License-Identifier: MIT */
/* The public face of elections: those who stand and lead. */
#include <lockkeeper/election.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/check.h"
#include "api/election_call.h"
#include "api/lock_handle.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "lock/election.h"
#include "lock/hold.h"
#include "lock/loop.h"
#include "lock/operation.h"
#include "resp/reply.h"

/* ---- the handle ---- */

static int value_check(const char *operation, const void *value, size_t *size, lk_error *error)
{
	if (!value && *size)
		return lk__fail(error, LK_EINVAL, "%s: value is NULL", operation);
	if (*size == LK_STRLEN)
		*size = strnlen(value, LK_ELECTION_VALUE_SIZE_MAX + 1);
	if (*size > LK_ELECTION_VALUE_SIZE_MAX)
		return lk__fail(error, LK_EINVAL, "%s: the value has more than %d bytes", operation,
				LK_ELECTION_VALUE_SIZE_MAX);
	return 0;
}

static int options_check(const char *operation, lk_client *client, lk_election_options *options,
			 lk_error *error)
{
	int rc = LK__CHECK(operation, error, {LK__PRIORITY, options->priority},
			   {LK__STANDING, options->standing});
	if (rc == 0)
		rc = lk__check_range(operation, "progress_ms", options->progress_ms, 0,
				     LK_LEASE_MAX_MS, error);
	if (rc == 0)
		rc = lk__check_range(operation, "on_drain", options->on_drain, LK_DRAIN_ASK,
				     LK_DRAIN_RESIGN, error);
	if (rc == 0)
		rc = lk__check_range(operation, "margin_ms", options->margin_ms, 0,
				     client->config->watchdog_ms, error);
	return rc < 0 ? rc : value_check(operation, options->value, &options->value_size, error);
}

/* Without a space, which ends it in the record. */
static void host_fill(char host_out[LK_NODE_SIZE])
{
	if (gethostname(host_out, LK_NODE_SIZE) != 0)
		*host_out = '\0';
	host_out[LK_NODE_SIZE - 1] = '\0';
	for (char *at = host_out; *at; at++)
		if ((unsigned char)*at <= ' ')
			*at = '_';
	if (!*host_out)
		snprintf(host_out, LK_NODE_SIZE, "-");
}

static void election_fill(lk_election *election, lk_client *client,
			  const lk_election_options *options)
{
	uint64_t number = atomic_fetch_add(&client->last_number, 1) + 1;
	snprintf(election->owner, sizeof(election->owner), "candidate %" PRIu64, number);
	election->margin_ms = options->margin_ms;
	election->tag = options->tag;
	election->on_drain = options->on_drain;
	election->stand.teller = &election->teller;
	election->stand.priority = options->priority;
	election->stand.standing = options->standing;
	election->stand.progress_ms = options->progress_ms;
	lk__stand_progress(&election->stand, lk__now_ns());
	election->stand.value_size = options->value_size;
	if (options->value_size)
		memcpy(election->stand.value, options->value, options->value_size);
	host_fill(election->stand.host);
	pthread_mutex_init(&election->mutex, NULL);
	pthread_mutex_init(&election->stand.mutex, NULL);
	atomic_store(&election->refs, 1);
}

int lk_election_new(lk_election **election_out, lk_client *client, const void *name,
		    size_t name_size, const lk_election_options *options, lk_error *error)
{
	const char *operation = "lk_election_new";
	lk_election_options own;
	int rc = lk__copy_options(&own, sizeof(own), options, operation, error);
	if (rc == 0 && !election_out)
		rc = lk__fail(error, LK_EINVAL, "%s: an argument is NULL", operation);
	if (rc == 0)
		rc = lk__name_check_slot(client, name, &name_size, LK__ELECTION_PREFIX, operation,
					 error);
	if (rc == 0)
		rc = lk__check_blocking(client, operation, error);
	if (rc == 0)
		rc = options_check(operation, client, &own, error);
	if (rc < 0)
		return rc;
	lk_election *election = calloc(1, sizeof(*election));
	if (!election)
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", operation);
	election_fill(election, client, &own);
	const struct lk__owner owner = lk__election_owner(election);
	rc = lk__entry_get(&election->entry, client, &lk__election_recipe, name, name_size, &owner,
			   error);
	if (rc < 0) {
		free(election);
		return rc;
	}
	election->entry->target.stand = &election->stand;
	election->client = client;
	lk__client_ref(client);
	*election_out = election;
	return 0;
}

int lk__election_begin(struct lk__election_call *call, lk_election *election, const char *operation,
		       lk_error *error)
{
	if (!election) {
		lk__fail(error, LK_EINVAL, "%s: election is NULL", operation);
		return LK_EINVAL;
	}
	call->election = election;
	call->operation = operation;
	call->owner = lk__election_owner(election);
	return lk__enter(election->client, operation, &call->thread, &call->saved, error);
}

int lk__election_end(const struct lk__election_call *call, int rc)
{
	lk__leave(call->saved);
	return rc;
}

int64_t lk__election_until_ns(const lk_election *election)
{
	return lk__after_ms(lk__now_ns(), election->client->config->command_timeout_ms);
}

bool lk__is_candidate_id(const char *id)
{
	return *id && strnlen(id, LK_FIELD_SIZE) < LK_FIELD_SIZE;
}

lk_election *lk_election_free(lk_election *election)
{
	if (!election || lk__client_forked(election->client))
		return NULL;
	lk__election_leave(election);
	if (atomic_load(&election->client->state) != LK__CLIENT_CLOSED)
		lk__election_drop(election, true);
	lk__election_unref(election);
	return NULL;
}

/* ---- whether it leads ---- */

struct leading {
	char field[LK__FIELD_SIZE];
	uint64_t term;
	int64_t deadline_ns;
};

/* 0, LK_ENOTOWNER or LK_ELOST. */
static int leading_of(const struct lk__election_call *call, struct leading *leading)
{
	struct lk__entry *entry = call->election->entry;
	int rc = LK_ENOTOWNER;
	pthread_mutex_lock(&entry->mutex);
	const struct lk__hold *hold = lk__entry_hold_of(entry, &call->owner);
	if (hold) {
		lk__field(entry, hold->number, leading->field);
		leading->term = lk__hold_extra(hold)->fence;
		leading->deadline_ns = lk__hold_deadline(hold);
		rc = hold->lost || lk__now_ns() >= leading->deadline_ns ? LK_ELOST : 0;
	}
	pthread_mutex_unlock(&entry->mutex);
	return rc;
}

static int not_leading(const struct lk__election_call *call, int code, lk_error *error)
{
	return lk__fail(error, code, "%s \"%.100s\": %s", call->operation,
			call->election->entry->name,
			code == LK_ELOST ? "the leadership was lost" : "it does not lead");
}

static int election_leading(lk_election *election, const char *operation, struct leading *leading,
			    lk_error *error)
{
	struct lk__election_call call;
	int rc = lk__election_begin(&call, election, operation, error);
	if (rc < 0)
		return rc;
	rc = leading_of(&call, leading);
	if (rc < 0)
		not_leading(&call, rc, error);
	return lk__election_end(&call, rc);
}

int lk_election_is_leading(lk_election *election, lk_error *error)
{
	struct leading leading;
	return election_leading(election, "lk_election_is_leading", &leading, error) == 0;
}

int lk_election_remaining_ms(lk_election *election, int64_t *remaining_ms_out, lk_error *error)
{
	const char *operation = "lk_election_remaining_ms";
	struct leading leading;
	if (!remaining_ms_out)
		return lk__fail(error, LK_EINVAL, "%s: remaining_ms_out is NULL", operation);
	int rc = election_leading(election, operation, &leading, error);
	if (rc == 0)
		*remaining_ms_out = (leading.deadline_ns - lk__now_ns()) / LK__MS;
	return rc;
}

int lk_election_term(lk_election *election, uint64_t *term_out, lk_error *error)
{
	const char *operation = "lk_election_term";
	struct leading leading;
	if (!term_out)
		return lk__fail(error, LK_EINVAL, "%s: term_out is NULL", operation);
	int rc = election_leading(election, operation, &leading, error);
	if (rc == 0)
		*term_out = leading.term;
	return rc;
}

int lk_election_progress(lk_election *election, lk_error *error)
{
	struct leading leading;
	int rc = election_leading(election, "lk_election_progress", &leading, error);
	if (rc < 0)
		return rc;
	struct lk__entry *entry = election->entry;
	pthread_mutex_lock(&entry->mutex);
	int64_t now_ns = lk__now_ns();
	bool stood_still = now_ns >= atomic_load(&election->stand.progress_ns);
	lk__stand_progress(&election->stand, now_ns);
	if (stood_still && entry->hold && !entry->hold->lost)
		lk__watch_hold(entry, now_ns);
	pthread_mutex_unlock(&entry->mutex);
	return 0;
}

/* ---- standing ---- */

static int election_begin(const struct lk__election_call *call, int64_t wait_ms, bool joins,
			  lk_error *error)
{
	lk_election *election = call->election;
	struct leading leading;
	int rc = lk__loop_start(election->client, error);
	if (rc == 0 && atomic_load(&election->client->draining))
		rc = lk__fail(error, LK_EDRAINING, "%s \"%.100s\": %s", call->operation,
			      election->entry->name, lk_error_text(LK_EDRAINING));
	pthread_mutex_lock(&election->mutex);
	bool behind = joins && lk__election_has_left(election);
	if (rc == 0 && behind)
		election->rejoins = true;
	else if (rc == 0 && (election->async || leading_of(call, &leading) != LK_ENOTOWNER))
		rc = lk__fail(error, LK_EINVAL, "%s: it stands or leads already", call->operation);
	else if (rc == 0)
		rc = lk__election_stand(election, wait_ms, joins, error);
	pthread_mutex_unlock(&election->mutex);
	return rc;
}

int lk_election_join(lk_election *election, lk_error *error)
{
	struct lk__election_call call;
	int rc = lk__election_begin(&call, election, "lk_election_join", error);
	if (rc < 0)
		return rc;
	return lk__election_end(&call, election_begin(&call, LK_WAIT_MAX_MS, true, error));
}

static int campaign_end(const struct lk__election_call *call, uint64_t *term_out, lk_error *error)
{
	lk_election *election = call->election;
	struct leading leading;
	pthread_mutex_lock(&election->mutex);
	int rc = election->result.code;
	if (rc && error)
		*error = election->result;
	pthread_mutex_unlock(&election->mutex);
	if (rc)
		return rc;
	rc = leading_of(call, &leading);
	if (rc < 0)
		return not_leading(call, rc, error);
	if (term_out)
		*term_out = leading.term;
	return 0;
}

int lk_election_campaign(lk_election *election, int64_t wait_ms, lk_cancel *cancel,
			 uint64_t *term_out, lk_error *error)
{
	const char *operation = "lk_election_campaign";
	struct lk__election_call call;
	int rc = LK__CHECK(operation, error, {LK__WAIT, wait_ms});
	if (rc == 0)
		rc = lk__election_begin(&call, election, operation, error);
	if (rc < 0)
		return rc;
	rc = lk__cancel_enter(cancel, call.thread, error);
	if (rc < 0)
		return lk__election_end(&call, rc);
	rc = lk__election_await_left(election, call.thread, &wait_ms, cancel, error);
	if (rc == 0)
		rc = election_begin(&call, wait_ms, false, error);
	if (rc == 0) {
		if (!lk__election_await(election, call.thread, LK__NEVER, cancel)) {
			lk__election_withdraw(election);
			lk__election_await(election, call.thread, LK__NEVER, NULL);
		}
		rc = campaign_end(&call, term_out, error);
	}
	lk__cancel_leave(cancel);
	return lk__election_end(&call, rc);
}

/* ---- giving it up ---- */

/* Releases what it leads. */
static int election_release(const struct lk__election_call *call, int64_t until_ns, lk_error *error)
{
	struct lk__releasing releasing;
	lk__release_init(&releasing, call->election->entry, call->thread, &call->owner, 0, false,
			 error);
	releasing.until_ns = until_ns;
	return lk__op_run(&releasing.op);
}

int lk_election_resign(lk_election *election, int64_t limit_ms, lk_error *error)
{
	const char *operation = "lk_election_resign";
	struct lk__election_call call;
	struct leading leading;
	int rc = LK__CHECK(operation, error, {LK__WAIT, limit_ms});
	if (rc == 0)
		rc = lk__election_begin(&call, election, operation, error);
	if (rc < 0)
		return rc;
	int64_t until_ns = limit_ms < 0 ? LK__NEVER : lk__after_ms(lk__now_ns(), limit_ms);
	pthread_mutex_lock(&election->mutex);
	bool stood = election->async != NULL;
	pthread_mutex_unlock(&election->mutex);
	if (stood)
		lk__election_withdraw(election);
	bool over = !stood || lk__election_await(election, call.thread, until_ns, NULL) ||
		    !lk__election_leave(election);
	int leads = leading_of(&call, &leading);
	if (leads != LK_ENOTOWNER)
		rc = election_release(&call, until_ns, error);
	else if (!stood)
		rc = not_leading(&call, LK_ENOTOWNER, error);
	else if (!over)
		rc = lk__fail(error, LK_EMAYBEHELD,
			      "%s \"%.100s\": the wait has not ended within the limit", operation,
			      election->entry->name);
	return lk__election_end(&call, rc);
}

/* No answer has come: it is looked at whether it still leads. */
static void election_doubt(const lk_election *election)
{
	struct lk__entry *entry = election->entry;
	pthread_mutex_lock(&entry->mutex);
	atomic_store(&entry->doubt, true);
	if (entry->hold)
		lk__watch_hold(entry, lk__now_ns());
	pthread_mutex_unlock(&entry->mutex);
}

/* Asks what changes something as long as it leads: 0 with the reply's request, or a code. */
static int leader_ask(const struct lk__election_call *call, struct lk__request *request,
		      lk_error *error)
{
	int rc = lk__ask_entry(call->election->entry, call->thread, request, call->operation,
			       lk__election_until_ns(call->election), error);
	if (rc == LK_EMAYBEHELD || rc == LK_ENOTDURABLE)
		election_doubt(call->election);
	return rc == LK__WAIT_READY ? 0 : rc;
}

static int transfer_read(const struct lk__election_call *call, const struct lk__request *request,
			 uint64_t term, const char *id, lk_error *error)
{
	int64_t done;
	if (request->reply->type == REDIS_REPLY_NIL) {
		lk__election_lose(call->election, term);
		return not_leading(call, LK_ELOST, error);
	}
	if (!lk__reply_integer(request->reply, 0, 1, &done))
		return lk__fail(error, LK_EPROTOCOL, "%s: unexpected reply", call->operation);
	if (!done && request->sends > 1)
		return lk__fail(error, LK_EMAYBEHELD,
				"%s \"%.100s\": %.64s did not wait, and a copy may come later",
				call->operation, call->election->entry->name, id);
	if (!done)
		return lk__fail(error, LK_EBUSY,
				"%s \"%.100s\": %.64s does not wait; still leading",
				call->operation, call->election->entry->name, id);
	return 0;
}

/* It has transferred, or may have: then its place goes back, and the next one leads. */
static void transfer_end(lk_election *election, int rc)
{
	lk__election_drop(election, rc < 0);
	lk__election_leave(election); /* its loop may not have ended the wait yet */
}

int lk_election_transfer(lk_election *election, const char *id, lk_error *error)
{
	const char *operation = "lk_election_transfer";
	struct lk__election_call call;
	struct leading leading;
	if (!id || !lk__is_candidate_id(id))
		return lk__fail(error, LK_EINVAL, LK__NOT_A_CANDIDATE, operation);
	int rc = lk__election_begin(&call, election, operation, error);
	if (rc < 0)
		return rc;
	rc = leading_of(&call, &leading);
	if (rc < 0)
		return lk__election_end(&call, not_leading(&call, rc, error));
	struct lk__request *request = lk__election_transfer(&election->entry->target, leading.field,
							    id);
	rc = leader_ask(&call, request, error);
	if (rc == 0) {
		rc = transfer_read(&call, request, leading.term, id, error);
		lk__request_free(request);
	}
	if (rc == 0 || rc == LK_EMAYBEHELD || rc == LK_ENOTDURABLE)
		transfer_end(election, rc);
	return lk__election_end(&call, rc);
}

/* ---- the value ---- */

static int proclaim_ask(const struct lk__election_call *call, const struct leading *leading,
			int64_t version, const void *value, size_t size, lk_error *error)
{
	int64_t written;
	struct lk__request *request = lk__election_proclaim(&call->election->entry->target,
							    leading->field, leading->term, version,
							    value, size);
	int rc = leader_ask(call, request, error);
	if (rc < 0)
		return rc;
	if (!lk__reply_integer(request->reply, 0, 1, &written))
		rc = lk__fail(error, LK_EPROTOCOL, "%s: unexpected reply", call->operation);
	else if (!written)
		rc = not_leading(call, LK_ELOST, error);
	if (rc == LK_ELOST)
		lk__election_lose(call->election, leading->term);
	lk__request_free(request);
	return rc;
}

int lk_election_proclaim(lk_election *election, const void *value, size_t value_size,
			 lk_error *error)
{
	const char *operation = "lk_election_proclaim";
	struct lk__election_call call;
	struct leading leading;
	int rc = value_check(operation, value, &value_size, error);
	if (rc == 0)
		rc = lk__election_begin(&call, election, operation, error);
	if (rc < 0)
		return rc;
	struct lk__stand *stand = &election->stand;
	pthread_mutex_lock(&stand->mutex);
	int64_t version = ++stand->version;
	stand->value_size = value_size;
	if (value_size)
		memcpy(stand->value, value, value_size);
	pthread_mutex_unlock(&stand->mutex);
	rc = leading_of(&call, &leading);
	if (rc == 0)
		rc = proclaim_ask(&call, &leading, version, value ? value : "", value_size, error);
	else if (rc == LK_ENOTOWNER)
		rc = 0;
	else
		not_leading(&call, rc, error);
	return lk__election_end(&call, rc);
}

/* ---- how it stands ---- */

/* The number under which it waits or leads; "" without. */
static void standing_field(const struct lk__election_call *call, char field_out[LK__FIELD_SIZE])
{
	struct lk__entry *entry = call->election->entry;
	pthread_mutex_lock(&entry->mutex);
	const struct lk__hold *hold = lk__entry_hold_of(entry, &call->owner);
	*field_out = '\0';
	if (hold)
		lk__field(entry, hold->number, field_out);
	else if (entry->waiting && entry->waiting->attempt.queued)
		lk__field(entry, entry->waiting->attempt.number, field_out);
	pthread_mutex_unlock(&entry->mutex);
}

/* How many were changed, or a code. A field that begins with "*": all. */
static int standing_ask(const struct lk__election_call *call, const char *field, lk_error *error)
{
	int64_t changed;
	struct lk__entry *entry = call->election->entry;
	struct lk__stand *stand = &call->election->stand;
	pthread_mutex_lock(&stand->mutex);
	struct lk__request *request = lk__election_standing(&entry->target, field);
	pthread_mutex_unlock(&stand->mutex);
	int rc = lk__ask_entry(entry, call->thread, request, call->operation,
			       lk__election_until_ns(call->election), error);
	if (rc != LK__WAIT_READY)
		return rc;
	if (lk__reply_integer(request->reply, 0, INT32_MAX, &changed))
		rc = (int)changed;
	else
		rc = lk__fail(error, LK_EPROTOCOL, "%s: unexpected reply", call->operation);
	lk__request_free(request);
	return rc;
}

int lk_election_set_standing(lk_election *election, int priority, int standing, lk_error *error)
{
	const char *operation = "lk_election_set_standing";
	struct lk__election_call call;
	char field[LK__FIELD_SIZE];
	int rc = LK__CHECK(operation, error, {LK__PRIORITY, priority}, {LK__STANDING, standing});
	if (rc == 0)
		rc = lk__election_begin(&call, election, operation, error);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&election->stand.mutex);
	election->stand.priority = priority;
	election->stand.standing = standing;
	election->stand.changes++;
	pthread_mutex_unlock(&election->stand.mutex);
	standing_field(&call, field);
	rc = *field ? standing_ask(&call, field, error) : 0;
	return lk__election_end(&call, rc < 0 ? rc : 0);
}

int lk_election_retire(lk_election *election, lk_error *error)
{
	struct lk__election_call call;
	char all[LK__FIELD_SIZE + 1] = "*"; /* and what tells a copy of this request apart */
	int rc = lk__election_begin(&call, election, "lk_election_retire", error);
	if (rc < 0)
		return rc;
	lk__field(election->entry, atomic_fetch_add(&election->client->last_number, 1) + 1,
		  all + 1);
	return lk__election_end(&call, standing_ask(&call, all, error));
}
