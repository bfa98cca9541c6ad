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

typedef int call_run_fn(struct call *call);

/* queued_synchronizers.c: the asynchronous form of a call, waited for: 1 with its result, or 0: it
 * has none. */
int queued_synchronizer_run(struct call *call, const char *kind, const char *verb, int *result_out);

#endif
