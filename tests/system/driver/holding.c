#include "holding.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static atomic_uint owners;

static const char *kind_of(const struct command *command)
{
	const char *kind = command_text(command, "kind", NULL);
	return kind ? kind : "lock";
}

static int is_semaphore(const char *kind)
{
	return strcmp(kind, "semaphore") == 0 || strcmp(kind, "permits") == 0;
}

static int is_election(const char *kind)
{
	return strcmp(kind, "election") == 0;
}

int holding_known(const struct command *command)
{
	return is_semaphore(kind_of(command)) || is_election(kind_of(command)) ||
	       kind_known(command);
}

enum history_mode holding_mode(const struct command *command)
{
	if (is_semaphore(kind_of(command)))
		return HISTORY_PERMITS;
	return strncmp(kind_of(command), "read", 4) == 0 ? HISTORY_SHARED : HISTORY_EXCLUSIVE;
}

int holding_open(struct holding *holding, const struct command *command, lk_client *client,
		 const char *name, lk_error *error)
{
	const char *kind = kind_of(command);
	memset(holding, 0, sizeof(*holding));
	holding->no_wait = (int)command_number(command, "no_wait", 0);
	if (command_number(command, "queue", 0))
		snprintf(holding->owner, sizeof(holding->owner), "q%u",
			 atomic_fetch_add(&owners, 1));
	if (is_semaphore(kind))
		holding->count = command_number(command, "count", 1);
	if (holding->count > HOLDING_PERMITS_MAX)
		return LK_EINVAL;
	if (strcmp(kind, "semaphore") == 0)
		return lk_semaphore_new(&holding->semaphore, client, name, strlen(name), NULL,
					error);
	if (strcmp(kind, "permits") == 0)
		return lk_permit_semaphore_new(&holding->permits, client, name, strlen(name), NULL,
					       error);
	if (is_election(kind))
		return lk_election_new(&holding->election, client, name, strlen(name), NULL, error);
	return kind_make(&holding->lock, command, client, name, strlen(name), error);
}

void holding_close(struct holding *holding)
{
	lk_election_free(holding->election);
	lk_lock_free(holding->lock);
	lk_semaphore_free(holding->semaphore);
	lk_permit_semaphore_free(holding->permits);
}

static int semaphore_acquire(struct holding *holding, int64_t wait_ms, lk_cancel *cancel,
			     lk_error *error)
{
	if (wait_ms < 0)
		return lk_semaphore_acquire(holding->semaphore, holding->count, -1, cancel, error);
	return lk_semaphore_acquire(holding->semaphore, holding->count, wait_ms, cancel, error);
}

static int permits_acquire(struct holding *holding, int64_t wait_ms,
			   const lk_acquire_options *options, lk_error *error)
{
	if (wait_ms < 0)
		return lk_permit_semaphore_acquire(holding->permits, holding->count, holding->taken,
						   -1, options, error);
	return lk_permit_semaphore_acquire(holding->permits, holding->count, holding->taken,
					   wait_ms, options, error);
}

static const char *owner_of(const struct holding *holding)
{
	return holding->owner[0] ? holding->owner : NULL;
}

int holding_acquire(struct holding *holding, int64_t wait_ms, const lk_acquire_options *options,
		    lk_error *error)
{
	lk_acquire_options named = *options;
	named.owner = owner_of(holding);
	if (holding->election)
		return lk_election_campaign(holding->election, wait_ms, options->cancel, NULL,
					    error);
	if (holding->semaphore)
		return semaphore_acquire(holding, wait_ms, options->cancel, error);
	if (holding->permits)
		return permits_acquire(holding, wait_ms, options, error);
	if (named.owner)
		return queued_acquire(holding->lock, wait_ms, &named, NULL, error);
	if (wait_ms < 0)
		return lk_lock_acquire(holding->lock, -1, options, error);
	if (wait_ms == 0)
		return lk_lock_acquire(holding->lock, 0, options, error);
	return lk_lock_acquire(holding->lock, wait_ms, options, error);
}

int holding_release(struct holding *holding, lk_error *error)
{
	lk_release_options options = LK_RELEASE_OPTIONS_INIT;
	if (holding->election)
		return lk_election_resign(holding->election, -1, error);
	if (holding->semaphore)
		return lk_semaphore_release(holding->semaphore, holding->count, NULL, error);
	if (holding->permits)
		return lk_permit_semaphore_release(holding->permits, holding->taken, holding->count,
						   error);
	options.owner = owner_of(holding);
	if (options.owner)
		return queued_release(holding->lock, &options, error);
	options.no_wait = holding->no_wait;
	return lk_lock_release(holding->lock, &options, error);
}

/* The end of the permit that ends first. */
static int64_t permits_deadline_ns(struct holding *holding)
{
	int64_t least_ms = INT64_MAX;
	for (int64_t i = 0; i < holding->count; i++) {
		int64_t ms = 0;
		if (lk_permit_semaphore_remaining_ms(holding->permits, holding->taken[i].id, &ms,
						     NULL))
			return -1;
		least_ms = ms < least_ms ? ms : least_ms;
	}
	return now_ns() + least_ms * 1000000;
}

int64_t holding_deadline_ns(struct holding *holding)
{
	int64_t deadline_ns = 0, before_ns = now_ns(), left_ms = 0;
	if (holding->election)
		return lk_election_remaining_ms(holding->election, &left_ms, NULL)
			       ? -1
			       : before_ns + left_ms * 1000000;
	if (holding->semaphore)
		return now_ns() + INT64_C(3600000000000);
	if (holding->permits)
		return permits_deadline_ns(holding);
	return lk_lock_deadline_ns(holding->lock, owner_of(holding), &deadline_ns, NULL)
		       ? -1
		       : deadline_ns;
}

int64_t holding_fence(struct holding *holding)
{
	uint64_t token = 0;
	if (holding->election)
		return lk_election_term(holding->election, &token, NULL) ? 0 : (int64_t)token;
	if (!holding->lock || lk_lock_fence(holding->lock, owner_of(holding), &token, NULL))
		return 0;
	return (int64_t)token;
}
