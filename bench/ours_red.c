/* SPDX-License-Identifier: MIT */
/*
 * A red lock over several nodes, acquired and released: how long the acquire takes.
 *
 * usage: ours-red URL,URL,… ROUNDS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper.h>

#include "common.h"

#define NODES_MAX 8
#define WARM_ROUNDS 100

static lk_lock *open_red(char *urls)
{
	lk_client *clients[NODES_MAX];
	lk_lock *lock = NULL;
	lk_error error;
	size_t count = 0;
	lk_red_lock_options options = LK_RED_LOCK_OPTIONS_INIT;
	options.quarantine_ms = -1; /* these servers have just been started */
	for (char *url = strtok(urls, ","); url && count < NODES_MAX; url = strtok(NULL, ","))
		if (lk_client_open(&clients[count++], url, &error))
			bench_die("%s", error.message);
	if (lk_red_lock_new(&lock, clients, count, "bench:red", 9, &options, &error))
		bench_die("%s", error.message);
	return lock;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		bench_die("usage: %s URL,URL,… ROUNDS", argv[0]);
	long rounds = bench_number(argv[2], 1, 1000000) + WARM_ROUNDS;
	struct bench_samples samples;
	lk_error error;
	bench_samples_init(&samples, (size_t)rounds);
	lk_lock *lock = open_red(argv[1]);
	for (long round = 0; round < rounds; round++) {
		int64_t begun_ns = bench_now_ns();
		if (lk_lock_acquire(lock, -1, NULL, &error))
			bench_die("%s", error.message);
		int64_t granted_ns = bench_now_ns();
		if (round >= WARM_ROUNDS)
			bench_samples_add(&samples, granted_ns - begun_ns);
		if (lk_lock_release(lock, NULL, &error))
			bench_die("%s", error.message);
	}
	printf("{\"p50_us\": %.2f, \"p99_us\": %.2f}\n", bench_samples_us(&samples, 0.5),
	       bench_samples_us(&samples, 0.99));
	return 0;
}
