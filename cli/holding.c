/* SPDX-License-Identifier: MIT */
#include "holding.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "message.h"
#include "options.h"

/* Counters of commands that nobody runs any more do not stay. */
#define COUNTER_TTL_MS (30 * INT64_C(86400000))

static int semaphore_make(struct holding *holding, lk_client *client, int64_t permits,
			  int64_t ttl_ms, const char *name, lk_error *error)
{
	lk_permit_semaphore_options options = LK_PERMIT_SEMAPHORE_OPTIONS_INIT;
	options.permits = permits; /* also where the number is lost while we wait */
	options.ttl_ms = ttl_ms;
	holding->semaphore = lk_permit_semaphore_free(holding->semaphore);
	return lk_permit_semaphore_new(&holding->semaphore, client, name, strlen(name), &options,
				       error);
}

/* A handle with a time to live prolongs that of a semaphore that is there, where `sem set` has said
 * how long it lasts. A permit in use prolongs it to its lease in any case: so that is the time of a
 * handle for one that we have not made. A number that is lost while we wait comes back with it. */
static int permits_set(struct holding *holding, lk_client *client, int64_t permits,
		       const char *name, lk_error *error)
{
	int64_t free_now = 0, used = 0;
	int result = lk_permit_semaphore_count(holding->semaphore, &free_now, &used, error);
	if (result == 0 && free_now + used == 0) {
		result = lk_permit_semaphore_try_set(holding->semaphore, permits, error);
		if (result == 1)
			return semaphore_make(holding, client, permits, COUNTER_TTL_MS, name,
					      error);
		if (result == 0) /* another was faster, or there are none by intent */
			result = lk_permit_semaphore_count(holding->semaphore, &free_now, &used,
							   error);
	}
	if (result == 0 && free_now + used != permits)
		message("%s has %" PRId64 " permits, not %" PRId64
			" (lockkeeper sem set changes it)",
			name, free_now + used, permits);
	return result;
}

int holding_make(struct holding *holding, lk_client *client, const struct lock_kind *kind,
		 int64_t permits, const char *name, lk_error *error)
{
	holding->unset = permits > 0;
	return permits ? semaphore_make(holding, client, permits, holding->lease_ms, name, error)
		       : kind->make(&holding->lock, client, name, strlen(name), error);
}

int holding_prepare(struct holding *holding, lk_client *client, int64_t permits, const char *name,
		    lk_error *error)
{
	int result = holding->unset ? permits_set(holding, client, permits, name, error) : 0;
	holding->unset = holding->unset && result < 0;
	return result;
}

int holding_make_quorum(struct holding *holding, lk_client *const *clients, size_t count,
			const lk_red_lock_options *options, const char *name, lk_error *error)
{
	holding->several = 1;
	return lk_red_lock_new(&holding->lock, clients, count, name, strlen(name), options, error);
}

int holding_make_multi(struct holding *holding, lk_client *client, const char *name,
		       const char *const *also, size_t count, lk_error *error)
{
	lk_lock *parts[LK_MULTI_LOCK_MAX] = {NULL};
	int result = lk_lock_new(&parts[0], client, name, strlen(name), error);
	for (size_t i = 0; result == 0 && i < count; i++)
		result = lk_lock_new(&parts[i + 1], client, also[i], strlen(also[i]), error);
	if (result == 0)
		result = lk_multi_lock_new(&holding->lock, parts, count + 1, error);
	for (size_t i = 0; i <= count; i++)
		lk_lock_free(parts[i]);
	holding->several = 1;
	return result;
}

void holding_free(struct holding *holding)
{
	lk_lock_free(holding->lock);
	lk_permit_semaphore_free(holding->semaphore);
}

int holding_acquire(struct holding *holding, int64_t wait_ms, const lk_acquire_options *options,
		    lk_error *error)
{
	lk_permit_semaphore *semaphore = holding->semaphore;
	lk_permit *permit = &holding->permit;
	if (wait_ms < 0)
		return semaphore ? lk_permit_semaphore_acquire(semaphore, 1, permit, options, error)
				 : lk_lock_acquire(holding->lock, options, error);
	if (wait_ms == 0)
		return semaphore ? lk_permit_semaphore_try(semaphore, 1, permit, options, error)
				 : lk_lock_try(holding->lock, options, error);
	return semaphore ? lk_permit_semaphore_acquire_within(semaphore, 1, permit, wait_ms,
							      options, error)
			 : lk_lock_acquire_within(holding->lock, wait_ms, options, error);
}

int holding_release(struct holding *holding, int64_t keep_ms, lk_error *error)
{
	lk_release_options options = LK_RELEASE_OPTIONS_INIT;
	options.keep_ms = keep_ms;
	return holding->semaphore
		       ? lk_permit_semaphore_release(holding->semaphore, &holding->permit, 1, error)
		       : lk_lock_release(holding->lock, &options, error);
}

int holding_deadline(const struct holding *holding, int64_t *deadline_ns_out, lk_error *error)
{
	int64_t left_ms, now_ns = clock_now_ns();
	if (!holding->semaphore)
		return lk_lock_deadline_ns(holding->lock, NULL, deadline_ns_out, error);
	int result = lk_permit_semaphore_remaining_ms(holding->semaphore, holding->permit.id,
						      &left_ms, error);
	if (result == 0)
		*deadline_ns_out = now_ns + left_ms * NS_PER_MS;
	return result;
}

int holding_owner(const struct holding *holding, char *owner_out, size_t size, lk_error *error)
{
	if (holding->several) {
		*owner_out = '\0';
		return 0;
	}
	if (!holding->semaphore)
		return lk_lock_export(holding->lock, NULL, owner_out, size, error);
	snprintf(owner_out, size, "%s", holding->permit.id);
	return 0;
}

uint64_t holding_fence(const struct holding *holding)
{
	uint64_t token = 0;
	if (holding->lock && !holding->several && lk_lock_fence(holding->lock, NULL, &token, NULL))
		token = 0;
	return token;
}
