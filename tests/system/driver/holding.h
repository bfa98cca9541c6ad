/* What stress acquires and releases: a lock of any kind, permits of a semaphore, or the leadership
 * of an election, whose lease is the client's. */
#ifndef HOLDING_H
#define HOLDING_H

#include "driver.h"
#include "history.h"

#define HOLDING_PERMITS_MAX 16

struct holding {
	lk_lock *lock;
	lk_semaphore *semaphore;
	lk_permit_semaphore *permits;
	lk_election *election;
	int64_t count; /* permits at a time; 0 for a lock */
	lk_permit taken[HOLDING_PERMITS_MAX];
	int no_wait;
	char owner[16]; /* queue=1: a lock is used asynchronously, under this name; else "" */
};

/* Whether the command's kind=WORD is known. */
int holding_known(const struct command *command);
enum history_mode holding_mode(const struct command *command);

/* Makes what the command's kind and count say, of that name: 0 or a code. */
int holding_open(struct holding *holding, const struct command *command, lk_client *client,
		 const char *name, lk_error *error);
void holding_close(struct holding *holding);

/* wait_ms: -1: no limit; 0: asks once. */
int holding_acquire(struct holding *holding, int64_t wait_ms, const lk_acquire_options *options,
		    lk_error *error);
int holding_release(struct holding *holding, lk_error *error);

/* Until when it is certain; -1: it is over. The permits of a plain semaphore have no end. */
int64_t holding_deadline_ns(struct holding *holding);
/* The token of the grant; 0: this kind has none. */
int64_t holding_fence(struct holding *holding);

#endif
