/* SPDX-License-Identifier: MIT */
/*
 * Re-entry under a valid lease: what a further acquire and its release take, and that no command is
 * sent for them. Medians of rounds: one in which the thread was preempted does not count.
 *
 * usage: ours-reentry URL ROUNDS
 */
#include <stdio.h>

#include <lockkeeper.h>

#include "common.h"

#define DEPTH 1000

static void deeper(lk_lock *lock, struct bench_samples *acquire, struct bench_samples *release)
{
	int64_t begun_ns = bench_now_ns();
	for (int i = 0; i < DEPTH; i++)
		if (lk_lock_acquire(lock, -1, NULL, NULL))
			bench_die("no re-entry");
	int64_t middle_ns = bench_now_ns();
	for (int i = 0; i < DEPTH; i++)
		if (lk_lock_release(lock, NULL, NULL))
			bench_die("no release");
	bench_samples_add(release, bench_now_ns() - middle_ns);
	bench_samples_add(acquire, middle_ns - begun_ns);
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
	    lk_lock_acquire(lock, -1, NULL, &error))
		bench_die("%s", error.message);
	redisContext *redis = bench_connect(argv[1]);
	long commands = bench_info(redis, "total_commands_processed");
	struct bench_samples acquire, release;
	bench_samples_init(&acquire, (size_t)rounds);
	bench_samples_init(&release, (size_t)rounds);
	for (long i = 0; i < rounds; i++)
		deeper(lock, &acquire, &release);
	/* INFO counts itself once it is done: the first is in the second. */
	commands = bench_info(redis, "total_commands_processed") - commands - 1;
	printf("{\"acquire_ns\": %.1f, \"release_ns\": %.1f, \"commands\": %ld}\n",
	       bench_samples_us(&acquire, 0.5) * 1e3 / DEPTH,
	       bench_samples_us(&release, 0.5) * 1e3 / DEPTH, commands);
	if (lk_lock_release(lock, NULL, &error) || lk_client_close(client, 0, &error))
		bench_die("%s", error.message);
	lk_lock_free(lock);
	lk_client_free(client);
	return 0;
}
