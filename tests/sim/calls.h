/* The calls of a worker, of which the client's loop drives some. */
#ifndef SIM_CALLS_H
#define SIM_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include <lockkeeper.h>

struct sim_caller {
	char name[16];   /* as an owner, of what its asynchronous calls acquire */
	lk_queue *queue; /* of those */
	bool named;      /* what it holds, or is about to; else its thread is the owner */
	bool closes;     /* its client may be closed at any time */
};

void sim_caller_begin(struct sim_caller *caller, int number, bool closes);
void sim_caller_end(const struct sim_caller *caller);

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

/* Extends by such a lease, and judges: no longer than to the end of what it had, for then that is
 * over; one of the codes, and in a world without troubles the first. */
void sim_extend_hold(const struct sim_caller *caller, lk_lock *lock, int64_t most_ms,
		     const int *expected, size_t count);

/* Until when it holds, by what the library says; false: it does not. */
bool sim_deadline(const struct sim_caller *caller, lk_lock *lock, int64_t *deadline_ns);

#endif
