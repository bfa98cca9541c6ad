/* SPDX-License-Identifier: MIT */
#include "run_hold.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "connect.h"
#include "message.h"
#include "options.h"
#include "outer.h"

/* Counters of commands that nobody runs any more do not stay. */
#define COUNTER_TTL_MS (30 * INT64_C(86400000))

int run_hold_open(struct run_hold *hold, const struct keeper_options *options, lk_config *config)
{
	size_t others = 0;
	hold->options = options;
	int code = client_open(config, &hold->clients[0]);
	if (code)
		return code;
	code = nodes_open(&options->nodes, config, hold->clients + 1, &others);
	hold->count = 1 + others;
	return code;
}

static int semaphore_make(struct run_hold *hold, int64_t ttl_ms, lk_error *error)
{
	lk_permit_semaphore_options options = LK_PERMIT_SEMAPHORE_OPTIONS_INIT;
	options.permits = hold->options->permits; /* also where the number is lost while we wait */
	options.ttl_ms = ttl_ms;
	hold->semaphore = lk_permit_semaphore_free(hold->semaphore);
	return lk_permit_semaphore_new(&hold->semaphore, hold->clients[0], hold->options->name,
				       LK_STRLEN, &options, error);
}

/* Makes one lock on the quorum of all clients. */
static int quorum_make(struct run_hold *hold, lk_error *error)
{
	lk_red_lock_options options = LK_RED_LOCK_OPTIONS_INIT;
	options.plain = hold->options->kind->option == OPTION_PLAIN;
	options.quarantine_ms = hold->options->quarantine_ms;
	hold->several = 1;
	return lk_red_lock_new(&hold->lock, hold->clients, hold->count, hold->options->name,
			       LK_STRLEN, &options, error);
}

/* Makes several locks into one, all or none. */
static int multi_make(struct run_hold *hold, lk_error *error)
{
	lk_lock *parts[LK_MULTI_LOCK_MAX] = {NULL};
	size_t count = hold->options->also_count;
	lk_client *client = hold->clients[0];
	int result = lk_lock_new(&parts[0], client, hold->options->name, LK_STRLEN, error);
	for (size_t i = 0; result == 0 && i < count; i++)
		result = lk_lock_new(&parts[i + 1], client, hold->options->also[i], LK_STRLEN,
				     error);
	if (result == 0)
		result = lk_multi_lock_new(&hold->lock, parts, count + 1, error);
	for (size_t i = 0; i <= count; i++)
		lk_lock_free(parts[i]);
	hold->several = 1;
	return result;
}

static int election_make(struct run_hold *hold, int64_t margin_ms, lk_error *error)
{
	const struct keeper_election *election = hold->options->election;
	lk_election_options options = LK_ELECTION_OPTIONS_INIT;
	options.value = election->value;
	options.value_size = election->value ? LK_STRLEN : 0;
	options.priority = election->priority;
	options.standing = election->standing;
	options.progress_ms = election->progress_ms;
	options.margin_ms = margin_ms;
	return lk_election_new(&hold->election, hold->clients[0], hold->options->name, LK_STRLEN,
			       &options, error);
}

static int barrier_make(struct run_hold *hold, int64_t margin_ms, lk_error *error)
{
	lk_barrier_options options = LK_BARRIER_OPTIONS_INIT;
	options.margin_ms = margin_ms;
	return lk_barrier_new(&hold->barrier, hold->clients[0], hold->options->name, LK_STRLEN,
			      hold->options->parties, &options, error);
}

/* A reader within a reader must not stand back for a writer, which waits for the outer one. */
static int lock_make(struct run_hold *hold, lk_error *error)
{
	const struct lock_kind *kind = hold->options->kind;
	const char *name = hold->options->name;
	if (kind->option == OPTION_SHARED && outer_holds(hold->clients[0], name))
		kind = kind_without_preference(kind);
	return kind->make(&hold->lock, hold->clients[0], name, strlen(name), error);
}

int run_hold_make(struct run_hold *hold, int64_t margin_ms, lk_error *error)
{
	const struct keeper_options *options = hold->options;
	if (options->election)
		return election_make(hold, margin_ms, error);
	if (options->parties)
		return barrier_make(hold, margin_ms, error);
	if (hold->count > 1)
		return quorum_make(hold, error);
	if (options->also_count)
		return multi_make(hold, error);
	if (!options->permits)
		return lock_make(hold, error);
	hold->unset = 1;
	return semaphore_make(hold, options->lease_ms, error);
}

/* A handle with a time to live prolongs that of a semaphore that is there, where `sem set` has said
 * how long it lasts. A permit in use prolongs it to its lease in any case: so that is the time of a
 * handle for one that we have not made. A number that is lost while we wait comes back with it. */
static int permits_set(struct run_hold *hold, lk_error *error)
{
	int64_t permits = hold->options->permits;
	int64_t free_now = 0, used = 0;
	int result = lk_permit_semaphore_count(hold->semaphore, &free_now, &used, error);
	if (result == 0 && free_now + used == 0) {
		result = lk_permit_semaphore_try_set(hold->semaphore, permits, error);
		if (result == 1)
			return semaphore_make(hold, COUNTER_TTL_MS, error);
		if (result == 0) /* another was faster, or there are none by intent */
			result = lk_permit_semaphore_count(hold->semaphore, &free_now, &used,
							   error);
	}
	if (result == 0 && free_now + used != permits)
		message("%s has %" PRId64 " permits, not %" PRId64
			" (lockkeeper sem set changes it)",
			hold->options->name, free_now + used, permits);
	return result;
}

int run_hold_prepare(struct run_hold *hold, lk_error *error)
{
	int result = hold->unset ? permits_set(hold, error) : 0;
	hold->unset = hold->unset && result < 0;
	return result;
}

int run_hold_close(const struct run_hold *hold)
{
	int unknown = 0;
	for (size_t i = 0; i < hold->count; i++)
		unknown |= lk_client_close(hold->clients[i], LK_CLOSE_RELEASE, NULL) ==
			   LK_EMAYBEHELD;
	return unknown;
}

void run_hold_free(struct run_hold *hold)
{
	lk_barrier_free(hold->barrier);
	lk_election_free(hold->election);
	lk_lock_free(hold->lock);
	lk_permit_semaphore_free(hold->semaphore);
	for (size_t i = 0; i < hold->count; i++)
		lk_client_free(hold->clients[i]);
}

int run_hold_acquire(struct run_hold *hold, int64_t wait_ms, const lk_acquire_options *options,
		     lk_error *error)
{
	lk_permit_semaphore *semaphore = hold->semaphore;
	lk_permit *permit = &hold->permit;
	if (hold->election)
		return lk_election_campaign(hold->election, wait_ms, options->cancel, NULL, error);
	if (hold->barrier)
		return lk_barrier_enter(hold->barrier, wait_ms, options->cancel, &hold->generation,
					error);
	return semaphore
		       ? lk_permit_semaphore_acquire(semaphore, 1, permit, wait_ms, options, error)
		       : lk_lock_acquire(hold->lock, wait_ms, options, error);
}

/* It leaves, and does not wait for the others. */
static int barrier_leave(struct run_hold *hold, lk_error *error)
{
	int result = lk_barrier_leave(hold->barrier, 0, NULL, error);
	hold->others_inside = result == LK_EBUSY;
	return hold->others_inside ? 0 : result;
}

int run_hold_release(struct run_hold *hold, int64_t keep_ms, lk_error *error)
{
	lk_release_options options = LK_RELEASE_OPTIONS_INIT;
	options.keep_ms = keep_ms;
	if (hold->election)
		return lk_election_resign(hold->election, -1, error);
	if (hold->barrier)
		return barrier_leave(hold, error);
	return hold->semaphore
		       ? lk_permit_semaphore_release(hold->semaphore, &hold->permit, 1, error)
		       : lk_lock_release(hold->lock, &options, error);
}

/* A client with one party holds one place, of this try or of another. */
static int barrier_held(const struct run_hold *hold, lk_held *held_out, lk_error *error)
{
	*held_out = (lk_held)LK_HELD_INIT;
	int count = lk_client_held(hold->clients[0], held_out, 1, error);
	if (count > 0)
		return 0;
	if (count < 0)
		return count;
	error->code = LK_ELOST;
	snprintf(error->message, sizeof(error->message), "it is not inside any more");
	return LK_ELOST;
}

int run_hold_deadline(const struct run_hold *hold, int64_t *deadline_ns_out, lk_error *error)
{
	int64_t left_ms, now_ns = clock_now_ns();
	lk_held held;
	if (hold->lock)
		return lk_lock_deadline_ns(hold->lock, NULL, deadline_ns_out, error);
	if (hold->barrier) {
		int rc = barrier_held(hold, &held, error);
		if (rc == 0)
			*deadline_ns_out = held.deadline_ns;
		return rc;
	}
	int result = hold->election ? lk_election_remaining_ms(hold->election, &left_ms, error)
				    : lk_permit_semaphore_remaining_ms(
					      hold->semaphore, hold->permit.id, &left_ms, error);
	if (result == 0)
		*deadline_ns_out = now_ns + left_ms * NS_PER_MS;
	return result;
}

/* The server knows it; without an answer it is not told. */
static int election_owner(lk_election *election, char *owner_out, size_t size)
{
	lk_leader leader = {.struct_size = sizeof(leader)};
	int known = lk_election_leader(election, &leader, NULL) == 0 && !leader.vacant;
	snprintf(owner_out, size, "%s", known ? leader.id : "");
	return 0;
}

int run_hold_owner(const struct run_hold *hold, char *owner_out, size_t size, lk_error *error)
{
	if (hold->several) {
		*owner_out = '\0';
		return 0;
	}
	if (hold->election)
		return election_owner(hold->election, owner_out, size);
	if (hold->barrier) {
		lk_held held;
		int rc = barrier_held(hold, &held, error);
		if (rc == 0)
			snprintf(owner_out, size, "%s", held.field);
		return rc;
	}
	if (!hold->semaphore)
		return lk_lock_export(hold->lock, NULL, owner_out, size, error);
	snprintf(owner_out, size, "%s", hold->permit.id);
	return 0;
}

uint64_t run_hold_fence(const struct run_hold *hold)
{
	uint64_t token = hold->generation;
	if (hold->election && lk_election_term(hold->election, &token, NULL))
		token = 0;
	if (hold->lock && !hold->several && lk_lock_fence(hold->lock, NULL, &token, NULL))
		token = 0;
	return token;
}
