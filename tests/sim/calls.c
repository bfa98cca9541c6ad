#include "calls.h"

#include <stdio.h>

#include "judge.h"
#include "world.h"

void sim_caller_begin(struct sim_caller *caller, int number, bool closes)
{
	lk_error error;
	snprintf(caller->name, sizeof(caller->name), "worker-%d", number);
	caller->closes = closes;
	if (lk_queue_new(&caller->queue, 0, &error) < 0)
		sim_fail("lk_queue_new: %s", error.message);
}

void sim_caller_end(const struct sim_caller *caller)
{
	lk_error error;
	if (lk_queue_free(caller->queue, &error) < 0)
		sim_fail("lk_queue_free: %s", error.message);
}

/* The completion of the request that was started with `rc`: its code. */
static int completed(const struct sim_caller *caller, int rc, lk_completion *got)
{
	lk_error error;
	if (rc == LK_ECLOSED && caller->closes)
		got->error.code = rc;
	else if (rc < 0)
		sim_fail("a start of %s: %d", caller->name, rc);
	else if (lk_queue_take(caller->queue, got, 1, -1, &error) != 1)
		sim_fail("%s: its request was not completed", caller->name);
	return got->error.code;
}

int sim_acquire(struct sim_caller *caller, lk_lock *lock, int64_t wait_ms, bool queued,
		lk_acquire_options *options, lk_error *error)
{
	lk_completion got = {.error = {.code = 0}};
	uint64_t id = 0;
	caller->named = queued;
	if (!queued)
		return lk_lock_acquire_within(lock, wait_ms, options, error);
	options->owner = caller->name;
	int rc = lk_queue_acquire(caller->queue, lock, wait_ms, options, &id, error);
	if (rc == 0 && sim_chance(100)) {
		sim_sleep(sim_between(0, 50) * SIM_MS);
		lk_queue_cancel(caller->queue, id, NULL);
	}
	completed(caller, rc, &got);
	*error = got.error;
	if (got.error.code == 0 && sim_now_ns() >= got.deadline_ns && !sim_has(SIM_PREEMPTS))
		sim_fail("the completion for %s tells of a grant that is over", caller->name);
	return got.error.code;
}

static int release(const struct sim_caller *caller, lk_lock *lock, bool no_wait, int64_t keep_ms,
		   lk_error *error)
{
	lk_release_options options = LK_RELEASE_OPTIONS_INIT;
	lk_completion got = {.error = {.code = 0}};
	options.owner = caller->named ? caller->name : NULL;
	options.no_wait = no_wait;
	options.keep_ms = keep_ms;
	if (!caller->named || no_wait || sim_chance(300))
		return lk_lock_release(lock, &options, error);
	completed(caller, lk_queue_release(caller->queue, lock, &options, 0, NULL, error), &got);
	*error = got.error;
	return got.error.code;
}

int sim_release(const struct sim_caller *caller, lk_lock *lock, bool no_wait, lk_error *error)
{
	return release(caller, lock, no_wait, 0, error);
}

int sim_keep(const struct sim_caller *caller, lk_lock *lock, int64_t keep_ms, lk_error *error)
{
	return release(caller, lock, false, keep_ms, error);
}

int sim_extend(const struct sim_caller *caller, lk_lock *lock, int64_t lease_ms, lk_error *error)
{
	const char *owner = caller->named ? caller->name : NULL;
	lk_completion got = {.error = {.code = 0}};
	if (!caller->named || sim_chance(300))
		return lk_lock_extend(lock, lease_ms, owner, error);
	completed(caller, lk_queue_extend(caller->queue, lock, lease_ms, owner, 0, NULL, error),
		  &got);
	*error = got.error;
	return got.error.code;
}

bool sim_deadline(const struct sim_caller *caller, lk_lock *lock, int64_t *deadline_ns)
{
	lk_error error;
	const char *owner = caller->named ? caller->name : NULL;
	return lk_lock_deadline_ns(lock, owner, deadline_ns, &error) == 0 &&
	       sim_now_ns() < *deadline_ns;
}

int64_t sim_lease_ms(int64_t most_ms)
{
	if (sim_chance(500))
		return 0;
	return sim_is_calm() ? SIM_CALM_LEASE_MS : sim_between(100, most_ms);
}

void sim_extend_hold(const struct sim_caller *caller, lk_lock *lock, int64_t most_ms,
		     const int *expected, size_t count)
{
	int64_t deadline_ns = 0, lease_ms = sim_lease_ms(most_ms);
	struct sim_call call = sim_call("extend");
	lk_error error = {.code = 0};
	sim_deadline(caller, lock, &deadline_ns);
	int rc = sim_extend(caller, lock, lease_ms ? lease_ms : SIM_WATCHDOG_MS, &error);
	sim_note("%s: extend: %d", caller->name, rc);
	sim_check_limit(&call, sim_left_ms(&call, deadline_ns));
	sim_check_code("extend", rc, expected, sim_is_calm() ? 1 : count, caller->closes, &error);
}
