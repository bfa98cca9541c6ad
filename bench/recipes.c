/* SPDX-License-Identifier: MIT */
#include "recipes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "sync/recipes.h"

#define UUID "5f0c8c5e-7a3e-4d0a-9b59-0b1f5b7f2f11"

static const struct lk__recipe *const recipes[] = {
	&lk__lock_recipe,  &lk__fair_recipe,      &lk__fenced_recipe,
	&lk__plain_recipe, &lk__read_recipe,      &lk__spin_recipe,
	&lk__write_recipe, &lk__semaphore_recipe, &lk__permit_queue_recipe,
};

static int named(const char *type, const char *kind)
{
	for (; *type && *kind; type++, kind++)
		if (*type != *kind && !((*type == ' ' || *type == '/') && *kind == '-'))
			return 0;
	return *type == *kind;
}

const struct lk__recipe *bench_recipe(const char *kind)
{
	for (size_t i = 0; i < sizeof(recipes) / sizeof(recipes[0]); i++)
		if (named(recipes[i]->type, kind))
			return recipes[i];
	bench_die("no kind is called %s", kind);
}

void bench_load(redisContext *redis, const struct lk__request *request)
{
	if (request->script != LK__NO_SCRIPT)
		bench_script_load(redis, request->script);
}

void bench_requests(const struct lk__recipe *recipe, const char *name, uint64_t number,
		    struct lk__request **acquire_out, struct lk__request **release_out)
{
	struct lk__target target = {
		.recipe = recipe, .key = strdup(name), .key_size = strlen(name)};
	char field[LK__FIELD_SIZE];
	snprintf(field, sizeof(field), UUID ":%llu", (unsigned long long)number);
	struct lk__try wanted = {
		.target = &target,
		.field = field,
		.number = number,
		.lease_ms = 30000,
		.wait_ms = -1,
		.alive_ms = 300000,
		.count = 1,
	};
	*acquire_out = recipe->acquire(&wanted);
	*release_out = recipe->release(&target, field);
	free(target.key);
	if (!*acquire_out || !*release_out)
		bench_die("out of memory");
	lk__request_address(*acquire_out, LK__MESSAGES_PLAIN, INT64_C(9007199254740000));
}
