/*
 * Worlds with reentrant locks on one server: two clients, with three threads and one thread. All
 * compete for one lock, and each thread has a lock of its own besides. By the seed a client has one
 * connection for scripts, up to two, or up to four, which are opened and closed at any time. Some
 * calls are asynchronous: the client's loop drives them, beside the threads of the others. In every
 * fifth world the clients are closed while they are used.
 *
 * No two owners may believe at once that they hold; who is told that it does not hold must have
 * nothing there; no call may last longer than its limit; the lock may not stay free while it is
 * waited for; what was released is free for the next try, also if nobody waited for the release;
 * and in the end nothing may be left.
 *
 * And a crowd in a calm world: two threads of each client come back at once, and many of them leave
 * about when they are told that it is their turn.
 */
#include "locks.h"

#include <stdio.h>
#include <string.h>

#include <lockkeeper.h>

#include "base/clock.h"
#include "lock/client.h"
#include "calls.h"
#include "happens.h"
#include "judge.h"
#include "network.h"
#include "server.h"
#include "simulated_door.h"
#include "world.h"

#define CLIENTS 2
#define WORKERS 4 /* of all clients; the last is the only one of its client */
#define ROUNDS 6
#define CROWD_ROUNDS 40
#define GUESTS 40      /* of the first client, in a throng */
#define FIRST_GUESTS 4 /* who come before the others, and stay longer */
#define FIRST_ROUNDS 150
#define GUEST_ROUNDS 40
#define REST_MS 45000 /* the library has closed a connection that nobody uses by then */
#define KEY "lock"
#define URL "redis://server?" SIM_OPTIONS "&connections=%d"
#define FREE_MS 100 /* that a lock stays free, at most, while it is waited for */

struct worker {
	int number;
	lk_client *client;
	struct sim_task *task;
	char own[16]; /* the key of its own lock */
	struct sim_caller caller;
};

static lk_client *clients[CLIENTS];
static struct worker workers[WORKERS], guests[GUESTS];
static const struct worker *holder; /* who believes that it holds … */
static int64_t held_until_ns;       /* … and until when, at least */
static int waiting, ended, losers;  /* workers; those who could not release */
static int64_t free_since_ns;
static bool unanswered; /* a try of the last worker's */
static int connections; /* for scripts, at most */
static bool crowd, throng;
static int guest_rounds;      /* which the first guests have made */
static bool gathers;          /* when that was last looked at, the first client's callers did */
static struct sim_ways seen;  /* in all runs */
static bool closes;           /* the clients are closed while they are used */
static bool closing[CLIENTS]; /* that has begun */

/* ---- what must hold ---- */

static bool is_closed(const struct worker *worker)
{
	for (int i = 0; i < CLIENTS; i++)
		if (worker->client == clients[i])
			return closing[i];
	return false;
}

static void claim(const struct worker *worker, int64_t deadline_ns)
{
	if (is_closed(worker))
		return; /* the close has released it */
	if (holder && holder != worker && sim_now_ns() < held_until_ns &&
	    sim_now_ns() < deadline_ns)
		sim_fail("worker %d holds the lock, and so does worker %d", worker->number,
			 holder->number);
	holder = worker;
	held_until_ns = deadline_ns;
	free_since_ns = sim_now_ns();
}

/* Whether it still holds, by what the library says. */
static bool keep(const struct worker *worker, lk_lock *lock)
{
	int64_t deadline_ns = 0;
	if (!sim_deadline(&worker->caller, lock, &deadline_ns))
		return false;
	claim(worker, deadline_ns);
	return true;
}

static void give_up(const struct worker *worker)
{
	if (holder == worker)
		holder = NULL;
}

/*
 * A caller that was told that it does not hold has nothing there. Of a client with several threads
 * nobody can say whose try it was; and what was sent twice, or not answered, may arrive late and is
 * given back: from then on the client is not judged.
 */
static void check_truth(const struct worker *worker, int code, int64_t begun_ns)
{
	const char *id = lk_client_id(worker->client);
	int64_t since_ns = 0;
	const char *owner = sim_server_owner(0, KEY, &since_ns, NULL);
	/* What is cancelled while its try is on its way is given back. */
	bool told = code != 0 && code != LK_EMAYBEHELD && code != LK_ECANCELLED;
	bool known = !crowd && worker->number == WORKERS - 1 && sim_resent(worker->client) == 0;
	unanswered |= worker->number == WORKERS - 1 && code == LK_EMAYBEHELD;
	if (told && known && !unanswered && owner && strncmp(owner, id, strlen(id)) == 0 &&
	    since_ns >= begun_ns)
		sim_fail("worker %d was told %d, and holds: %s", worker->number, code, owner);
}

static void check_use(void *context)
{
	if (waiting == 0 || sim_server_owner(0, KEY, NULL, NULL))
		free_since_ns = sim_now_ns();
	if (sim_now_ns() - free_since_ns > FREE_MS * SIM_MS)
		sim_fail("the lock has been free for %d ms, and is waited for", FREE_MS);
	if (ended < WORKERS)
		sim_at(sim_now_ns() + 10 * SIM_MS, check_use, NULL);
}

/* ---- a worker ---- */

/* No longer than to the end of what it had: then it is over. */
static void extend_hold(const struct worker *worker, lk_lock *lock)
{
	static const int expected[] = {0, LK_ELOST, LK_EMAYBEHELD, LK_EUNREACHABLE};
	struct sim_call call = sim_call("extend");
	int64_t begun_ns = sim_now_ns(), deadline_ns = begun_ns;
	lk_error error = {.code = 0};
	sim_deadline(&worker->caller, lock, &deadline_ns);
	int64_t lease_ms = sim_is_calm() ? SIM_CALM_LEASE_MS : sim_between(100, SIM_LEASE_MOST_MS);
	int rc = sim_extend(&worker->caller, lock, lease_ms, &error);
	sim_note("worker %d: extend: %d", worker->number, rc);
	sim_check_limit(&call, deadline_ns > begun_ns ? (deadline_ns - begun_ns) / SIM_MS + 1 : 0);
	sim_check_code("extend", rc, expected, sim_is_calm() ? 1 : 4, closes, &error);
}

static void work(const struct worker *worker, lk_lock *lock)
{
	static const int expected[] = {0, LK_ELOST, LK_EMAYBEHELD};
	lk_error error = {.code = 0};
	if (!keep(worker, lock) && !sim_has(SIM_PREEMPTS) && !is_closed(worker))
		sim_fail("a grant was over when the call returned");
	if (crowd)
		sim_sleep(sim_between(0, 2000) * SIM_US);
	for (int64_t steps = crowd ? 0 : sim_between(0, 3); steps > 0; steps--) {
		sim_sleep(sim_between(0, SIM_WATCHDOG_MS / 2) * SIM_MS);
		if (keep(worker, lock) && sim_chance(200))
			extend_hold(worker, lock);
		keep(worker, lock);
	}
	bool no_wait = sim_chance(200);
	int64_t deadline_ns = 0;
	sim_deadline(&worker->caller, lock, &deadline_ns);
	sim_note("worker %d releases", worker->number);
	give_up(worker);
	int rc = sim_release(&worker->caller, lock, no_wait, &error);
	sim_note("worker %d: release: %d", worker->number, rc);
	losers += rc == LK_ELOST || rc == LK_EMAYBEHELD;
	sim_check_code("release", rc, expected, sim_is_calm() ? 1 : 3, closes, &error);
	/* What it finds released was, by a copy of itself. */
	if (rc == LK_ELOST && sim_now_ns() < deadline_ns && !is_closed(worker))
		sim_fail("worker %d has lost the lock, and had it for %.3f ms more", worker->number,
			 (double)(deadline_ns - sim_now_ns()) / 1e6);
}

static void round_of(struct worker *worker, lk_lock *lock)
{
	/* The last: a thread that gets no time sends its tries too late, twice in a row. */
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_error error = {.code = 0};
	struct sim_call call = sim_call("acquire");
	int64_t wait_ms = sim_chance(200) ? 0 : sim_between(1, 1500);
	if (crowd)
		wait_ms = sim_chance(500) ? sim_between(1, 8) : 1500;
	/* In a calm world what is held lasts: longer than the steps of work(). */
	sim_draw_lease(&options, SIM_LEASE_MOST_MS);
	bool resumed = sim_chance(400);
	waiting++;
	int rc = sim_acquire(&worker->caller, lock, wait_ms, resumed, &options, &error);
	waiting--;
	sim_note("worker %d: acquire%s within %lld: %d", worker->number,
		 resumed ? " asynchronously" : "", (long long)wait_ms, rc);
	sim_check_limit(&call, wait_ms ? wait_ms : 700);
	sim_check_acquire(rc, closes, &error);
	check_truth(worker, rc, call.begun_ns);
	if (rc == 0)
		work(worker, lock);
	if (!crowd)
		sim_sleep(sim_between(0, sim_chance(200) ? 400 : 50) * SIM_MS);
}

/* Another connection, as for a crowd; or those that are not in use are closed, as after a long
 * time. */
static void change_connections(const struct worker *worker)
{
	struct lk__topo *topo = worker->client->topo;
	struct lk__node *node = topo->ops->node_at(topo, 0);
	size_t count = node->script_count;
	if (sim_chance(700))
		lk__node_grow(node);
	else if (count > 1)
		lk__node_turn(node, lk__now_ns() + REST_MS * SIM_MS);
}

static int own_acquire(struct worker *worker, lk_lock *own, int64_t wait_ms)
{
	static const int expected[] = {
		0, LK_ECANCELLED, LK_ETIMEDOUT, LK_EUNREACHABLE, LK_EMAYBEHELD, LK_EUNAVAILABLE};
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_error error = {.code = 0};
	int rc = sim_acquire(&worker->caller, own, wait_ms, sim_chance(200), &options, &error);
	sim_check_code("acquire its own", rc, expected, sim_is_calm() ? 2 : 6, closes, &error);
	return rc;
}

static void own_release(const struct worker *worker, lk_lock *own, bool no_wait)
{
	static const int expected[] = {0, LK_ELOST, LK_EMAYBEHELD};
	lk_error error = {.code = 0};
	int rc = sim_release(&worker->caller, own, no_wait, &error);
	losers += rc == LK_ELOST || rc == LK_EMAYBEHELD;
	sim_check_code("release its own", rc, expected, sim_is_calm() ? 1 : 3, closes, &error);
}

/* Nobody else wants it: in a calm world it is free as soon as its release was sent. */
static void own_round(struct worker *worker, lk_lock *own)
{
	for (int64_t left = sim_between(1, sim_is_calm() ? 40 : 6); left > 0; left--) {
		if (sim_chance(200))
			change_connections(worker);
		if (own_acquire(worker, own, sim_is_calm() ? 0 : sim_between(1, 800)) == 0)
			own_release(worker, own, sim_chance(500));
		if (sim_chance(100))
			sim_sleep(sim_between(0, 5) * SIM_MS);
	}
}

/* ---- a throng: the first client has few callers, then many, then few, then none ---- */

static struct lk__node *first_node(void)
{
	struct lk__topo *topo = clients[0]->topo;
	return topo->ops->node_at(topo, 0);
}

static void look_at_connections(void)
{
	struct lk__node *node = first_node();
	bool gathered = atomic_load(&node->gathered);
	seen.gathered += gathered && !gathers;
	seen.spread += !gathered && gathers;
	gathers = gathered;
}

static bool others_may_come(const void *context)
{
	return guest_rounds >= FIRST_GUESTS * FIRST_ROUNDS / 2;
}

static lk_lock *lock_new(const struct worker *worker, const char *key);

static void *guest_main(void *argument)
{
	struct worker *guest = argument;
	bool first = guest->number < WORKERS + FIRST_GUESTS;
	lk_lock *own = lock_new(guest, guest->own);
	sim_caller_begin(&guest->caller, guest->number, closes);
	if (!first)
		sim_wait(others_may_come, NULL, SIM_NEVER);
	for (int i = 0; own && i < (first ? FIRST_ROUNDS : GUEST_ROUNDS); i++) {
		guest_rounds += first;
		if (!is_closed(guest) && sim_happens() &&
		    own_acquire(guest, own, sim_is_calm() ? 0 : sim_between(1, 800)) == 0)
			own_release(guest, own, sim_chance(300));
		look_at_connections();
	}
	lk_lock_free(own);
	sim_caller_end(&guest->caller);
	return NULL;
}

static void begin_guests(void)
{
	for (int i = 0; i < GUESTS; i++) {
		guests[i] = (struct worker){.number = WORKERS + i, .client = clients[0]};
		snprintf(guests[i].own, sizeof(guests[i].own), "guest-%d", i);
		guests[i].task = sim_spawn(guest_main, &guests[i]);
	}
}

/* Only the connections that a client has anyway are left when nobody has called for long. */
static void end_guests(void)
{
	for (int i = 0; i < GUESTS; i++)
		sim_wait(sim_ended, guests[i].task, SIM_NEVER);
	size_t extra = lk__node_extra(first_node());
	seen.opened += extra > 0;
	if (closes)
		return;
	sim_sleep(REST_MS * SIM_MS);
	if (sim_is_calm() && lk__node_extra(first_node()) > 0)
		sim_fail("connections that nobody uses are still there");
	seen.closed += lk__node_extra(first_node()) < extra;
}

struct sim_ways sim_connection_ways(void)
{
	return seen;
}

static lk_lock *lock_new(const struct worker *worker, const char *key)
{
	lk_lock *lock = NULL;
	lk_error error;
	if (lk_lock_new(&lock, worker->client, key, strlen(key), &error) < 0 && !is_closed(worker))
		sim_fail("lk_lock_new: %s", error.message);
	return lock;
}

static void *worker_main(void *argument)
{
	struct worker *worker = argument;
	lk_lock *lock = lock_new(worker, KEY), *own = lock_new(worker, worker->own);
	sim_caller_begin(&worker->caller, worker->number, closes);
	for (int i = 0; lock && own && i < (crowd ? CROWD_ROUNDS : ROUNDS) && !is_closed(worker);
	     i++) {
		if (!crowd && sim_chance(500))
			own_round(worker, own);
		if (sim_happens())
			round_of(worker, lock);
	}
	lk_lock_free(lock);
	lk_lock_free(own);
	sim_caller_end(&worker->caller);
	ended++;
	return NULL;
}

/* ---- a run ---- */

/* How it ended: whether all was given back. */
static bool close_client(int number)
{
	struct sim_call call = sim_call("close");
	lk_error error;
	closing[number] = true;
	for (int i = 0; i < WORKERS; i++)
		if (workers[i].client == clients[number])
			give_up(&workers[i]);
	int rc = lk_client_close(clients[number], LK_CLOSE_RELEASE, &error);
	sim_note("close: %d", rc);
	sim_check_limit(&call, SIM_CLOSE_MS);
	if (rc < 0 && (rc != LK_EMAYBEHELD || sim_is_calm()))
		sim_fail("close: %s", error.message);
	return rc == 0;
}

/* A key that is not free, or NULL. */
static const char *left_over(void)
{
	for (int i = 0; i < WORKERS; i++)
		if (sim_server_owner(0, workers[i].own, NULL, NULL))
			return workers[i].own;
	for (int i = 0; throng && i < GUESTS; i++)
		if (sim_server_owner(0, guests[i].own, NULL, NULL))
			return guests[i].own;
	return sim_server_owner(0, KEY, NULL, NULL) ? KEY : NULL;
}

static void check_left(const char *when)
{
	const char *key = left_over();
	if (key)
		sim_fail("%s, \"%s\" is %s's", when, key, sim_server_owner(0, key, NULL, NULL));
}

static void *run_main(void *argument)
{
	lk_error error;
	char url[512];
	bool settled = true;
	snprintf(url, sizeof(url), URL, connections);
	for (int i = 0; i < CLIENTS; i++)
		if (lk_client_open(&clients[i], url, &error) < 0)
			sim_fail("lk_client_open: %s", error.message);
	for (int i = 0; i < WORKERS; i++) {
		workers[i] = (struct worker){
			.number = i, .client = clients[crowd ? i % CLIENTS : i == WORKERS - 1]};
		snprintf(workers[i].own, sizeof(workers[i].own), "own-%d", i);
		workers[i].task = sim_spawn(worker_main, &workers[i]);
	}
	if (throng)
		begin_guests();
	if (sim_is_calm())
		check_use(NULL);
	if (closes)
		sim_sleep(sim_between(0, 3000) * SIM_MS);
	for (int i = 0; closes && i < CLIENTS; i++)
		settled &= close_client(i);
	for (int i = 0; i < WORKERS; i++)
		sim_wait(sim_ended, workers[i].task, SIM_NEVER);
	if (throng)
		end_guests();
	for (int i = 0; !closes && i < CLIENTS; i++)
		settled &= close_client(i);
	for (int i = 0; i < CLIENTS; i++)
		lk_client_free(clients[i]);
	settled &= losers == 0; /* else it may stay until its lease ends */
	if (settled)
		check_left("all is given back");
	if (settled)
		sim_server_close();
	else
		sim_sleep(SIM_LEASE_MOST_MS * SIM_MS);
	return NULL;
}

static void run(uint64_t seed, bool verbose)
{
	static const int counts[] = {1, 2, 4};
	holder = NULL;
	connections = throng ? 4 : counts[seed % 3];
	guest_rounds = 0;
	gathers = false;
	closes = !crowd && seed % 5 == 0;
	memset(closing, 0, sizeof(closing));
	waiting = ended = losers = 0;
	free_since_ns = 0;
	unanswered = false;
	sim_begin(seed, crowd ? 0 : seed % 8, verbose);
	sim_door_begin();
	sim_network_begin();
	sim_server_begin(1, false);
	sim_spawn(run_main, NULL);
	sim_run();
	if (!sim_failure()) {
		sim_door_end();
		/* Whatever was still on its way has arrived. */
		check_left("in the end");
	}
	sim_server_end();
	sim_network_end();
	sim_end();
}

void sim_locks_run(uint64_t seed, bool verbose)
{
	crowd = throng = false;
	run(seed, verbose);
}

void sim_throng_run(uint64_t seed, bool verbose)
{
	crowd = false;
	throng = true;
	run(seed, verbose);
}

void sim_crowd_run(uint64_t seed, bool verbose)
{
	crowd = true;
	throng = false;
	run(seed, verbose);
}
