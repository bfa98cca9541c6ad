/* SPDX-License-Identifier: MIT */
/* A new client of the library: opened, then a ping, or a lock and its first pair. */
#include <lockkeeper.h>

#include "common.h"
#include "connect.h"
#include "kinds.h"

static lk_client *client;
static lk_lock *lock;

static void ours_start(void)
{
}

static void ours_open(const char *url)
{
	lk_error error;
	if (lk_client_open(&client, url, &error))
		bench_die("%s", error.message);
}

static void ours_ping(const char *url)
{
	lk_error error;
	ours_open(url);
	if (lk_client_ping(client, &error))
		bench_die("%s", error.message);
}

static void ours_pair(const char *url, bool warm)
{
	lk_error error;
	(void)warm; /* it finds out */
	ours_open(url);
	lock = bench_lock(client, "lock", BENCH_CONNECT_NAME);
	if (lk_lock_acquire(lock, -1, NULL, &error) || lk_lock_release(lock, NULL, &error))
		bench_die("%s", error.message);
}

static void ours_leave(void)
{
	lk_error error;
	if (lk_client_close(client, LK_CLOSE_IF_IDLE, &error))
		bench_die("%s", error.message);
	lock = lk_lock_free(lock);
	client = lk_client_free(client);
}

int main(int argc, char **argv)
{
	static const struct bench_visitor side = {ours_start, ours_ping, ours_pair, ours_leave};
	return bench_connects(argc, argv, &side);
}
