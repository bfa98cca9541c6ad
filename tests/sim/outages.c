#include "outages.h"

#include "happens.h"
#include "network.h"
#include "server.h"
#include "world.h"

static unsigned first, count;
static bool forgets;

static void outage(unsigned server)
{
	if (sim_chance(400)) {
		sim_server_hang(server, sim_now_ns() + sim_between(1, 1500) * SIM_MS);
		return;
	}
	if (sim_chance(100)) {
		sim_network_forget(server);
		return;
	}
	sim_server_stop(server, sim_chance(300));
	sim_sleep(sim_between(1, sim_chance(300) ? 2000 : 100) * SIM_MS);
	bool lacks = forgets && sim_chance(500), torn = lacks && sim_chance(500);
	if (!sim_server_is_down(server)) /* the troubles are over */
		return;
	if (torn)
		sim_server_start_torn(server);
	else
		sim_server_start(server, !lacks);
}

static void *outages_main(void *argument)
{
	while (sim_has(SIM_OUTAGES)) {
		sim_sleep(sim_between(0, sim_chance(300) ? 100 : 1500) * SIM_MS);
		if (sim_has(SIM_OUTAGES) && sim_happens())
			outage(first + (unsigned)sim_random(count));
	}
	return NULL;
}

void sim_outages_begin(unsigned from, unsigned servers, bool forget)
{
	first = from;
	count = servers;
	forgets = forget;
	for (unsigned i = first; forget && i < first + count; i++)
		sim_server_sync(i);
	if (servers > 0 && sim_has(SIM_OUTAGES))
		sim_spawn(outages_main, NULL);
}

void sim_outages_end(void)
{
	sim_cease();
	for (unsigned i = first; i < first + count; i++)
		if (sim_server_is_down(i))
			sim_server_start(i, true);
}
