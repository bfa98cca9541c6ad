/* A pair by the library: one client, a handle a thread. */
#include <stdlib.h>
#include <string.h>

#include <lockkeeper.h>

#include "common.h"
#include "pairs.h"

static lk_client *client;
static lk_release_options release_options = LK_RELEASE_OPTIONS_INIT;
static redisContext *looker;

static void ours_start(const char *url, int no_wait)
{
	lk_error error;
	if (lk_client_open(&client, url, &error))
		bench_die("%s", error.message);
	release_options.no_wait = no_wait;
	looker = bench_connect(url);
}

static void *ours_open(const char *url, const char *name)
{
	(void)url;
	lk_error error;
	lk_lock *lock = NULL;
	if (lk_lock_new(&lock, client, name, strlen(name), &error))
		bench_die("%s", error.message);
	return lock;
}

static void ours_pair(void *worker)
{
	lk_error error;
	if (lk_lock_acquire(worker, NULL, &error) ||
	    lk_lock_release(worker, &release_options, &error))
		bench_die("%s", error.message);
}

static long ours_connections(void)
{
	return bench_clients(looker, "lockkeeper");
}

static void ours_stop(void)
{
	lk_error error;
	if (lk_client_close(client, LK_CLOSE_IF_IDLE, &error))
		bench_die("%s", error.message);
	lk_client_free(client);
}

int main(int argc, char **argv)
{
	static const struct bench_side side = {ours_start, ours_open, ours_pair, ours_connections,
					       ours_stop};
	return bench_pairs(argc, argv, &side);
}
