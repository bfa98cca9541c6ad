#include "scripted.h"

#include <string.h>

#include <lockkeeper.h>

#include "calls.h"
#include "judge.h"
#include "network.h"
#include "server.h"
#include "simulated_door.h"
#include "world.h"

#define KEY "lock"
#define CONNECT_MS 400 /* as in SIM_OPTIONS */

static void run(uint64_t seed, void *(*main)(void *))
{
	sim_begin(seed, 0, false);
	sim_door_begin();
	sim_network_begin();
	sim_server_begin(2, false);
	sim_spawn(main, NULL);
	sim_run();
	if (!sim_failure())
		sim_door_end();
	sim_server_end();
	sim_network_end();
	sim_end();
}

static void hang_for(unsigned server, int64_t ms)
{
	sim_server_hang(server, sim_now_ns() + ms * SIM_MS);
}

static void expect(const char *call, int expected, int got, const lk_error *error)
{
	if (got != expected)
		sim_fail("%s: %d, and not %d: %s", call, got, expected,
			 got < 0 ? error->message : "");
}

static lk_client *client_new(const char *url)
{
	lk_client *client = NULL;
	lk_error error;
	expect("lk_client_open", 0, lk_client_open(&client, url, &error), &error);
	return client;
}

static lk_lock *lock_new(lk_client *client, const char *name)
{
	lk_lock *lock = NULL;
	lk_error error;
	expect("lk_lock_new", 0, lk_lock_new(&lock, client, name, LK_STRLEN, &error), &error);
	return lock;
}

static int acquire(lk_lock *lock, int64_t wait_ms, int64_t lease_ms, lk_error *error)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.lease_ms = lease_ms;
	return lk_lock_acquire_within(lock, wait_ms, &options, error);
}

/* ---- a hold that ends before the server's lease ---- */

static unsigned close_shown; /* seeds in which only the server has the hold */

static void *close_main(void *argument)
{
	lk_error error;
	lk_client *client = client_new("redis://server?" SIM_OPTIONS);
	lk_lock *lock = lock_new(client, KEY);
	(void)argument;
	expect("acquire", 0, acquire(lock, 100, 0, &error), &error);
	expect("release", 0, lk_lock_release(lock, NULL, &error), &error);
	hang_for(0, 250);
	expect("acquire", 0, acquire(lock, 1000, 300, &error), &error); /* asked for 250 ms ago */
	sim_sleep(100 * SIM_MS);
	/* In a few seeds the server's lease is over, too, or the acquire was sent again over a new
	 * connection, and its lease began later. Close must give back all the same. */
	close_shown += lk_lock_is_held(lock, NULL, &error) == 0 &&
		       sim_server_owner(0, KEY, NULL, NULL);
	expect("close", 0, lk_client_close(client, LK_CLOSE_RELEASE, &error), &error);
	if (sim_server_owner(0, KEY, NULL, NULL))
		sim_fail("closed, with everything given back, and the server has it");
	lk_lock_free(lock);
	lk_client_free(client);
	return NULL;
}

void sim_close_gives_back_what_was_lost(uint64_t seed)
{
	run(seed, close_main);
}

unsigned sim_closes_of_what_was_lost(void)
{
	return close_shown;
}

/* ---- two servers that are slow to greet ---- */

static void *multi_main(void *argument)
{
	static const char *const urls[] = {"redis://server-0?" SIM_OPTIONS,
					   "redis://server-1?" SIM_OPTIONS};
	lk_client *clients[2];
	lk_lock *parts[2], *lock = NULL;
	lk_error error;
	(void)argument;
	for (int i = 0; i < 2; i++) {
		clients[i] = client_new(urls[i]);
		parts[i] = lock_new(clients[i], KEY);
	}
	expect("lk_multi_lock_new", 0, lk_multi_lock_new(&lock, parts, 2, &error), &error);
	hang_for(0, CONNECT_MS - 100);
	hang_for(1, 10 * CONNECT_MS);
	int64_t begun_ns = sim_now_ns();
	expect("try", LK_EUNREACHABLE, lk_lock_try(lock, NULL, &error), &error);
	int64_t took_ms = (sim_now_ns() - begun_ns) / SIM_MS;
	if (took_ms > CONNECT_MS + SIM_COMMAND_MS / 2)
		sim_fail("a try that does not come to ask took %lld ms, and had %d",
			 (long long)took_ms, CONNECT_MS);
	lk_lock_free(lock);
	for (int i = 0; i < 2; i++) {
		lk_lock_free(parts[i]);
		lk_client_free(clients[i]);
	}
	return NULL;
}

void sim_multi_lock_connects_to_all_at_once(uint64_t seed)
{
	run(seed, multi_main);
}

/* ---- an extension at the end of the hold ---- */

static void *waiter_main(void *argument)
{
	lk_lock *lock = argument;
	lk_error error;
	int64_t begun_ns = sim_now_ns();
	expect("acquire", 0, acquire(lock, 5000, 0, &error), &error);
	if (sim_now_ns() - begun_ns > 1000 * SIM_MS)
		sim_fail("a lock whose lease of 200 ms is over is waited for");
	expect("release", 0, lk_lock_release(lock, NULL, &error), &error);
	return NULL;
}

/* At that moment the thread or the loop is the first to see that the hold is over. */
static void *extend_main(void *argument)
{
	lk_error error;
	int64_t deadline_ns = 0;
	lk_client *client = client_new("redis://server?" SIM_OPTIONS);
	lk_lock *lock = lock_new(client, KEY);
	(void)argument;
	expect("acquire", 0, acquire(lock, 100, 200, &error), &error);
	struct sim_task *waiter = sim_spawn(waiter_main, lock);
	lk_lock_deadline_ns(lock, NULL, &deadline_ns, &error);
	sim_sleep(deadline_ns - sim_now_ns());
	expect("extend", LK_ELOST, lk_lock_extend(lock, 500, NULL, &error), &error);
	sim_wait(sim_ended, waiter, SIM_NEVER);
	expect("release", LK_ELOST, lk_lock_release(lock, NULL, &error), &error);
	lk_lock_free(lock);
	lk_client_free(client);
	return NULL;
}

void sim_waiter_behind_an_extension_that_comes_late(uint64_t seed)
{
	run(seed, extend_main);
}
