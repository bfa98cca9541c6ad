/* SPDX-License-Identifier: MIT */
/* A hand-over to another process by the library. */
#include <lockkeeper.h>

#include "common.h"
#include "handover.h"
#include "kinds.h"

static lk_lock *lock;

static void ours_start(const char *url, const char *kind, int waits)
{
	static lk_client *client;
	lk_error error;
	(void)waits;
	if (lk_client_open(&client, url, &error))
		bench_die("%s", error.message);
	lock = bench_lock(client, kind, BENCH_HANDOVER_NAME);
}

static void ours_acquire(void)
{
	lk_error error;
	if (lk_lock_acquire(lock, -1, NULL, &error))
		bench_die("%s", error.message);
}

static void ours_release(void)
{
	lk_error error;
	if (lk_lock_release(lock, NULL, &error))
		bench_die("%s", error.message);
}

int main(int argc, char **argv)
{
	static const struct bench_handover_side side = {ours_start, ours_acquire, ours_release};
	return bench_handover(argc, argv, &side);
}
