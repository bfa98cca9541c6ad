/* The public face of the reentrant lock: arguments are checked here, the rest is the drivers'. */
#include <lockkeeper/lock.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/check.h"
#include "api/lock_handle.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "drive/caller.h"
#include "drive/loop.h"

int lk_lock_new(lk_lock **lock_out, lk_client *client, const void *name, size_t name_size,
		lk_error *error)
{
	if (!lock_out || !client || !name)
		return lk__fail(error, LK_EINVAL, "lk_lock_new: an argument is NULL");
	if (name_size == 0)
		return lk__fail(error, LK_EINVAL, "lk_lock_new: the name is empty");
	int rc = lk__client_check(client, "lk_lock_new", error);
	if (rc < 0)
		return rc;
	size_t most = LK_NAME_SIZE_MAX - strlen(client->config->key_prefix);
	if (name_size > most)
		return lk__fail(error, LK_EINVAL,
				"lk_lock_new: the name has %zu bytes, at most %zu fit", name_size,
				most);
	lk_lock *lock = malloc(sizeof(*lock));
	if (!lock)
		return lk__fail(error, LK_ENOMEM, "lk_lock_new: out of memory");
	rc = lk__entry_get(&lock->entry, client, name, name_size, error);
	if (rc < 0) {
		free(lock);
		return rc;
	}
	lk__client_ref(client);
	*lock_out = lock;
	return 0;
}

lk_lock *lk_lock_free(lk_lock *lock)
{
	if (lock) {
		lk_client *client = lock->entry->client;
		if (!lk__client_forked(client)) {
			lk__entry_unref(lock->entry);
			lk__client_unref(client);
		}
		free(lock);
	}
	return NULL;
}

int lk__lock_enter(struct lk__call *call, lk_lock *lock, const char *operation, const char *owner,
		   lk_error *error)
{
	if (!lock)
		return lk__fail(error, LK_EINVAL, "%s: lock is NULL", operation);
	size_t size = owner ? strnlen(owner, LK_OWNER_SIZE_MAX + 1) : 0;
	if (owner && (size == 0 || size > LK_OWNER_SIZE_MAX))
		return lk__fail(error, LK_EINVAL, "%s: owner has %s", operation,
				size ? "more than 256 bytes" : "no bytes");
	int rc = lk__enter(lock->entry->client, operation, &call->thread, &call->saved, error);
	if (rc < 0)
		return rc;
	call->entry = lock->entry;
	call->owner = (struct lk__owner){
		.name = owner, .name_size = size, .serial = owner ? 0 : call->thread->serial};
	return 0;
}

static int check_ms(const char *operation, const char *what, int64_t ms, int64_t least,
		    int64_t most, lk_error *error)
{
	if (ms >= least && ms <= most)
		return 0;
	return lk__fail(error, LK_EINVAL, "%s: %s is %" PRId64 ", not %" PRId64 " … %" PRId64,
			operation, what, ms, least, most);
}

static int check_options(const char *operation, const lk_acquire_options *options,
			 int64_t watchdog_ms, lk_error *error)
{
	int64_t lease_ms = options->lease_ms ? options->lease_ms : watchdog_ms;
	int rc = check_ms(operation, "lease_ms", lease_ms, LK_LEASE_MIN_MS, LK_LEASE_MAX_MS, error);
	if (rc == 0)
		rc = check_ms(operation, "max_hold_ms", options->max_hold_ms, 0, LK_WAIT_MAX_MS,
			      error);
	if (rc == 0)
		rc = check_ms(operation, "margin_ms", options->margin_ms, 0, lease_ms, error);
	return rc;
}

static int lock_acquire(lk_lock *lock, const char *operation, int64_t wait_ms,
			const lk_acquire_options *options, lk_error *error)
{
	lk_acquire_options own;
	struct lk__call call;
	int rc = lk__copy_options(&own, sizeof(own), options, operation, error);
	if (rc == 0)
		rc = lk__lock_enter(&call, lock, operation, own.owner, error);
	if (rc < 0)
		return rc;
	rc = check_options(operation, &own, call.entry->client->config->watchdog_ms, error);
	if (rc == 0)
		rc = lk__loop_start(call.entry->client, error);
	if (rc == 0) {
		struct lk__want want = {
			.owner = call.owner,
			.lease_ms = own.lease_ms,
			.max_hold_ms = own.max_hold_ms,
			.margin_ms = own.margin_ms,
			.tag = own.tag,
			.cancel = own.cancel,
			.wait_ms = wait_ms,
		};
		rc = lk__caller_acquire(call.entry, call.thread, &want, error);
	}
	lk__leave(call.saved);
	return rc;
}

int lk_lock_acquire(lk_lock *lock, const lk_acquire_options *options, lk_error *error)
{
	return lock_acquire(lock, "lk_lock_acquire", -1, options, error);
}

int lk_lock_acquire_within(lk_lock *lock, int64_t wait_ms, const lk_acquire_options *options,
			   lk_error *error)
{
	const char *operation = "lk_lock_acquire_within";
	int rc = check_ms(operation, "wait_ms", wait_ms, 0, LK_WAIT_MAX_MS, error);
	return rc < 0 ? rc : lock_acquire(lock, operation, wait_ms, options, error);
}

int lk_lock_try(lk_lock *lock, const lk_acquire_options *options, lk_error *error)
{
	return lock_acquire(lock, "lk_lock_try", 0, options, error);
}

int lk_lock_release(lk_lock *lock, const lk_release_options *options, lk_error *error)
{
	lk_release_options own;
	struct lk__call call;
	int rc = lk__copy_options(&own, sizeof(own), options, "lk_lock_release", error);
	if (rc == 0)
		rc = lk__lock_enter(&call, lock, "lk_lock_release", own.owner, error);
	if (rc < 0)
		return rc;
	rc = lk__caller_release(call.entry, call.thread, &call.owner, own.no_wait != 0, error);
	lk__leave(call.saved);
	return rc;
}

int lk_lock_extend(lk_lock *lock, int64_t lease_ms, const char *owner, lk_error *error)
{
	struct lk__call call;
	int rc = check_ms("lk_lock_extend", "lease_ms", lease_ms, LK_LEASE_MIN_MS, LK_LEASE_MAX_MS,
			  error);
	if (rc == 0)
		rc = lk__lock_enter(&call, lock, "lk_lock_extend", owner, error);
	if (rc < 0)
		return rc;
	rc = lk__caller_extend(call.entry, call.thread, &call.owner, lease_ms, error);
	lk__leave(call.saved);
	return rc;
}
