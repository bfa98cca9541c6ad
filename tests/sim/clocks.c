#include "clocks.h"

#include "happens.h"
#include "judge.h"
#include "server.h"
#include "world.h"

#define DRIFT_MOST_PPM 8000 /* clients allow for 1 % */
#define BACK_MOST_MS 400
#define STEPS_MAX 4

static unsigned servers, processes;
static int back_ms;
static struct sim_task *suspender;

static void step_back(void)
{
	int step_ms = (int)sim_between(1, BACK_MOST_MS);
	if (!sim_happens())
		return;
	back_ms += step_ms;
	sim_note("the clocks of servers step back by %d ms", step_ms);
	for (unsigned i = 0; i < servers; i++)
		sim_server_step(i, -step_ms);
}

static void *steps_main(void *argument)
{
	for (int i = 0; i < STEPS_MAX && sim_has(SIM_CLOCKS); i++) {
		sim_sleep(sim_between(0, 3000) * SIM_MS);
		if (sim_has(SIM_CLOCKS))
			step_back();
	}
	return NULL;
}

static void *suspends_main(void *argument)
{
	while (sim_has(SIM_SUSPENDS)) {
		sim_sleep(sim_between(0, 2000) * SIM_MS);
		unsigned process = 1 + (unsigned)sim_random(processes);
		int64_t most_ms = sim_chance(300) ? 50 : 3 * SIM_LEASE_MOST_MS;
		int64_t until_ns = sim_now_ns() + sim_between(1, most_ms) * SIM_MS;
		if (!sim_has(SIM_SUSPENDS) || !sim_happens())
			continue;
		sim_suspend(process, until_ns);
		sim_sleep(until_ns - sim_now_ns());
	}
	return NULL;
}

void sim_clocks_begin(unsigned of_servers, unsigned of_processes)
{
	servers = of_servers;
	processes = of_processes;
	back_ms = 0;
	suspender = NULL;
	if (sim_has(SIM_CLOCKS)) {
		int64_t drift_ppm = sim_between(-DRIFT_MOST_PPM, DRIFT_MOST_PPM);
		for (unsigned i = 0; i < servers; i++)
			sim_server_drift(i, drift_ppm);
		sim_spawn(steps_main, NULL);
	}
	if (sim_has(SIM_SUSPENDS))
		suspender = sim_spawn(suspends_main, NULL);
}

void sim_clocks_settle(void)
{
	if (suspender)
		sim_wait(sim_ended, suspender, SIM_NEVER);
}

int sim_clocks_back_ms(void)
{
	return back_ms;
}
