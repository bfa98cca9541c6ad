/*
 * Worlds with multi locks: three names on one server, and one or two on another. Three processes,
 * each with a client for both servers; the first has two threads, the others one. Each wants some
 * of the names together, in any order, or one of them alone. The servers hang, stop, vanish, and
 * start again with their data.
 *
 * No two owners may believe at once that they hold a name, and the server must not give any of them
 * away before the deadline that a holder is told. Who is told that it has not got them has none of
 * them, and who has released keeps none. No call may last longer than its limit: whoever holds
 * nothing while it waits cannot block another. When the troubles are over all is given back soon,
 * everybody is granted all of them, and in the end nothing may be left.
 */
#include "multi.h"

#include <stdio.h>
#include <string.h>

#include <lockkeeper.h>

#include "calls.h"
#include "happens.h"
#include "judge.h"
#include "network.h"
#include "outages.h"
#include "server.h"
#include "simulated_door.h"
#include "world.h"

#define SERVERS 2
#define PROCESSES 3
#define WORKERS 4 /* of all processes; the first has two */
#define ROUNDS 6
#define NAMES 5
#define FREE_MS 1000       /* that nobody has anything, at most, while it is waited for */
#define GRANT_MS 1500      /* that free locks take once the troubles are over */
#define LATE_MS 1000       /* after so long no command may run any more that takes something */
#define GIVEN_BACK_MS 2000 /* after so long all is given back, once the troubles are over, */
#define LEASE_MOST_MS 4000 /* though its lease is longer */

struct process {
	lk_client *clients[SERVERS];
	bool closing;
};

struct worker {
	int number;
	struct process *process;
	bool alone; /* in its process */
	struct sim_task *task;
	lk_lock *locks[NAMES];
	struct sim_caller caller;
};

/* What a worker wants at a time. */
struct wanted {
	unsigned names; /* a bit for each */
	lk_lock *lock;
};

static const char *const names[NAMES] = {"a", "b", "c", "d", "e"};
static struct process processes[PROCESSES];
static struct worker workers[WORKERS];
static bool calm, closes;
static unsigned two;                        /* names from this one on are on the second server */
static const struct worker *holders[NAMES]; /* who believes that it holds … */
static int64_t held_until_ns[NAMES];        /* … and until when, at least */
static int waiting, ended;                  /* workers */
static int64_t free_since_ns;

/* ---- what must hold ---- */

static unsigned server_of(unsigned name)
{
	return name >= two;
}

/* Whether the process has the name: since and until when. */
static bool has(const struct process *process, unsigned name, int64_t *since_ns, int64_t *until_ns)
{
	const char *owner = sim_server_owner(server_of(name), names[name], since_ns, until_ns);
	const char *id = lk_client_id(process->clients[server_of(name)]);
	return owner && strncmp(owner, id, strlen(id)) == 0;
}

static void claim(const struct worker *worker, unsigned name, int64_t deadline_ns)
{
	const struct worker *holder = holders[name];
	int64_t until_ns = 0;
	if (holder && holder != worker && sim_now_ns() < held_until_ns[name])
		sim_fail("worker %d holds \"%s\", and so does worker %d", worker->number,
			 names[name], holder->number);
	if (!has(worker->process, name, NULL, &until_ns) || until_ns < deadline_ns)
		sim_fail("worker %d has \"%s\" for %.3f ms more, and the server may give it away",
			 worker->number, names[name], (double)(deadline_ns - sim_now_ns()) / 1e6);
	holders[name] = worker;
	held_until_ns[name] = deadline_ns;
}

/* Whether it still holds all of them, by what the library says. */
static bool keep(const struct worker *worker, const struct wanted *wanted)
{
	int64_t deadline_ns = 0;
	if (!sim_deadline(&worker->caller, wanted->lock, &deadline_ns))
		return false;
	for (unsigned i = 0; i < NAMES && !worker->process->closing; i++)
		if (wanted->names >> i & 1)
			claim(worker, i, deadline_ns);
	return true;
}

static void give_up(const struct worker *worker)
{
	for (unsigned i = 0; i < NAMES; i++)
		if (holders[i] == worker)
			holders[i] = NULL;
}

static bool was_resent(const struct process *process)
{
	return sim_resent(process->clients[0]) > 0 || sim_resent(process->clients[1]) > 0;
}

/* How many of them the process has got since then: of one that is alone in its process, and of
 * which no copy can be on its way. */
static unsigned count_of(const struct worker *worker, const struct wanted *wanted, int64_t begun_ns)
{
	int64_t since_ns = 0;
	unsigned count = 0;
	for (unsigned i = 0; i < NAMES && worker->alone && !was_resent(worker->process); i++)
		count += wanted->names >> i & 1 && has(worker->process, i, &since_ns, NULL) &&
			 since_ns >= begun_ns;
	return count;
}

/* Of one that was told that others prevent it. What was had of it is given back, and a server that
 * hangs may not have done that yet. */
static void check_refused(const struct worker *worker, const struct wanted *wanted,
			  int64_t begun_ns)
{
	unsigned most = calm ? 0 : (unsigned)__builtin_popcount(wanted->names) - 1;
	if (count_of(worker, wanted, begun_ns) > most)
		sim_fail("worker %d was told that others have %x, and has it", worker->number,
			 wanted->names);
}

/* In a calm world somebody has something soon. */
static void check_use(void *context)
{
	bool used = waiting == 0;
	for (unsigned i = 0; i < NAMES; i++)
		used |= holders[i] != NULL;
	if (used)
		free_since_ns = sim_now_ns();
	if (sim_now_ns() - free_since_ns > FREE_MS * SIM_MS)
		sim_fail("nobody has had anything for %d ms, and some wait", FREE_MS);
	if (ended < WORKERS)
		sim_at(sim_now_ns() + 10 * SIM_MS, check_use, NULL);
}

/* ---- a worker ---- */

static void extend_hold(const struct worker *worker, lk_lock *lock)
{
	static const int expected[] = {0, LK_ELOST, LK_EMAYBEHELD, LK_EUNREACHABLE};
	sim_extend_hold(&worker->caller, lock, LEASE_MOST_MS, expected,
			sizeof(expected) / sizeof(expected[0]));
}

/* One part alone: then the others go together, and what is missing is told. Returns the code that
 * a release of all gives then. */
static int let_one_go(const struct worker *worker, const struct wanted *wanted)
{
	static const int expected[] = {0, LK_ELOST, LK_EMAYBEHELD};
	lk_error error = {.code = 0};
	unsigned name = 0;
	while (!(wanted->names >> name & 1))
		name++;
	int rc = sim_release(&worker->caller, worker->locks[name], false, &error);
	sim_note("worker %d: release of \"%s\" alone: %d", worker->number, names[name], rc);
	sim_check_code("release of a part", rc, expected, calm ? 1 : 3, closes, &error);
	return LK_ENOTOWNER;
}

/* Of all the parts: each of them is renewed on its own. */
static int64_t last_deadline_ns(const struct worker *worker, const struct wanted *wanted)
{
	int64_t last_ns = 0, deadline_ns = 0;
	for (unsigned i = 0; i < NAMES; i++)
		if (wanted->names >> i & 1 &&
		    sim_deadline(&worker->caller, worker->locks[i], &deadline_ns) &&
		    deadline_ns > last_ns)
			last_ns = deadline_ns;
	return last_ns;
}

static void let_go(const struct worker *worker, const struct wanted *wanted)
{
	int expected[] = {0, LK_ELOST, LK_EMAYBEHELD};
	lk_error error = {.code = 0};
	give_up(worker);
	sim_note("worker %d releases %x", worker->number, wanted->names);
	if (sim_chance(100))
		expected[0] = let_one_go(worker, wanted);
	int64_t deadline_ns = last_deadline_ns(worker, wanted);
	struct sim_call call = sim_call("release");
	int rc = sim_release(&worker->caller, wanted->lock, false, &error);
	sim_note("worker %d: release: %d", worker->number, rc);
	sim_check_limit(&call, sim_left_ms(&call, deadline_ns));
	sim_check_code("release", rc, expected, calm ? 1 : 3, closes, &error);
	if (rc == 0 && count_of(worker, wanted, 0) > 0)
		sim_fail("worker %d has released %x, and has some of it", worker->number,
			 wanted->names);
}

static void work(const struct worker *worker, const struct wanted *wanted)
{
	if (!keep(worker, wanted) && !sim_has(SIM_PREEMPTS) && !worker->process->closing)
		sim_fail("a grant was over when the call returned");
	for (int64_t steps = sim_between(0, 2); steps > 0; steps--) {
		sim_sleep(sim_between(0, SIM_WATCHDOG_MS / 2) * SIM_MS);
		if (keep(worker, wanted) && sim_chance(300))
			extend_hold(worker, wanted->lock);
		keep(worker, wanted);
	}
	let_go(worker, wanted);
}

/* Some names, which a seed puts in any order. */
static struct wanted want_some(const struct worker *worker, unsigned some)
{
	struct wanted wanted = {.names = some};
	lk_lock *parts[NAMES];
	size_t count = 0;
	lk_error error;
	unsigned first = (unsigned)sim_random(NAMES);
	for (unsigned i = 0; i < NAMES; i++)
		if (some >> ((first + i) % NAMES) & 1)
			parts[count++] = worker->locks[(first + i) % NAMES];
	if (lk_multi_lock_new(&wanted.lock, parts, count, &error) < 0 && !worker->process->closing)
		sim_fail("lk_multi_lock_new: %s", error.message);
	return wanted;
}

static void round_of(struct worker *worker, const struct wanted *wanted)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_error error = {.code = 0};
	struct sim_call call = sim_call("acquire");
	/* A try on its way gets a tenth more; then what it has is given back. */
	int64_t wait_ms = sim_chance(300) ? 0 : sim_between(1, 1500);
	bool queued = sim_chance(400);
	sim_draw_lease(&options, LEASE_MOST_MS);
	waiting++;
	int rc = sim_acquire(&worker->caller, wanted->lock, wait_ms, queued, &options, &error);
	waiting--;
	sim_note("worker %d: acquire %x%s within %lld: %d", worker->number, wanted->names,
		 queued ? " asynchronously" : "", (long long)wait_ms, rc);
	sim_check_limit(&call, wait_ms ? wait_ms + (wait_ms < 200 ? 20 : wait_ms / 10) : 700);
	sim_check_acquire(rc, closes, &error);
	if (rc == LK_EBUSY || rc == LK_ETIMEDOUT)
		check_refused(worker, wanted, call.begun_ns);
	if (rc == 0)
		work(worker, wanted);
	sim_sleep(sim_between(0, sim_chance(200) ? 400 : 50) * SIM_MS);
}

static bool worker_begin(struct worker *worker)
{
	lk_error error;
	sim_caller_begin(&worker->caller, worker->number, closes);
	for (unsigned i = 0; i < NAMES; i++) {
		lk_client *client = worker->process->clients[server_of(i)];
		if (lk_lock_new(&worker->locks[i], client, names[i], LK_STRLEN, &error) == 0)
			continue;
		if (!worker->process->closing)
			sim_fail("lk_lock_new: %s", error.message);
		return false;
	}
	return true;
}

static void worker_end(struct worker *worker)
{
	for (unsigned i = 0; i < NAMES; i++)
		worker->locks[i] = lk_lock_free(worker->locks[i]);
	sim_caller_end(&worker->caller);
}

static void *worker_main(void *argument)
{
	struct worker *worker = argument;
	bool begun = worker_begin(worker);
	for (int i = 0; begun && i < ROUNDS && !worker->process->closing; i++) {
		struct wanted wanted = want_some(worker,
						 1 + (unsigned)sim_random((1 << NAMES) - 1));
		if (wanted.lock && sim_happens())
			round_of(worker, &wanted);
		lk_lock_free(wanted.lock);
	}
	worker_end(worker);
	ended++;
	return NULL;
}

/* ---- the end ---- */

/* Nobody wants them, and no server is in trouble: everybody is granted all. */
static void *last_main(void *argument)
{
	struct worker *worker = argument;
	lk_error error = {.code = 0};
	worker_begin(worker);
	struct wanted wanted = want_some(worker, (1 << NAMES) - 1);
	if (lk_lock_acquire(wanted.lock, GRANT_MS, NULL, &error) < 0)
		sim_fail("worker %d is not granted free locks: %s", worker->number, error.message);
	else if (lk_lock_release(wanted.lock, NULL, &error) < 0)
		sim_fail("worker %d cannot release: %s", worker->number, error.message);
	lk_lock_free(wanted.lock);
	worker_end(worker);
	return NULL;
}

static void check_left(const char *when)
{
	for (unsigned i = 0; i < NAMES; i++) {
		const char *owner = sim_server_owner(server_of(i), names[i], NULL, NULL);
		if (owner)
			sim_fail("%s, and \"%s\" is %s's", when, names[i], owner);
	}
}

static void check_grants(void)
{
	sim_sleep((calm ? 0 : GIVEN_BACK_MS) * SIM_MS);
	check_left("the troubles are over");
	for (int i = 1; i < WORKERS; i++)
		sim_wait(sim_ended, sim_spawn(last_main, &workers[i]), SIM_NEVER);
}

static void close_process(struct process *process)
{
	process->closing = true;
	for (int i = 0; i < WORKERS; i++)
		if (workers[i].process == process)
			give_up(&workers[i]);
	for (unsigned i = 0; i < SERVERS; i++) {
		struct sim_call call = sim_call("close");
		lk_error error;
		int rc = lk_client_close(process->clients[i], LK_CLOSE_RELEASE, &error);
		sim_note("close: %d", rc);
		sim_check_limit(&call, SIM_CLOSE_MS);
		if (rc < 0 && (rc != LK_EMAYBEHELD || calm))
			sim_fail("close: %s", error.message);
	}
}

static void open_processes(void)
{
	static const int counts[] = {1, 2, 4};
	int connections = counts[sim_random(3)];
	char url[512];
	lk_error error;
	memset(processes, 0, sizeof(processes));
	for (int i = 0; i < PROCESSES; i++)
		for (unsigned j = 0; j < SERVERS; j++) {
			snprintf(url, sizeof(url),
				 "redis://server-%u?" SIM_OPTIONS "&connections=%d", j,
				 connections);
			if (lk_client_open(&processes[i].clients[j], url, &error) < 0)
				sim_fail("lk_client_open: %s", error.message);
		}
}

static void *run_main(void *argument)
{
	open_processes();
	for (int i = 0; i < WORKERS; i++) {
		workers[i] = (struct worker){
			.number = i, .process = &processes[i > 0 ? i - 1 : 0], .alone = i > 1};
		workers[i].task = sim_spawn(worker_main, &workers[i]);
	}
	sim_outages_begin(0, SERVERS, false);
	if (calm)
		check_use(NULL);
	if (closes)
		sim_sleep(sim_between(0, 3000) * SIM_MS);
	for (int i = 0; closes && i < PROCESSES; i++)
		close_process(&processes[i]);
	for (int i = 0; i < WORKERS; i++)
		sim_wait(sim_ended, workers[i].task, SIM_NEVER);
	sim_outages_end();
	if (!closes)
		check_grants();
	for (int i = 0; !closes && i < PROCESSES; i++)
		close_process(&processes[i]);
	for (int i = 0; i < PROCESSES; i++)
		for (unsigned j = 0; j < SERVERS; j++)
			lk_client_free(processes[i].clients[j]);
	sim_sleep((calm ? LATE_MS / 5 : LATE_MS) * SIM_MS);
	sim_server_close();
	if (!calm)
		sim_sleep(LEASE_MOST_MS * SIM_MS);
	check_left("all is over");
	return NULL;
}

void sim_multi_run(uint64_t seed, bool verbose)
{
	sim_begin(seed, seed % 16, verbose);
	calm = sim_is_calm();
	closes = seed % 5 == 0;
	two = seed % 3 == 0 ? NAMES : 3 + seed % 2; /* all on one, or some on the other */
	memset(holders, 0, sizeof(holders));
	waiting = ended = 0;
	free_since_ns = 0;
	sim_door_begin();
	sim_network_begin();
	sim_server_begin(SERVERS, false);
	sim_spawn(run_main, NULL);
	sim_run();
	if (!sim_failure())
		sim_door_end();
	sim_server_end();
	sim_network_end();
	sim_end();
}
