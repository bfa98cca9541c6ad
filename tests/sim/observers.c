#include "observers.h"

#include "calls.h"
#include "judge.h"
#include "terms.h"
#include "world.h"

#define OBSERVERS_MAX 2
#define OBSERVED_MS 200 /* until an observer is told, where nothing is lost */

static struct watcher {
	struct sim_observer told;
	lk_election *election;
	lk_cancel *cancel;
	struct sim_task *task;
	bool over;
} watchers[OBSERVERS_MAX];
static unsigned count;

static void *watcher_main(void *argument)
{
	struct watcher *watcher = argument;
	lk_error error;
	while (!watcher->over) {
		lk_leader leader = LK_LEADER_INIT;
		int64_t wait_ms = sim_chance(300) ? sim_between(0, 200) : -1;
		struct sim_call call = sim_call("observe");
		int rc = lk_election_observe(watcher->election, wait_ms, watcher->cancel, &leader,
					     &error);
		if (wait_ms >= 0)
			sim_check_limit(&call, wait_ms);
		if (rc < 0 && (rc != LK_ECANCELLED || !watcher->over))
			sim_fail("observe: %s", error.message);
		if (rc != 1)
			continue;
		sim_note("observer %d: %s%s, term %llu%s", watcher->told.number,
			 leader.vacant ? "nobody, before " : "", leader.value,
			 (unsigned long long)leader.term, leader.missed ? ", missed" : "");
		sim_observed(&watcher->told, &leader);
	}
	return NULL;
}

void sim_observer_begin(unsigned number, lk_client *client)
{
	lk_error error;
	struct watcher *watcher = &watchers[number];
	*watcher = (struct watcher){.told.number = (int)number};
	count = number + 1;
	if (lk_election_new(&watcher->election, client, SIM_ELECTION, LK_STRLEN, NULL, &error) <
		    0 ||
	    lk_cancel_new(&watcher->cancel, &error) < 0)
		sim_fail("an observer: %s", error.message);
	watcher->task = sim_spawn(watcher_main, watcher);
}

void sim_observers_end(void)
{
	for (unsigned i = 0; i < count; i++) {
		struct watcher *watcher = &watchers[i];
		watcher->over = true;
		lk_cancel_now(watcher->cancel);
		sim_wait(sim_ended, watcher->task, SIM_NEVER);
		lk_cancel_free(watcher->cancel);
		lk_election_free(watcher->election);
	}
}

static bool all_know(const void *nothing)
{
	for (unsigned i = 0; i < count; i++)
		if (!sim_observer_knows(&watchers[i].told))
			return false;
	return true;
}

/* Whatever was lost before: a look comes at the latest when the client looks again. */
void sim_observers_check(bool calm)
{
	int64_t bound_ms = OBSERVED_MS + (calm ? 0 : 2 * (SIM_LOOK_AGAIN_MS + SIM_COMMAND_MS));
	sim_wait(all_know, NULL, sim_now_ns() + bound_ms * SIM_MS);
	for (unsigned i = 0; i < count; i++)
		if (!sim_observer_knows(&watchers[i].told))
			sim_fail("observer %u was told of \"%s\", and of nothing since", i,
				 watchers[i].told.last.value);
}
