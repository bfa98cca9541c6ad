/*
 * A parking place for one thread: wait until somebody gives the token, or a deadline passes.
 *
 * At most one token is kept, so a wake that comes early is not lost and a wake too many only
 * makes the owner look again: every wait stands in a loop over its own condition.
 */
#ifndef LK__BASE_PARK_H
#define LK__BASE_PARK_H

#include <stdatomic.h>
#include <stdint.h>

struct lk__park {
	_Atomic uint32_t state;
};

/* Waits for the token until `deadline_ns` (CLOCK_BOOTTIME). May return early without cause. */
void lk__park_wait(struct lk__park *park, int64_t deadline_ns);

/* Gives the token. Async-signal-safe. */
void lk__park_wake(struct lk__park *park);

#endif
