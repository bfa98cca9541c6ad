/* SPDX-License-Identifier: MIT */
/*
 * Elections: those who stand and lead, and those who look on.
 *
 *   idle ── stand ──▶ standing ── granted ──▶ leads ── resign, transfer ──▶ idle
 *                        │  ▲                                                │
 *                        │  └─ again, if its grant came too late             │
 *                        └── refused, withdrawn, its limit ──────────────────┘
 *
 * Standing is an asynchronous acquire, whose end the loop tells. A campaign waits for that; a join
 * leaves it to notices. Whether it leads, its hold says. An election and its acquire each have a
 * reference of it.
 */
#include <lockkeeper/election.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "api/check.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conn/conn.h"
#include "lock/async.h"
#include "lock/hold.h"
#include "lock/loop.h"
#include "lock/notice.h"
#include "lock/release.h"
#include "resp/reply.h"
#include "sync/recipes.h"

#define NOT_A_CANDIDATE "%s: `id` cannot be the id of a candidate"
#define CANDIDATE_SIZE 40 /* the name under which it is an owner, with its NUL */

/* A call that waits until the election does not stand any more: its campaign, or a resign. */
struct awaiting {
	struct lk__thread *thread;
	bool over;
	struct awaiting *prev, *next;
};

struct lk_election {
	struct lk__stand stand;
	struct lk__teller teller;
	struct lk__entry *entry;
	char owner[CANDIDATE_SIZE];
	int64_t margin_ms;
	uint64_t tag;
	_Atomic unsigned refs;

	pthread_mutex_t mutex;   /* also around the starts of its acquires */
	struct lk__async *async; /* the acquire in flight; NULL: it does not stand */
	int64_t stood_ns;        /* when that began, */
	int64_t stood_version;   /* and which value it had then */
	bool joins;              /* it stands again where that can help, and is told by notices */
	bool withdrawn;          /* it is not to stand any more */
	bool left;    /* nobody waits for the end of that: what it is granted goes back */
	bool rejoins; /* the same, and it is to join again behind it */
	struct awaiting *awaiting; /* the calls that wait for its end */
	lk_error result;           /* of the last acquire */
	lk_leader seen;            /* by its observer, */
	bool has_seen;             /* if there was a look */
};

/* A public call, while it is under way. */
struct call {
	lk_election *election;
	struct lk__thread *thread;
	const char *operation;
	struct lk__owner owner;
	int64_t until_ns; /* a question that it asks now is answered by then */
	int saved;
};

static struct lk__owner election_owner(const lk_election *election)
{
	return (struct lk__owner){.name = election->owner, .name_size = strlen(election->owner)};
}

/* Until when a question of now may take. */
static int64_t question_until_ns(const lk_election *election)
{
	return lk__after_ms(lk__now_ns(), election->entry->client->config->command_timeout_ms);
}

/* Begins a call: 0, or a code with the error. call_end() returns `rc`. */
static int call_begin(struct call *call, lk_election *election, const char *operation,
		      lk_error *error)
{
	if (!election)
		return lk__fail(error, LK_EINVAL, "%s: election is NULL", operation);
	call->election = election;
	call->operation = operation;
	call->owner = election_owner(election);
	call->until_ns = question_until_ns(election);
	return lk__enter(election->entry->client, operation, &call->thread, &call->saved, error);
}

static int call_end(const struct call *call, int rc)
{
	lk__leave(call->saved);
	return rc;
}

/* ---- what it holds ---- */

/* Ends its hold in memory, and the server's without waiting for it if `release` is set. */
static void election_drop(lk_election *election, bool release)
{
	const struct lk__owner owner = election_owner(election);
	struct lk__entry *entry = election->entry;
	pthread_mutex_lock(&entry->mutex);
	lk__release_drop(entry, &owner, release, NULL);
	pthread_mutex_unlock(&entry->mutex);
}

/* The server has said that it does not lead any more with that term: it is told so at once. */
static void election_lose(const lk_election *election, uint64_t term)
{
	const struct lk__owner owner = election_owner(election);
	struct lk__entry *entry = election->entry;
	pthread_mutex_lock(&entry->mutex);
	const struct lk__hold *hold = lk__entry_hold_of(entry, &owner);
	if (hold && !hold->lost && lk__hold_extra(hold)->fence == term) {
		lk__entry_lose(entry, lk__now_ns());
		lk__entry_promote(entry);
	}
	pthread_mutex_unlock(&entry->mutex);
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

/* ---- its acquire ---- */

static void election_unref(lk_election *election)
{
	struct lk__entry *entry = election->entry;
	lk_client *client = entry->client;
	if (atomic_fetch_sub(&election->refs, 1) > 1)
		return;
	pthread_mutex_lock(&entry->mutex);
	entry->target.stand = NULL;
	pthread_mutex_unlock(&entry->mutex);
	lk__notices_hush(client, &election->teller);
	lk__entry_unref(entry);
	lk__client_unref(client);
	pthread_mutex_destroy(&election->mutex);
	pthread_mutex_destroy(&election->stand.mutex);
	free(election);
}

#define AGAIN_NS (1000 * LK__MS) /* not sooner behind the last time: no storm of refusals */

/* Whether to stand once more helps: its grant came later than its lease, or what stood in the way
 * may pass. */
static bool stands_again(const lk_election *election, int code)
{
	return election->joins && !election->withdrawn && lk_error_is_retryable(code) &&
	       lk__now_ns() - election->stood_ns >= AGAIN_NS &&
	       atomic_load(&election->entry->client->state) == LK__CLIENT_OPEN;
}

/* It does not stand any more. Each call hears of this end, also if another thread has it stand
 * again before that call looks. */
static void awaiting_wake(const lk_election *election)
{
	struct awaiting *each;
	DL_FOREACH(election->awaiting, each)
	{
		each->over = true;
		lk__thread_wake(each->thread);
	}
}

/* The try that was granted may have been under way when the value was changed: then the leader
 * writes it now. */
static void value_bring(lk_election *election)
{
	const struct lk__owner owner = election_owner(election);
	struct lk__entry *entry = election->entry;
	struct lk__stand *stand = &election->stand;
	struct lk__request *request = NULL;
	char field[LK__FIELD_SIZE];
	pthread_mutex_lock(&entry->mutex);
	const struct lk__hold *hold = lk__entry_hold_of(entry, &owner);
	uint64_t term = hold ? lk__hold_extra(hold)->fence : 0;
	if (hold)
		lk__field(entry, hold->number, field);
	pthread_mutex_unlock(&entry->mutex);
	pthread_mutex_lock(&stand->mutex);
	if (term && stand->version != election->stood_version)
		request = lk__election_proclaim(&entry->target, field, term, stand->version,
						stand->value, stand->value_size);
	pthread_mutex_unlock(&stand->mutex);
	if (request) /* without memory it stays as it is */
		request->resend = true;
	lk__conn_tell(lk__entry_scripts(entry), request);
}

static int election_stand(lk_election *election, int64_t wait_ms, bool joins, lk_error *error);

static bool election_joins(lk_election *election)
{
	return election_stand(election, LK_WAIT_MAX_MS, true, &election->result) == 0;
}

/* The loop has carried it out: it leads, stands once more, or does not stand any more. */
static void standing_over(struct lk__completion *completion)
{
	lk_election *election = completion->context;
	lk__async_taken(completion);
	int code = completion->value.error.code;
	pthread_mutex_lock(&election->mutex);
	election->async = NULL;
	election->result = completion->value.error;
	bool again = code && stands_again(election, code) && election_joins(election);
	bool told = code && !again && election->joins && !election->withdrawn;
	if (election->left && !code)
		election_drop(election, true);
	else if (!code)
		value_bring(election);
	if (election->rejoins) {
		again = election_joins(election);
		told = !again;
	}
	if (told)
		lk__notices_unelected(election->entry, election->tag, &election->result);
	if (!again)
		awaiting_wake(election);
	pthread_mutex_unlock(&election->mutex);
	free(completion);
	election_unref(election);
}

/* Begins to stand: 0 or a code. The election's mutex is held. */
static int election_stand(lk_election *election, int64_t wait_ms, bool joins, lk_error *error)
{
	struct lk__completion *completion = calloc(1, sizeof(*completion));
	if (!completion)
		return lk__fail(error, LK_ENOMEM, "stand for \"%.100s\": out of memory",
				election->entry->name);
	completion->context = election;
	completion->over = standing_over;
	completion->value.operation = LK_OP_ACQUIRE;
	completion->owner = election_owner(election);
	const struct lk__async_want want = {
		.way = LK__ASYNC_ACQUIRE,
		.operation = "stand",
		.acquire = {.wait_ms = wait_ms,
			    .margin_ms = election->margin_ms,
			    .tag = election->tag,
			    .owner = completion->owner},
	};
	election->joins = joins;
	election->withdrawn = election->left = election->rejoins = false;
	election->stood_ns = lk__now_ns();
	pthread_mutex_lock(&election->stand.mutex);
	election->stood_version = election->stand.version;
	pthread_mutex_unlock(&election->stand.mutex);
	atomic_fetch_add(&election->refs, 1);
	int rc = lk__async_start(completion, election->entry, &want, error);
	if (rc < 0) {
		free(completion);
		atomic_fetch_sub(&election->refs, 1); /* never the last: the caller has one */
		return rc;
	}
	election->async = completion->async;
	return 0;
}

/* Waits in the calling thread until it does not stand any more: true; or until that time, or the
 * token is set. */
static bool election_await(lk_election *election, struct lk__thread *thread, int64_t until_ns,
			   lk_cancel *cancel)
{
	struct awaiting self = {.thread = thread};
	pthread_mutex_lock(&election->mutex);
	self.over = !election->async;
	DL_APPEND(election->awaiting, &self);
	while (!self.over && !lk__cancelled(cancel) && lk__now_ns() < until_ns) {
		pthread_mutex_unlock(&election->mutex);
		lk__cancel_park(cancel, &thread->park, until_ns);
		pthread_mutex_lock(&election->mutex);
	}
	DL_DELETE(election->awaiting, &self);
	pthread_mutex_unlock(&election->mutex);
	return self.over;
}

/* It does not want to stand any more, and the acquire ends soon: whether it stood until now.
 * `leaves`: its caller does not wait for that end. */
static bool election_withdraw(lk_election *election, bool leaves)
{
	pthread_mutex_lock(&election->mutex);
	bool stood = election->async != NULL;
	election->withdrawn = true;
	election->rejoins = false;
	election->left |= leaves;
	if (stood)
		lk__async_cancel(election->async);
	pthread_mutex_unlock(&election->mutex);
	return stood;
}

/* It has left, and its last try has no answer yet. With its mutex held. */
static bool has_left(const lk_election *election)
{
	return election->async && election->left && !election->rejoins;
}

/* Waits for that answer, within the limit, of which the rest is left. */
static int await_left(const struct call *call, int64_t *wait_ms, lk_cancel *cancel, lk_error *error)
{
	lk_election *election = call->election;
	int64_t until_ns = *wait_ms < 0 ? LK__NEVER : lk__after_ms(lk__now_ns(), *wait_ms);
	pthread_mutex_lock(&election->mutex);
	bool left = has_left(election);
	pthread_mutex_unlock(&election->mutex);
	if (!left)
		return 0;
	if (!election_await(election, call->thread, until_ns, cancel))
		return lk__fail(error, lk__cancelled(cancel) ? LK_ECANCELLED : LK_EUNREACHABLE,
				"stand for \"%.100s\": the last try before has no answer yet",
				election->entry->name);
	if (*wait_ms > 0) /* 0 would be one try, and no wait */
		*wait_ms = lk__now_ns() < until_ns ? (until_ns - lk__now_ns()) / LK__MS + 1 : 1;
	return 0;
}

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
	struct lk__stand *stand = &election->stand;
	uint64_t number = atomic_fetch_add(&client->last_number, 1) + 1;
	snprintf(election->owner, sizeof(election->owner), "candidate %" PRIu64, number);
	election->margin_ms = options->margin_ms;
	election->tag = options->tag;
	stand->teller = &election->teller;
	stand->priority = options->priority;
	stand->standing = options->standing;
	stand->resigns = options->on_drain == LK_DRAIN_RESIGN;
	stand->progress_ms = options->progress_ms;
	lk__stand_progress(stand, lk__now_ns());
	stand->value_size = options->value_size;
	if (options->value_size)
		memcpy(stand->value, options->value, options->value_size);
	host_fill(stand->host);
	pthread_mutex_init(&election->mutex, NULL);
	pthread_mutex_init(&stand->mutex, NULL);
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
	const struct lk__owner owner = election_owner(election);
	rc = lk__entry_get(&election->entry, client, &lk__election_recipe, name, name_size, &owner,
			   error);
	if (rc < 0) {
		free(election);
		return rc;
	}
	election->entry->target.stand = &election->stand;
	lk__client_ref(client);
	*election_out = election;
	return 0;
}

lk_election *lk_election_free(lk_election *election)
{
	if (!election || lk__client_forked(election->entry->client))
		return NULL;
	election_withdraw(election, true);
	if (atomic_load(&election->entry->client->state) != LK__CLIENT_CLOSED)
		election_drop(election, true);
	election_unref(election);
	return NULL;
}

/* ---- whether it leads ---- */

struct leading {
	char field[LK__FIELD_SIZE];
	uint64_t term;
	int64_t deadline_ns;
};

/* 0, LK_ENOTOWNER or LK_ELOST. */
static int leading_of(const struct call *call, struct leading *leading)
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

static int not_leading(const struct call *call, int code, lk_error *error)
{
	return lk__fail(error, code, "%s \"%.100s\": %s", call->operation,
			call->election->entry->name,
			code == LK_ELOST ? "the leadership was lost" : "it does not lead");
}

static int election_leading(lk_election *election, const char *operation, struct leading *leading,
			    lk_error *error)
{
	struct call call;
	int rc = call_begin(&call, election, operation, error);
	if (rc < 0)
		return rc;
	rc = leading_of(&call, leading);
	if (rc < 0)
		not_leading(&call, rc, error);
	return call_end(&call, rc);
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

static int stand_begin(const struct call *call, int64_t wait_ms, bool joins, lk_error *error)
{
	lk_election *election = call->election;
	struct leading leading;
	int rc = lk__loop_start(election->entry->client, error);
	if (rc == 0 && atomic_load(&election->entry->client->draining))
		rc = lk__fail(error, LK_EDRAINING, "%s \"%.100s\": %s", call->operation,
			      election->entry->name, lk_error_text(LK_EDRAINING));
	pthread_mutex_lock(&election->mutex);
	if (rc == 0 && joins && has_left(election))
		election->rejoins = true;
	else if (rc == 0 && (election->async || leading_of(call, &leading) != LK_ENOTOWNER))
		rc = lk__fail(error, LK_EINVAL, "%s: it stands or leads already", call->operation);
	else if (rc == 0)
		rc = election_stand(election, wait_ms, joins, error);
	pthread_mutex_unlock(&election->mutex);
	return rc;
}

int lk_election_join(lk_election *election, lk_error *error)
{
	struct call call = {.election = election};
	int rc = call_begin(&call, election, "lk_election_join", error);
	if (rc < 0)
		return rc;
	return call_end(&call, stand_begin(&call, LK_WAIT_MAX_MS, true, error));
}

static int campaign_end(const struct call *call, uint64_t *term_out, lk_error *error)
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
	struct call call;
	int rc = LK__CHECK(operation, error, {LK__WAIT, wait_ms});
	if (rc == 0)
		rc = call_begin(&call, election, operation, error);
	if (rc < 0)
		return rc;
	rc = lk__cancel_enter(cancel, call.thread, error);
	if (rc < 0)
		return call_end(&call, rc);
	rc = await_left(&call, &wait_ms, cancel, error);
	if (rc == 0)
		rc = stand_begin(&call, wait_ms, false, error);
	if (rc == 0) {
		if (!election_await(election, call.thread, LK__NEVER, cancel)) {
			election_withdraw(election, false);
			election_await(election, call.thread, LK__NEVER, NULL);
		}
		rc = campaign_end(&call, term_out, error);
	}
	lk__cancel_leave(cancel);
	return call_end(&call, rc);
}

/* ---- asking the server ---- */

/* Asks: 0, and the request is the caller's with its reply, or a code. */
static int call_ask(const struct call *call, struct lk__request *request, lk_error *error)
{
	int rc = lk__ask_entry(call->election->entry, call->thread, request, call->operation,
			       call->until_ns, error);
	return rc == LK__WAIT_READY ? 0 : rc;
}

/* What has been asked was answered in another form. */
static int unexpected(const struct call *call, lk_error *error)
{
	return lk__fail(error, LK_EPROTOCOL, "%s: unexpected reply", call->operation);
}

/* Asks what is answered by an integer in that range: 0 or a code. */
static int ask_integer(const struct call *call, struct lk__request *request, int64_t least,
		       int64_t most, int64_t *answer_out, lk_error *error)
{
	int rc = call_ask(call, request, error);
	if (rc < 0)
		return rc;
	if (!lk__reply_integer(request->reply, least, most, answer_out))
		rc = unexpected(call, error);
	lk__request_free(request);
	return rc;
}

/* ---- giving it up ---- */

/* Releases what it leads. */
static int election_release(const struct call *call, int64_t until_ns, lk_error *error)
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
	struct call call;
	struct leading leading;
	int rc = LK__CHECK(operation, error, {LK__WAIT, limit_ms});
	if (rc == 0)
		rc = call_begin(&call, election, operation, error);
	if (rc < 0)
		return rc;
	int64_t until_ns = limit_ms < 0 ? LK__NEVER : lk__after_ms(lk__now_ns(), limit_ms);
	bool stood = election_withdraw(election, false);
	bool over = !stood || election_await(election, call.thread, until_ns, NULL) ||
		    !election_withdraw(election, true);
	int leads = leading_of(&call, &leading);
	if (leads != LK_ENOTOWNER)
		rc = election_release(&call, until_ns, error);
	else if (!stood)
		rc = not_leading(&call, LK_ENOTOWNER, error);
	else if (!over)
		rc = lk__fail(error, LK_EMAYBEHELD,
			      "%s \"%.100s\": the wait has not ended within the limit", operation,
			      election->entry->name);
	return call_end(&call, rc);
}

static bool is_doubtful(int code)
{
	return code == LK_EMAYBEHELD || code == LK_ENOTDURABLE;
}

static int transfer_read(const struct call *call, const struct lk__request *request, uint64_t term,
			 const char *id, lk_error *error)
{
	int64_t done;
	if (request->reply->type == REDIS_REPLY_NIL) {
		election_lose(call->election, term);
		return not_leading(call, LK_ELOST, error);
	}
	if (!lk__reply_integer(request->reply, 0, 1, &done))
		return unexpected(call, error);
	if (done)
		return 0;
	return lk__fail(error, request->sends > 1 ? LK_EMAYBEHELD : LK_EBUSY,
			"%s \"%.100s\": %.64s %s", call->operation, call->election->entry->name, id,
			request->sends > 1 ? "did not wait, and a copy may come later"
					   : "does not wait; still leading");
}

/* Asks, and ends what is over: it has transferred, or may have. Then its place goes back, and the
 * next one leads. */
static int transfer_run(const struct call *call, const struct leading *leading, const char *id,
			lk_error *error)
{
	lk_election *election = call->election;
	struct lk__request *request = lk__election_call(&election->entry->target, "transfer",
							leading->field, NULL, id);
	int rc = call_ask(call, request, error);
	if (is_doubtful(rc)) {
		election_doubt(election);
	} else if (rc == 0) {
		rc = transfer_read(call, request, leading->term, id, error);
		lk__request_free(request);
	}
	if (rc == 0 || is_doubtful(rc)) {
		election_drop(election, rc < 0);
		election_withdraw(election, true); /* its loop may not have ended the wait yet */
	}
	return rc;
}

static bool is_candidate_id(const char *id)
{
	return *id && strnlen(id, LK_FIELD_SIZE) < LK_FIELD_SIZE;
}

int lk_election_transfer(lk_election *election, const char *id, lk_error *error)
{
	const char *operation = "lk_election_transfer";
	struct call call;
	struct leading leading;
	if (!id || !is_candidate_id(id))
		return lk__fail(error, LK_EINVAL, NOT_A_CANDIDATE, operation);
	int rc = call_begin(&call, election, operation, error);
	if (rc < 0)
		return rc;
	rc = leading_of(&call, &leading);
	rc = rc < 0 ? not_leading(&call, rc, error) : transfer_run(&call, &leading, id, error);
	return call_end(&call, rc);
}

/* ---- the value ---- */

static int proclaim_ask(const struct call *call, const struct leading *leading, int64_t version,
			const void *value, size_t size, lk_error *error)
{
	lk_election *election = call->election;
	int64_t written;
	int rc = ask_integer(call,
			     lk__election_proclaim(&election->entry->target, leading->field,
						   leading->term, version, value, size),
			     0, 1, &written, error);
	if (is_doubtful(rc))
		election_doubt(election);
	if (rc == 0 && !written)
		rc = not_leading(call, LK_ELOST, error);
	if (rc == LK_ELOST)
		election_lose(election, leading->term);
	return rc;
}

int lk_election_proclaim(lk_election *election, const void *value, size_t value_size,
			 lk_error *error)
{
	const char *operation = "lk_election_proclaim";
	struct call call;
	struct leading leading;
	int rc = value_check(operation, value, &value_size, error);
	if (rc == 0)
		rc = call_begin(&call, election, operation, error);
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
	return call_end(&call, rc);
}

/* ---- how it stands ---- */

/* The number under which it waits or leads; "" without. */
static void standing_field(const struct call *call, char field_out[LK__FIELD_SIZE])
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
static int standing_ask(const struct call *call, const char *field, lk_error *error)
{
	int64_t changed;
	struct lk__stand *stand = &call->election->stand;
	pthread_mutex_lock(&stand->mutex);
	struct lk__request *request = lk__election_standing(&call->election->entry->target, field);
	pthread_mutex_unlock(&stand->mutex);
	int rc = ask_integer(call, request, 0, INT32_MAX, &changed, error);
	return rc < 0 ? rc : (int)changed;
}

int lk_election_set_standing(lk_election *election, int priority, int standing, lk_error *error)
{
	const char *operation = "lk_election_set_standing";
	struct call call;
	char field[LK__FIELD_SIZE];
	int rc = LK__CHECK(operation, error, {LK__PRIORITY, priority}, {LK__STANDING, standing});
	if (rc == 0)
		rc = call_begin(&call, election, operation, error);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&election->stand.mutex);
	election->stand.priority = priority;
	election->stand.standing = standing;
	election->stand.changes++;
	pthread_mutex_unlock(&election->stand.mutex);
	standing_field(&call, field);
	rc = *field ? standing_ask(&call, field, error) : 0;
	return call_end(&call, rc < 0 ? rc : 0);
}

int lk_election_retire(lk_election *election, lk_error *error)
{
	struct call call;
	char all[LK__FIELD_SIZE + 1] = "*"; /* and what tells a copy of this request apart */
	int rc = call_begin(&call, election, "lk_election_retire", error);
	if (rc < 0)
		return rc;
	lk__field(election->entry, atomic_fetch_add(&election->entry->client->last_number, 1) + 1,
		  all + 1);
	return call_end(&call, standing_ask(&call, all, error));
}

/* ---- who leads, and who waits ---- */

/* Who leads, which term was the one before, and for how long the place is kept. */
struct look {
	lk_leader leader;
	uint64_t previous;
	int64_t left_ms;
};

static int look_ask(const struct call *call, const char *what, struct lk__request **request_out,
		    lk_error *error)
{
	*request_out = lk__question(lk__election_look(&call->election->entry->target, what));
	return call_ask(call, *request_out, error);
}

static int leader_look(const struct call *call, struct look *look, lk_error *error)
{
	struct lk__request *request;
	int rc = look_ask(call, "leader", &request, error);
	if (rc < 0)
		return rc;
	if (!lk__election_read_leader(request->reply, &look->leader, &look->previous,
				      &look->left_ms))
		rc = unexpected(call, error);
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
	struct call call;
	struct look look;
	int rc = leader_check(operation, leader_out, error);
	if (rc == 0)
		rc = call_begin(&call, election, operation, error);
	if (rc < 0)
		return rc;
	rc = leader_look(&call, &look, error);
	if (rc == 0)
		leader_copy(leader_out, &look.leader);
	return call_end(&call, rc);
}

/* 1 it was asked; 0 it does not lead any more; or a code. */
static int leader_ask(const struct call *call, const char *leader, const char *id, lk_error *error)
{
	int64_t answer;
	const struct lk__entry *entry = call->election->entry;
	int rc = ask_integer(call, lk__election_ask(&entry->target, id ? id : "resign", leader), -1,
			     1, &answer, error);
	if (rc == 0 && answer < 0)
		rc = lk__fail(error, LK_EBUSY, "%s \"%.100s\": %.64s does not wait",
			      call->operation, entry->name, id);
	return rc < 0 ? rc : (int)answer;
}

/* The leader of this moment is asked, by its id: a copy that comes late asks no other one. */
static int ask_run(const struct call *call, const char *id, lk_error *error)
{
	struct look look;
	int rc;
	do {
		rc = leader_look(call, &look, error);
		if (rc == 0 && look.leader.vacant)
			rc = lk__fail(error, LK_ENOTOWNER, "%s \"%.100s\": nobody leads",
				      call->operation, call->election->entry->name);
		if (rc == 0)
			rc = leader_ask(call, look.leader.id, id, error);
	} while (rc == 0);
	return rc < 0 ? rc : 0;
}

int lk_election_ask(lk_election *election, const char *id, lk_error *error)
{
	const char *operation = "lk_election_ask";
	struct call call;
	if (id && !is_candidate_id(id))
		return lk__fail(error, LK_EINVAL, NOT_A_CANDIDATE, operation);
	int rc = call_begin(&call, election, operation, error);
	if (rc < 0)
		return rc;
	return call_end(&call, ask_run(&call, id, error));
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

static int candidates_read(const struct call *call, const redisReply *reply,
			   lk_candidate *candidates_out, size_t most, lk_error *error)
{
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements > INT32_MAX)
		return unexpected(call, error);
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
	struct call call;
	struct lk__request *request;
	if (most && !candidates_out)
		return lk__fail(error, LK_EINVAL, "%s: candidates_out is NULL", operation);
	int rc = most ? lk__check_size(operation, candidates_out, sizeof(*candidates_out),
				       sizeof(*candidates_out), error)
		      : 0;
	if (rc == 0)
		rc = call_begin(&call, election, operation, error);
	if (rc < 0)
		return rc;
	rc = look_ask(&call, "candidates", &request, error);
	if (rc == 0) {
		rc = candidates_read(&call, request->reply, candidates_out, most, error);
		lk__request_free(request);
	}
	return call_end(&call, rc);
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
	struct call *call;
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
	observation->call->until_ns = question_until_ns(election);
	int rc = leader_look(observation->call, &look, error);
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
	*next_ns_out = lk__after_ms(now_ns, election->entry->client->config->look_again_ms);
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
	struct call call;
	int rc = leader_check(operation, leader_out, error);
	if (rc == 0)
		rc = LK__CHECK(operation, error, {LK__WAIT, wait_ms});
	if (rc == 0)
		rc = call_begin(&call, election, operation, error);
	if (rc < 0)
		return rc;
	rc = lk__cancel_enter(cancel, call.thread, error);
	if (rc < 0)
		return call_end(&call, rc);
	struct observation observation = {
		.call = &call,
		.cancel = cancel,
		.until_ns = wait_ms < 0 ? LK__NEVER : lk__after_ms(lk__now_ns(), wait_ms),
	};
	rc = observe_run(&observation, leader_out, error);
	observe_end(&observation);
	lk__cancel_leave(cancel);
	return call_end(&call, rc);
}
