/* The floor of a pair: the same two scripts, a connection a thread, blocking, made bytes. */
#include <stdatomic.h>
#include <stdlib.h>

#include "common.h"
#include "pairs.h"

struct floor {
	redisContext *redis;
	char *acquire, *release;
	int acquire_size, release_size;
};

static _Atomic long connection_count;

static void floor_start(const char *url, int no_wait)
{
	(void)url;
	if (no_wait)
		bench_die("the floor always waits");
}

static void *floor_open(const char *url, const char *name)
{
	struct floor *floor = calloc(1, sizeof(*floor));
	if (!floor)
		bench_die("out of memory");
	char channel[96];
	const char *owner = "5f0c8c5e-7a3e-4d0a-9b59-0b1f5b7f2f11:1000001";
	bench_channel(channel, sizeof(channel), name);
	floor->redis = bench_connect(url);
	floor->acquire = bench_script(floor->redis, LK__SCRIPT_LOCK_ACQUIRE, name, 3,
				      (const char *[]){owner, BENCH_LEASE, BENCH_NO_DEADLINE},
				      &floor->acquire_size);
	floor->release = bench_script(floor->redis, LK__SCRIPT_LOCK_RELEASE, name, 2,
				      (const char *[]){owner, channel}, &floor->release_size);
	atomic_fetch_add(&connection_count, 1);
	return floor;
}

static void floor_pair(void *worker)
{
	struct floor *floor = worker;
	redisReply *reply = bench_send(floor->redis, floor->acquire, floor->acquire_size);
	if (reply->type != REDIS_REPLY_NIL)
		bench_die("not granted");
	freeReplyObject(reply);
	reply = bench_send(floor->redis, floor->release, floor->release_size);
	if (reply->type != REDIS_REPLY_INTEGER)
		bench_die("not released");
	freeReplyObject(reply);
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
