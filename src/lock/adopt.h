/* SPDX-License-Identifier: MIT */
/*
 * An acquire that takes over what is held under a wire field, of another client or another process.
 *
 * It is one exchange: the server finds that field at the lock, and gives the lock to a number of
 * this client instead. So the field is nobody's from then on, and who renews it under that is told
 * that it has lost it. The call stands in no wait queue: while that field has the lock, nobody else
 * can get it. Whoever of this client waits for the lock meanwhile goes on to ask the server.
 */
#ifndef LK__LOCK_ADOPT_H
#define LK__LOCK_ADOPT_H

#include "lock/hold.h"
#include "lock/operation.h"

struct lk__adopting {
	struct lk__op op;
	struct lk__entry *entry;
	const struct lk__want *want;
	struct lk__hold *hold; /* made ready; NULL */
	uint64_t number, epoch;
	struct lk__node *node; /* that it was sent to, whose epoch was that before */
	int64_t lease_ms, until_ns;
	bool begun, connects, sent;
	bool made_anew; /* a copy that came late has taught the server's time */
	lk_error *error;
};

/* Begins one: `want` has `adopts`, and lives on until its end, as `error` does, which may be NULL
 * in a calling thread. */
void lk__adopt_init(struct lk__adopting *adopting, struct lk__entry *entry,
		    struct lk__thread *thread, const struct lk__want *want, lk_error *error);

#endif
