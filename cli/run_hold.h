/* SPDX-License-Identifier: MIT */
/* The hold of `run` while its command runs, a lock of some kind, a permit, a leadership or a place
 * inside a barrier; and the clients that have it. */
#ifndef CLI_RUN_HOLD_H
#define CLI_RUN_HOLD_H

#include <stdint.h>

#include <lockkeeper.h>

#include "keeper.h"

struct run_hold {
	const struct keeper_options *options;
	lk_client *clients[LK_RED_NODES_MAX]; /* of a quorum more than one */
	size_t count;
	lk_lock *lock;
	int several; /* on several servers, or several locks: it has no one owner field */
	lk_permit_semaphore *semaphore; /* NULL: it is a lock, */
	lk_election *election;          /* or a leadership, */
	lk_barrier *barrier;            /* or a place inside; else NULL */
	uint64_t generation;            /* of that */
	int others_inside;              /* it was left, and others have not */
	lk_permit permit;
	int unset; /* its number of permits has not been asked for yet */
};

/* Makes the clients. 0, or an exit code (said). */
int run_hold_open(struct run_hold *hold, const struct keeper_options *options, lk_config *config);

/* Makes the handle. Asks no server, but whether an outer run has the read side. `margin_ms`: as in
 * the options of an acquire. */
int run_hold_make(struct run_hold *hold, int64_t margin_ms, lk_error *error);

/* Before the first try: a semaphore gets so many permits if it has no number yet; that of others is
 * told. Blocks for as long as a command at most, and may be repeated after a failure. */
int run_hold_prepare(struct run_hold *hold, lk_error *error);

/* Closes the clients, which release what they still have; 1 if something may stay held. */
int run_hold_close(const struct run_hold *hold);
void run_hold_free(struct run_hold *hold);

/* `wait_ms`: -1 without limit, 0 once. */
int run_hold_acquire(struct run_hold *hold, int64_t wait_ms, const lk_acquire_options *options,
		     lk_error *error);
/* `keep_ms`: keeps a lock from everybody for so long; 0: it is free. */
int run_hold_release(struct run_hold *hold, int64_t keep_ms, lk_error *error);

/* Until when it is certain, CLOCK_BOOTTIME. */
int run_hold_deadline(const struct run_hold *hold, int64_t *deadline_ns_out, lk_error *error);

/* The owner field, or the permit's id; empty where there are several. */
int run_hold_owner(const struct run_hold *hold, char *owner_out, size_t size, lk_error *error);

/* The fence token, 0 where there is none. */
uint64_t run_hold_fence(const struct run_hold *hold);

#endif
