/* SPDX-License-Identifier: MIT */
/* An extension of a hold: another lease from now on, if the server has it still. */
#ifndef LK__LOCK_EXTEND_H
#define LK__LOCK_EXTEND_H

#include "lock/operation.h"

struct lk__extension {
	uint64_t number;
	char field[LK__FIELD_SIZE];
	int64_t lease_ms;
	int64_t until_ns; /* of the hold, when it began */
	int64_t sent_ns;  /* noted from the answer */
};

struct lk__extending {
	struct lk__op op;
	struct lk__entry *entry;
	struct lk__owner owner;
	struct lk__extension extension;
	/* At what it waits for: its end, or LK__OP_WAITS. NULL: it has not begun. */
	int (*look)(struct lk__extending *extending);
	struct lk__nodes_call *call; /* where the lock is on several nodes */
	lk_error *error;
};

/* Begins one. `error` is kept; it is NULL in a calling thread alone. */
void lk__extend_init(struct lk__extending *extending, struct lk__entry *entry,
		     struct lk__thread *thread, const struct lk__owner *owner, int64_t lease_ms,
		     lk_error *error);

/* ---- its parts, without the entry's mutex ---- */

int lk__extend_begin(struct lk__entry *entry, const struct lk__owner *owner, int64_t lease_ms,
		     struct lk__extension *extension, lk_error *error);
struct lk__request *lk__extend_request(const struct lk__entry *entry,
				       const struct lk__extension *extension);
/* 1 extended, 0 not ours any more, or a code. */
int lk__extend_read(const struct lk__entry *entry, struct lk__extension *extension,
		    const struct lk__request *request, lk_error *error);
/* `answer`: as it was read, or the code of what stood in its way. 0 or a code: LK_ELOST where the
 * hold is over by now. */
int lk__extend_end(struct lk__entry *entry, const struct lk__owner *owner,
		   const struct lk__extension *extension, int answer, lk_error *error);

#endif
