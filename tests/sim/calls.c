#include "calls.h"

#include <stdio.h>

#include "happens.h"
#include "judge.h"
#include "world.h"

void sim_caller_begin(struct sim_caller *caller, int number, bool closes)
{
	lk_error error;
	snprintf(caller->name, sizeof(caller->name), "worker-%d", number);
	caller->closes = closes;
	if (lk_queue_new(&caller->queue, 0, &error) < 0)
		sim_fail("lk_queue_new: %s", error.message);
	if (lk_cancel_new(&caller->cancel, &error) < 0)
		sim_fail("lk_cancel_new: %s", error.message);
}

void sim_caller_end(struct sim_caller *caller)
{
	lk_error error;
	if (lk_queue_free(caller->queue, &error) < 0)
		sim_fail("lk_queue_free: %s", error.message);
	if (caller->cancelled_ns >= sim_now_ns())
		sim_sleep(caller->cancelled_ns - sim_now_ns() + SIM_MS);
	caller->cancel = lk_cancel_free(caller->cancel);
}

const char *sim_owner(const struct sim_caller *caller)
{
	return caller->named ? caller->name : NULL;
}

/* ---- asynchronously ---- */

bool sim_queues(const struct sim_caller *caller)
{
	return caller->threadless || sim_chance(300);
}

/* The completion of the request that was started with `rc`: its code. */
static int completed(const struct sim_caller *caller, int rc, lk_completion *got)
{
	lk_error error;
	if ((rc == LK_ECLOSED || rc == LK_EDRAINING) && caller->closes)
		got->error.code = rc;
	else if (rc < 0)
		sim_fail("a start of %s: %d", caller->name, rc);
	else if (lk_queue_take(caller->queue, got, 1, -1, &error) != 1)
		sim_fail("%s: its request was not completed", caller->name);
	return got->error.code;
}

int sim_finish(const struct sim_caller *caller, int started, int64_t *answer_out, lk_error *error)
{
	lk_completion got = {.struct_size = sizeof(lk_completion), .error = {.code = 0}};
	completed(caller, started, &got);
	*error = got.error;
	if (answer_out && got.error.code == 0)
		*answer_out = got.answer;
	return got.error.code;
}

static void cancel_perhaps(struct sim_caller *caller, uint64_t id)
{
	if (caller->sure || !sim_chance(100) || !sim_happens())
		return;
	sim_sleep(sim_between(0, 50) * SIM_MS);
	lk_queue_cancel(caller->queue, id, NULL);
}

/* ---- locks ---- */

static void cancel_now(void *context)
{
	lk_cancel_now(context);
}

/* Sometimes cancelled; perhaps when the call has ended. */
static int acquire_blocking(struct sim_caller *caller, lk_lock *lock, int64_t wait_ms,
			    lk_acquire_options *options, lk_error *error)
{
	if (!caller->sure && sim_now_ns() > caller->cancelled_ns && sim_chance(60) &&
	    sim_happens()) {
		lk_cancel_reset(caller->cancel);
		options->cancel = caller->cancel;
		caller->cancelled_ns = sim_now_ns() + sim_between(0, 100) * SIM_MS;
		sim_at(caller->cancelled_ns, cancel_now, caller->cancel);
	}
	return lk_lock_acquire(lock, wait_ms, options, error);
}

int sim_acquire(struct sim_caller *caller, lk_lock *lock, int64_t wait_ms, bool queued,
		lk_acquire_options *options, lk_error *error)
{
	lk_completion got = {.struct_size = sizeof(lk_completion), .error = {.code = 0}};
	uint64_t id = 0;
	caller->named = queued || caller->threadless;
	caller->over = NULL;
	options->owner = sim_owner(caller);
	if (!caller->named)
		return acquire_blocking(caller, lock, wait_ms, options, error);
	int rc = lk_queue_start(caller->queue,
				request_of(ACQUIRE, .lock = lock, .wait_ms = wait_ms,
					   .acquire = options, .tag = options ? options->tag : 0),
				&id, error);
	if (rc == 0)
		cancel_perhaps(caller, id);
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
	options.owner = sim_owner(caller);
	options.no_wait = no_wait && !caller->threadless;
	options.keep_ms = keep_ms;
	if (!caller->threadless && (!caller->named || no_wait || sim_chance(300)))
		return lk_lock_release(lock, &options, error);
	return sim_finish(caller,
			  lk_queue_start(caller->queue,
					 request_of(RELEASE, .lock = lock, .release = &options),
					 NULL, error),
			  NULL, error);
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
	const char *owner = sim_owner(caller);
	if (!caller->threadless && (!caller->named || sim_chance(300)))
		return lk_lock_extend(lock, lease_ms, extend_by(owner), error);
	return sim_finish(caller,
			  lk_queue_start(caller->queue,
					 request_of(EXTEND, .lock = lock, .lease_ms = lease_ms,
						    .extend = extend_by(owner)),
					 NULL, error),
			  NULL, error);
}

bool sim_deadline(const struct sim_caller *caller, lk_lock *lock, int64_t *deadline_ns)
{
	lk_error error;
	return lk_lock_deadline_ns(lock, sim_owner(caller), deadline_ns, &error) == 0 &&
	       sim_now_ns() < *deadline_ns;
}

void sim_check_over(struct sim_caller *caller, lk_lock *lock)
{
	int64_t asked_ns = sim_now_ns(), deadline_ns = 0;
	lk_error error;
	int rc = lk_lock_deadline_ns(lock, sim_owner(caller), &deadline_ns, &error);
	if (rc == LK_ELOST || (rc == 0 && deadline_ns <= asked_ns))
		caller->over = lock;
	else if (rc == 0 && caller->over == lock && sim_now_ns() < deadline_ns)
		sim_fail("%s: a hold that was over is there again", caller->name);
}

int64_t sim_lease_ms(int64_t most_ms)
{
	if (sim_chance(500))
		return 0;
	return sim_is_calm() ? SIM_CALM_LEASE_MS : sim_between(100, most_ms);
}

void sim_draw_lease(lk_acquire_options *options, int64_t most_ms)
{
	options->lease_ms = sim_lease_ms(most_ms);
	options->renew = options->lease_ms && sim_chance(300);
}

void sim_extend_hold(const struct sim_caller *caller, lk_lock *lock, int64_t most_ms,
		     const int *expected, size_t count)
{
	int64_t deadline_ns = 0, lease_ms = sim_lease_ms(most_ms);
	struct sim_call call = sim_call("extend");
	lk_error error = {.code = 0};
	sim_deadline(caller, lock, &deadline_ns);
	int rc = sim_extend(caller, lock, lease_ms ? lease_ms : SIM_WATCHDOG_MS, &error);
	sim_note("%s: extend: %s", caller->name, sim_outcome(rc));
	sim_check_limit(&call, sim_left_ms(&call, deadline_ns));
	sim_check_code("extend", rc, expected, sim_is_calm() ? 1 : count, caller->closes, &error);
}

/* ---- counts ---- */

int sim_semaphore_acquire(struct sim_caller *caller, lk_semaphore *semaphore, int64_t permits,
			  int64_t wait_ms, lk_error *error)
{
	uint64_t id = 0;
	if (!sim_queues(caller))
		return lk_semaphore_acquire(semaphore, permits, wait_ms, NULL, error);
	int rc = lk_queue_start(
		caller->queue,
		request_of(ACQUIRE, .semaphore = semaphore, .number = permits, .wait_ms = wait_ms),
		&id, error);
	if (rc == 0)
		cancel_perhaps(caller, id);
	return sim_finish(caller, rc, NULL, error);
}

int sim_semaphore_release(struct sim_caller *caller, lk_semaphore *semaphore, int64_t permits,
			  lk_error *error)
{
	if (!sim_queues(caller))
		return lk_semaphore_release(semaphore, permits, NULL, error);
	return sim_finish(
		caller,
		lk_queue_start(caller->queue,
			       request_of(RELEASE, .semaphore = semaphore, .number = permits), NULL,
			       error),
		NULL, error);
}

int sim_semaphore_drain(struct sim_caller *caller, lk_semaphore *semaphore, int64_t *permits_out,
			lk_error *error)
{
	if (!sim_queues(caller))
		return lk_semaphore_drain(semaphore, permits_out, error);
	return sim_finish(caller,
			  lk_queue_start(caller->queue, request_of(DRAIN, .semaphore = semaphore),
					 NULL, error),
			  permits_out, error);
}

int sim_permits_acquire(struct sim_caller *caller, lk_permit_semaphore *semaphore, int64_t count,
			lk_permit *permits_out, int64_t wait_ms, const lk_acquire_options *options,
			lk_error *error)
{
	lk_completion got = {.struct_size = sizeof(lk_completion), .error = {.code = 0}};
	uint64_t id = 0;
	if (!sim_queues(caller))
		return lk_permit_semaphore_acquire(semaphore, count, permits_out, wait_ms, options,
						   error);
	int rc = lk_queue_start(caller->queue,
				request_of(ACQUIRE, .permit_semaphore = semaphore, .number = count,
					   .wait_ms = wait_ms, .acquire = options,
					   .tag = options ? options->tag : 0),
				&id, error);
	if (rc == 0)
		cancel_perhaps(caller, id);
	completed(caller, rc, &got);
	*error = got.error;
	if (got.error.code == 0 &&
	    lk_completion_permits(&got, permits_out, count, error) != (int)count)
		sim_fail("a completion does not tell the %lld permits", (long long)count);
	return got.error.code;
}

int sim_permits_release(struct sim_caller *caller, lk_permit_semaphore *semaphore,
			const lk_permit *permits, int64_t count, lk_error *error)
{
	if (!sim_queues(caller))
		return lk_permit_semaphore_release(semaphore, permits, count, error);
	return sim_finish(caller,
			  lk_queue_start(caller->queue,
					 request_of(RELEASE, .permit_semaphore = semaphore,
						    .permits = permits, .number = count),
					 NULL, error),
			  NULL, error);
}

int sim_permit_update(struct sim_caller *caller, lk_permit_semaphore *semaphore, const char *id,
		      int64_t lease_ms, lk_error *error)
{
	if (!sim_queues(caller))
		return lk_permit_semaphore_update_lease(semaphore, id, lease_ms, error);
	return sim_finish(caller,
			  lk_queue_start(caller->queue,
					 request_of(EXTEND, .permit_semaphore = semaphore,
						    .permits = (const lk_permit *)id, .number = 1,
						    .lease_ms = lease_ms),
					 NULL, error),
			  NULL, error);
}

int sim_latch_await(struct sim_caller *caller, lk_latch *latch, int64_t wait_ms, lk_error *error)
{
	if (!sim_queues(caller))
		return lk_latch_await(latch, wait_ms, NULL, error);
	return sim_finish(caller,
			  lk_queue_start(caller->queue,
					 request_of(AWAIT, .latch = latch, .wait_ms = wait_ms),
					 NULL, error),
			  NULL, error);
}

int sim_barrier_meet(struct sim_caller *caller, lk_barrier *barrier, int operation, int64_t wait_ms,
		     int64_t *generation_out, lk_error *error)
{
	lk_request request = LK_REQUEST_INIT;
	uint64_t generation = 0;
	request.operation = operation;
	request.barrier = barrier;
	request.wait_ms = wait_ms;
	if (sim_queues(caller))
		return sim_finish(caller, lk_queue_start(caller->queue, &request, NULL, error),
				  generation_out, error);
	int rc = operation == LK_OP_LEAVE ? lk_barrier_leave(barrier, wait_ms, NULL, error)
		 : operation == LK_OP_ENTER
			 ? lk_barrier_enter(barrier, wait_ms, NULL, &generation, error)
			 : lk_barrier_await(barrier, wait_ms, NULL, &generation, error);
	*generation_out = (int64_t)generation;
	return rc;
}

int sim_latch_count_down(struct sim_caller *caller, lk_latch *latch, int64_t *left_out,
			 lk_error *error)
{
	if (!sim_queues(caller))
		return lk_latch_count_down(latch, 1, left_out, error);
	return sim_finish(caller,
			  lk_queue_start(caller->queue,
					 request_of(COUNT_DOWN, .latch = latch, .number = 1), NULL,
					 error),
			  left_out, error);
}
