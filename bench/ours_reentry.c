/*
 * Re-entry under a valid lease: what a further acquire and its release take, and that no command is
 * sent for them.
 *
 * usage: ours-reentry URL ROUNDS
 */
#include <stdio.h>

#include <lockkeeper.h>

#include "common.h"

#define DEPTH 1000

static void deeper(lk_lock *lock, int64_t *acquire_ns, int64_t *release_ns)
{
	int64_t begun_ns = bench_now_ns();
	for (int i = 0; i < DEPTH; i++)
		if (lk_lock_acquire(lock, NULL, NULL))
			bench_die("no re-entry");
	int64_t middle_ns = bench_now_ns();
	for (int i = 0; i < DEPTH; i++)
		if (lk_lock_release(lock, NULL, NULL))
			bench_die("no release");
	*acquire_ns += middle_ns - begun_ns;
	*release_ns += bench_now_ns() - middle_ns;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		bench_die("usage: %s URL ROUNDS", argv[0]);
	long rounds = bench_number(argv[2], 1, 100000);
	lk_client *client;
	lk_lock *lock;
	lk_error error;
	if (lk_client_open(&client, argv[1], &error) ||
	    lk_lock_new(&lock, client, "bench:reentry", 13, &error) ||
	    lk_lock_acquire(lock, NULL, &error))
		bench_die("%s", error.message);
	redisContext *redis = bench_connect(argv[1]);
	long commands = bench_info(redis, "total_commands_processed");
	int64_t acquire_ns = 0, release_ns = 0;
	for (long i = 0; i < rounds; i++)
		deeper(lock, &acquire_ns, &release_ns);
	/* INFO counts itself once it is done: the first is in the second. */
	commands = bench_info(redis, "total_commands_processed") - commands - 1;
	printf("{\"acquire_ns\": %.1f, \"release_ns\": %.1f, \"commands\": %ld}\n",
	       (double)acquire_ns / (double)rounds / DEPTH,
	       (double)release_ns / (double)rounds / DEPTH, commands);
	if (lk_lock_release(lock, NULL, &error) || lk_client_close(client, 0, &error))
		bench_die("%s", error.message);
	lk_lock_free(lock);
	lk_client_free(client);
	return 0;
}
