/* SPDX-License-Identifier: MIT */
/*
 * Draining a client: it takes nothing new, gives its leaderships away, and says what it holds.
 *
 * lk__drain_begin() marks the client, for good. From then on every look at a wait or at a grant
 * that has no owner yet says LK_EDRAINING (lk__entry_ends()): so what is in the entries behind that
 * is all that the client has. Then the operation only waits, looking from time to time, until all
 * who wait have left, no try and no release is out, and nothing is held.
 */
#ifndef LK__LOCK_DRAIN_H
#define LK__LOCK_DRAIN_H

#include <lockkeeper/drain.h>

#include "lock/operation.h"

struct lk__draining {
	struct lk__op op;
	lk_client *client;
	const _Atomic bool *stop; /* of an asynchronous call; NULL */
	int64_t until_ns;         /* so long it waits for what is held, */
	int64_t settles_ns;       /* and so long for what is under way; */
	int64_t pause_ns;         /* between two looks */
	lk_error *error;
};

/* Nothing new from now on. LK_ENOMEM: it is so, and leaders were not all told. */
int lk__drain_begin(lk_client *client, lk_error *error);

/* Waits behind that. Of `cancel` and `stop` one is NULL at least. */
void lk__draining_init(struct lk__draining *draining, lk_client *client, struct lk__thread *thread,
		       int64_t wait_ms, lk_cancel *cancel, const _Atomic bool *stop,
		       lk_error *error);

/* Writes the first `most` that are held, elements of that size, and returns how many are; or
 * LK_ENOMEM. */
int lk__drain_held(lk_client *client, void *held_out, size_t size, size_t most, lk_error *error);

#endif
