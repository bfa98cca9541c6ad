#include "mixture.h"

#include <stdio.h>

#include "cluster.h"
#include "failovers.h"
#include "network.h"
#include "order.h"
#include "outages.h"
#include "replication.h"
#include "server.h"
#include "simulated_door.h"
#include "world.h"

#define SENTINELS 3

enum first { SINGLE, REPLICAS, SENTINEL, CLUSTER, FIRST_END };

static enum first first;
static unsigned count;  /* nodes */
static unsigned group;  /* servers of the first node, without sentinels */
static unsigned single; /* the first single server that is a node behind it */

void sim_mixture_begin(unsigned nodes, bool mixed, bool durable, const char *key)
{
	count = nodes;
	first = mixed ? (enum first)sim_between(SINGLE + 1, FIRST_END - 1) : SINGLE;
	group = first == SINGLE ? 1 : first == CLUSTER ? 4 : 2;
	single = group + (first == SENTINEL ? SENTINELS : 0);
	sim_server_begin(single + count - 1, durable);
	sim_order_begin(NULL);
	sim_failovers_begin(first == CLUSTER ? 0 : group, first == SENTINEL ? SENTINELS : 0);
	if (first == CLUSTER)
		sim_cluster_begin(group, group / 2, &key, 1);
}

bool sim_is_mixed(void)
{
	return first != SINGLE;
}

void sim_mixture_url(char *url, size_t size, unsigned node)
{
	static const char *const schemes[] = {"redis", "redis-replicas", "redis-sentinel",
					      "redis-cluster"};
	unsigned from = first == SENTINEL ? group : 0;
	if (node > 0 || first == SINGLE) {
		snprintf(url, size, "redis://server-%u", single - 1 + node);
		return;
	}
	int used = snprintf(url, size, "%s://", schemes[first]);
	for (unsigned i = from; i < single; i++)
		used += snprintf(url + used, size - (size_t)used, "%sserver-%u",
				 i > from ? "," : "", i);
	if (first == SENTINEL)
		snprintf(url + used, size - (size_t)used, "/main");
}

unsigned sim_mixture_server(unsigned node, const char *key)
{
	return node > 0 ? single - 1 + node : sim_keeper(key);
}

void sim_mixture_outages(bool forget)
{
	unsigned from = first == SINGLE || (first == CLUSTER && count == 1) ? 0 : single;
	sim_outages_begin(from, single + count - 1 - from, forget);
}

void sim_mixture_settle(void)
{
	sim_outages_end();
	if (first == CLUSTER)
		sim_cluster_settle();
	else if (first != SINGLE)
		sim_failovers_end();
}

void sim_mixture_run(void *(*main)(void *))
{
	sim_spawn(main, NULL);
	sim_run();
	if (!sim_failure())
		sim_door_end();
	sim_server_end();
	sim_cluster_end();
	sim_replication_end();
	sim_network_end();
	sim_end();
}
