/* SPDX-License-Identifier: MIT */
/* A lock of any kind, by its handle: its calls check their arguments; those that wait for it are
 * operations of the drivers. */
#include "api/lock.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper/fenced_lock.h>

#include "api/check.h"
#include "base/clock.h"
#include "base/door.h"
#include "base/fail.h"
#include "conf/config.h"
#include "lock/adopt.h"
#include "lock/async.h"
#include "lock/extend.h"
#include "lock/loop.h"
#include "lock/multi.h"
#include "lock/operation.h"
#include "lock/red.h"
#include "lock/release.h"
#include "resp/reply.h"
#include "sync/recipes.h"
#include "sync/script.h"

#define NO_KEY (-2)               /* what PTTL answers where there is none */
#define ASK_TTL_MS INT64_C(60000) /* how long a request to give a lock up can be found */

/* A public call: in this thread, or, where it has a start, in the client's loop. */
struct call {
	lk_lock *lock;
	const char *operation;
	lk_error *error;
	const struct lk__start *start; /* NULL: it blocks */
	/* ---- from its begin on ---- */
	struct lk__entry *entry;
	const struct lk__multi *multi; /* NULL: a single lock */
	struct lk__thread *thread;
	struct lk__owner owner;
	struct lk__lookup *lookup; /* where the entry was looked up for this call; else NULL */
	int saved;
};

/* ---- the handle ---- */

/* With its settings behind it, and where each owner has an entry what finds that. */
static lk_lock *lock_alloc(lk_client *client, const struct lk__recipe *recipe, const void *name,
			   size_t name_size, const struct lk__settings *settings)
{
	size_t settings_size = settings ? sizeof(*settings) : 0;
	bool each = recipe->sharing == LK__EACH_OWNER;
	lk_lock *lock = calloc(1, sizeof(*lock) + settings_size +
					  (each ? sizeof(*lock->lookup) + name_size : 0));
	if (!lock)
		return NULL;
	char *end = (char *)(lock + 1);
	if (settings)
		lock->settings = memcpy(end, settings, settings_size);
	if (each) {
		lock->lookup = (struct lk__lookup *)(end + settings_size);
		lock->lookup->client = client;
		lock->lookup->recipe = recipe;
		lock->lookup->name = memcpy(lock->lookup + 1, name, name_size);
		lock->lookup->name_size = name_size;
	}
	return lock;
}

int lk__lock_make(lk_lock **lock_out, lk_client *client, const struct lk__recipe *recipe,
		  const void *name, size_t name_size, const struct lk__settings *settings,
		  const char *operation, lk_error *error)
{
	if (!lock_out)
		return lk__fail(error, LK_EINVAL, "%s: an argument is NULL", operation);
	int rc = lk__name_check(client, name, &name_size, operation, error);
	if (rc < 0)
		return rc;
	lk_lock *lock = lock_alloc(client, recipe, name, name_size, settings);
	if (!lock)
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", operation);
	if (recipe->sharing != LK__EACH_OWNER)
		rc = lk__entry_get(&lock->entry, client, recipe, name, name_size, NULL, error);
	if (rc < 0) {
		free(lock);
		return rc;
	}
	lk__client_ref(client);
	*lock_out = lock;
	return 0;
}

int lk_lock_new(lk_lock **lock_out, lk_client *client, const void *name, size_t name_size,
		lk_error *error)
{
	return lk__lock_make(lock_out, client, &lk__lock_recipe, name, name_size, NULL,
			     "lk_lock_new", error);
}

lk_lock *lk_lock_free(lk_lock *lock)
{
	struct lk__multi *multi = lock ? lk__lock_multi(lock) : NULL;
	lk_client *client = lock ? lk__lock_client(lock) : NULL;
	if (lock && !lk__client_forked(client)) {
		struct lk__entry *entry = lock->entry ? lock->entry
						      : atomic_load(&lock->lookup->last);
		if (multi)
			lk__multi_let_go(multi);
		else if (entry)
			lk__entry_unref(entry);
		if (!multi)
			lk__client_unref(client);
	}
	free(multi);
	free(lock);
	return NULL;
}

/* ---- the begin and the end of a call ---- */

/* The owner's entry, with a reference: the one that the last call left here, or looked up. */
static int call_find_entry(struct call *call)
{
	struct lk__lookup *lookup = call->lookup;
	struct lk__entry *last = atomic_exchange(&lookup->last, NULL);
	if (last && lk__entry_is_of(last, &call->owner)) {
		call->entry = last;
		return 0;
	}
	if (last)
		lk__entry_unref(last);
	return lk__entry_get(&call->entry, lookup->client, lookup->recipe, lookup->name,
			     lookup->name_size, &call->owner, call->error);
}

/* Checks lock and owner (NULL: the calling thread), and begins a call that never waits. */
static int call_enter_nowait(struct call *call, const char *owner)
{
	if (!call->lock) {
		lk__fail(call->error, LK_EINVAL, "%s: lock is NULL", call->operation);
		return LK_EINVAL;
	}
	size_t size = owner ? strnlen(owner, LK_OWNER_SIZE_MAX + 1) : 0;
	if (owner && (size == 0 || size > LK_OWNER_SIZE_MAX)) {
		lk__fail(call->error, LK_EINVAL, "%s: owner has %s", call->operation,
			 size ? "more than 256 bytes" : "no bytes");
		return LK_EINVAL;
	}
	int rc = lk__enter_nowait(lk__lock_client(call->lock), call->operation, &call->thread,
				  &call->saved, call->error);
	if (rc < 0)
		return rc;
	call->owner = (struct lk__owner){
		.name = owner, .name_size = size, .serial = owner ? 0 : call->thread->serial};
	call->entry = call->lock->entry;
	call->multi = lk__lock_multi(call->lock);
	call->lookup = call->entry ? NULL : call->lock->lookup;
	if (call->lookup)
		rc = call_find_entry(call);
	if (rc < 0)
		lk__leave(call->saved);
	return rc;
}

/* Ends a call, with `rc`. */
static int call_leave(struct call *call, int rc)
{
	if (call->lookup) {
		struct lk__entry *last = atomic_exchange(&call->lookup->last, call->entry);
		if (last)
			lk__entry_unref(last);
	}
	lk__leave(call->saved);
	return rc;
}

/* Begins a call that may wait for a server. */
static int call_enter(struct call *call, const char *owner)
{
	int rc = call->start || !call->lock ? 0
					    : lk__check_blocking(lk__lock_client(call->lock),
								 call->operation, call->error);
	if (rc < 0)
		return rc;
	rc = call_enter_nowait(call, owner);
	if (rc < 0 || !call->start)
		return rc;
	rc = call->multi ? lk__multi_start_loops(call->multi, call->error)
			 : lk__loop_start(call->entry->client, call->error);
	return rc < 0 ? call_leave(call, rc) : 0;
}

/* Begins a call of an owner, whom a start has to name. */
static int call_enter_owner(struct call *call, const char *owner)
{
	if (call->start && !owner)
		return lk__fail(call->error, LK_EINVAL,
				"%s: no owner: the owner of an asynchronous hold is a name",
				call->operation);
	return call_enter(call, owner);
}

/* Starts an asynchronous call of an owner, and leaves. */
static int call_start_async(struct call *call, struct lk__async_want *want)
{
	want->multi = call->multi;
	return call_leave(call, lk__start_go(call->start, call->entry, &call->owner, want));
}

/* ---- checks ---- */

static bool is_red(const lk_lock *lock)
{
	return lock && lock->entry && lock->entry->is_quorum;
}

/* "multi" or "red"; NULL for a lock that has one field on one server, and without a lock. */
static const char *parted_kind(const lk_lock *lock)
{
	return lock && lk__lock_multi(lock) ? "multi" : is_red(lock) ? "red" : NULL;
}

/* 0, or LK_EINVAL for a lock that has not one field on one server. */
static int check_single(const struct call *call)
{
	const char *kind = parted_kind(call->lock);
	return kind ? lk__fail(call->error, LK_EINVAL,
			       "%s: not for a %s lock, which has no single field", call->operation,
			       kind)
		    : 0;
}

static int check_out(const struct call *call, const char *name, const void *out)
{
	if (out)
		return 0;
	lk__fail(call->error, LK_EINVAL, "%s: %s is NULL", call->operation, name);
	return LK_EINVAL;
}

struct option {
	const char *name;
	bool set;
};

#define FIRST_SET(...) first_set((const struct option[]){__VA_ARGS__, {NULL, false}})

/* The name of the first that is set, up to one without a name; NULL when none is. */
static const char *first_set(const struct option *options)
{
	while (options->name && !options->set)
		options++;
	return options->name;
}

/* Where an option is set: 0, or LK_EINVAL for `other`, one that does not go with it. */
static int check_alone(const struct call *call, struct option option, const char *other)
{
	return option.set && other ? lk__fail(call->error, LK_EINVAL, "%s: %s is set, and %s too",
					      call->operation, option.name, other)
				   : 0;
}

static int check_field(const struct call *call, const char *field)
{
	size_t size = field ? strnlen(field, LK_OWNER_SIZE_MAX + 1) : 0;
	if (size > 0 && size <= LK_OWNER_SIZE_MAX)
		return 0;
	return lk__fail(call->error, LK_EINVAL, "%s: field is %s", call->operation,
			!field ? "NULL"
			: size ? "longer than 256 bytes"
			       : "empty");
}

/* Begins a call about what is held under a wire field. */
static int call_enter_field(struct call *call, const char *field)
{
	int rc = check_field(call, field);
	if (rc == 0)
		rc = check_single(call);
	return rc < 0 ? rc : call_enter(call, NULL);
}

/* ---- a command, and what its answer puts in doubt ---- */

static int lock_command(struct call *call, struct lk__request *request)
{
	int64_t limit_ms = call->entry->client->config->command_timeout_ms;
	return lk__ask_entry(call->entry, call->thread, request, call->operation,
			     lk__after_ms(lk__now_ns(), limit_ms), call->error);
}

/* The server does not have what was asked for, or not any more: if that was ours, it is lost. */
static void entry_doubt_key(struct lk__entry *entry)
{
	const struct lk__target *target = &entry->target;
	lk__doubt_key(entry->client, target->key, target->key_size);
}

/* ---- what the client knows of a hold ---- */

struct holding {
	char field[LK__FIELD_SIZE];
	uint64_t fence;
	int64_t deadline_ns;
	unsigned count;
};

/* 0, LK_ENOTOWNER or LK_ELOST; `holding` is filled but for LK_ENOTOWNER. */
static int holding_of(const struct call *call, struct holding *holding)
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
static int lock_holding(struct call *call, const char *owner, struct holding *holding)
{
	int rc = call_enter_nowait(call, owner);
	if (rc < 0)
		return rc;
	rc = call_leave(call, holding_of(call, holding));
	return rc < 0 ? lk__fail(call->error, rc, "%s: %s", call->operation, lk_error_text(rc)) : 0;
}

int lk_lock_is_held(lk_lock *lock, const char *owner, lk_error *error)
{
	struct call call = {.lock = lock, .operation = "lk_lock_is_held", .error = error};
	struct holding holding = {0};
	return lock_holding(&call, owner, &holding) == 0;
}

int lk_lock_hold_count(lk_lock *lock, const char *owner, lk_error *error)
{
	struct call call = {.lock = lock, .operation = "lk_lock_hold_count", .error = error};
	struct holding holding = {.count = 0};
	lock_holding(&call, owner, &holding);
	return (int)holding.count;
}

int lk_lock_deadline_ns(lk_lock *lock, const char *owner, int64_t *deadline_ns_out, lk_error *error)
{
	struct call call = {.lock = lock, .operation = "lk_lock_deadline_ns", .error = error};
	struct holding holding = {0};
	int rc = check_out(&call, "deadline_ns_out", deadline_ns_out);
	if (rc == 0)
		rc = lock_holding(&call, owner, &holding);
	if (rc == 0)
		*deadline_ns_out = holding.deadline_ns;
	return rc;
}

int lk_lock_remaining_ms(lk_lock *lock, const char *owner, int64_t *remaining_ms_out,
			 lk_error *error)
{
	struct call call = {.lock = lock, .operation = "lk_lock_remaining_ms", .error = error};
	struct holding holding = {0};
	int rc = check_out(&call, "remaining_ms_out", remaining_ms_out);
	if (rc == 0)
		rc = lock_holding(&call, owner, &holding);
	if (rc == 0)
		*remaining_ms_out = (holding.deadline_ns - lk__now_ns()) / LK__MS;
	return rc;
}

int lk_lock_fence(lk_lock *lock, const char *owner, uint64_t *token_out, lk_error *error)
{
	struct call call = {.lock = lock, .operation = "lk_lock_fence", .error = error};
	struct holding holding = {.fence = 0};
	int rc = check_out(&call, "token_out", token_out);
	if (rc == 0)
		rc = lock_holding(&call, owner, &holding);
	if (rc == 0 && !holding.fence)
		return lk__fail(error, LK_EINVAL, "%s: a %s has no fence tokens", call.operation,
				lk__lock_recipe_of(lock)->type);
	if (rc == 0)
		*token_out = holding.fence;
	return rc;
}

int lk_lock_export(lk_lock *lock, const char *owner, char *field_out, size_t size, lk_error *error)
{
	struct call call = {.lock = lock, .operation = "lk_lock_export", .error = error};
	struct holding holding = {0};
	if (!field_out || size < LK_FIELD_SIZE)
		return lk__fail(error, LK_EINVAL, "%s: field_out needs LK_FIELD_SIZE bytes",
				call.operation);
	int rc = check_single(&call);
	if (rc == 0)
		rc = lock_holding(&call, owner, &holding);
	if (rc == 0)
		memcpy(field_out, holding.field, sizeof(holding.field));
	return rc;
}

/* ---- acquire ---- */

static struct lk__settings settings_of(const lk_lock *lock)
{
	return lock->settings ? *lock->settings : (struct lk__settings){.flags = 0};
}

/* 0, or why nothing of that kind is adopted. */
static int adopt_check(const struct call *call, const lk_acquire_options *options, int64_t wait_ms)
{
	const char *kind = parted_kind(call->lock);
	if (!options->field)
		return 0;
	if (kind || !lk__lock_recipe_of(call->lock)->exchange)
		return lk__fail(call->error, LK_EINVAL,
				"%s: field is set, and a %s%s is not adopted", call->operation,
				kind ? kind : lk__lock_recipe_of(call->lock)->type,
				kind ? " lock" : "");
	int rc = check_alone(
		call, (struct option){"field", true},
		FIRST_SET({"wait_ms", wait_ms != 0}, {"cancel", options->cancel != NULL}));
	return rc < 0 ? rc : check_field(call, options->field);
}

/* Checks what the options of an acquire say: 0 or LK_EINVAL. */
static int acquire_check(const struct call *call, const lk_acquire_options *options,
			 int64_t wait_ms)
{
	const char *operation = call->operation;
	lk_error *error = call->error;
	int64_t lease_ms = options->lease_ms ? options->lease_ms
					     : lk__lock_client(call->lock)->config->watchdog_ms;
	int rc = LK__CHECK(operation, error, {LK__LEASE, lease_ms},
			   {LK__MAX_HOLD, options->max_hold_ms});
	if (rc == 0)
		rc = lk__check_range(operation, "margin_ms", options->margin_ms, 0, lease_ms,
				     error);
	if (rc == 0)
		rc = lk__check_note(operation, "note", options->note, error);
	if (rc == 0)
		rc = adopt_check(call, options, wait_ms);
	if (rc < 0 || !is_red(call->lock))
		return rc;
	if (options->hears_asks)
		return lk__fail(error, LK_EINVAL,
				"%s: hears_asks is set, and nobody can ask for a red lock",
				operation);
	if (options->note && *options->note)
		return lk__fail(error, LK_EINVAL,
				"%s: note is set, and a red lock has none: set the clients' option",
				operation);
	return 0;
}

static int lock_adopt(const struct call *call, const struct lk__want *want)
{
	struct lk__adopting adopting;
	lk__adopt_init(&adopting, call->entry, call->thread, want, call->error);
	return lk__op_run(&adopting.op);
}

/* Acquires, in a blocking call. */
static int acquire_run(struct call *call, struct lk__want *want)
{
	int rc = lk__loop_start(call->entry->client, call->error);
	want->owner = call->owner;
	if (rc < 0)
		return rc;
	return call->multi    ? lk__multi_run(LK__MULTI_ACQUIRE, call->multi, want, 0, call->error)
	       : want->adopts ? lock_adopt(call, want)
			      : lk__acquire_run(call->entry, call->thread, want, call->error);
}

static int lock_acquire(struct call *call, const lk_acquire_options *options, int64_t wait_ms)
{
	lk_acquire_options own;
	int rc = LK__CHECK(call->operation, call->error, {LK__WAIT, wait_ms});
	if (rc == 0)
		rc = lk__copy_options(&own, sizeof(own), options, call->operation, call->error);
	if (rc == 0 && call->start && own.cancel)
		rc = lk__fail(call->error, LK_EINVAL, "%s: cancel is set: use lk_queue_cancel()",
			      call->operation);
	if (rc == 0)
		rc = call_enter_owner(call, own.owner);
	if (rc != 0)
		return rc;
	rc = acquire_check(call, &own, wait_ms);
	if (rc < 0)
		return call_leave(call, rc);
	struct lk__want want = lk__want_of(&own, wait_ms, settings_of(call->lock));
	if (call->start)
		return call_start_async(call, &(struct lk__async_want){.acquire = want});
	want.cancel = own.cancel;
	return call_leave(call, acquire_run(call, &want));
}

int lk_lock_acquire(lk_lock *lock, int64_t wait_ms, const lk_acquire_options *options,
		    lk_error *error)
{
	struct call call = {.lock = lock, .operation = "lk_lock_acquire", .error = error};
	return lock_acquire(&call, options, wait_ms);
}

/* ---- release ---- */

static int release_field(struct call *call, const char *field)
{
	int rc = call_enter_field(call, field);
	if (rc < 0)
		return rc;
	const struct lk__recipe *recipe = call->entry->target.recipe;
	struct lk__request *request = recipe->release(&call->entry->target, field);
	if (request)
		request->durable = LK__DURABLE_WHOLLY;
	rc = lock_command(call, request);
	entry_doubt_key(call->entry); /* whatever the answer: it was meant to be */
	if (rc == LK__WAIT_READY) {
		int64_t listeners;
		enum lk__released released = recipe->read_release(request, &listeners);
		rc = 0;
		if (released == LK__RELEASED_FAILED)
			rc = lk__fail(call->error, LK_EMAYBEHELD, "%s \"%.100s\": unexpected reply",
				      call->operation, call->entry->name);
		else if (released == LK__RELEASED_NOT_OWNER && request->sends < 2)
			rc = lk__fail(call->error, LK_ENOTOWNER,
				      "%s \"%.100s\": not held under %.256s", call->operation,
				      call->entry->name, field);
		lk__request_free(request);
	}
	return call_leave(call, rc);
}

/* Checks what the options of a release say: 0 or LK_EINVAL. */
static int release_check(const struct call *call, const lk_release_options *options)
{
	const struct option owner = {"owner", options->owner != NULL};
	const struct option field = {"field", options->field != NULL};
	const struct option keep_ms = {"keep_ms", options->keep_ms != 0};
	const struct option abandon = {"abandon", options->abandon != 0};
	const struct option no_wait = {"no_wait", options->no_wait != 0};
	const char *unused = call->start ? FIRST_SET(field, abandon, no_wait) : NULL;
	if (unused)
		return lk__fail(call->error, LK_EINVAL, "%s: %s is set", call->operation, unused);
	if (keep_ms.set && no_wait.set)
		return lk__fail(call->error, LK_EINVAL,
				"%s: no_wait and keep_ms are set: who does not wait does not "
				"learn whether it is kept",
				call->operation);
	int rc = check_alone(call, abandon, FIRST_SET(field, keep_ms, no_wait));
	if (rc == 0)
		rc = check_alone(call, field, FIRST_SET(owner, keep_ms, no_wait));
	return rc < 0 ? rc : LK__CHECK(call->operation, call->error, {LK__KEEP, options->keep_ms});
}

/* A copy of its acquire that comes later finds the field, or takes the lock for the rest of its
 * lease once more: whoever knows the field may have the hold by now, so nothing is compensated. */
static int entry_abandon(struct lk__entry *entry, const struct lk__owner *owner, lk_error *error)
{
	pthread_mutex_lock(&entry->mutex);
	int rc = lk__release_drop(entry, owner, false, error);
	if (rc == 1)
		entry->abandoned = true; /* what is under way for it is not taken back */
	pthread_mutex_unlock(&entry->mutex);
	return rc < 0 ? rc : 0;
}

/* Nothing is sent, so it is also allowed in threadless clients. */
static int lock_abandon(struct call *call, const char *owner)
{
	int rc = call_enter_nowait(call, owner);
	if (rc < 0)
		return rc;
	const char *kind = parted_kind(call->lock);
	if (kind)
		rc = lk__fail(call->error, LK_EINVAL, "%s: abandon is set, and a %s lock cannot be",
			      call->operation, kind);
	else
		rc = entry_abandon(call->entry, &call->owner, call->error);
	return call_leave(call, rc);
}

static int lock_release(struct call *call, const lk_release_options *options)
{
	lk_release_options own;
	int rc = lk__copy_options(&own, sizeof(own), options, call->operation, call->error);
	if (rc == 0)
		rc = release_check(call, &own);
	if (rc == 0 && own.field)
		return release_field(call, own.field);
	if (rc == 0 && own.abandon)
		return lock_abandon(call, own.owner);
	if (rc == 0)
		rc = call_enter_owner(call, own.owner);
	if (rc)
		return rc;
	if (call->start)
		return call_start_async(call, &(struct lk__async_want){.way = LK__ASYNC_RELEASE,
								       .keep_ms = own.keep_ms});
	const struct lk__want want = {.owner = call->owner};
	rc = call->multi ? lk__multi_run(LK__MULTI_RELEASE, call->multi, &want, own.keep_ms,
					 call->error)
			 : lk__release_run(call->entry, call->thread, &call->owner, own.keep_ms,
					   own.no_wait != 0, call->error);
	return call_leave(call, rc);
}

int lk_lock_release(lk_lock *lock, const lk_release_options *options, lk_error *error)
{
	struct call call = {.lock = lock, .operation = "lk_lock_release", .error = error};
	return lock_release(&call, options);
}

/* ---- extend ---- */

static int extend_field(struct call *call, const char *field, int64_t lease_ms)
{
	int rc = call_enter_field(call, field);
	if (rc < 0)
		return rc;
	struct lk__renewal renewal = {&call->entry->target, field, lease_ms};
	struct lk__request *request = call->entry->target.recipe->renew(&renewal, 1);
	rc = lock_command(call, request);
	if (rc == LK__WAIT_READY) {
		int renewed = lk__reply_renewed(request, 1, 0);
		lk__request_free(request);
		rc = renewed > 0 ? 0 : renewed < 0 ? LK_EMAYBEHELD : LK_ENOTOWNER;
		if (rc == LK_ENOTOWNER)
			entry_doubt_key(call->entry);
		if (rc < 0)
			lk__fail(call->error, rc, "%s \"%.100s\": %s %.256s", call->operation,
				 call->entry->name,
				 renewed < 0 ? "no answer says whether it was done for"
					     : "not held under",
				 field);
	}
	return call_leave(call, rc);
}

/* Adds to a lease what is left of the owner's hold for certain. */
static int lease_add(struct call *call, const char *owner, int64_t *lease_ms)
{
	struct holding holding = {0};
	int rc = lock_holding(call, owner, &holding);
	if (rc < 0)
		return rc;
	*lease_ms += (holding.deadline_ns - lk__now_ns()) / LK__MS + 1;
	if (*lease_ms > LK_LEASE_MAX_MS)
		*lease_ms = LK_LEASE_MAX_MS;
	return 0;
}

static int extend_run(struct call *call, int64_t lease_ms)
{
	struct lk__extending extending;
	const struct lk__want want = {.owner = call->owner};
	if (call->multi)
		return lk__multi_run(LK__MULTI_EXTEND, call->multi, &want, lease_ms, call->error);
	lk__extend_init(&extending, call->entry, call->thread, &call->owner, lease_ms, call->error);
	return lk__op_run(&extending.op);
}

static int lock_extend(struct call *call, const lk_extend_options *options, int64_t lease_ms)
{
	lk_extend_options own;
	int rc = lk__copy_options(&own, sizeof(own), options, call->operation, call->error);
	if (rc == 0 && call->start && own.field)
		rc = lk__fail(call->error, LK_EINVAL, "%s: field is set", call->operation);
	if (rc == 0)
		rc = LK__CHECK(call->operation, call->error, {LK__LEASE, lease_ms});
	if (rc == 0)
		rc = check_alone(call, (struct option){"field", own.field != NULL},
				 FIRST_SET({"owner", own.owner != NULL}, {"add", own.add != 0}));
	/* A start without an owner is refused below; here it would stand for this thread. */
	if (rc == 0 && own.add && (own.owner || !call->start))
		rc = lease_add(call, own.owner, &lease_ms);
	if (rc == 0 && own.field)
		return extend_field(call, own.field, lease_ms);
	if (rc == 0)
		rc = call_enter_owner(call, own.owner);
	if (rc)
		return rc;
	if (call->start)
		return call_start_async(call, &(struct lk__async_want){.way = LK__ASYNC_EXTEND,
								       .lease_ms = lease_ms});
	return call_leave(call, extend_run(call, lease_ms));
}

int lk_lock_extend(lk_lock *lock, int64_t lease_ms, const lk_extend_options *options,
		   lk_error *error)
{
	struct call call = {.lock = lock, .operation = "lk_lock_extend", .error = error};
	return lock_extend(&call, options, lease_ms);
}

/* ---- as the server sees it ---- */

/* One thing that is asked of one lock. */
struct question {
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

/* Asks; `field` and `answer_out` are of a call that blocks. */
static int lock_ask(struct call *call, const struct question *question, const char *field,
		    int64_t *answer_out)
{
	struct lk__async_want want = {.way = LK__ASYNC_ASK};
	struct lk__question asked;
	if (call->start && parted_kind(call->lock))
		return lk__fail(call->error, LK_EINVAL,
				"%s: not for a lock of several keys or nodes: it has a blocking "
				"call only",
				call->operation);
	int rc = call_enter(call, NULL);
	if (rc < 0)
		return rc;
	want.asked = (struct lk__questioned){.request = question->make(&call->entry->target, field),
					     .read = question->read,
					     .number = grant_number(call->entry),
					     .field = field};
	if (!want.asked.request) {
		rc = lk__fail(call->error, LK_ENOMEM, "%s: out of memory", call->operation);
	} else if (call->start) {
		rc = lk__start_go(call->start, call->entry, NULL, &want);
		if (rc < 0)
			lk__request_free(want.asked.request);
	} else {
		lk__question_init(&asked, call->entry, call->thread, &want.asked, call->operation,
				  answer_out, call->error);
		rc = lk__op_run(&asked.op);
	}
	return call_leave(call, rc);
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
		entry_doubt_key(entry);
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
	entry_doubt_key(entry);
}

/* Asks all nodes of a red lock: how many say yes, or a code when no majority answers. */
static int red_ask(struct call *call, bool force, size_t *answered)
{
	size_t yes = 0;
	int rc = call_enter(call, NULL);
	if (rc < 0)
		return rc;
	struct lk__entry *entry = call->entry;
	const struct lk__red *red = lk__red_of(entry);
	uint64_t number = grant_number(entry);
	rc = lk__red_ask(entry, call->thread, force, answered, &yes, call->error);
	bool unsure = force && (rc > 0 || yes > 0);
	if (rc >= 0 && force && yes >= red->majority)
		force_lose(entry, number);
	else if (rc >= 0 && *answered - yes >= red->majority)
		entry_doubt_key(entry);
	if (rc >= 0 && *answered < red->majority)
		rc = lk__fail(call->error, unsure ? LK_EMAYBEHELD : LK_ENOQUORUM,
			      "%s: %zu of %zu nodes answered", call->operation, *answered,
			      red->count);
	return call_leave(call, rc < 0 ? rc : (int)yes);
}

static int red_is_locked(struct call *call)
{
	const struct lk__red *red = lk__red_of(call->lock->entry);
	size_t answered = 0;
	int yes = red_ask(call, false, &answered);
	if (yes < 0 || (size_t)yes >= red->majority)
		return yes < 0 ? yes : 1;
	if ((size_t)yes + red->count - answered < red->majority)
		return 0;
	return lk__fail(call->error, LK_ENOQUORUM, "%s: %zu of %zu nodes answered, %d yes",
			call->operation, answered, red->count, yes);
}

static struct lk__request *held_make(const struct lk__target *target, const char *field)
{
	return lk__question(field ? target->recipe->is_held_by(target, field)
				  : target->recipe->is_locked(target));
}

static int held_read(const struct lk__questioned *of, struct lk__entry *entry,
		     const struct lk__request *request, int64_t *answer_out, lk_error *error)
{
	int rc = answer_read(entry, request->reply, of->field, 0, answer_out, error);
	*answer_out = *answer_out > 0;
	return rc;
}

static const struct question held = {held_make, held_read};

/* 1, 0 or a code. */
static int lock_is_locked(lk_lock *lock, lk_error *error)
{
	struct call call = {.lock = lock, .operation = "lk_lock_is_locked", .error = error};
	int64_t answer = 0;
	if (lock && lk__lock_multi(lock)) {
		int locked = 0;
		int rc = lock_each(lock, lock_is_locked, &locked, error);
		return rc < 0 ? rc : locked > 0;
	}
	if (is_red(lock))
		return red_is_locked(&call);
	int rc = lock_ask(&call, &held, NULL, &answer);
	return rc < 0 ? rc : (int)answer;
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

int lk_lock_is_held_by(lk_lock *lock, const char *field, int *held_out, lk_error *error)
{
	struct call call = {.lock = lock, .operation = "lk_lock_is_held_by", .error = error};
	int64_t answer = 0;
	int rc = check_out(&call, "held_out", held_out);
	if (rc == 0)
		rc = check_field(&call, field);
	if (rc == 0)
		rc = check_single(&call);
	if (rc == 0)
		rc = lock_ask(&call, &held, field, &answer);
	if (rc == 0)
		*held_out = (int)answer;
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

static const struct question server_ttl = {ttl_make, ttl_read};

int lk_lock_server_ttl_ms(lk_lock *lock, int64_t *ttl_ms_out, lk_error *error)
{
	struct call call = {.lock = lock, .operation = "lk_lock_server_ttl_ms", .error = error};
	int64_t answer = 0;
	int rc = check_out(&call, "ttl_ms_out", ttl_ms_out);
	if (rc == 0)
		rc = check_single(&call);
	if (rc == 0)
		rc = lock_ask(&call, &server_ttl, NULL, &answer);
	if (rc == 0)
		*ttl_ms_out = answer;
	return rc;
}

/* ---- asking its owners for it ---- */

struct asked {
	int owners, listeners;
};

/* Asks those who hold the lock to give it up; NULL when out of memory. Answered with two integers:
 * how many fields hold it, and how many listen. */
static struct lk__request *give_up_request(const struct lk__target *target, const char *why)
{
	uint64_t random[2] = {0};
	char name[40];
	if (lk__random_bytes(random, sizeof(random)) < 0)
		random[0] = (uint64_t)lk__now_ns();
	snprintf(name, sizeof(name), "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
	return lk__ask_send(target, name, why, ASK_TTL_MS);
}

/* One lock; adds to the numbers. */
static int ask_single(lk_lock *lock, const char *reason, struct asked *asked, lk_error *error)
{
	struct call call = {.lock = lock, .operation = "lk_lock_ask", .error = error};
	int64_t owners = 0, listeners = 0;
	int rc = call_enter(&call, NULL);
	if (rc < 0)
		return rc;
	struct lk__request *request = give_up_request(&call.entry->target, reason);
	rc = lock_command(&call, request);
	if (rc == LK__WAIT_READY) {
		const redisReply *reply = request->reply;
		bool fits = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
			    lk__reply_integer(reply->element[0], 0, INT32_MAX, &owners) &&
			    lk__reply_integer(reply->element[1], 0, INT32_MAX, &listeners);
		rc = fits ? 0
			  : lk__fail(error, LK_EPROTOCOL, "%s: unexpected reply", call.operation);
		lk__request_free(request);
	}
	asked->owners += (int)owners;
	asked->listeners += (int)listeners;
	return call_leave(&call, rc);
}

int lk_lock_ask(lk_lock *lock, const char *reason, int *owners_out, int *listeners_out,
		lk_error *error)
{
	const char *operation = "lk_lock_ask";
	struct asked asked = {0, 0};
	if (!owners_out || !listeners_out)
		return lk__fail(error, LK_EINVAL, "%s: an argument is NULL", operation);
	int rc = reason ? lk__check_note(operation, "reason", reason, error) : 0;
	if (rc == 0 && is_red(lock))
		rc = lk__fail(error, LK_EINVAL, "%s: a red lock cannot be asked for", operation);
	const struct lk__multi *multi = lock ? lk__lock_multi(lock) : NULL;
	size_t count = multi ? multi->count : 1;
	for (size_t i = 0; rc == 0 && i < count; i++) {
		lk_lock part = {.entry = multi ? multi->part[i] : NULL};
		rc = ask_single(multi ? &part : lock, reason ? reason : "", &asked, error);
	}
	if (rc < 0)
		return rc;
	*owners_out = asked.owners;
	*listeners_out = asked.listeners;
	return 0;
}

/* ---- by force ---- */

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

static const struct question force_release = {force_make, force_read};

int lk_lock_force_release(lk_lock *lock, lk_error *error)
{
	struct call call = {.lock = lock, .operation = "lk_lock_force_release", .error = error};
	int64_t freed = 0;
	size_t answered = 0;
	if (lock && lk__lock_multi(lock))
		return multi_force_release(lock, error);
	int rc = is_red(lock) ? red_ask(&call, true, &answered)
			      : lock_ask(&call, &force_release, NULL, &freed);
	return rc < 0 ? rc : rc > 0 || freed > 0;
}

/* ---- the start of an asynchronous call ---- */

int lk__start_lock(const struct lk__start *start)
{
	const lk_request *request = start->request;
	struct call call = {.lock = start->handle,
			    .operation = start->operation,
			    .error = start->error,
			    .start = start};
	switch (request->operation) {
	case LK_OP_ACQUIRE:
		return lock_acquire(&call, request->acquire, request->wait_ms);
	case LK_OP_RELEASE:
		return lock_release(&call, request->release);
	case LK_OP_EXTEND:
		return lock_extend(&call, request->extend, request->lease_ms);
	case LK_OP_IS_LOCKED:
		return lock_ask(&call, &held, NULL, NULL);
	case LK_OP_SERVER_TTL:
		return lock_ask(&call, &server_ttl, NULL, NULL);
	default:
		assert(request->operation == LK_OP_FORCE_RELEASE);
		return lock_ask(&call, &force_release, NULL, NULL);
	}
}
