/*
 * Worlds with one lock of another kind, or one semaphore, on one server that hangs, stops, vanishes
 * and starts again with its data: by the seed a fenced lock, a read/write lock, or a semaphore. Two
 * clients, with three threads and one thread, want it.
 *
 * No two owners may believe at once that they hold a fenced lock, and each grant has a higher token
 * than all before. No writer may believe that it holds while another owner writes or reads. Never
 * more permits may be out than there are, and none may be lost but those whose release was not
 * answered. No call may last longer than its limit. When the troubles are over and all leases too,
 * everybody is granted what it wants, and in the end nothing may be left.
 */
#include "kinds.h"

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

#define CLIENTS 2
#define WORKERS 4 /* of all clients; the last is the only one of its client */
#define ROUNDS 6
#define KEY "shared"
#define PERMITS 5
#define GRANT_MS 1500 /* that what is free takes once the troubles are over */
#define LATE_MS 1000  /* after so long no command may run any more that takes something */

enum kind { FENCED, SIDES, SEMAPHORE };
enum side { NOTHING, READS, WRITES };

struct worker {
	int number;
	lk_client *client;
	struct sim_task *task;
	struct sim_caller caller;
	lk_lock *writing, *reading; /* a fenced lock is one that writes */
	lk_semaphore *semaphore;
	enum side side;        /* which it believes to hold … */
	int64_t held_until_ns; /* … until when, at least */
	int64_t permits;       /* that it believes to have */
};

static lk_client *clients[CLIENTS];
static struct worker workers[WORKERS];
static enum kind kind;
static bool calm, closes, closing[CLIENTS];
static uint64_t newest; /* token that a holder was told */
static int64_t unsure;  /* permits whose release was not answered, or that a close took along */

static bool is_closed(const struct worker *worker)
{
	return closing[worker->client == clients[1]];
}

/* ---- locks ---- */

/* Beside readers others may read. */
static void claim(struct worker *worker, enum side side, int64_t deadline_ns)
{
	for (int i = 0; i < WORKERS; i++) {
		const struct worker *other = &workers[i];
		if (other != worker && other->side && sim_now_ns() < other->held_until_ns &&
		    (side == WRITES || other->side == WRITES))
			sim_fail("worker %d has the lock, and so does worker %d", worker->number,
				 i);
	}
	worker->side = side;
	worker->held_until_ns = deadline_ns;
}

/* Whether it still holds, by what the library says. */
static bool keep(struct worker *worker, lk_lock *lock, enum side side)
{
	int64_t deadline_ns = 0;
	if (!sim_deadline(&worker->caller, lock, &deadline_ns))
		return false;
	if (!is_closed(worker))
		claim(worker, side, deadline_ns);
	return true;
}

/*
 * What the holder was told as it was granted, unless that is 0, and is told of its hold. A thread
 * that gets no time behind the library's last look at the clock is told the token of a hold that is
 * over by now: another may have been granted a newer one meanwhile. So the hold is looked at once
 * more, behind the answer.
 */
static void check_token(const struct worker *worker, uint64_t told)
{
	uint64_t token = 0;
	int64_t deadline_ns;
	lk_error error;
	const char *owner = worker->caller.named ? worker->caller.name : NULL;
	if (lk_lock_fence(worker->writing, owner, &token, &error) < 0)
		return; /* it is over */
	if (told && told != token)
		sim_fail("worker %d was told token %llu, and then %llu", worker->number,
			 (unsigned long long)told, (unsigned long long)token);
	if (worker->side != WRITES || !sim_deadline(&worker->caller, worker->writing, &deadline_ns))
		return;
	if (token <= newest)
		sim_fail("worker %d was told token %llu, and another %llu before", worker->number,
			 (unsigned long long)token, (unsigned long long)newest);
	newest = token;
}

static void extend_hold(const struct worker *worker, lk_lock *lock)
{
	static const int expected[] = {0, LK_ELOST, LK_EMAYBEHELD, LK_EUNREACHABLE};
	sim_extend_hold(&worker->caller, lock, SIM_LEASE_MOST_MS, expected,
			sizeof(expected) / sizeof(expected[0]));
}

/* What the release may take: to the end of the hold. That is later than it was before the call if
 * the call is the first to read the answer to a renewal. */
static int64_t left_ms(const struct sim_call *call, int64_t deadline_ns)
{
	int64_t known_ms = sim_left_ms(call, deadline_ns);
	return !calm && known_ms < SIM_WATCHDOG_MS ? SIM_WATCHDOG_MS : known_ms;
}

static void let_go(struct worker *worker, lk_lock *lock, enum side left)
{
	static const int expected[] = {0, LK_ELOST, LK_EMAYBEHELD};
	lk_error error = {.code = 0};
	int64_t deadline_ns = 0;
	sim_deadline(&worker->caller, lock, &deadline_ns);
	struct sim_call call = sim_call("release");
	sim_note("worker %d releases", worker->number);
	worker->side = left;
	int rc = sim_release(&worker->caller, lock, sim_chance(200), &error);
	sim_note("worker %d: release: %d", worker->number, rc);
	sim_check_limit(&call, left_ms(&call, deadline_ns));
	sim_check_code("release", rc, expected, calm ? 1 : 3, closes, &error);
}

static void use(struct worker *worker, lk_lock *lock, enum side side)
{
	for (int64_t steps = sim_between(0, 2); steps > 0; steps--) {
		sim_sleep(sim_between(0, SIM_WATCHDOG_MS / 2) * SIM_MS);
		if (keep(worker, lock, side) && sim_chance(300))
			extend_hold(worker, lock);
		keep(worker, lock, side);
	}
}

/* A writer goes on as a reader, which nobody can come before. Whether it does. */
static bool go_on_reading(struct worker *worker)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_error error = {.code = 0};
	options.owner = worker->caller.named ? worker->caller.name : NULL;
	options.lease_ms = sim_lease_ms(SIM_LEASE_MOST_MS);
	int rc = lk_lock_acquire_within(worker->reading, 300, &options, &error);
	sim_note("worker %d: acquire to read, too: %d", worker->number, rc);
	if (rc < 0 && calm && !is_closed(worker))
		sim_fail("a writer may not read: %s", error.message);
	return rc == 0;
}

static int acquire(struct worker *worker, lk_lock *lock, int64_t wait_ms, uint64_t *token)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_error error = {.code = 0};
	struct sim_call call = sim_call("acquire");
	bool queued = sim_chance(400);
	options.lease_ms = sim_lease_ms(SIM_LEASE_MOST_MS);
	options.fence_out = kind == FENCED && !queued ? token : NULL;
	int rc = sim_acquire(&worker->caller, lock, wait_ms, queued, &options, &error);
	sim_note("worker %d: acquire%s within %lld: %d", worker->number,
		 queued ? " asynchronously" : "", (long long)wait_ms, rc);
	sim_check_limit(&call, wait_ms ? wait_ms : 700);
	sim_check_acquire(rc, closes, &error);
	return rc;
}

static void lock_round(struct worker *worker)
{
	enum side side = kind == SIDES && sim_chance(600) ? READS : WRITES;
	lk_lock *lock = side == READS ? worker->reading : worker->writing;
	uint64_t token = 0;
	if (acquire(worker, lock, sim_chance(200) ? 0 : sim_between(1, 1500), &token) < 0)
		return;
	if (!keep(worker, lock, side) && !sim_has(SIM_PREEMPTS) && !is_closed(worker))
		sim_fail("a grant was over when the call returned");
	if (kind == FENCED)
		check_token(worker, token);
	use(worker, lock, side);
	bool reads = kind == SIDES && side == WRITES && sim_chance(300) && go_on_reading(worker);
	let_go(worker, lock, NOTHING);
	if (!reads)
		return;
	keep(worker, worker->reading, READS);
	use(worker, worker->reading, READS);
	let_go(worker, worker->reading, NOTHING);
}

/* ---- semaphores ---- */

static void check_permits(void)
{
	int64_t out = 0;
	for (int i = 0; i < WORKERS; i++)
		out += workers[i].permits;
	if (out > PERMITS)
		sim_fail("%lld permits are out, of %d", (long long)out, PERMITS);
}

static void give_permits(struct worker *worker)
{
	static const int expected[] = {0, LK_EMAYBEHELD, LK_EUNREACHABLE, LK_EUNAVAILABLE};
	int64_t permits = worker->permits;
	lk_error error = {.code = 0};
	struct sim_call call = sim_call("release");
	worker->permits = 0;
	int rc = lk_semaphore_release(worker->semaphore, permits, &error);
	sim_note("worker %d: release of %lld: %d", worker->number, (long long)permits, rc);
	sim_check_limit(&call, 700);
	sim_check_code("release", rc, expected, calm ? 1 : 4, closes, &error);
	if (rc < 0)
		unsure += permits;
}

static void permit_round(struct worker *worker)
{
	/* Also in a calm world a try may be on its way when the limit, and its grace, are over. */
	static const int expected[] = {
		0, LK_EBUSY, LK_ETIMEDOUT, LK_EUNREACHABLE, LK_EMAYBEHELD, LK_EUNAVAILABLE};
	int64_t permits = sim_between(1, PERMITS), wait_ms = sim_between(0, 1500);
	lk_error error = {.code = 0};
	struct sim_call call = sim_call("acquire");
	int rc = lk_semaphore_acquire_within(worker->semaphore, permits, wait_ms, NULL, &error);
	sim_note("worker %d: acquire of %lld within %lld: %d", worker->number, (long long)permits,
		 (long long)wait_ms, rc);
	sim_check_limit(&call, wait_ms ? wait_ms : 700);
	sim_check_code("acquire", rc, expected, calm ? 5 : 6, closes, &error);
	if (rc < 0)
		return;
	worker->permits = permits;
	check_permits();
	sim_sleep(sim_between(0, 200) * SIM_MS);
	give_permits(worker);
}

/* ---- a worker ---- */

static bool worker_begin(struct worker *worker)
{
	lk_semaphore_options options = LK_SEMAPHORE_OPTIONS_INIT;
	lk_client *client = worker->client;
	lk_error error;
	int rc = 0;
	options.permits = PERMITS;
	sim_caller_begin(&worker->caller, worker->number, closes);
	if (kind == FENCED)
		rc = lk_fenced_lock_new(&worker->writing, client, KEY, LK_STRLEN, NULL, &error);
	else if (kind == SEMAPHORE)
		rc = lk_semaphore_new(&worker->semaphore, client, KEY, LK_STRLEN, &options, &error);
	else
		rc = lk_write_lock_new(&worker->writing, client, KEY, LK_STRLEN, NULL, &error);
	if (rc == 0 && kind == SIDES)
		rc = lk_read_lock_new(&worker->reading, client, KEY, LK_STRLEN, NULL, &error);
	if (rc < 0 && !is_closed(worker))
		sim_fail("a handle: %s", error.message);
	return rc == 0;
}

static void worker_end(struct worker *worker)
{
	worker->writing = lk_lock_free(worker->writing);
	worker->reading = lk_lock_free(worker->reading);
	worker->semaphore = lk_semaphore_free(worker->semaphore);
	sim_caller_end(&worker->caller);
}

static void *worker_main(void *argument)
{
	struct worker *worker = argument;
	bool begun = worker_begin(worker);
	for (int i = 0; begun && i < ROUNDS && !is_closed(worker); i++) {
		if (sim_happens() && kind == SEMAPHORE)
			permit_round(worker);
		else if (kind != SEMAPHORE)
			lock_round(worker);
		sim_sleep(sim_between(0, sim_chance(200) ? 400 : 50) * SIM_MS);
	}
	worker_end(worker);
	return NULL;
}

/* ---- the end ---- */

/* Nobody wants it, and the server is in no trouble: it is granted at once. */
static void *last_main(void *argument)
{
	struct worker *worker = argument;
	lk_error error = {.code = 0};
	int rc;
	worker_begin(worker);
	if (kind == SEMAPHORE)
		rc = lk_semaphore_acquire_within(worker->semaphore, 1, GRANT_MS, NULL, &error);
	else
		rc = lk_lock_acquire_within(worker->writing, GRANT_MS, NULL, &error);
	if (rc < 0)
		sim_fail("worker %d is not granted what is free: %s", worker->number,
			 error.message);
	rc = kind == SEMAPHORE ? lk_semaphore_release(worker->semaphore, 1, &error)
			       : lk_lock_release(worker->writing, NULL, &error);
	if (rc < 0)
		sim_fail("worker %d cannot release: %s", worker->number, error.message);
	worker_end(worker);
	return NULL;
}

/* Those whose release was not answered may be back, or not. */
static void check_count(void)
{
	int64_t count = PERMITS;
	sim_server_number(0, KEY, &count);
	if (count > PERMITS || count < PERMITS - unsure)
		sim_fail("all is over, and %lld of %d permits are free; %lld are unsure",
			 (long long)count, PERMITS, (long long)unsure);
}

static void check_grants(void)
{
	int64_t count = PERMITS;
	sim_sleep((calm ? 0 : LATE_MS + SIM_LEASE_MOST_MS) * SIM_MS);
	if (kind == SEMAPHORE)
		check_count();
	sim_server_number(0, KEY, &count);
	for (int i = 2; i < WORKERS && count > 0; i++)
		sim_wait(sim_ended, sim_spawn(last_main, &workers[i]), SIM_NEVER);
}

static void close_client(int number)
{
	struct sim_call call = sim_call("close");
	lk_error error;
	closing[number] = true;
	for (int i = 0; i < WORKERS; i++)
		if (workers[i].client == clients[number])
			workers[i].side = NOTHING;
	int rc = lk_client_close(clients[number], LK_CLOSE_RELEASE, &error);
	sim_note("close: %d", rc);
	sim_check_limit(&call, SIM_CLOSE_MS);
	if (rc < 0 && (rc != LK_EMAYBEHELD || calm))
		sim_fail("close: %s", error.message);
	if (rc < 0)
		unsure += PERMITS; /* a try of its own may have taken them */
}

static void check_left(void)
{
	const char *owner = sim_server_owner(0, KEY, NULL, NULL);
	if (owner)
		sim_fail("all is over, and the lock is %s's", owner);
	if (kind == SEMAPHORE)
		check_count();
}

static void begin(void)
{
	static const int counts[] = {1, 2, 4};
	char url[512];
	lk_error error;
	snprintf(url, sizeof(url), "redis://server?" SIM_OPTIONS "&connections=%d",
		 counts[sim_random(3)]);
	for (int i = 0; i < CLIENTS; i++)
		if (lk_client_open(&clients[i], url, &error) < 0)
			sim_fail("lk_client_open: %s", error.message);
	for (int i = 0; i < WORKERS; i++) {
		workers[i] = (struct worker){.number = i, .client = clients[i == WORKERS - 1]};
		workers[i].task = sim_spawn(worker_main, &workers[i]);
	}
	sim_outages_begin(1, false);
}

static void *run_main(void *argument)
{
	(void)argument;
	begin();
	if (closes)
		sim_sleep(sim_between(0, 3000) * SIM_MS);
	for (int i = 0; closes && i < CLIENTS; i++)
		close_client(i);
	for (int i = 0; i < WORKERS; i++)
		sim_wait(sim_ended, workers[i].task, SIM_NEVER);
	sim_outages_end();
	if (!closes)
		check_grants();
	for (int i = 0; !closes && i < CLIENTS; i++)
		close_client(i);
	for (int i = 0; i < CLIENTS; i++)
		lk_client_free(clients[i]);
	sim_sleep((calm ? LATE_MS / 5 : LATE_MS) * SIM_MS);
	sim_server_close();
	if (!calm)
		sim_sleep(SIM_LEASE_MOST_MS * SIM_MS);
	check_left();
	return NULL;
}

void sim_kinds_run(uint64_t seed, bool verbose)
{
	sim_begin(seed, seed % 16, verbose);
	calm = sim_is_calm();
	closes = seed % 5 == 0;
	kind = seed % 3;
	memset(closing, 0, sizeof(closing));
	newest = 0;
	unsure = 0;
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
