/* SPDX-License-Identifier: MIT */
/* The public face of every kind of lock: arguments are checked here, the rest is the drivers'. */
#include <lockkeeper/lock.h>

#include <stdlib.h>
#include <string.h>

#include "api/check.h"
#include "api/lock_handle.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "lock/adopt.h"
#include "lock/extend.h"
#include "lock/release.h"
#include "lock/multi.h"
#include "lock/loop.h"
#include "sync/recipes.h"

#define KEY_SHOWN 120 /* bytes of a key in a message */

int lk__name_check(lk_client *client, const void *name, size_t *name_size, const char *operation,
		   lk_error *error)
{
	if (!client || !name)
		return lk__fail(error, LK_EINVAL, "%s: an argument is NULL", operation);
	size_t size = *name_size == LK_STRLEN ? strnlen(name, LK_NAME_SIZE_MAX + 1) : *name_size;
	if (size == 0)
		return lk__fail(error, LK_EINVAL, "%s: the name is empty", operation);
	int rc = lk__client_check(client, operation, error);
	if (rc < 0)
		return rc;
	size_t most = LK_NAME_SIZE_MAX - strlen(client->config->key_prefix);
	if (size > most)
		return lk__fail(error, LK_EINVAL, "%s: the name has more than %zu bytes", operation,
				most);
	*name_size = size;
	return 0;
}

/* Fails with the key and the one that is derived from it. */
static int name_fail_slots(const char *key, size_t key_size, const char *derives,
			   const char *operation, lk_error *error)
{
	size_t size = 0;
	char *derived = lk__derived_name(derives, key, key_size, &size);
	int rc = lk__fail(error, derived ? LK_EINVAL : LK_ENOMEM,
			  "%s: the braces in the name would put its keys %.*s and %.*s in "
			  "different slots of a cluster: use none, or a {tag}",
			  operation, (int)(key_size < KEY_SHOWN ? key_size : KEY_SHOWN), key,
			  (int)(size < KEY_SHOWN ? size : KEY_SHOWN), derived ? derived : "");
	free(derived);
	return rc;
}

/* A hash tag is what stands between the first "{" and the next "}", if that is anything. */
static bool names_one_slot(const char *name, size_t name_size)
{
	const char *end = name + name_size;
	const char *open = memchr(name, '{', name_size);
	if (!open) /* will be put in braces: the first "}" of its own would end the tag */
		return memchr(name, '}', name_size) == NULL;
	const char *close = memchr(open, '}', (size_t)(end - open));
	return close && close > open + 1;
}

int lk__name_check_slot(lk_client *client, const void *name, size_t *name_size, const char *derives,
			const char *operation, lk_error *error)
{
	int rc = lk__name_check(client, name, name_size, operation, error);
	if (rc < 0)
		return rc;
	const char *prefix = client->config->key_prefix;
	size_t prefix_size = strlen(prefix);
	char *key = malloc(prefix_size + *name_size);
	if (!key)
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", operation);
	memcpy(key, prefix, prefix_size);
	memcpy(key + prefix_size, name, *name_size);
	if (!names_one_slot(key, prefix_size + *name_size))
		rc = name_fail_slots(key, prefix_size + *name_size, derives, operation, error);
	free(key);
	return rc;
}

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

/* The owner's entry, with a reference: the one that the last call left here, or looked up. */
static int call_find_entry(struct lk__call *call, lk_error *error)
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
			     lookup->name_size, &call->owner, error);
}

int lk__lock_enter(struct lk__call *call, lk_lock *lock, const char *operation, const char *owner,
		   lk_error *error)
{
	int rc = lock ? lk__check_blocking(lk__lock_client(lock), operation, error) : 0;
	return rc < 0 ? rc : lk__lock_enter_briefly(call, lock, operation, owner, error);
}

int lk__lock_enter_briefly(struct lk__call *call, lk_lock *lock, const char *operation,
			   const char *owner, lk_error *error)
{
	if (!lock)
		return lk__fail(error, LK_EINVAL, "%s: lock is NULL", operation);
	size_t size = owner ? strnlen(owner, LK_OWNER_SIZE_MAX + 1) : 0;
	if (owner && (size == 0 || size > LK_OWNER_SIZE_MAX))
		return lk__fail(error, LK_EINVAL, "%s: owner has %s", operation,
				size ? "more than 256 bytes" : "no bytes");
	int rc = lk__enter_briefly(lk__lock_client(lock), operation, &call->thread, &call->saved,
				   error);
	if (rc < 0)
		return rc;
	call->owner = (struct lk__owner){
		.name = owner, .name_size = size, .serial = owner ? 0 : call->thread->serial};
	call->entry = lock->entry;
	call->multi = lk__lock_multi(lock);
	call->lookup = lock->entry ? NULL : lock->lookup;
	if (call->lookup)
		rc = call_find_entry(call, error);
	if (rc < 0)
		lk__leave(call->saved);
	return rc;
}

void lk__lock_leave(struct lk__call *call)
{
	if (call->lookup) {
		struct lk__entry *last = atomic_exchange(&call->lookup->last, call->entry);
		if (last)
			lk__entry_unref(last);
	}
	lk__leave(call->saved);
}

int lk__field_check(const char *operation, const char *field, lk_error *error)
{
	size_t size = field ? strnlen(field, LK_OWNER_SIZE_MAX + 1) : 0;
	if (size > 0 && size <= LK_OWNER_SIZE_MAX)
		return 0;
	return lk__fail(error, LK_EINVAL, "%s: field is %s", operation,
			!field ? "NULL"
			: size ? "longer than 256 bytes"
			       : "empty");
}

/* 0, or why nothing of that kind is adopted. */
static int adopt_check(const char *operation, const lk_lock *lock,
		       const lk_acquire_options *options, int64_t wait_ms, lk_error *error)
{
	bool red = lock->entry && lock->entry->is_quorum;
	if (!options->field)
		return 0;
	if (lk__lock_multi(lock) || red || !lk__lock_recipe_of(lock)->exchange)
		return lk__fail(error, LK_EINVAL, "%s: field is set, and a %s is not adopted",
				operation,
				lk__lock_multi(lock) ? "multi lock"
				: red                ? "red lock"
						     : lk__lock_recipe_of(lock)->type);
	if (wait_ms || options->cancel)
		return lk__fail(error, LK_EINVAL, "%s: field is set, and %s too", operation,
				wait_ms ? "wait_ms" : "cancel");
	return lk__field_check(operation, options->field, error);
}

/* Checks what the options of an acquire say: 0 or LK_EINVAL. */
static int acquire_check(const char *operation, const lk_lock *lock,
			 const lk_acquire_options *options, int64_t wait_ms, lk_error *error)
{
	int64_t lease_ms = options->lease_ms ? options->lease_ms
					     : lk__lock_client(lock)->config->watchdog_ms;
	int rc = LK__CHECK(operation, error, {LK__LEASE, lease_ms},
			   {LK__MAX_HOLD, options->max_hold_ms});
	if (rc == 0)
		rc = lk__check_range(operation, "margin_ms", options->margin_ms, 0, lease_ms,
				     error);
	if (rc == 0)
		rc = lk__check_note(operation, "note", options->note, error);
	if (rc == 0)
		rc = adopt_check(operation, lock, options, wait_ms, error);
	if (rc == 0 && options->hears_asks && lock->entry && lock->entry->is_quorum)
		rc = lk__fail(error, LK_EINVAL,
			      "%s: hears_asks is set, and nobody can ask for a red lock",
			      operation);
	if (rc == 0 && options->note && *options->note && lock->entry && lock->entry->is_quorum)
		rc = lk__fail(error, LK_EINVAL,
			      "%s: note is set, and a red lock has none: set the clients' option",
			      operation);
	return rc;
}

static int lock_adopt(const struct lk__call *call, const struct lk__want *want, lk_error *error)
{
	struct lk__adopting adopting;
	lk__adopt_init(&adopting, call->entry, call->thread, want, error);
	return lk__op_run(&adopting.op);
}

int lk_lock_acquire(lk_lock *lock, int64_t wait_ms, const lk_acquire_options *options,
		    lk_error *error)
{
	const char *operation = "lk_lock_acquire";
	lk_acquire_options own;
	struct lk__call call = {.lookup = NULL};
	int rc = LK__CHECK(operation, error, {LK__WAIT, wait_ms});
	if (rc == 0)
		rc = lk__copy_options(&own, sizeof(own), options, operation, error);
	if (rc == 0)
		rc = lk__lock_enter(&call, lock, operation, own.owner, error);
	if (rc != 0)
		return rc;
	rc = acquire_check(operation, lock, &own, wait_ms, error);
	if (rc == 0)
		rc = lk__loop_start(call.entry->client, error);
	if (rc == 0) {
		struct lk__want want = lk__want_of(&own, wait_ms, lk__lock_settings(lock));
		want.owner = call.owner;
		want.cancel = own.cancel;
		rc = call.multi  ? lk__multi_run(LK__MULTI_ACQUIRE, call.multi, &want, 0, error)
		     : own.field ? lock_adopt(&call, &want, error)
				 : lk__acquire_run(call.entry, call.thread, &want, error);
	}
	lk__lock_leave(&call);
	return rc;
}

/* Checks what the options of a release say: 0 or LK_EINVAL. */
static int release_check(const char *operation, const lk_release_options *options, lk_error *error)
{
	if (options->keep_ms && options->no_wait)
		return lk__fail(error, LK_EINVAL,
				"%s: no_wait and keep_ms are set: who does not wait does not "
				"learn whether it is kept",
				operation);
	if (options->abandon && (options->field || options->keep_ms || options->no_wait))
		return lk__fail(error, LK_EINVAL, "%s: abandon is set, and %s too", operation,
				options->field     ? "field"
				: options->keep_ms ? "keep_ms"
						   : "no_wait");
	if (options->field && (options->owner || options->keep_ms || options->no_wait))
		return lk__fail(error, LK_EINVAL, "%s: field is set, and %s too", operation,
				options->owner     ? "owner"
				: options->keep_ms ? "keep_ms"
						   : "no_wait");
	return LK__CHECK(operation, error, {LK__KEEP, options->keep_ms});
}

/* Nothing is sent, so no client is kept from it. */
static int lock_abandon(lk_lock *lock, const char *owner, lk_error *error)
{
	const char *operation = "lk_lock_release";
	struct lk__call call = {.entry = NULL};
	int rc = lk__lock_enter_briefly(&call, lock, operation, owner, error);
	if (rc < 0)
		return rc;
	if (call.multi || call.entry->is_quorum)
		rc = lk__fail(error, LK_EINVAL, "%s: abandon is set, and a %s lock cannot be",
			      operation, call.multi ? "multi" : "red");
	else
		rc = lk__release_abandon(call.entry, &call.owner, error);
	lk__lock_leave(&call);
	return rc;
}

int lk_lock_release(lk_lock *lock, const lk_release_options *options, lk_error *error)
{
	lk_release_options own;
	struct lk__call call = {.entry = NULL};
	int rc = lk__copy_options(&own, sizeof(own), options, "lk_lock_release", error);
	if (rc == 0)
		rc = release_check("lk_lock_release", &own, error);
	if (rc == 0 && own.field)
		return lk__lock_release_field(lock, own.field, error);
	if (rc == 0 && own.abandon)
		return lock_abandon(lock, own.owner, error);
	if (rc == 0)
		rc = lk__lock_enter(&call, lock, "lk_lock_release", own.owner, error);
	if (rc)
		return rc;
	const struct lk__want want = {.owner = call.owner};
	rc = call.multi ? lk__multi_run(LK__MULTI_RELEASE, call.multi, &want, own.keep_ms, error)
			: lk__release_run(call.entry, call.thread, &call.owner, own.keep_ms,
					  own.no_wait != 0, error);
	lk__lock_leave(&call);
	return rc;
}

static int lock_extend(const struct lk__call *call, int64_t lease_ms, lk_error *error)
{
	struct lk__extending extending;
	lk__extend_init(&extending, call->entry, call->thread, &call->owner, lease_ms, error);
	return lk__op_run(&extending.op);
}

int lk_lock_extend(lk_lock *lock, int64_t lease_ms, const lk_extend_options *options,
		   lk_error *error)
{
	const char *operation = "lk_lock_extend";
	lk_extend_options own;
	struct lk__call call = {.entry = NULL};
	int rc = lk__copy_options(&own, sizeof(own), options, operation, error);
	if (rc == 0)
		rc = LK__CHECK(operation, error, {LK__LEASE, lease_ms});
	if (rc == 0 && own.field && (own.owner || own.add))
		rc = lk__fail(error, LK_EINVAL, "%s: field is set, and %s too", operation,
			      own.owner ? "owner" : "add");
	if (rc == 0 && own.add)
		rc = lk__lock_lease_added(lock, operation, own.owner, &lease_ms, error);
	if (rc == 0 && own.field)
		return lk__lock_extend_field(lock, own.field, lease_ms, error);
	if (rc == 0)
		rc = lk__lock_enter(&call, lock, operation, own.owner, error);
	if (rc)
		return rc;
	const struct lk__want want = {.owner = call.owner};
	rc = call.multi ? lk__multi_run(LK__MULTI_EXTEND, call.multi, &want, lease_ms, error)
			: lock_extend(&call, lease_ms, error);
	lk__lock_leave(&call);
	return rc;
}

/* ---- as the start of an asynchronous call ---- */

/* Makes the checks of every start: owner, kind. 0 with the call begun, or a code. */
static int start_enter(struct lk__call *call, const struct lk__start *start, const char *owner)
{
	if (!owner)
		return lk__fail(start->error, LK_EINVAL,
				"%s: no owner: the owner of an asynchronous hold is a name",
				start->operation);
	int rc = lk__lock_enter_briefly(call, start->handle, start->operation, owner, start->error);
	if (rc < 0)
		return rc;
	rc = call->multi ? lk__multi_start_loops(call->multi, start->error)
			 : lk__loop_start(call->entry->client, start->error);
	if (rc < 0)
		lk__lock_leave(call);
	return rc;
}

static int start_go(const struct lk__start *start, struct lk__call *call,
		    struct lk__async_want *want)
{
	want->multi = call->multi;
	int rc = lk__start_go(start, call->entry, &call->owner, want);
	lk__lock_leave(call);
	return rc;
}

static int start_acquire(const struct lk__start *start)
{
	const char *operation = start->operation;
	int64_t wait_ms = start->request->wait_ms;
	lk_acquire_options own;
	struct lk__call call = {.entry = NULL};
	int rc = lk__copy_options(&own, sizeof(own), start->request->acquire, operation,
				  start->error);
	if (rc == 0)
		rc = LK__CHECK(operation, start->error, {LK__WAIT, wait_ms});
	if (rc == 0 && own.cancel)
		rc = lk__fail(start->error, LK_EINVAL, "%s: cancel is set: use lk_queue_cancel()",
			      operation);
	if (rc == 0)
		rc = start_enter(&call, start, own.owner);
	if (rc < 0)
		return rc;
	rc = acquire_check(operation, start->handle, &own, wait_ms, start->error);
	if (rc < 0) {
		lk__lock_leave(&call);
		return rc;
	}
	return start_go(
		start, &call,
		&(struct lk__async_want){
			.acquire = lk__want_of(&own, wait_ms, lk__lock_settings(start->handle))});
}

static int start_release(const struct lk__start *start)
{
	const char *operation = start->operation;
	lk_release_options own;
	struct lk__call call = {.entry = NULL};
	int rc = lk__copy_options(&own, sizeof(own), start->request->release, operation,
				  start->error);
	if (rc == 0 && (own.no_wait || own.field || own.abandon))
		rc = lk__fail(start->error, LK_EINVAL, "%s: %s is set", operation,
			      own.field     ? "field"
			      : own.abandon ? "abandon"
					    : "no_wait");
	if (rc == 0)
		rc = release_check(operation, &own, start->error);
	if (rc == 0)
		rc = start_enter(&call, start, own.owner);
	if (rc < 0)
		return rc;
	return start_go(start, &call,
			&(struct lk__async_want){.way = LK__ASYNC_RELEASE, .keep_ms = own.keep_ms});
}

static int start_extend(const struct lk__start *start)
{
	int64_t lease_ms = start->request->lease_ms;
	lk_extend_options own;
	struct lk__call call = {.entry = NULL};
	int rc = lk__copy_options(&own, sizeof(own), start->request->extend, start->operation,
				  start->error);
	if (rc == 0 && own.field)
		rc = lk__fail(start->error, LK_EINVAL, "%s: field is set", start->operation);
	if (rc == 0)
		rc = LK__CHECK(start->operation, start->error, {LK__LEASE, lease_ms});
	if (rc == 0 && own.add && own.owner)
		rc = lk__lock_lease_added(start->handle, start->operation, own.owner, &lease_ms,
					  start->error);
	if (rc == 0)
		rc = start_enter(&call, start, own.owner);
	if (rc < 0)
		return rc;
	return start_go(start, &call,
			&(struct lk__async_want){.way = LK__ASYNC_EXTEND, .lease_ms = lease_ms});
}

int lk__start_lock(const struct lk__start *start)
{
	switch (start->request->operation) {
	case LK_OP_ACQUIRE:
		return start_acquire(start);
	case LK_OP_RELEASE:
		return start_release(start);
	case LK_OP_EXTEND:
		return start_extend(start);
	default:
		return lk__lock_question_start(start);
	}
}
