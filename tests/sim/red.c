/*
 * Worlds with red locks: three nodes, or five, that hang, stop, vanish, and start again with their
 * data, without, or without the last second of it; in those of mixtures the first is no single
 * server (mixture.h). Three processes, each with a client for every node, the first with two
 * threads and the others with one, compete for one lock, and each thread has one of its own: in
 * every ninth world plain ones.
 *
 * No two owners may believe at once that they hold, also if a notice says that one has lost it: the
 * deadline that it was told stands. No majority may be there for another before that. A worker
 * whose try failed, or that has released, must have no majority; what a release keeps from all is
 * granted to nobody meanwhile. No call may last longer than its limit. When the troubles are over,
 * all is given back soon; when all leases are over too, everybody is granted the lock at once. When
 * all clients are closed, nothing may be left longer than its lease, and nothing be granted.
 */
#include "red.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper.h>

#include "calls.h"
#include "failovers.h"
#include "happens.h"
#include "judge.h"
#include "mixture.h"
#include "network.h"
#include "server.h"
#include "simulated_door.h"
#include "world.h"

#define PROCESSES 3
#define WORKERS 4 /* of all processes; the first has two */
#define ROUNDS 4
#define KEY "red"
#define KEEP_MOST_MS 500   /* for which a release keeps it */
#define FREE_MS 1000       /* that nobody has a lock, at most, while it is waited for */
#define GRANT_MS 1500      /* that a free lock takes once the troubles are over */
#define LATE_MS 1000       /* after so long no command may run any more that takes something */
#define GIVEN_BACK_MS 2000 /* after so long all is given back to single servers, */
#define FOUND_MS 3500      /* until clients ask a node again where nobody was */
#define LONG_LEASE_MS 4000 /* though its lease is longer, where no server forgets */

struct process {
	lk_client *clients[SIM_SERVERS_MAX];
	bool closing;
};

struct worker {
	int number;
	struct process *process;
	bool alone; /* in its process */
	struct sim_task *task;
	char own[16]; /* the key of its own lock */
	struct sim_caller caller;
};

static struct process processes[PROCESSES];
static struct worker workers[WORKERS];
static unsigned servers;
static bool calm, closes, keeps;
static lk_red_lock_options red_options;
static int64_t lease_most_ms;       /* that anybody asks for, with troubles */
static int64_t quarantine_ms;       /* at least */
static const struct worker *holder; /* who believes that it holds … */
static int64_t kept_until_ns;       /* by a release; 0: there was none */
static int64_t held_until_ns;       /* … and until when, at least */
static int waiting, ended;          /* workers */
static int64_t free_since_ns;

/* ---- what must hold ---- */

static unsigned majority(void)
{
	return servers / 2 + 1;
}

static const char *owner_on(unsigned node, const char *key, int64_t *since_ns, int64_t *until_ns)
{
	return sim_server_owner(sim_mixture_server(node, key), key, since_ns, until_ns);
}

/* Whether the process has the key on that node: since and until when. */
static bool has(const struct process *process, unsigned node, const char *key, int64_t *since_ns,
		int64_t *until_ns)
{
	const char *owner = owner_on(node, key, since_ns, until_ns);
	const char *id = lk_client_id(process->clients[node]);
	return owner && strncmp(owner, id, strlen(id)) == 0;
}

/* On how many servers the process has got the key since then, by one try: under one number, which
 * is that of all its clients while one thread alone uses them. What a server has back that has
 * forgotten since the call began does not count. */
static unsigned count_of(const struct process *process, const char *key, int64_t begun_ns,
			 int64_t call_ns)
{
	unsigned most = 0, counts[SIM_SERVERS_MAX] = {0};
	uint64_t numbers[SIM_SERVERS_MAX] = {0};
	for (unsigned i = 0; i < servers; i++) {
		int64_t since_ns = 0;
		bool forgot = sim_server_forgot_ns(sim_mixture_server(i, key)) >= call_ns;
		if (forgot || !has(process, i, key, &since_ns, NULL) || since_ns < begun_ns)
			continue;
		const char *owner = owner_on(i, key, NULL, NULL);
		numbers[i] = strtoull(strrchr(owner, ':') + 1, NULL, 10);
		for (unsigned j = 0; j <= i; j++)
			counts[i] += numbers[j] == numbers[i];
		most = counts[i] > most ? counts[i] : most;
	}
	return most;
}

/* A server gives it to nobody else before the deadline: it has it for the process as long, or has
 * lost its data and must not vote. */
static bool is_firm(const struct process *process, unsigned node, const char *key,
		    int64_t deadline_ns)
{
	int64_t until_ns = 0, forgot_ns = sim_server_forgot_ns(sim_mixture_server(node, key));
	if (has(process, node, key, NULL, &until_ns) && until_ns >= deadline_ns)
		return true;
	return forgot_ns != INT64_MIN && forgot_ns + quarantine_ms * SIM_MS > deadline_ns;
}

static void check_firm(const struct worker *worker, const char *key, int64_t deadline_ns)
{
	unsigned loose = 0;
	for (unsigned i = 0; i < servers; i++)
		loose += !is_firm(worker->process, i, key, deadline_ns);
	if (loose >= majority() && sim_is_promised())
		sim_fail("worker %d has \"%s\" for %.3f ms more, and %u servers may give it away",
			 worker->number, key, (double)(deadline_ns - sim_now_ns()) / 1e6, loose);
}

static void give_up(const struct worker *worker)
{
	if (holder == worker)
		holder = NULL;
}

/* Whose hold is lost, as the notices say, does not hold. */
static void read_notices(const struct process *process)
{
	lk_event event = LK_EVENT_INIT;
	lk_error error;
	while (lk_event_wait(process->clients[0], &event, 0, NULL, &error) == 1)
		if (event.type == LK_EVENT_LOST && event.tag > 0)
			give_up(&workers[event.tag - 1]);
}

/* Whether it can be the only one that holds; then it is the holder. */
static bool claim(const struct worker *worker, int64_t deadline_ns)
{
	if (holder && holder != worker && sim_now_ns() < held_until_ns && sim_is_promised())
		return false;
	if (sim_now_ns() < kept_until_ns && sim_is_promised())
		sim_fail("worker %d holds the lock, which is kept for %.3f ms more", worker->number,
			 (double)(kept_until_ns - sim_now_ns()) / 1e6);
	holder = worker;
	held_until_ns = deadline_ns;
	free_since_ns = sim_now_ns(); /* it may be given up before check_use() looks */
	return true;
}

/* Whether it still holds, by what the library says. */
static bool keep(const struct worker *worker, lk_lock *lock, const char *key)
{
	int64_t deadline_ns = 0;
	if (!sim_deadline(&worker->caller, lock, &deadline_ns))
		return false;
	if (worker->process->closing)
		return true; /* the close has released it */
	check_firm(worker, key, deadline_ns);
	if (key != worker->own && !claim(worker, deadline_ns))
		sim_fail("worker %d holds the lock, and so does worker %d", worker->number,
			 holder->number);
	return true;
}

static bool was_resent(const struct process *process)
{
	for (unsigned i = 0; i < servers; i++)
		if (sim_resent(process->clients[i]) > 0)
			return true;
	return false;
}

/* Who was told that its one try failed must not have a majority. */
static void check_try(const struct worker *worker, const char *key, int code, int64_t begun_ns)
{
	bool told = code == LK_EBUSY || code == LK_ENOQUORUM || code == LK_ETIMEDOUT;
	if (told && worker->alone &&
	    count_of(worker->process, key, begun_ns, begun_ns) >= majority())
		sim_fail("worker %d was told %d, and has a majority", worker->number, code);
}

/* What is released is gone from a majority; copies of a try may come behind, where one was lost. */
static void check_release(const struct worker *worker, const char *key, int code, int64_t begun_ns)
{
	unsigned left = count_of(worker->process, key, 0, begun_ns);
	bool kept = !sim_is_mixed() || calm; /* no failover undoes it */
	if (code == 0 && kept && worker->alone && !was_resent(worker->process) &&
	    left > servers - majority())
		sim_fail("worker %d has released \"%s\", and %u servers have it", worker->number,
			 key, left);
}

/* In a calm world somebody has it soon. */
static void check_use(void *context)
{
	if (waiting == 0 || holder || sim_now_ns() < kept_until_ns)
		free_since_ns = sim_now_ns();
	if (sim_now_ns() - free_since_ns > FREE_MS * SIM_MS)
		sim_fail("nobody has had the lock for %d ms, and it is waited for", FREE_MS);
	if (ended < WORKERS)
		sim_at(sim_now_ns() + 10 * SIM_MS, check_use, NULL);
}

/* ---- a worker ---- */

static void extend_hold(const struct worker *worker, lk_lock *lock)
{
	static const int expected[] = {0, LK_ELOST, LK_ENOQUORUM};
	sim_extend_hold(&worker->caller, lock, lease_most_ms, expected,
			sizeof(expected) / sizeof(expected[0]));
}

/* Nobody is granted it then, also where a server forgets: that has no vote for longer. */
static void let_go_and_keep(const struct worker *worker, lk_lock *lock)
{
	static const int expected[] = {0, LK_ELOST, LK_EMAYBEHELD};
	struct sim_call call = sim_call("release that keeps");
	int64_t keep_ms = sim_between(1, KEEP_MOST_MS);
	lk_error error = {.code = 0};
	give_up(worker);
	int rc = sim_keep(&worker->caller, lock, keep_ms, &error);
	sim_note("worker %d: release, kept for %lld: %d", worker->number, (long long)keep_ms, rc);
	if (rc == 0 && !worker->process->closing)
		kept_until_ns = call.begun_ns + keep_ms * SIM_MS;
	sim_check_limit(&call, SIM_COMMAND_MS);
	sim_check_code("release that keeps", rc, expected, calm ? 1 : 3, closes, &error);
}

static void let_go(const struct worker *worker, lk_lock *lock, const char *key)
{
	static const int expected[] = {0, LK_ELOST, LK_EMAYBEHELD};
	lk_error error = {.code = 0};
	bool no_wait = sim_chance(200);
	struct sim_call call = sim_call("release");
	sim_note("worker %d releases %s", worker->number, key);
	give_up(worker);
	int rc = sim_release(&worker->caller, lock, no_wait, &error);
	sim_note("worker %d: release: %d", worker->number, rc);
	sim_check_limit(&call, SIM_COMMAND_MS);
	sim_check_code("release", rc, expected, calm ? 1 : 3, closes, &error);
	if (!no_wait)
		check_release(worker, key, rc, call.begun_ns);
}

/* A tenth of the lease is left at least of what is granted, for a caller that gets time. */
static void check_worth(const struct worker *worker, lk_lock *lock, int64_t lease_ms)
{
	int64_t deadline_ns = 0, least_ms = (lease_ms ? lease_ms : SIM_WATCHDOG_MS) / 10;
	if (sim_has(SIM_STALLS | SIM_PREEMPTS) || worker->process->closing ||
	    !sim_deadline(&worker->caller, lock, &deadline_ns))
		return;
	if (deadline_ns - sim_now_ns() < (least_ms - 1) * SIM_MS)
		sim_fail("worker %d is granted what is over in %.3f ms", worker->number,
			 (double)(deadline_ns - sim_now_ns()) / 1e6);
}

static void work(const struct worker *worker, lk_lock *lock, const char *key)
{
	if (!keep(worker, lock, key) && !sim_has(SIM_PREEMPTS) && !worker->process->closing)
		sim_fail("a grant was over when the call returned");
	for (int64_t steps = sim_between(0, 3); steps > 0; steps--) {
		sim_sleep(sim_between(0, SIM_WATCHDOG_MS / 2) * SIM_MS);
		if (keep(worker, lock, key) && sim_chance(300))
			extend_hold(worker, lock);
		keep(worker, lock, key);
	}
	if (keeps && key != worker->own && sim_chance(300))
		let_go_and_keep(worker, lock);
	else
		let_go(worker, lock, key);
}

/* Whether a try may have no time for a node in no trouble: each of the three ways there and back,
 * to connect, to greet and to ask, may take up to 20 ms in each direction. */
static bool is_tight(void)
{
	return red_options.node_limit_ms > 0 && red_options.node_limit_ms < 150;
}

static void round_of(struct worker *worker, lk_lock *lock, const char *key)
{
	static const int expected[] = {0,
				       LK_EBUSY,
				       LK_ETIMEDOUT,
				       LK_ECANCELLED,
				       LK_EMAYBEHELD,
				       LK_EUNREACHABLE, /* the limit passed while it connected */
				       LK_ENOQUORUM,    /* in a calm world: see is_tight() */
				       LK_EUNAVAILABLE};
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_error error = {.code = 0};
	struct sim_call call = sim_call("acquire");
	int64_t wait_ms = sim_chance(300) ? 0 : sim_between(1, 1500);
	bool queued = sim_chance(400), common = key != worker->own;
	sim_draw_lease(&options, lease_most_ms);
	options.tag = common ? (uint64_t)worker->number + 1 : 0;
	read_notices(worker->process); /* of what it had before */
	waiting += common;
	int rc = sim_acquire(&worker->caller, lock, wait_ms, queued, &options, &error);
	waiting -= common;
	sim_note("worker %d: acquire %s%s within %lld: %d", worker->number, key,
		 queued ? " asynchronously" : "", (long long)wait_ms, rc);
	sim_check_limit(&call, wait_ms ? wait_ms : 700);
	sim_check_code("acquire", rc, expected, calm ? 6 + is_tight() : 8, closes, &error);
	if (wait_ms == 0)
		check_try(worker, key, rc, call.begun_ns);
	if (rc == 0)
		check_worth(worker, lock, options.lease_ms);
	if (rc == 0)
		work(worker, lock, key);
	sim_sleep(sim_between(0, sim_chance(200) ? 400 : 50) * SIM_MS);
}

static lk_lock *lock_new(const struct worker *worker, const char *key)
{
	lk_lock *lock = NULL;
	lk_error error;
	if (lk_red_lock_new(&lock, worker->process->clients, servers, key, strlen(key),
			    &red_options, &error) < 0 &&
	    !worker->process->closing)
		sim_fail("lk_red_lock_new: %s", error.message);
	return lock;
}

static void *worker_main(void *argument)
{
	struct worker *worker = argument;
	lk_lock *lock = lock_new(worker, KEY), *own = lock_new(worker, worker->own);
	sim_caller_begin(&worker->caller, worker->number, closes);
	for (int i = 0; lock && own && i < ROUNDS && !worker->process->closing; i++) {
		if (sim_chance(200))
			round_of(worker, own, worker->own);
		if (sim_happens())
			round_of(worker, lock, KEY);
	}
	lk_lock_free(lock);
	lk_lock_free(own);
	sim_caller_end(&worker->caller);
	ended++;
	return NULL;
}

/* ---- the end ---- */

/* Nobody wants it, and no server is in trouble: everybody is granted it. */
static void *last_main(void *argument)
{
	const struct worker *worker = argument;
	lk_lock *lock = lock_new(worker, KEY);
	lk_error error = {.code = 0};
	if (lk_lock_acquire(lock, GRANT_MS, NULL, &error) < 0)
		sim_fail("worker %d is not granted a free lock: %s", worker->number, error.message);
	else if (lk_lock_release(lock, NULL, &error) < 0)
		sim_fail("worker %d cannot release: %s", worker->number, error.message);
	lk_lock_free(lock);
	return NULL;
}

static void check_left(const char *when)
{
	for (unsigned i = 0; i < servers; i++)
		for (int j = 0; j <= WORKERS; j++) {
			const char *key = j < WORKERS ? workers[j].own : KEY;
			const char *owner = owner_on(i, key, NULL, NULL);
			if (owner)
				sim_fail("%s, \"%s\" on server %u is %s's", when, key, i, owner);
		}
}

static int64_t settle_ms(void)
{
	return calm ? 0
		    : (sim_is_mixed() ? FOUND_MS : 0) + 2000 + SIM_LEASE_MOST_MS + lease_most_ms;
}

static void check_grants(void)
{
	if (keeps)
		sim_sleep(KEEP_MOST_MS * SIM_MS);
	if (lease_most_ms == LONG_LEASE_MS && !sim_is_mixed()) {
		sim_sleep(GIVEN_BACK_MS * SIM_MS);
		check_left("the troubles are over");
	}
	sim_sleep(settle_ms() * SIM_MS);
	for (int i = 1; i < WORKERS; i++)
		sim_wait(sim_ended, sim_spawn(last_main, &workers[i]), SIM_NEVER);
}

/* How it ended: whether all was given back. */
static bool close_process(struct process *process)
{
	bool settled = true;
	process->closing = true;
	for (int i = 0; i < WORKERS; i++)
		if (workers[i].process == process)
			give_up(&workers[i]);
	for (unsigned i = 0; i < servers; i++) {
		struct sim_call call = sim_call("close");
		lk_error error;
		int rc = lk_client_close(process->clients[i], LK_CLOSE_RELEASE, &error);
		sim_note("close: %d", rc);
		sim_check_limit(&call, SIM_CLOSE_MS);
		if (rc < 0 && (rc != LK_EMAYBEHELD || calm))
			sim_fail("close: %s", error.message);
		settled &= rc == 0;
	}
	return settled;
}

static void open_processes(void)
{
	static const int counts[] = {1, 2, 4};
	int connections = counts[sim_random(3)];
	char url[512];
	lk_error error;
	memset(processes, 0, sizeof(processes));
	for (int i = 0; i < PROCESSES; i++)
		for (unsigned j = 0; j < servers; j++) {
			sim_mixture_url(url, sizeof(url), j);
			size_t used = strlen(url);
			snprintf(url + used, sizeof(url) - used, "?" SIM_OPTIONS "&connections=%d",
				 connections);
			if (lk_client_open(&processes[i].clients[j], url, &error) < 0)
				sim_fail("lk_client_open: %s", error.message);
		}
}

static void start_workers(void)
{
	for (int i = 0; i < WORKERS; i++) {
		workers[i] = (struct worker){
			.number = i, .process = &processes[i > 0 ? i - 1 : 0], .alone = i > 1};
		snprintf(workers[i].own, sizeof(workers[i].own), "own-%d", i);
		workers[i].task = sim_spawn(worker_main, &workers[i]);
	}
}

static void *run_main(void *argument)
{
	bool settled = true;
	open_processes();
	start_workers();
	sim_mixture_outages(red_options.quarantine_ms >= 0);
	if (calm)
		check_use(NULL);
	if (closes)
		sim_sleep(sim_between(0, 3000) * SIM_MS);
	for (int i = 0; closes && i < PROCESSES; i++)
		settled &= close_process(&processes[i]);
	for (int i = 0; i < WORKERS; i++)
		sim_wait(sim_ended, workers[i].task, SIM_NEVER);
	sim_mixture_settle();
	if (!closes)
		check_grants();
	for (int i = 0; !closes && i < PROCESSES; i++)
		settled &= close_process(&processes[i]);
	for (int i = 0; i < PROCESSES; i++)
		for (unsigned j = 0; j < servers; j++)
			lk_client_free(processes[i].clients[j]);
	sim_sleep((calm && !keeps ? LATE_MS / 5 : LATE_MS) * SIM_MS);
	sim_server_close();
	if (!calm || !settled)
		sim_sleep(lease_most_ms * SIM_MS);
	sim_failovers_rest();
	check_left("all is over");
	return NULL;
}

/* What the seed draws before anything runs. */
static void draw(uint64_t seed, bool verbose, unsigned troubles)
{
	static const int64_t quarantines[] = {0, SIM_LEASE_MOST_MS, -1};
	sim_begin(seed, troubles, verbose);
	calm = sim_is_calm();
	closes = seed % 5 == 0;
	servers = seed % 7 == 0 ? 5 : 3;
	red_options = (lk_red_lock_options)LK_RED_LOCK_OPTIONS_INIT;
	red_options.plain = seed % 9 == 4;
	keeps = seed % 11 == 6 && !red_options.plain;
	kept_until_ns = 0;
	red_options.quarantine_ms = quarantines[sim_random(3)];
	red_options.node_limit_ms = sim_chance(500) ? 0 : sim_between(25, 300);
	red_options.retry_max_ms = sim_chance(500) ? 0 : sim_between(20, 200);
	lease_most_ms = red_options.quarantine_ms > 0   ? SIM_LEASE_MOST_MS
			: red_options.quarantine_ms < 0 ? LONG_LEASE_MS
							: SIM_WATCHDOG_MS;
	quarantine_ms = red_options.quarantine_ms ? red_options.quarantine_ms : SIM_WATCHDOG_MS;
	holder = NULL;
	waiting = ended = 0;
	free_since_ns = 0;
}

static void run(uint64_t seed, bool verbose, unsigned troubles, bool mixed)
{
	draw(seed, verbose, troubles);
	sim_door_begin();
	sim_network_begin();
	sim_mixture_begin(servers, mixed, sim_chance(250), KEY);
	sim_mixture_run(run_main);
}

void sim_red_run(uint64_t seed, bool verbose)
{
	run(seed, verbose, seed % 16, false);
}

void sim_mixed_run(uint64_t seed, bool verbose)
{
	run(seed, verbose, (unsigned)(seed % 16) | (seed / 16 % 2 ? SIM_MOVES : 0), true);
}
