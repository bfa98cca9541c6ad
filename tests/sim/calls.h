/*
 * The calls of a worker: blocking, which its own thread drives; asynchronous, which the client's
 * thread drives; and those of a threadless client, which are all asynchronous.
 */
#ifndef SIM_CALLS_H
#define SIM_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include <lockkeeper.h>

#include "../harness/request.h"

struct sim_caller {
	char name[16];   /* as an owner, of what its asynchronous calls acquire */
	lk_queue *queue; /* of those */
	lk_cancel *cancel;
	int64_t cancelled_ns; /* when that is set next, or was */
	bool sure;            /* its calls are not cancelled */
	bool named;           /* what it holds, or is about to; else its thread is the owner */
	bool closes;          /* its client may be closed at any time */
	bool threadless;      /* its client is */
	const lk_lock *over;  /* of which it was told that its hold has ended; NULL: of none */
};

void sim_caller_begin(struct sim_caller *caller, int number, bool closes);
void sim_caller_end(struct sim_caller *caller);

/* As an owner: its name, or NULL for its thread. */
const char *sim_owner(const struct sim_caller *caller);

/* `queued`: asynchronously, and sometimes cancelled. From here on it is named, or not. */
int sim_acquire(struct sim_caller *caller, lk_lock *lock, int64_t wait_ms, bool queued,
		lk_acquire_options *options, lk_error *error);
int sim_release(const struct sim_caller *caller, lk_lock *lock, bool no_wait, lk_error *error);
/* The same, and it is kept from all for so long. */
int sim_keep(const struct sim_caller *caller, lk_lock *lock, int64_t keep_ms, lk_error *error);
int sim_extend(const struct sim_caller *caller, lk_lock *lock, int64_t lease_ms, lk_error *error);

/* A lease to ask for: the watchdog's (0), or one of up to so long; in a world without troubles, one
 * that is longer than what a worker does with it. */
int64_t sim_lease_ms(int64_t most_ms);
/* One of an acquire, which the watchdog may renew. */
void sim_draw_lease(lk_acquire_options *options, int64_t most_ms);

/* Extends by such a lease, and judges: no longer than to the end of what it had, for then that is
 * over; one of the codes, and in a world without troubles the first. */
void sim_extend_hold(const struct sim_caller *caller, lk_lock *lock, int64_t most_ms,
		     const int *expected, size_t count);

/* Until when it holds, by what the library says; false: it does not. */
bool sim_deadline(const struct sim_caller *caller, lk_lock *lock, int64_t *deadline_ns);

/* Fails when a hold has come back that was over: it stays lost, whatever a server says later. */
void sim_check_over(struct sim_caller *caller, lk_lock *lock);

/* ---- counts ---- */

/* What to start, on the queue, and what became of it. */
int sim_finish(const struct sim_caller *caller, int started, int64_t *answer_out, lk_error *error);

/* Whether the next call is asynchronous. */
bool sim_queues(const struct sim_caller *caller);

int sim_semaphore_acquire(struct sim_caller *caller, lk_semaphore *semaphore, int64_t permits,
			  int64_t wait_ms, lk_error *error);
int sim_semaphore_release(struct sim_caller *caller, lk_semaphore *semaphore, int64_t permits,
			  lk_error *error);
int sim_semaphore_drain(struct sim_caller *caller, lk_semaphore *semaphore, int64_t *permits_out,
			lk_error *error);
int sim_permits_acquire(struct sim_caller *caller, lk_permit_semaphore *semaphore, int64_t count,
			lk_permit *permits_out, int64_t wait_ms, const lk_acquire_options *options,
			lk_error *error);
int sim_permits_release(struct sim_caller *caller, lk_permit_semaphore *semaphore,
			const lk_permit *permits, int64_t count, lk_error *error);
int sim_permit_update(struct sim_caller *caller, lk_permit_semaphore *semaphore, const char *id,
		      int64_t lease_ms, lk_error *error);
int sim_latch_await(struct sim_caller *caller, lk_latch *latch, int64_t wait_ms, lk_error *error);
int sim_barrier_meet(struct sim_caller *caller, lk_barrier *barrier, int operation, int64_t wait_ms,
		     int64_t *generation_out, lk_error *error);
int sim_latch_count_down(struct sim_caller *caller, lk_latch *latch, int64_t *left_out,
			 lk_error *error);

#endif
