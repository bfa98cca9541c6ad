/* SPDX-License-Identifier: MIT */
/*
 * The floor of a pair: the commands that the library sends for this kind, made by its own recipe;
 * a connection a thread, blocking. Made once, but for counters, which take each number once.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "pairs.h"
#include "recipes.h"

struct floor {
	redisContext *redis;
	struct lk__request *acquire, *release;
	char name[64];
	uint64_t number;
};

static _Atomic long connection_count;
static const struct lk__recipe *recipe;

static void floor_start(const char *url, int no_wait, const char *kind)
{
	(void)url;
	recipe = bench_recipe(kind);
	if (no_wait)
		bench_die("the floor always waits");
}

static redisReply *floor_send(const struct floor *floor, const struct lk__request *request)
{
	return bench_send(floor->redis, lk__buffer_front(&request->bytes),
			  (int)lk__buffer_size(&request->bytes));
}

static void *floor_open(const char *url, const char *name)
{
	struct floor *floor = calloc(1, sizeof(*floor));
	if (!floor)
		bench_die("out of memory");
	floor->redis = bench_connect(url);
	snprintf(floor->name, sizeof(floor->name), "%s", name);
	floor->number = 1000001;
	bench_requests(recipe, name, floor->number, &floor->acquire, &floor->release);
	bench_load(floor->redis, floor->acquire);
	bench_load(floor->redis, floor->release);
	if (recipe->sharing == LK__NO_HOLD)
		freeReplyObject(redisCommand(floor->redis, "SET %s 10", name));
	atomic_fetch_add(&connection_count, 1);
	return floor;
}

static void floor_pair(void *worker)
{
	struct floor *floor = worker;
	if (recipe->sharing == LK__NO_HOLD) {
		lk__request_free(floor->acquire);
		lk__request_free(floor->release);
		bench_requests(recipe, floor->name, ++floor->number, &floor->acquire,
			       &floor->release);
	}
	freeReplyObject(floor_send(floor, floor->acquire));
	freeReplyObject(floor_send(floor, floor->release));
}

static long floor_connections(void)
{
	return atomic_load(&connection_count);
}

static void floor_stop(void)
{
}

int main(int argc, char **argv)
{
	static const struct bench_side side = {floor_start, floor_open, floor_pair,
					       floor_connections, floor_stop};
	return bench_pairs(argc, argv, &side);
}
