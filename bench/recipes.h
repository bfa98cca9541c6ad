/* SPDX-License-Identifier: MIT */
/* The commands that the library sends for a kind of lock, for programs without the library. */
#ifndef BENCH_RECIPES_H
#define BENCH_RECIPES_H

#include <hiredis/hiredis.h>

#include "sync/recipe.h"

/* "lock", "fair-lock", …: the type with dashes for spaces. Ends the program if there is none. */
const struct lk__recipe *bench_recipe(const char *kind);

/* Makes an acquire under a number and its release, with a deadline never reached. */
void bench_requests(const struct lk__recipe *recipe, const char *name, uint64_t number,
		    struct lk__request **acquire_out, struct lk__request **release_out);

/* Gives the server a request's script. */
void bench_load(redisContext *redis, const struct lk__request *request);

#endif
