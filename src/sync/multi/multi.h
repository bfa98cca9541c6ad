/* SPDX-License-Identifier: MIT */
/* Several reentrant locks of one server in one script: taken all or none, freed together. */
#ifndef LK__SYNC_MULTI_H
#define LK__SYNC_MULTI_H

#include "sync/recipe.h"

struct lk__multi_key {
	const struct lk__target *target;
	char field[LK__FIELD_SIZE]; /* of the owner that has it, or is to have it */
};

/* Takes all under the field of the first. NULL when out of memory. */
struct lk__request *lk__multi_acquire_request(const struct lk__multi_key *keys, size_t count,
					      int64_t lease_ms);

/* Frees each from its own field. NULL when out of memory. */
struct lk__request *lk__multi_release_request(const struct lk__multi_key *keys, size_t count);

/* Frees each in that way, and keeps it from others for a time. NULL when out of memory. */
struct lk__request *lk__multi_keep_request(const struct lk__multi_key *keys, size_t count,
					   int64_t keep_ms);

/* For lk__answer_take(). The caller knows how many keys there were: whether `busy` is one. */
void lk__multi_read_acquire(const struct lk__request *request, struct lk__answer *answer);

/* Reads what became of the one at `index`, that was freed or kept. */
enum lk__released lk__multi_read_release(const struct lk__request *request, size_t index,
					 int64_t *listeners);

#endif
