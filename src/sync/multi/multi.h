/* SPDX-License-Identifier: MIT */
/* Several reentrant locks of one server in one script: taken all or none, freed together. */
#ifndef LK__SYNC_MULTI_H
#define LK__SYNC_MULTI_H

#include "script_calls.h"
#include "sync/recipe.h"

struct lk__multi_key {
	const struct lk__target *target;
	char field[LK__FIELD_SIZE]; /* of the owner that has it, or is to have it */
};

/* For lk__answer_take(). The caller knows how many keys there were: whether `busy` is one. */
void lk__multi_read_acquire(const struct lk__request *request, struct lk__answer *answer);

/* Reads what became of the one at `index`, that was freed or kept. */
enum lk__released lk__multi_read_release(const struct lk__request *request, size_t index,
					 int64_t *listeners);

#endif
