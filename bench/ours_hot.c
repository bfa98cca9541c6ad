/* SPDX-License-Identifier: MIT */
/* One hot lock by the library: one client, one handle, every thread acquires and releases. */
#include <lockkeeper.h>

#include "common.h"
#include "hot.h"

static lk_client *client;
static lk_lock *lock;

static void ours_start(const char *url, int threads)
{
	(void)threads;
	lk_error error;
	if (lk_client_open(&client, url, &error) ||
	    lk_lock_new(&lock, client, "bench:hot", 9, &error))
		bench_die("%s", error.message);
	redisContext *redis = bench_connect(url);
	freeReplyObject(redisCommand(redis, "DEL bench:hot"));
	redisFree(redis);
}

static void *ours_open(const char *url, int index, int threads)
{
	(void)url, (void)index, (void)threads;
	return NULL;
}

static void ours_turn(void *worker, void (*granted)(void *), void *context)
{
	(void)worker;
	lk_error error;
	if (lk_lock_acquire(lock, -1, NULL, &error))
		bench_die("%s", error.message);
	granted(context);
	if (lk_lock_release(lock, NULL, &error))
		bench_die("%s", error.message);
}

int main(int argc, char **argv)
{
	static const struct bench_hot_side side = {ours_start, ours_open, ours_turn};
	return bench_hot(argc, argv, &side);
}
