/* SPDX-License-Identifier: MIT */
/* The count-down latch: a count that opens the way when it is zero, or gone. */
#ifndef LK__SYNC_LATCH_H
#define LK__SYNC_LATCH_H

#include "sync/recipe.h"

extern const struct lk__recipe lk__latch_recipe;

#endif
