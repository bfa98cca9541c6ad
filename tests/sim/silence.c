/*
 * Worlds whose only trouble is that connections are forgotten: now and then those that there are
 * fall silent, in one direction or both, and new ones work. Two clients, one with two threads,
 * compete for one lock, and each thread has one of its own. The lease is as short as the network
 * allows, or longer; the command limit is any, and may be longer than the lease.
 *
 * No hold may be lost, for each is renewed in time. A release and an extension succeed. Who waits
 * is granted the lock, or told that another has it, or that no answer came within its limit; and in
 * the end nothing may be left.
 */
#include "silence.h"

#include <stdio.h>
#include <string.h>

#include <lockkeeper.h>

#include "calls.h"
#include "happens.h"
#include "judge.h"
#include "network.h"
#include "server.h"
#include "simulated_door.h"
#include "world.h"

#define CLIENTS 2
#define WORKERS 3 /* of all clients; the first has two */
#define ROUNDS 5
#define KEY "lock"
#define LEASE_LEAST_MS 600 /* two trips in twenty take up to 20 ms each way, and ten are needed */
#define LEASE_MOST_MS 6000
#define WAIT_LEAST_MS 300

struct worker {
	int number;
	lk_client *client;
	struct sim_task *task;
	char own[16]; /* the key of its own lock */
	struct sim_caller caller;
};

static lk_client *clients[CLIENTS];
static struct worker workers[WORKERS];
static const struct worker *holder; /* of the lock that all want */
static int64_t lease_ms;            /* the watchdog's */
static int ended;
static bool unsure; /* a try was left, whose copies may run later */

static void hold(struct worker *worker, lk_lock *lock)
{
	int64_t deadline_ns = 0;
	for (int64_t steps = sim_between(0, 3); steps > 0; steps--) {
		lk_error error = {.code = 0};
		sim_sleep(sim_between(0, lease_ms) * SIM_MS);
		if (!sim_deadline(&worker->caller, lock, &deadline_ns))
			sim_fail("worker %d lost a lease of %lld ms", worker->number,
				 (long long)lease_ms);
		if (sim_chance(200) && sim_extend(&worker->caller, lock, lease_ms, &error) < 0)
			sim_fail("extend: %s", error.message);
	}
}

static void take(struct worker *worker, lk_lock *lock, bool shared)
{
	/* A limit may pass while a try, or the release before it, has no answer yet. Some
	 * asynchronous calls are cancelled. */
	static const int expected[] = {0, LK_ETIMEDOUT, LK_EMAYBEHELD, LK_EUNREACHABLE,
				       LK_ECANCELLED};
	bool queued = sim_chance(400);
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_error error = {.code = 0};
	struct sim_call call = sim_call("acquire");
	int64_t wait_ms = sim_between(WAIT_LEAST_MS, 10 * lease_ms);
	worker->caller.sure = !queued;
	int rc = sim_acquire(&worker->caller, lock, wait_ms, queued, &options, &error);
	sim_note("worker %d: acquire within %lld: %d", worker->number, (long long)wait_ms, rc);
	sim_check_limit(&call, wait_ms);
	sim_check_code("acquire", rc, expected, queued ? 5 : shared ? 4 : 1, false, &error);
	unsure |= rc == LK_ECANCELLED || rc == LK_EMAYBEHELD;
	if (rc < 0)
		return;
	if (shared && holder)
		sim_fail("worker %d holds, and so does worker %d", worker->number, holder->number);
	holder = shared ? worker : holder;
	hold(worker, lock);
	holder = shared ? NULL : holder;
	rc = sim_release(&worker->caller, lock, sim_chance(200), &error);
	if (rc < 0)
		sim_fail("release: %s", error.message);
}

static void *worker_main(void *argument)
{
	struct worker *worker = argument;
	lk_lock *lock = NULL, *own = NULL;
	sim_caller_begin(&worker->caller, worker->number, false);
	lk_lock_new(&lock, worker->client, KEY, strlen(KEY), NULL);
	lk_lock_new(&own, worker->client, worker->own, strlen(worker->own), NULL);
	for (int i = 0; i < ROUNDS; i++) {
		bool shared = sim_chance(500);
		if (sim_happens())
			take(worker, shared ? lock : own, shared);
		sim_sleep(sim_between(0, sim_chance(200) ? 2 * lease_ms : 20) * SIM_MS);
	}
	lk_lock_free(lock);
	lk_lock_free(own);
	sim_caller_end(&worker->caller);
	ended++;
	return NULL;
}

static void *forgets_main(void *argument)
{
	while (ended < WORKERS) {
		sim_sleep(sim_between(lease_ms, 4 * lease_ms) * SIM_MS);
		if (sim_happens())
			sim_network_forget(0);
	}
	return NULL;
}

static void open_clients(void)
{
	char url[512];
	lk_error error;
	int64_t command_ms = sim_between(SIM_COMMAND_MS, 5000);
	for (int i = 0; i < CLIENTS; i++) {
		snprintf(url, sizeof(url),
			 "redis://server?watchdog_ms=%lld&command_timeout_ms=%lld&connections=%d"
			 "&backoff_min_ms=5&backoff_max_ms=100&client_record=off",
			 (long long)lease_ms, (long long)command_ms, 1 + (int)sim_random(3));
		if (lk_client_open(&clients[i], url, &error) < 0)
			sim_fail("lk_client_open: %s", error.message);
	}
}

static void check_left(void)
{
	for (int i = 0; i < WORKERS; i++)
		if (sim_server_owner(0, workers[i].own, NULL, NULL))
			sim_fail("\"%s\" is left", workers[i].own);
	if (sim_server_owner(0, KEY, NULL, NULL))
		sim_fail("\"%s\" is left", KEY);
}

static void *run_main(void *argument)
{
	open_clients();
	for (int i = 0; i < WORKERS; i++) {
		workers[i] = (struct worker){.number = i, .client = clients[i / 2]};
		snprintf(workers[i].own, sizeof(workers[i].own), "own-%d", i);
		workers[i].task = sim_spawn(worker_main, &workers[i]);
	}
	sim_spawn(forgets_main, NULL);
	for (int i = 0; i < WORKERS; i++)
		sim_wait(sim_ended, workers[i].task, SIM_NEVER);
	for (int i = 0; i < CLIENTS; i++) {
		lk_error error;
		if (lk_client_close(clients[i], LK_CLOSE_IF_IDLE, &error) < 0 && !unsure)
			sim_fail("close: %s", error.message);
		lk_client_free(clients[i]);
	}
	sim_sleep((unsure ? lease_ms : 0) * SIM_MS);
	check_left();
	sim_server_close();
	return NULL;
}

void sim_silence_run(uint64_t seed, bool verbose)
{
	sim_begin(seed, 0, verbose);
	lease_ms = sim_between(LEASE_LEAST_MS, sim_chance(500) ? 1000 : LEASE_MOST_MS);
	holder = NULL;
	ended = 0;
	unsure = false;
	sim_door_begin();
	sim_network_begin();
	sim_server_begin(1, false);
	sim_spawn(run_main, NULL);
	sim_run();
	if (!sim_failure())
		sim_door_end();
	sim_server_end();
	sim_network_end();
	sim_end();
}
