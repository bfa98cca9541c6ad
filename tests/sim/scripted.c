#include "scripted.h"

#include <stdio.h>
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
#define SERVERS 3

static void run(uint64_t seed, void *(*main)(void *))
{
	sim_begin(seed, 0, false);
	sim_door_begin();
	sim_network_begin();
	sim_server_begin(SERVERS, false);
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
	return lk_lock_acquire(lock, wait_ms, &options, error);
}

/* ---- a hold that ends before the server's lease ---- */

static unsigned close_shown; /* seeds in which only the server has the hold */

static void *close_main(void *argument)
{
	lk_error error;
	lk_client *client = client_new("redis://server?" SIM_OPTIONS);
	lk_lock *lock = lock_new(client, KEY);
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
	for (int i = 0; i < 2; i++) {
		clients[i] = client_new(urls[i]);
		parts[i] = lock_new(clients[i], KEY);
	}
	expect("lk_multi_lock_new", 0, lk_multi_lock_new(&lock, parts, 2, &error), &error);
	hang_for(0, CONNECT_MS - 100);
	hang_for(1, 10 * CONNECT_MS);
	int64_t begun_ns = sim_now_ns();
	expect("try", LK_EUNREACHABLE, lk_lock_acquire(lock, 0, NULL, &error), &error);
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

/* ---- a silence that several calls would wait for ---- */

#define SILENT_MS 60000
#define COMMAND_MS 3000     /* the default, for which a silence is waited */
#define LEAVE_MS 200        /* that a close gives those who wait, besides */
#define SLACK_MS 100        /* for the last look */
#define SILENT_WAIT_MS 2000 /* of the calls, each less than that */

struct silent {
	lk_client *clients[SERVERS];
	lk_lock *locks[SERVERS]; /* one for each client */
	lk_lock *kept;           /* freed when the clients are closed; NULL */
	lk_queue *queue;
};

static void silent_acquire(lk_lock *lock)
{
	lk_error error;
	expect("acquire", LK_EMAYBEHELD, acquire(lock, SILENT_WAIT_MS, 0, &error), &error);
}

static void silence_begins(unsigned first)
{
	for (unsigned i = first; i < SERVERS; i++)
		hang_for(i, SILENT_MS);
}

static void silent_wait(struct silent *silent)
{
	silence_begins(0);
	silent_acquire(silent->locks[0]);
}

static void silent_try(struct silent *silent)
{
	lk_error error;
	silence_begins(0);
	expect("try", LK_EMAYBEHELD, lk_lock_acquire(silent->locks[0], 0, NULL, &error), &error);
}

/* Of a lock that is held: its release is asked behind what has had no answer. */
static void silent_second(struct silent *silent)
{
	lk_error error;
	lk_lock *other = lock_new(silent->clients[0], "other");
	expect("acquire", 0, acquire(silent->locks[0], 100, 0, &error), &error);
	silence_begins(0);
	silent_acquire(other);
	lk_lock_free(other);
}

static void silent_release(struct silent *silent)
{
	lk_error error;
	lk_release_options options = LK_RELEASE_OPTIONS_INIT;
	options.no_wait = 1;
	expect("acquire", 0, acquire(silent->locks[0], 100, 0, &error), &error);
	silence_begins(0);
	expect("release", 0, lk_lock_release(silent->locks[0], &options, &error), &error);
	sim_sleep(SILENT_WAIT_MS * SIM_MS);
}

static void silent_take(struct silent *silent, int code)
{
	lk_error error;
	lk_completion got = LK_COMPLETION_INIT;
	expect("take", 1, lk_queue_take(silent->queue, &got, 1, -1, &error), &error);
	expect("completion", code, got.error.code, &got.error);
}

static void silent_cancel(struct silent *silent)
{
	lk_error error;
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	uint64_t id = 0;
	options.owner = "queued";
	silence_begins(0);
	expect("start", 0,
	       lk_queue_start(silent->queue,
			      request_of(ACQUIRE, .lock = silent->locks[0], .wait_ms = -1,
					 .acquire = &options),
			      &id, &error),
	       &error);
	sim_sleep(SILENT_WAIT_MS * SIM_MS);
	lk_queue_cancel(silent->queue, id, NULL);
	silent_take(silent, LK_ECANCELLED);
}

static void silent_queued(struct silent *silent)
{
	lk_error error;
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.owner = "queued";
	silence_begins(0);
	expect("start", 0,
	       lk_queue_start(silent->queue,
			      request_of(ACQUIRE, .lock = silent->locks[0],
					 .wait_ms = SILENT_WAIT_MS, .acquire = &options),
			      NULL, &error),
	       &error);
	silent_take(silent, LK_EMAYBEHELD);
}

static void silent_fair(struct silent *silent)
{
	lk_error error;
	lk_lock *fair = NULL;
	expect("lk_fair_lock_new", 0,
	       lk_fair_lock_new(&fair, silent->clients[0], "fair", LK_STRLEN, &error), &error);
	silence_begins(0);
	silent_acquire(fair);
	lk_lock_free(fair);
}

static void silent_several(struct silent *silent, bool quorum, unsigned first_silent)
{
	lk_error error;
	lk_lock *lock = NULL;
	int rc = quorum ? lk_red_lock_new(&lock, silent->clients, SERVERS, KEY, LK_STRLEN, NULL,
					  &error)
			: lk_multi_lock_new(&lock, silent->locks, SERVERS, &error);
	expect("new", 0, rc, &error);
	expect("acquire", 0, acquire(lock, 1000, 0, &error), &error);
	expect("release", 0, lk_lock_release(lock, NULL, &error), &error);
	silence_begins(first_silent);
	silent_acquire(lock);
	silent->kept = lock;
}

static void silent_red(struct silent *silent)
{
	silent_several(silent, true, 0);
}

static void silent_majority(struct silent *silent)
{
	silent_several(silent, true, 1);
}

static void silent_multi(struct silent *silent)
{
	silent_several(silent, false, 0);
}

static void silent_permits(struct silent *silent)
{
	lk_error error;
	lk_permit permit;
	lk_permit_semaphore *permits = NULL;
	expect("lk_permit_semaphore_new", 0,
	       lk_permit_semaphore_new(&permits, silent->clients[0], "permits", LK_STRLEN, NULL,
				       &error),
	       &error);
	expect("set", 0, lk_permit_semaphore_set(permits, 1, &error), &error);
	silence_begins(0);
	expect("acquire", LK_EMAYBEHELD,
	       lk_permit_semaphore_acquire(permits, 1, &permit, SILENT_WAIT_MS, NULL, &error),
	       &error);
	lk_permit_semaphore_free(permits);
}

static void silent_semaphore(struct silent *silent)
{
	lk_error error;
	lk_semaphore *semaphore = NULL;
	expect("lk_semaphore_new", 0,
	       lk_semaphore_new(&semaphore, silent->clients[0], "count", LK_STRLEN, NULL, &error),
	       &error);
	expect("set", 0, lk_semaphore_add(semaphore, 1, &error), &error);
	silence_begins(0);
	expect("acquire", LK_EMAYBEHELD,
	       lk_semaphore_acquire(semaphore, 1, SILENT_WAIT_MS, NULL, &error), &error);
	lk_semaphore_free(semaphore);
}

static const struct {
	void (*call)(struct silent *silent);
	int clients; /* that are closed, and freed, one after the other: each looks once more */
} silences[] = {
	{silent_wait, 1},      {silent_try, 1},    {silent_second, 1}, {silent_release, 1},
	{silent_cancel, 1},    {silent_queued, 1}, {silent_fair, 1},   {silent_permits, 1},
	{silent_semaphore, 1}, {silent_multi, 3},  {silent_red, 3},    {silent_majority, 3},
};

#define SILENCES (sizeof(silences) / sizeof(silences[0]))

/* A connection that was made before, so that the silence begins with what is asked. */
static void silent_open(struct silent *silent)
{
	lk_error error;
	expect("lk_queue_new", 0, lk_queue_new(&silent->queue, 0, &error), &error);
	for (int i = 0; i < SERVERS; i++) {
		char url[64];
		snprintf(url, sizeof(url), "redis://server-%d", i);
		silent->clients[i] = client_new(url);
		silent->locks[i] = lock_new(silent->clients[i], KEY);
		expect("ping", 0, lk_client_ping(silent->clients[i], &error), &error);
	}
}

/* In half of the seeds free alone ends the client. */
static void silent_close(struct silent *silent)
{
	bool closes = sim_chance(500);
	lk_error error;
	lk_queue_free(silent->queue, &error);
	for (int i = 0; i < SERVERS; i++) {
		lk_lock_free(silent->locks[i]);
		if (closes)
			lk_client_close(silent->clients[i], LK_CLOSE_RELEASE, &error);
		lk_client_free(silent->clients[i]);
	}
	lk_lock_free(silent->kept);
}

static size_t silent_kind;

static void *silent_main(void *argument)
{
	struct silent silent = {.kept = NULL};
	silent_open(&silent);
	int64_t begun_ns = sim_now_ns();
	silences[silent_kind].call(&silent);
	int64_t called_ms = (sim_now_ns() - begun_ns) / SIM_MS;
	silent_close(&silent);
	int64_t took_ms = (sim_now_ns() - begun_ns) / SIM_MS;
	int64_t most_ms = called_ms > COMMAND_MS ? called_ms : COMMAND_MS;
	most_ms += silences[silent_kind].clients * 2 * LEAVE_MS + SLACK_MS;
	if (took_ms > most_ms)
		sim_fail("silence %zu: a call of %lld ms, and %lld with its close", silent_kind,
			 (long long)called_ms, (long long)took_ms);
	return NULL;
}

void sim_silence_is_waited_for_once(uint64_t seed)
{
	silent_kind = seed % SILENCES;
	run(seed, silent_main);
}
