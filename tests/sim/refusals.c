#include "refusals.h"

#include "happens.h"
#include "server.h"
#include "world.h"

static void refuse(void)
{
	if (sim_chance(200)) {
		sim_server_forget_scripts(0);
		return;
	}
	sim_server_refuse(0, (enum sim_refusal)sim_between(1, SIM_REFUSALS_END - 1));
	sim_sleep(sim_between(1, sim_chance(300) ? 2000 : 100) * SIM_MS);
	sim_server_refuse(0, SIM_REFUSES_NOTHING);
}

static void *refusals_main(void *argument)
{
	while (sim_has(SIM_REFUSALS)) {
		sim_sleep(sim_between(0, sim_chance(300) ? 100 : 1500) * SIM_MS);
		if (sim_has(SIM_REFUSALS) && sim_happens())
			refuse();
	}
	return NULL;
}

void sim_refusals_begin(void)
{
	if (sim_has(SIM_REFUSALS))
		sim_spawn(refusals_main, NULL);
}

void sim_refusals_end(void)
{
	sim_cease();
	sim_server_refuse(0, SIM_REFUSES_NOTHING);
}
