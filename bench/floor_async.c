/* SPDX-License-Identifier: MIT */
/*
 * The floor of many pairs in flight: one connection, one thread. It appends what it has to send,
 * writes all of it before it sleeps in a read, and takes every answer that the read brought. The
 * commands are the library's own, made once.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

#include "async.h"
#include "common.h"
#include "recipes.h"
#include "sync/recipes.h"

struct mine {
	struct lk__request *acquire, *release;
};

/* Who is answered next: a ring, for answers come in the order of the commands. */
struct sent {
	uint32_t index;
	bool release;
};

static redisContext *redis;
static struct mine *all;
static struct sent *ring;
static uint32_t all_count;
static uint64_t sent_count, answered_count;

static void floor_start(const char *url, uint32_t pairs)
{
	const struct timeval limit = {.tv_sec = BENCH_ASYNC_LIMIT_MS / 1000};
	redis = bench_connect(url);
	all = calloc(pairs, sizeof(*all));
	ring = calloc(pairs, sizeof(*ring));
	if (!all || !ring || redisSetTimeout(redis, limit) != REDIS_OK)
		bench_die("no memory, or no limit for a read");
	for (all_count = 0; all_count < pairs; all_count++) {
		char name[64];
		snprintf(name, sizeof(name), "bench:async:%u", all_count);
		bench_requests(&lk__lock_recipe, name, 1000001 + all_count, &all[all_count].acquire,
			       &all[all_count].release);
	}
	bench_load(redis, all[0].acquire);
	bench_load(redis, all[0].release);
}

static void append(const struct lk__request *request, struct sent sent)
{
	if (redisAppendFormattedCommand(redis, lk__buffer_front(&request->bytes),
					lk__buffer_size(&request->bytes)) != REDIS_OK)
		bench_die("out of memory");
	ring[sent_count++ % all_count] = sent;
}

static void floor_acquire(uint32_t index)
{
	append(all[index].acquire, (struct sent){index, false});
}

static void floor_release(uint32_t index)
{
	append(all[index].release, (struct sent){index, true});
}

static uint32_t answered(redisReply *reply)
{
	struct sent *sent = &ring[answered_count++ % all_count];
	if (reply->type != (sent->release ? REDIS_REPLY_INTEGER : REDIS_REPLY_NIL))
		bench_die("refused: %s", reply->str ? reply->str : "held by another");
	freeReplyObject(reply);
	return sent->index;
}

static size_t floor_take(uint32_t *indexes_out, size_t most)
{
	void *reply = NULL;
	size_t count = 0;
	if (redisGetReply(redis, &reply) != REDIS_OK)
		bench_die("connection lost: %s", redis->errstr);
	while (reply) {
		indexes_out[count++] = answered(reply);
		reply = NULL;
		if (count < most && redisGetReplyFromReader(redis, &reply) != REDIS_OK)
			bench_die("%s", redis->errstr);
	}
	return count;
}

static long floor_connections(void)
{
	return 1;
}

static void floor_stop(void)
{
	for (uint32_t i = 0; i < all_count; i++) {
		lk__request_free(all[i].acquire);
		lk__request_free(all[i].release);
	}
	free(all);
	free(ring);
	redisFree(redis);
}

int main(int argc, char **argv)
{
	static const struct bench_async_side side = {floor_start, floor_acquire,     floor_release,
						     floor_take,  floor_connections, floor_stop};
	return bench_async(argc, argv, &side);
}
