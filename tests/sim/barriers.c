/*
 * What workers do at a barrier of two, and what must hold, whatever becomes of requests, answers
 * and servers: no more than two are let through with one generation, none before another has come,
 * each with a later generation than was told before it came; and one that is told that it was not
 * counted was not: behind each generation that one was told there is a second, or one that nobody
 * knows of.
 */
#include <string.h>

#include "calls.h"
#include "clocks.h"
#include "failovers.h"
#include "happens.h"
#include "judge.h"
#include "kind.h"
#include "world.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PARTIES 2
#define ONCE_MS 700
#define GENERATIONS (SIM_WORKERS * SIM_ROUNDS + SIM_WORKERS)

static struct {
	uint64_t generation[GENERATIONS];
	int told[GENERATIONS];
	int count;
	int comes;    /* awaits that are under way */
	int unsure;   /* that may have been counted, and were told neither */
	uint64_t now; /* the newest that was told */
} seen;

static int place_of(uint64_t generation)
{
	for (int i = 0; i < seen.count; i++)
		if (seen.generation[i] == generation)
			return i;
	seen.generation[seen.count] = generation;
	seen.told[seen.count] = 0;
	return seen.count++;
}

static void judge_through(const struct sim_worker *worker, uint64_t generation, uint64_t before)
{
	int place = place_of(generation);
	seen.told[place]++;
	if (generation > seen.now)
		seen.now = generation;
	if (!sim_is_promised())
		return;
	if (seen.told[place] > PARTIES)
		sim_fail("%d were let through with generation %llu", seen.told[place],
			 (unsigned long long)generation);
	if (generation <= before)
		sim_fail("worker %d got generation %llu, and %llu was told before it came",
			 worker->number, (unsigned long long)generation,
			 (unsigned long long)before);
	if (seen.told[place] + seen.comes + seen.unsure < PARTIES)
		sim_fail("worker %d was let through, and nobody else has come", worker->number);
}

/* Comes, or enters. True: it was let through. */
static bool come(struct sim_worker *worker, int operation, int64_t wait_ms, lk_error *error)
{
	static const int expected[] = {0,        LK_ETIMEDOUT,    LK_EBUSY,      LK_EUNREACHABLE,
				       LK_ELOST, LK_EUNAVAILABLE, LK_EMAYBEHELD, LK_EREFUSED};
	struct sim_call call = sim_call("await");
	uint64_t before = seen.now;
	int64_t generation = 0;
	seen.comes++;
	int rc = sim_barrier_meet(&worker->caller, worker->barrier, operation, wait_ms, &generation,
				  error);
	seen.comes--;
	sim_note("worker %d: %s within %lld: %s, %lld", worker->number,
		 operation == LK_OP_ENTER ? "enter" : "await", (long long)wait_ms, sim_outcome(rc),
		 (long long)generation);
	sim_check_limit(&call, (wait_ms ? wait_ms : ONCE_MS) + SIM_COMMAND_MS);
	sim_check_code("await", rc, expected, sim_stage.calm ? 5 : COUNT(expected),
		       sim_stage.closes, error);
	if (rc == 0)
		judge_through(worker, (uint64_t)generation, before);
	else if (rc == LK_EMAYBEHELD || rc == LK_ELOST || rc == LK_ECLOSED)
		seen.unsure++;
	return rc == 0;
}

static void leave(struct sim_worker *worker)
{
	static const int expected[] = {0,           LK_ETIMEDOUT,    LK_EBUSY,      LK_EUNREACHABLE,
				       LK_ELOST,    LK_EUNAVAILABLE, LK_EMAYBEHELD, LK_EREFUSED,
				       LK_ENOTOWNER};
	int64_t wait_ms = sim_between(1, 1500), generation = 0;
	lk_error error = {.code = 0};
	int rc = sim_barrier_meet(&worker->caller, worker->barrier, LK_OP_LEAVE, wait_ms,
				  &generation, &error);
	sim_note("worker %d: leave within %lld: %s", worker->number, (long long)wait_ms,
		 sim_outcome(rc));
	sim_check_code("leave", rc, expected, sim_stage.calm ? 5 : COUNT(expected),
		       sim_stage.closes, &error);
}

int sim_barrier_open(struct sim_worker *worker, lk_error *error)
{
	if (!sim_stage.set)
		memset(&seen, 0, sizeof(seen));
	sim_stage.set = true;
	return lk_barrier_new(&worker->barrier, worker->client->client, SIM_KEY, LK_STRLEN, PARTIES,
			      NULL, error);
}

void sim_barrier_round(struct sim_worker *worker)
{
	bool enters = sim_chance(300);
	int64_t wait_ms = sim_chance(100) ? 0 : sim_between(1, 3000);
	lk_error error = {.code = 0};
	if (!worker->barrier) /* its client is being closed */
		return;
	if (!come(worker, enters ? LK_OP_ENTER : LK_OP_AWAIT, wait_ms, &error) || !enters)
		return;
	sim_sleep(sim_between(0, 200) * SIM_MS);
	leave(worker);
	/* Another handle: one that did not see the others leave is inside no more. */
	lk_barrier_free(worker->barrier);
	worker->barrier = NULL;
	if (sim_barrier_open(worker, &error) < 0 && !sim_stage.closes)
		sim_fail("a handle: %s", error.message);
}

/* They are an even number. */
int sim_barrier_last(struct sim_worker *worker, lk_error *error)
{
	worker->caller.sure = true;
	return come(worker, LK_OP_AWAIT, SIM_GRANT_MS, error) ? 0 : error->code;
}

void sim_barrier_check_left(void)
{
	int missing = 0;
	for (int i = 0; i < seen.count; i++)
		missing += PARTIES - seen.told[i];
	if (missing > seen.unsure && sim_is_promised())
		sim_fail("of the parties that met %d were told that they had not, and %d nothing",
			 missing - seen.unsure, seen.unsure);
}
