/* SPDX-License-Identifier: MIT */
/* The hold of `run` while its command runs: a lock of some kind, or a permit. */
#ifndef CLI_RUN_HOLD_H
#define CLI_RUN_HOLD_H

#include <stdint.h>

#include <lockkeeper.h>

#include "kind.h"

struct run_hold {
	int64_t lease_ms; /* of what is held; set before it is made */
	lk_lock *lock;
	int several; /* on several servers, or several locks: it has no one owner field */
	lk_permit_semaphore *semaphore; /* NULL: it is a lock, */
	lk_election *election;          /* or a leadership; else NULL */
	lk_permit permit;
	int unset; /* its number of permits has not been asked for yet */
};

/* Makes the handle: of a lock of the kind, or, with `permits`, of a semaphore. Asks no server. */
int run_hold_make(struct run_hold *hold, lk_client *client, const struct lock_kind *kind,
		  int64_t permits, const char *name, lk_error *error);
/* Before the first try: a semaphore gets so many permits if it has no number yet; that of others is
 * told. Blocks for as long as a command at most, and may be repeated after a failure. */
int run_hold_prepare(struct run_hold *hold, lk_client *client, int64_t permits, const char *name,
		     lk_error *error);
/* Makes one lock on the quorum of all clients, the first of them among them. */
int run_hold_make_quorum(struct run_hold *hold, lk_client *const *clients, size_t count,
			 const lk_red_lock_options *options, const char *name, lk_error *error);

/* Makes several locks of one client into one, all or none. */
int run_hold_make_multi(struct run_hold *hold, lk_client *client, const char *name,
			const char *const *also, size_t count, lk_error *error);
/* Makes a candidate. */
int run_hold_make_election(struct run_hold *hold, lk_client *client,
			   const lk_election_options *options, const char *name, lk_error *error);
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
