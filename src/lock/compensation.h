/* SPDX-License-Identifier: MIT */
/*
 * Grants that may exist and that nobody wants: released at once, and again after the acquire's
 * deadline on the server, when no copy of it can run any more. The loop's work.
 *
 * What is refused, or gets no answer, is repeated until it is certain, or the lease has ended it.
 * A place in a queue, or a count, has no lease: it is repeated as long as the client lives. Where
 * the server's clock was set back meanwhile, it is repeated at the deadline by that clock.
 *
 * Where replicas must have a grant (conn/acks.c) they must also have its end: a failover could
 * bring back what was given back, and nobody would have it for the rest of its lease. So each of
 * these is repeated until they have it, at whichever server is the master then; and what a caller
 * releases is kept here until they have that. It goes with its lease, and while replicas are
 * missing nothing is granted: so there are never more of these than was held, or tried, in a lease.
 */
#ifndef LK__LOCK_COMPENSATION_H
#define LK__LOCK_COMPENSATION_H

#include "lock/entry.h"

/* Notes one; `until_ns`: when no copy of its acquire can run any more. Entry's mutex held. */
void lk__compensate(struct lk__entry *entry, uint64_t number, int64_t until_ns);

/* Compensates what the master has granted and replicas have not acknowledged: the release is first
 * sent for the master alone, which is as far as close waits for it. */
void lk__compensate_unheard(struct lk__entry *entry, uint64_t number, int64_t until_ns);

/* Compensates a number when no copy of its acquire can run any more: its release is on its way
 * already. With `promised_ns`, others are not to have it before, since its owner was told that it
 * has it until then; it goes at once when its client is closed. 0: nothing was promised. */
void lk__compensate_later(struct lk__entry *entry, uint64_t number, int64_t until_ns,
			  int64_t promised_ns);

/*
 * Compensates a number whose acquire is over: its release goes out at once, behind what is in
 * flight on the connection of the tries. If it is refused, or gets no answer, the loop repeats it.
 */
void lk__compensate_behind(struct lk__entry *entry, uint64_t number);

/*
 * The master has released that number, and its caller need not wait for more: kept until replicas
 * have that, where they must have grants. `answered`: the release; NULL where an earlier copy of it
 * has done it, and the last one nothing: then it is sent once more.
 */
void lk__compensate_given(struct lk__entry *entry, uint64_t number,
			  const struct lk__request *answered);

/* Makes a number's compensations due as soon as no copy of its acquire can run any more. They do
 * not wait for the deadline that its owner was told, since the owner has released it. With `over`
 * every request for the number was answered, and was sent once: no copy can run now, and the
 * compensations do wait for that deadline. */
void lk__compensation_hasten(const struct lk__entry *entry, uint64_t number, bool over);

/* A connection has come up, or a caller waits in close: those that sleep after a refusal try again
 * now. */
void lk__compensation_retry(lk_client *client);

/* The loop's turn. Returns when the next is due; LK__NEVER for none. */
int64_t lk__compensation_turn(lk_client *client);

/* Tells whether there are any that close waits for: at that node, or, with NULL, at any. */
bool lk__compensation_pending(lk_client *client, const struct lk__node *node);

void lk__compensation_free(lk_client *client);

#endif
