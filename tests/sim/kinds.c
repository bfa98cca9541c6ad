/*
 * Worlds with one lock or one count on one server that hangs, stops, vanishes and starts again with
 * its data, or on a master with one to three replicas, listed or told of by sentinels, which may
 * take its place (failovers.h), or in a cluster whose slots move (cluster.h): of which kind the
 * seed draws, from the table below. Two clients, with three workers and one, want it; by the seed a
 * client has a thread or is threadless, and a worker's calls are blocking or asynchronous. In every
 * fifth world the clients are closed while they are used, in any of the three ways, and in half of
 * these they are drained before; in every fifth world workers free what others hold.
 *
 * What must hold is said by each kind (lock_kinds.c, count_kinds.c). No call may last longer than
 * its limit. When the troubles are over and all leases too, all are granted what they want within a
 * bound, and in the end nothing may be left.
 */
#include "kinds.h"

#include <stdio.h>
#include <string.h>

#include "clocks.h"
#include "cluster.h"
#include "drains.h"
#include "failovers.h"
#include "happens.h"
#include "judge.h"
#include "kind.h"
#include "network.h"
#include "order.h"
#include "outages.h"
#include "refusals.h"
#include "replication.h"
#include "server.h"
#include "simulated_door.h"
#include "world.h"

#define LATE_MS 1000  /* after so long no command may run any more that takes something */
#define FOUND_MS 3500 /* until clients ask a server again where nobody was, and so find a master */

struct sim_stage sim_stage;
static unsigned sentinels;

static int make_fair(lk_lock **lock_out, lk_client *client, lk_error *error)
{
	return lk_fair_lock_new(lock_out, client, SIM_KEY, LK_STRLEN, error);
}

static int make_fenced(lk_lock **lock_out, lk_client *client, lk_error *error)
{
	return lk_fenced_lock_new(lock_out, client, SIM_KEY, LK_STRLEN, NULL, error);
}

static int make_plain(lk_lock **lock_out, lk_client *client, lk_error *error)
{
	return lk_plain_lock_new(lock_out, client, SIM_KEY, LK_STRLEN, NULL, error);
}

static int make_reentrant(lk_lock **lock_out, lk_client *client, lk_error *error)
{
	return lk_lock_new(lock_out, client, SIM_KEY, LK_STRLEN, error);
}

static int make_spin(lk_lock **lock_out, lk_client *client, lk_error *error)
{
	return lk_spin_lock_new(lock_out, client, SIM_KEY, LK_STRLEN, NULL, error);
}

#define LOCK(open) open, sim_lock_round, sim_lock_last, sim_lock_check_left

static const struct sim_kind kinds[] = {
	{"reentrant", SIM_TURNS, LOCK(sim_lock_open), make_reentrant},
	{"fair", SIM_ORDER | SIM_TURNS, LOCK(sim_lock_open), make_fair},
	{"fenced", SIM_TOKENS | SIM_TURNS, LOCK(sim_lock_open), make_fenced},
	{"plain", 0, LOCK(sim_lock_open), make_plain},
	{"spin", 0, LOCK(sim_lock_open), make_spin},
	{"read/write", SIM_SIDES, LOCK(sim_sides_open), NULL},
	{"semaphore", 0, sim_semaphore_open, sim_semaphore_round, sim_semaphore_last,
	 sim_semaphore_check_left, NULL},
	{"permits", 0, sim_permits_open, sim_permits_round, sim_permits_last,
	 sim_permits_check_left, NULL},
	{"latch", 0, sim_latch_open, sim_latch_round, sim_latch_last, sim_latch_check_left, NULL},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* In a world of its own, on every deployment: the seeds of the others keep their courses. */
static const struct sim_kind barrier = {
	"barrier", 0, sim_barrier_open, sim_barrier_round, sim_barrier_last, sim_barrier_check_left,
	NULL};

bool sim_has_trait(unsigned trait)
{
	return sim_stage.kind->traits & trait;
}

/* ---- a worker ---- */

static bool worker_begin(struct sim_worker *worker)
{
	lk_error error;
	sim_caller_begin(&worker->caller, worker->number, sim_stage.closes);
	worker->caller.threadless = worker->client->threadless;
	int rc = sim_stage.kind->open(worker, &error);
	if (rc < 0 && (rc != LK_ECLOSED || !sim_stage.closes))
		sim_fail("a handle: %s", error.message);
	return rc == 0;
}

static void worker_end(struct sim_worker *worker)
{
	while (sim_stage.counting > 0)
		sim_sleep(SIM_MS);
	worker->writing = lk_lock_free(worker->writing);
	worker->reading = lk_lock_free(worker->reading);
	worker->semaphore = lk_semaphore_free(worker->semaphore);
	worker->permit_semaphore = lk_permit_semaphore_free(worker->permit_semaphore);
	for (int i = 0; i < SIM_ROUNDS; i++)
		worker->latches[i] = lk_latch_free(worker->latches[i]);
	worker->barrier = lk_barrier_free(worker->barrier);
	sim_caller_end(&worker->caller);
}

static void *worker_main(void *argument)
{
	struct sim_worker *worker = argument;
	bool begun = worker_begin(worker);
	for (int i = 0; begun && i < SIM_ROUNDS && !worker->client->closing; i++) {
		worker->round = i;
		if (sim_happens())
			sim_stage.kind->round(worker);
		sim_sleep(sim_between(0, sim_chance(200) ? 400 : 50) * SIM_MS);
	}
	worker_end(worker);
	return NULL;
}

/* ---- the end ---- */

/* All want it at once, and no server is in trouble. */
static void *last_main(void *argument)
{
	struct sim_worker *worker = argument;
	lk_error error = {.code = 0};
	worker_begin(worker);
	int rc = sim_stage.kind->last(worker, &error);
	sim_note("worker %d, in the end: %s", worker->number, sim_outcome(rc));
	if (rc < 0)
		sim_fail("worker %d is not granted what is free: %s", worker->number,
			 error.message);
	worker_end(worker);
	return NULL;
}

static void check_grants(void)
{
	sim_sleep((sim_stage.calm ? SIM_CALM_LEASE_MS : LATE_MS + SIM_LEASE_MOST_MS) * SIM_MS);
	sim_sleep(sim_clocks_back_ms() * SIM_MS);
	sim_sleep((sim_is_replicated() && !sim_stage.calm ? FOUND_MS : 0) * SIM_MS);
	for (int i = 0; i < SIM_WORKERS; i++)
		sim_stage.workers[i].task = sim_spawn(last_main, &sim_stage.workers[i]);
	for (int i = 0; i < SIM_WORKERS; i++)
		sim_wait(sim_ended, sim_stage.workers[i].task, SIM_NEVER);
}

/* Who holds nothing is idle. */
static void check_idle(const struct sim_client *client)
{
	for (int i = 0; i < SIM_WORKERS; i++) {
		const struct sim_worker *worker = &sim_stage.workers[i];
		if (worker->client == client && worker->side && !worker->broken &&
		    sim_now_ns() < worker->held_until_ns)
			sim_fail("closed if idle, and worker %d holds", worker->number);
	}
}

static void close_client(struct sim_client *client, int how)
{
	lk_error error;
	int rc = LK_EHELD;
	if (how == LK_CLOSE_IF_IDLE) {
		rc = sim_client_close(client, how, &error);
		if (rc == 0)
			check_idle(client);
		how = LK_CLOSE_RELEASE;
	}
	client->closing = true;
	for (int i = 0; i < SIM_WORKERS; i++)
		if (sim_stage.workers[i].client == client)
			sim_lock_close(&sim_stage.workers[i]);
	if (rc == LK_EHELD)
		rc = sim_client_close(client, how, &error);
	if (rc < 0 && (rc != LK_EMAYBEHELD || sim_stage.calm))
		sim_fail("close: %s", error.message);
	if (rc < 0 || how == LK_CLOSE_ABANDON)
		sim_stage.unsure += SIM_PERMITS; /* a try of its own may have taken them */
}

/* Sentinels are the servers behind the others. */
static void write_url(char *url, size_t size)
{
	static const char *const schemes[] = {"redis", "redis-replicas", "redis-sentinel",
					      "redis-cluster"};
	static const char *const messages[] = {"plain", "sharded", "both"};
	static const int counts[] = {1, 2, 4};
	unsigned first = sentinels ? sim_servers() : 0;
	unsigned last = sentinels ? first + sentinels : sim_servers();
	int used = snprintf(url, size, "%s://",
			    schemes[sim_is_cluster() ? 3
				    : sentinels      ? 2
						     : sim_servers() > 1]);
	for (unsigned i = first; i < last; i++)
		used += snprintf(url + used, size - (size_t)used, "%sserver-%u",
				 i > first ? "," : "", i);
	used += snprintf(url + used, size - (size_t)used, "%s?" SIM_OPTIONS "&connections=%d",
			 sentinels ? "/main" : "", counts[sim_random(3)]);
	if (sim_is_cluster())
		snprintf(url + used, size - (size_t)used, "&messages=%s", messages[sim_random(3)]);
	else if (sim_servers() > 1 && sim_chance(200)) /* as many as there are */
		snprintf(url + used, size - (size_t)used, "&replica_acks=%u", sim_servers() - 1);
}

static void begin(void)
{
	char url[512];
	write_url(url, sizeof(url));
	for (int i = 0; i < SIM_CLIENTS; i++) {
		sim_belong((unsigned)i + 1);
		sim_client_open(&sim_stage.clients[i], url, sim_chance(300));
	}
	for (int i = 0; i < SIM_WORKERS; i++) {
		struct sim_worker *worker = &sim_stage.workers[i];
		worker->number = i;
		worker->client = &sim_stage.clients[i == SIM_WORKERS - 1];
		sim_belong(1 + (i == SIM_WORKERS - 1));
		worker->task = sim_spawn(worker_main, worker);
	}
	if (sim_servers() == 1 || sim_is_cluster())
		sim_outages_begin(0, sim_servers(), false);
	sim_belong(0);
	sim_refusals_begin();
	sim_clocks_begin(sim_servers(), SIM_CLIENTS);
}

static void *run_main(void *argument)
{
	static const int ways[] = {LK_CLOSE_RELEASE, LK_CLOSE_ABANDON, LK_CLOSE_IF_IDLE};
	int how = sim_stage.closes ? ways[sim_random(3)] : LK_CLOSE_RELEASE;
	begin();
	if (sim_stage.closes)
		sim_sleep(sim_between(0, 3000) * SIM_MS);
	for (int i = 0; sim_stage.drains && i < SIM_CLIENTS; i++)
		sim_drain(&sim_stage.clients[i]);
	if (sim_stage.drains)
		sim_sleep(sim_between(0, 1000) * SIM_MS);
	for (int i = 0; sim_stage.closes && i < SIM_CLIENTS; i++)
		close_client(&sim_stage.clients[i], how);
	for (int i = 0; i < SIM_WORKERS; i++)
		sim_wait(sim_ended, sim_stage.workers[i].task, SIM_NEVER);
	sim_refusals_end();
	if (sim_servers() == 1 || sim_is_cluster())
		sim_outages_end();
	else
		sim_failovers_end();
	if (sim_is_cluster())
		sim_cluster_settle();
	sim_clocks_settle();
	if (!sim_stage.closes)
		check_grants();
	for (int i = 0; !sim_stage.closes && i < SIM_CLIENTS; i++)
		close_client(&sim_stage.clients[i], how);
	for (int i = 0; i < SIM_CLIENTS; i++)
		sim_client_free(&sim_stage.clients[i]);
	sim_sleep((sim_stage.calm ? LATE_MS / 5 : LATE_MS) * SIM_MS);
	sim_server_close();
	if (!sim_stage.calm || how == LK_CLOSE_ABANDON)
		sim_sleep((SIM_CALM_LEASE_MS + sim_clocks_back_ms()) * SIM_MS);
	if (sim_now_ns() < sim_stage.left_until_ns)
		sim_sleep(sim_stage.left_until_ns - sim_now_ns());
	sim_failovers_rest();
	sim_stage.kind->check_left();
	return NULL;
}

/* `masters`: with a cluster's slots; 0: it is none. */
static void run_kind(const struct sim_kind *kind, uint64_t seed, bool verbose, unsigned troubles,
		     bool hands, unsigned servers, unsigned watchers, unsigned masters)
{
	static const char *const names[] = {SIM_KEY,   SIM_KEY,   SIM_KEY,  SIM_KEY,
					    "latch-0", "latch-1", "latch-2"};
	sim_begin(seed, troubles, verbose);
	memset(&sim_stage, 0, sizeof(sim_stage));
	sim_stage.calm = sim_is_calm();
	sim_stage.closes = sim_chance(200);
	sim_stage.drains = sim_stage.closes && sim_chance(500);
	sim_stage.kind = kind ? kind : &kinds[sim_random(KINDS)];
	sim_stage.hands = hands;
	sim_stage.breaks = !sim_stage.closes && sim_chance(250);
	sim_note("a %s%s%s%s", sim_stage.kind->name, sim_stage.closes ? ", closed in use" : "",
		 sim_stage.drains ? ", drained" : "", sim_stage.breaks ? ", broken by others" : "");
	sim_door_begin();
	sim_network_begin();
	sentinels = watchers;
	sim_server_begin(servers + watchers, servers > 1);
	sim_failovers_begin(masters ? 0 : servers, watchers);
	if (masters > 0)
		sim_cluster_begin(servers, masters, names, sizeof(names) / sizeof(names[0]));
	sim_drains_begin();
	sim_order_begin(sim_has_trait(SIM_ORDER) ? SIM_KEY : NULL);
	sim_spawn(run_main, NULL);
	sim_run();
	if (!sim_failure())
		sim_door_end();
	sim_server_end();
	sim_cluster_end();
	sim_replication_end();
	sim_network_end();
	sim_end();
}

static void run(uint64_t seed, bool verbose, unsigned troubles, unsigned servers, unsigned watchers,
		unsigned masters)
{
	run_kind(NULL, seed, verbose, troubles, false, servers, watchers, masters);
}

/* One server, a master with replicas, sentinels too, a cluster. */
static void run_anywhere(const struct sim_kind *kind, uint64_t seed, bool verbose, bool hands)
{
	static const unsigned more[] = {0, SIM_CLOCKS, SIM_SUSPENDS, SIM_REFUSALS};
	unsigned deployment = seed % 8, troubles = (unsigned)(seed / 8 % 16);
	unsigned servers = deployment < 5    ? 1
			   : deployment == 7 ? 4
					     : 2 + (unsigned)(seed / 128 % 2);
	if (deployment < 5)
		troubles |= more[seed / 128 % 4];
	if (deployment == 7 && seed / 128 % 4)
		troubles |= SIM_MOVES;
	run_kind(kind, seed, verbose, troubles, hands, servers, deployment == 6 ? 3 : 0,
		 deployment == 7 ? 2 : 0);
}

void sim_barriers_run(uint64_t seed, bool verbose)
{
	run_anywhere(&barrier, seed, verbose, false);
}

/* Holds are abandoned, and adopted by whoever comes first. */
void sim_handovers_run(uint64_t seed, bool verbose)
{
	static const char *const handed[] = {"reentrant", "fenced", "plain", "spin"};
	const struct sim_kind *kind = kinds;
	while (strcmp(kind->name, handed[seed / 8 % 4]) != 0)
		kind++;
	run_anywhere(kind, seed, verbose, true);
}

void sim_kinds_run(uint64_t seed, bool verbose)
{
	static const unsigned more[] = {0, SIM_CLOCKS, SIM_SUSPENDS, SIM_CLOCKS | SIM_SUSPENDS};
	unsigned short_of = seed / 64 % 4 ? 0 : SIM_SHORTAGES;
	run(seed, verbose, (unsigned)(seed % 16) | more[seed / 16 % 4] | short_of, 1, 0, 0);
}

void sim_refusals_run(uint64_t seed, bool verbose)
{
	run(seed, verbose, SIM_REFUSALS | (seed % 2 ? seed / 2 % 16 : 0), 1, 0, 0);
}

void sim_replicas_run(uint64_t seed, bool verbose)
{
	run(seed, verbose, seed % 16, 2 + (unsigned)(seed / 16 % 3), 0, 0);
}

void sim_sentinels_run(uint64_t seed, bool verbose)
{
	run(seed, verbose, seed % 16, 2 + (unsigned)(seed / 16 % 3), seed / 48 % 4 ? 3 : 5, 0);
}

/* Every fourth without moves. */
void sim_cluster_run(uint64_t seed, bool verbose)
{
	unsigned masters = 2 + (unsigned)(seed / 64 % 2);
	run(seed, verbose, (unsigned)(seed % 16) | (seed / 16 % 4 ? SIM_MOVES : 0),
	    masters * (1 + (unsigned)(seed / 192 % 3)), 0, masters);
}
