/* SPDX-License-Identifier: MIT */
/* What `run` holds while its command runs: a lock of some kind, or a permit. */
#ifndef CLI_HOLDING_H
#define CLI_HOLDING_H

#include <stdint.h>

#include <lockkeeper.h>

#include "kind.h"

struct holding {
	int64_t lease_ms; /* of what is held; set before it is made */
	lk_lock *lock;
	int several; /* on several servers, or several locks: it has no one owner field */
	lk_permit_semaphore *semaphore; /* NULL: it is a lock */
	lk_permit permit;
	int unset; /* its number of permits has not been asked for yet */
};

/* Makes the handle: of a lock of the kind, or, with `permits`, of a semaphore. Asks no server. */
int holding_make(struct holding *holding, lk_client *client, const struct lock_kind *kind,
		 int64_t permits, const char *name, lk_error *error);
/* Before the first try: a semaphore gets so many permits if it has no number yet; that of others is
 * told. Blocks for as long as a command at most, and may be repeated after a failure. */
int holding_prepare(struct holding *holding, lk_client *client, int64_t permits, const char *name,
		    lk_error *error);
/* The same of one lock on the quorum of all clients, the first of them among them. */
int holding_make_quorum(struct holding *holding, lk_client *const *clients, size_t count,
			const lk_red_lock_options *options, const char *name, lk_error *error);

/* The same of several locks of one client, all or none. */
int holding_make_multi(struct holding *holding, lk_client *client, const char *name,
		       const char *const *also, size_t count, lk_error *error);
void holding_free(struct holding *holding);

/* `wait_ms`: -1 without limit, 0 once. */
int holding_acquire(struct holding *holding, int64_t wait_ms, const lk_acquire_options *options,
		    lk_error *error);
/* `keep_ms`: keeps a lock from everybody for so long; 0: it is free. */
int holding_release(struct holding *holding, int64_t keep_ms, lk_error *error);

/* Until when it is certain, CLOCK_BOOTTIME. */
int holding_deadline(const struct holding *holding, int64_t *deadline_ns_out, lk_error *error);

/* The owner field, or the permit's id; empty where there are several. */
int holding_owner(const struct holding *holding, char *owner_out, size_t size, lk_error *error);

/* The fence token, 0 where there is none. */
uint64_t holding_fence(const struct holding *holding);

#endif
