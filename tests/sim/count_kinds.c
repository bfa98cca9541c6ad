/*
 * What workers do with a semaphore, a permit semaphore and latches on one server, and what must
 * hold.
 *
 * Never more permits may be out than there are, and none may be lost but those whose release was
 * not answered. A permit with an id is its holder's for as long as that is told. A latch opens when
 * all have counted down, not before, and then for everybody; none counts twice.
 */
#include <stdio.h>
#include <string.h>

#include "failovers.h"
#include "judge.h"
#include "keyspace.h"
#include "kind.h"
#include "server.h"
#include "world.h"

#define ONCE_MS 700  /* what one try may take, or one change */
#define OPEN_MS 1300 /* until a waiter is told that a latch has opened */
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const int acquired[] = {0, LK_EBUSY, LK_ETIMEDOUT, LK_ECANCELLED,
			       /* Also in a world without troubles a try may be on its way when the
				* limit, and its grace, are over. */
			       LK_EUNREACHABLE, LK_EMAYBEHELD, LK_EUNAVAILABLE};
static const int changed[] = {0,        LK_EMAYBEHELD, LK_EUNREACHABLE, LK_EUNAVAILABLE,
			      LK_ELOST, LK_ENOTOWNER};

static void judge_change(const struct sim_call *call, int code, const lk_error *error)
{
	sim_check_limit(call, ONCE_MS);
	sim_check_code(call->name, code, changed, sim_stage.calm ? 1 : COUNT(changed),
		       sim_stage.closes, error);
}

/* ---- semaphores ---- */

static void check_permits(void)
{
	int64_t out = 0;
	for (int i = 0; i < SIM_WORKERS; i++)
		out += sim_stage.workers[i].permits;
	if (out > SIM_PERMITS && sim_is_promised())
		sim_fail("%lld permits are out, of %d", (long long)out, SIM_PERMITS);
}

static void give_permits(struct sim_worker *worker)
{
	int64_t permits = worker->permits;
	lk_error error = {.code = 0};
	struct sim_call call = sim_call("release of permits");
	worker->permits = 0;
	int rc = sim_semaphore_release(&worker->caller, worker->semaphore, permits, &error);
	sim_note("worker %d: release of %lld: %s", worker->number, (long long)permits,
		 sim_outcome(rc));
	judge_change(&call, rc, &error);
	if (rc < 0)
		sim_stage.unsure += permits;
}

/* Takes all that are free. */
static void drain_permits(struct sim_worker *worker)
{
	lk_error error = {.code = 0};
	struct sim_call call = sim_call("drain");
	int64_t permits = 0;
	int rc = sim_semaphore_drain(&worker->caller, worker->semaphore, &permits, &error);
	sim_note("worker %d: drain: %s, %lld", worker->number, sim_outcome(rc), (long long)permits);
	judge_change(&call, rc, &error);
	if (rc < 0)
		sim_stage.unsure += SIM_PERMITS;
	worker->permits = rc < 0 ? 0 : permits;
}

static void take_permits(struct sim_worker *worker)
{
	int64_t permits = sim_between(1, SIM_PERMITS), wait_ms = sim_between(0, 1500);
	lk_error error = {.code = 0};
	struct sim_call call = sim_call("acquire");
	int rc = sim_semaphore_acquire(&worker->caller, worker->semaphore, permits, wait_ms,
				       &error);
	sim_note("worker %d: acquire of %lld within %lld: %s", worker->number, (long long)permits,
		 (long long)wait_ms, sim_outcome(rc));
	sim_check_limit(&call, wait_ms ? wait_ms : ONCE_MS);
	sim_check_patience(&call, wait_ms, rc, &error);
	sim_check_code("acquire", rc, acquired, sim_stage.calm ? 6 : COUNT(acquired),
		       sim_stage.closes, &error);
	worker->permits = rc < 0 ? 0 : permits;
}

void sim_semaphore_round(struct sim_worker *worker)
{
	if (sim_chance(100))
		drain_permits(worker);
	else
		take_permits(worker);
	check_permits();
	if (worker->permits == 0)
		return;
	sim_sleep(sim_between(0, 200) * SIM_MS);
	give_permits(worker);
}

int sim_semaphore_open(struct sim_worker *worker, lk_error *error)
{
	lk_semaphore_options options = LK_SEMAPHORE_OPTIONS_INIT;
	options.permits = SIM_PERMITS;
	return lk_semaphore_new(&worker->semaphore, worker->client->client, SIM_KEY, LK_STRLEN,
				&options, error);
}

/* Where a drain, or a release, had no answer, nobody knows how many there are. */
int sim_semaphore_last(struct sim_worker *worker, lk_error *error)
{
	int64_t count = SIM_PERMITS;
	sim_server_number(sim_keeper(SIM_KEY), SIM_KEY, &count);
	if (count + worker->permits < 1)
		return 0;
	worker->caller.sure = true;
	int rc = sim_semaphore_acquire(&worker->caller, worker->semaphore, 1, SIM_GRANT_MS, error);
	return rc < 0 ? rc : sim_semaphore_release(&worker->caller, worker->semaphore, 1, error);
}

/* Those whose release was not answered may be back, or not. */
void sim_semaphore_check_left(void)
{
	int64_t count = SIM_PERMITS;
	sim_server_number(sim_keeper(SIM_KEY), SIM_KEY, &count);
	if (sim_is_promised() && (count > SIM_PERMITS || count < SIM_PERMITS - sim_stage.unsure))
		sim_fail("all is over, and %lld of %d permits are free; %lld are unsure",
			 (long long)count, SIM_PERMITS, (long long)sim_stage.unsure);
}

/* ---- permits with ids ---- */

/* How many of its permits it has for certain, by what the library says. */
static int64_t certain(const struct sim_worker *worker)
{
	int64_t count = 0;
	for (int64_t i = 0; i < worker->permits; i++) {
		int64_t left_ms = 0;
		lk_error error;
		count += lk_permit_semaphore_remaining_ms(worker->permit_semaphore,
							  worker->ids[i].id, &left_ms,
							  &error) == 0 &&
			 left_ms > 0;
	}
	return count;
}

static bool is_double(const struct sim_worker *worker, const struct sim_worker *other)
{
	for (int64_t i = 0; i < worker->permits; i++)
		for (int64_t j = 0; j < other->permits; j++)
			if (strcmp(worker->ids[i].id, other->ids[j].id) == 0)
				return true;
	return false;
}

/* All that are out. */
static int64_t count_ids(void)
{
	int64_t out = 0;
	for (int i = 0; i < SIM_WORKERS; i++) {
		const struct sim_worker *other = &sim_stage.workers[i];
		out += other->client->closing ? 0 : certain(other);
	}
	return out;
}

/* A thread that gets no time counts some of them before, and others behind. */
static void check_ids(const struct sim_worker *worker)
{
	int64_t begun_ns, out;
	if (!sim_is_promised())
		return;
	sim_stage.counting++;
	do {
		begun_ns = sim_now_ns();
		out = count_ids();
	} while (sim_now_ns() > begun_ns + SIM_MS);
	sim_stage.counting--;
	if (out > SIM_PERMITS)
		sim_fail("%lld permits are out, of %d", (long long)out, SIM_PERMITS);
	for (int i = 0; i < SIM_WORKERS; i++)
		if (i != worker->number && is_double(worker, &sim_stage.workers[i]))
			sim_fail("workers %d and %d have the same permit", worker->number, i);
}

static void update_permit(struct sim_worker *worker)
{
	lk_error error = {.code = 0};
	struct sim_call call = sim_call("update of a lease");
	int64_t lease_ms = sim_stage.calm ? SIM_CALM_LEASE_MS
					  : sim_between(LK_LEASE_MIN_MS, SIM_LEASE_MOST_MS);
	int rc = sim_permit_update(&worker->caller, worker->permit_semaphore, worker->ids[0].id,
				   lease_ms, &error);
	sim_note("worker %d: update of a lease: %s", worker->number, sim_outcome(rc));
	judge_change(&call, rc, &error);
}

static void take_ids(struct sim_worker *worker)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	int64_t count = sim_between(1, SIM_PERMITS), wait_ms = sim_between(0, 1500);
	lk_permit ids[SIM_PERMITS];
	lk_error error = {.code = 0};
	struct sim_call call = sim_call("acquire");
	sim_draw_lease(&options, SIM_LEASE_MOST_MS);
	int rc = sim_permits_acquire(&worker->caller, worker->permit_semaphore, count, ids, wait_ms,
				     &options, &error);
	sim_note("worker %d: acquire of %lld within %lld: %s", worker->number, (long long)count,
		 (long long)wait_ms, sim_outcome(rc));
	sim_check_limit(&call, wait_ms ? wait_ms : ONCE_MS);
	sim_check_patience(&call, wait_ms, rc, &error);
	sim_check_code("acquire", rc, acquired, sim_stage.calm ? 6 : COUNT(acquired),
		       sim_stage.closes, &error);
	if (rc < 0)
		return;
	memcpy(worker->ids, ids, sizeof(ids));
	worker->permits = count;
}

static void give_ids(struct sim_worker *worker)
{
	lk_error error = {.code = 0};
	struct sim_call call = sim_call("release of permits");
	int64_t count = worker->permits;
	worker->permits = 0;
	int rc = sim_permits_release(&worker->caller, worker->permit_semaphore, worker->ids, count,
				     &error);
	/* Not done: it still has them. */
	bool kept = rc == LK_EUNREACHABLE || rc == LK_EUNAVAILABLE || rc == LK_EREFUSED;
	worker->permits = kept ? count : 0;
	sim_note("worker %d: release of %lld: %s", worker->number, (long long)count,
		 sim_outcome(rc));
	judge_change(&call, rc, &error);
}

void sim_permits_round(struct sim_worker *worker)
{
	take_ids(worker);
	check_ids(worker);
	if (worker->permits == 0)
		return;
	for (int64_t steps = sim_between(0, 2); steps > 0; steps--) {
		sim_sleep(sim_between(0, SIM_WATCHDOG_MS / 2) * SIM_MS);
		if (sim_chance(300))
			update_permit(worker);
		check_ids(worker);
	}
	if (sim_stage.calm && !worker->client->closing && certain(worker) != worker->permits)
		sim_fail("worker %d has lost permits, and nothing has happened", worker->number);
	while (worker->permits > 0)
		give_ids(worker);
}

int sim_permits_open(struct sim_worker *worker, lk_error *error)
{
	lk_permit_semaphore_options options = LK_PERMIT_SEMAPHORE_OPTIONS_INIT;
	options.permits = SIM_PERMITS;
	return lk_permit_semaphore_new(&worker->permit_semaphore, worker->client->client, SIM_KEY,
				       LK_STRLEN, &options, error);
}

int sim_permits_last(struct sim_worker *worker, lk_error *error)
{
	lk_permit ids[SIM_PERMITS];
	worker->caller.sure = true;
	int rc = sim_permits_acquire(&worker->caller, worker->permit_semaphore, SIM_PERMITS, ids,
				     SIM_GRANT_MS, NULL, error);
	return rc < 0 ? rc
		      : sim_permits_release(&worker->caller, worker->permit_semaphore, ids,
					    SIM_PERMITS, error);
}

/* The permits that are still in use have ended: whoever looks next gives them back. */
void sim_permits_check_left(void)
{
	int64_t count = SIM_PERMITS;
	const struct sim_key *used = sim_server_key(sim_keeper("{" SIM_KEY "}:timeout"),
						    "{" SIM_KEY "}:timeout");
	sim_server_number(sim_keeper(SIM_KEY), SIM_KEY, &count);
	if (used)
		count += (int64_t)used->count;
	if (count != SIM_PERMITS && sim_is_promised())
		sim_fail("all is over, and %lld permits are there, of %d", (long long)count,
			 SIM_PERMITS);
}

/* ---- latches ---- */

static void latch_name(char name_out[16], int round)
{
	snprintf(name_out, 16, "latch-%d", round);
}

static int64_t latch_count(int round)
{
	char name[16];
	int64_t count = 0;
	latch_name(name, round);
	sim_server_number(sim_keeper(name), name, &count);
	return count;
}

static void count_down(struct sim_worker *worker)
{
	lk_error error = {.code = 0};
	struct sim_call call = sim_call("count-down");
	int round = worker->round;
	int64_t left = 0;
	sim_stage.begun[round]++;
	int rc = sim_latch_count_down(&worker->caller, worker->latches[round], &left, &error);
	sim_note("worker %d: count-down of latch %d: %s, %lld left", worker->number, round,
		 sim_outcome(rc), (long long)left);
	judge_change(&call, rc, &error);
	sim_stage.done[round] += rc == 0;
	if (rc == 0 && left < SIM_WORKERS - sim_stage.begun[round] && sim_is_promised())
		sim_fail("latch %d has %lld left, and %d have counted down", round, (long long)left,
			 sim_stage.begun[round]);
}

void sim_latch_round(struct sim_worker *worker)
{
	static const int expected[] = {0, LK_ETIMEDOUT, LK_EUNREACHABLE, LK_EUNAVAILABLE};
	int round = worker->round;
	int64_t wait_ms = sim_chance(200) ? 0 : sim_between(1, 3000);
	lk_error error = {.code = 0};
	count_down(worker);
	struct sim_call call = sim_call("await");
	bool open = sim_stage.done[round] == SIM_WORKERS;
	int rc = sim_latch_await(&worker->caller, worker->latches[round], wait_ms, &error);
	sim_note("worker %d: await of latch %d within %lld: %s", worker->number, round,
		 (long long)wait_ms, sim_outcome(rc));
	sim_check_limit(&call, wait_ms ? wait_ms : ONCE_MS);
	sim_check_code("await", rc, expected, sim_stage.calm ? 3 : COUNT(expected),
		       sim_stage.closes, &error);
	if (!sim_is_promised())
		return;
	if (rc == LK_ETIMEDOUT && open)
		sim_fail("latch %d is open, and worker %d was told that it is not", round,
			 worker->number);
	if (rc == 0 && sim_stage.begun[round] < SIM_WORKERS)
		sim_fail("latch %d is open, and %d of %d have counted down", round,
			 sim_stage.begun[round], SIM_WORKERS);
}

/* Whoever comes first sets them all. */
static void set_latches(void)
{
	for (int i = 0; i < SIM_ROUNDS && !sim_stage.set; i++) {
		char name[16];
		latch_name(name, i);
		for (unsigned j = 0; j < sim_servers(); j++)
			if (sim_has_copy(j, name))
				sim_server_set(j, name, SIM_WORKERS);
	}
	sim_stage.set = true;
}

int sim_latch_open(struct sim_worker *worker, lk_error *error)
{
	int rc = 0;
	set_latches();
	for (int i = 0; rc == 0 && i < SIM_ROUNDS; i++) {
		char name[16];
		latch_name(name, i);
		rc = lk_latch_new(&worker->latches[i], worker->client->client, name, LK_STRLEN,
				  NULL, error);
	}
	return rc;
}

/* Each counts down what is left of a latch, and then it is open for all. */
int sim_latch_last(struct sim_worker *worker, lk_error *error)
{
	int rc = 0;
	worker->caller.sure = true;
	for (int64_t left = 1; rc == 0 && left > 0;)
		rc = sim_latch_count_down(&worker->caller, worker->latches[0], &left, error);
	return rc < 0 ? rc : sim_latch_await(&worker->caller, worker->latches[0], OPEN_MS, error);
}

void sim_latch_check_left(void)
{
	for (int i = 1; i < SIM_ROUNDS && sim_is_promised(); i++)
		if (latch_count(i) < SIM_WORKERS - sim_stage.begun[i] ||
		    latch_count(i) > SIM_WORKERS - sim_stage.done[i])
			sim_fail("latch %d has %lld left; %d have begun to count, %d have counted",
				 i, (long long)latch_count(i), sim_stage.begun[i],
				 sim_stage.done[i]);
}
