/* SPDX-License-Identifier: MIT */
/*
 * Recipes share this: how the requests of scripts are made, and how their answers are read. The
 * answer to an acquire is read here for all who ask for a lock: a caller's own try, one that was
 * left behind, several names in one script, a node of a quorum; and the answer to the question that
 * comes before.
 */
#ifndef LK__SYNC_SCRIPT_H
#define LK__SYNC_SCRIPT_H

#include <stdbool.h>

#include "conn/request.h"
#include "sync/recipe.h"

/* ---- answers ---- */

/* Reads a try that has no reply (request->code is set). */
struct lk__attempt_event lk__reply_refusal(const struct lk__request *request);

/*
 * Tells whether another copy of the request may have run as well, or may still run: then no refusal
 * that this one was answered with is known to be the outcome.
 */
bool lk__reply_is_of_copy(const struct lk__request *request);

/* Tells whether the reply is "LATE <server us>"; then the time is written. */
bool lk__reply_late(const redisReply *reply, int64_t *server_us);

/*
 * The answer to one of `count` renewals, which the script answers as an array: 1 renewed, 0 not
 * the owner, -1 none.
 */
int lk__reply_renewed(const struct lk__request *request, size_t count, size_t index);

/* Reads what each kind answers alike: nil, granted; status "LATE <server us>", which is not done,
 * or, of a copy, unknown. Another reply is unknown too, and returned: the kind may read it. */
const redisReply *lk__reply_tried(const struct lk__request *request, struct lk__answer *answer);

/* As that; integer: busy, with the ttl in ms, or -1. */
void lk__reply_acquired(const struct lk__request *request, struct lk__answer *answer);

/* nil: not the owner; integer: released, so many heard of it. */
enum lk__released lk__reply_released(const struct lk__request *request, int64_t *listeners);
/* Reads a release where waiters have turns. Below zero, -1 less those who heard nothing on the
 * channel, since one of them was told that it has its turn. */
enum lk__released lk__reply_turn_given(const struct lk__request *request, int64_t *listeners);

/*
 * nil: taken; -3: the giver had it not; status FREED: given up only; else nothing was done, or, of
 * a copy, nobody knows.
 */
enum lk__exchanged lk__reply_exchanged(const struct lk__request *request,
				       struct lk__answer *answer);

/*
 * Reads the answer, complete but for what the attempt knows itself. The request is done, and is the
 * caller's still. `read`: how the kind reads its reply. `lease_ms`: that the server was told.
 *
 * A grant that too few replicas or disks have is UNKNOWN, with LK_ENOTDURABLE; what else was
 * answered stands, however few have heard of it. A grant that came later than its lease is UNKNOWN
 * too. One that reached the server too late has told its time, which the node learns.
 */
struct lk__answer lk__answer_take(const struct lk__request *request, lk__read_acquire *read,
				  int64_t lease_ms, int64_t now_ns);

#endif
