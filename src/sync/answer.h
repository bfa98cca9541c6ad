/* SPDX-License-Identifier: MIT */
/*
 * The answer to an acquire, as all who ask for a lock read it: a caller's own try, one that was
 * left behind, several names in one script, a node of a quorum; and the answer to the question that
 * comes before.
 */
#ifndef LK__SYNC_ANSWER_H
#define LK__SYNC_ANSWER_H

#include "sync/recipe.h"

/*
 * What the answer says, complete but for what the attempt knows itself. The request is done, and is
 * the caller's still. `read`: how the kind reads its reply. `lease_ms`: that the server was told.
 *
 * A grant that too few replicas or disks have is UNKNOWN, with LK_ENOTDURABLE; what else was
 * answered stands, however few have heard of it. A grant that came later than its lease is UNKNOWN
 * too. One that reached the server too late has told its time, which the node learns.
 */
struct lk__answer lk__answer_take(const struct lk__request *request, lk__read_acquire *read,
				  int64_t lease_ms, int64_t now_ns);

#endif
