/* SPDX-License-Identifier: MIT */
/* A pair by the library: one client, a handle a thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper.h>

#include "common.h"
#include "kinds.h"
#include "pairs.h"

#define MULTI_NAMES 10

static lk_client *client;
static lk_release_options release_options = LK_RELEASE_OPTIONS_INIT;
static redisContext *looker;
static const char *pair_kind;

static void check(int rc, const lk_error *error)
{
	if (rc < 0)
		bench_die("%s", error->message);
}

/* ---- locks ---- */

static void *lock_open(const char *name)
{
	return bench_lock(client, pair_kind, name);
}

static void lock_pair(void *lock)
{
	lk_error error;
	check(lk_lock_acquire(lock, -1, NULL, &error), &error);
	check(lk_lock_release(lock, &release_options, &error), &error);
}

static void *multi_open(const char *name)
{
	lk_lock *parts[MULTI_NAMES], *multi = NULL;
	lk_error error;
	for (int i = 0; i < MULTI_NAMES; i++) {
		char part[64];
		snprintf(part, sizeof(part), "%s:%d", name, i);
		parts[i] = bench_lock(client, "lock", part);
	}
	check(lk_multi_lock_new(&multi, parts, MULTI_NAMES, &error), &error);
	return multi;
}

/* ---- counters ---- */

static void *semaphore_open(const char *name)
{
	lk_semaphore *semaphore = NULL;
	lk_error error;
	check(lk_semaphore_new(&semaphore, client, name, strlen(name), NULL, &error), &error);
	check(lk_semaphore_try_set(semaphore, 10, 0, &error), &error);
	return semaphore;
}

static void semaphore_pair(void *semaphore)
{
	lk_error error;
	check(lk_semaphore_acquire(semaphore, 1, -1, NULL, &error), &error);
	check(lk_semaphore_release(semaphore, 1, NULL, &error), &error);
}

static void *permits_open(const char *name)
{
	lk_permit_semaphore *permits = NULL;
	lk_error error;
	check(lk_permit_semaphore_new(&permits, client, name, strlen(name), NULL, &error), &error);
	check(lk_permit_semaphore_try_set(permits, 10, &error), &error);
	return permits;
}

static void permits_pair(void *permits)
{
	lk_permit permit;
	lk_error error;
	check(lk_permit_semaphore_acquire(permits, 1, &permit, -1, NULL, &error), &error);
	check(lk_permit_semaphore_release(permits, &permit, 1, &error), &error);
}

/* ---- the side ---- */

static const struct pair {
	const char *kind;
	void *(*open)(const char *name);
	void (*pair)(void *worker);
} pairs[] =
	{
		{"multi-lock", multi_open, lock_pair},
		{"semaphore", semaphore_open, semaphore_pair},
		{"permit-semaphore", permits_open, permits_pair},
},
  locks = {"", lock_open, lock_pair}, *pair = &locks;

static void ours_start(const char *url, int no_wait, const char *kind)
{
	lk_error error;
	check(lk_client_open(&client, url, &error), &error);
	release_options.no_wait = no_wait;
	pair_kind = kind;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		if (strcmp(pairs[i].kind, kind) == 0)
			pair = &pairs[i];
	looker = bench_connect(url);
}

static void *ours_open(const char *url, const char *name)
{
	(void)url;
	return pair->open(name);
}

static void ours_pair(void *worker)
{
	pair->pair(worker);
}

static long ours_connections(void)
{
	return bench_clients(looker, "lockkeeper");
}

static void ours_stop(void)
{
	lk_error error;
	check(lk_client_close(client, LK_CLOSE_IF_IDLE, &error), &error);
	lk_client_free(client);
}

int main(int argc, char **argv)
{
	static const struct bench_side side = {ours_start, ours_open, ours_pair, ours_connections,
					       ours_stop};
	return bench_pairs(argc, argv, &side);
}
