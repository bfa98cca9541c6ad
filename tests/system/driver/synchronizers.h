/* A call on a semaphore, a permit semaphore or a latch, under way. */
#ifndef SYNCHRONIZERS_H
#define SYNCHRONIZERS_H

#include "driver.h"

struct call {
	const struct command *command;
	struct answer *answer;
	lk_semaphore *semaphore;
	lk_permit_semaphore *permits;
	lk_latch *latch;
	lk_cancel *cancel;
	int64_t count, wait_ms;
	lk_error *error;
};

#define IDS_MAX 64 /* permits in one call */

/* "ids": those of the permits of an acquire, with commas. And the other way: how many. */
void ids_answer(struct call *call, const lk_permit *permits);
int64_t ids_argument(const struct call *call, lk_permit permits[IDS_MAX]);

typedef int call_run_fn(struct call *call);

/* queued_synchronizers.c: the asynchronous form of a call, waited for: 1 with its result, or 0: it
 * has none. */
int queued_synchronizer_run(struct call *call, const char *kind, const char *verb, int *result_out);

#endif
