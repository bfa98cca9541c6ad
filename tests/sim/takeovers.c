#include "takeovers.h"

#include <stddef.h>

#include "cluster.h"
#include "failovers.h"
#include "happens.h"
#include "judge.h"
#include "order.h"
#include "kind.h"
#include "replication.h"
#include "server.h"
#include "world.h"

#define LOOK_MS 100     /* between looks at who answers */
#define SEEN_MS 5500    /* until clients count a replica that is listed again, at most */
#define CATCH_UP_MS 500 /* that a planned failover waits for its replica */
#define FRESH_MS 3000   /* for which a replica that has lost its master may take its place */

static unsigned count, masters;
static int64_t timeout_ns;
/* Since when a server has not answered, or a replica not been linked; SIM_NEVER: it does. */
static int64_t missed_since_ns[SIM_SERVERS_MAX];
static int64_t listed_since_ns[SIM_SERVERS_MAX]; /* SIM_NEVER: it is not */
static bool failed[SIM_SERVERS_MAX];             /* as the nodes say */
static bool ended;

static bool is_able(unsigned server)
{
	return !sim_server_is_down(server) && !sim_server_hangs(server);
}

bool sim_is_listed(unsigned replica)
{
	return !failed[replica];
}

bool sim_was_listed(unsigned replica, int64_t deadline_ns)
{
	int64_t since_ns = listed_since_ns[replica];
	int64_t earliest_ns = deadline_ns - SIM_LEASE_MOST_MS * SIM_MS;
	return since_ns == INT64_MIN ||
	       (since_ns != SIM_NEVER && since_ns + SEEN_MS * SIM_MS <= earliest_ns);
}

bool sim_has_moved(unsigned replica, unsigned master)
{
	int64_t moved_ns = sim_cluster_moved_ns(master);
	return !sim_lacks(replica, master) || moved_ns == INT64_MIN ||
	       moved_ns + SEEN_MS * SIM_MS < sim_now_ns();
}

static bool most_masters_answer(void)
{
	unsigned all = 0, able = 0;
	for (unsigned i = 0; i < count; i++) {
		if (!sim_cluster_owns(i))
			continue;
		all++;
		able += is_able(i);
	}
	return 2 * able > all;
}

/* ---- who takes over ---- */

/* The replica that is furthest; or the master: there is none. */
static unsigned pick(unsigned master)
{
	unsigned best = master;
	int64_t since_ns = sim_now_ns() - FRESH_MS * SIM_MS - timeout_ns;
	for (unsigned i = 0; i < count; i++)
		if (i != master && sim_master_of(i) == master && is_able(i) &&
		    sim_was_linked(i, since_ns) &&
		    (best == master || sim_offset(i) > sim_offset(best)))
			best = i;
	return best;
}

/* Clients count it once they have heard of that. */
static void follow(unsigned server, unsigned master)
{
	sim_cluster_follow(server, master);
	if (sim_is_listed(server))
		listed_since_ns[server] = sim_now_ns();
}

/* `whole`: it has all, and the master grants nothing any more. */
static void take_over(unsigned server, unsigned old, bool whole)
{
	bool firm = whole || (sim_was_listed(server, sim_now_ns()) && sim_has_moved(server, old));
	sim_count_failover(firm);
	if (!firm)
		sim_note("server %u may lack something", server);
	listed_since_ns[server] = listed_since_ns[old] = SIM_NEVER;
	sim_promote(server);
	sim_cluster_give(old, server, whole);
	if (sim_keeper(SIM_KEY) == server)
		sim_order_of(server);
	for (unsigned i = 0; i < count; i++)
		if (i != server && i != old && sim_master_of(i) == old)
			follow(i, server);
}

void sim_take_over_as_planned(unsigned master)
{
	unsigned to = pick(master);
	int64_t until_ns = sim_now_ns() + CATCH_UP_MS * SIM_MS;
	if (to == master || !is_able(master) || !sim_is_linked(to) || !sim_happens())
		return;
	sim_note("server %u is to take over from server %u", to, master);
	sim_server_pause(master, true);
	while (sim_lacks(to, master) && sim_now_ns() < until_ns)
		sim_sleep(SIM_MS);
	if (!sim_lacks(to, master) && is_able(to) && is_able(master) && !sim_is_replica(master) &&
	    sim_master_of(to) == master)
		take_over(to, master, true);
	sim_server_pause(master, false);
}

/* ---- who answers ---- */

static void look_at_replica(unsigned server)
{
	bool well = is_able(server) && sim_is_linked(server);
	if (well)
		missed_since_ns[server] = SIM_NEVER;
	else if (missed_since_ns[server] == SIM_NEVER)
		missed_since_ns[server] = sim_now_ns();
	/* One that has no link is listed as long as it answers. */
	bool lost = !is_able(server) && sim_now_ns() > missed_since_ns[server] + timeout_ns;
	failed[server] = (failed[server] && !well) || lost;
	if (failed[server])
		listed_since_ns[server] = SIM_NEVER;
	else if (well && listed_since_ns[server] == SIM_NEVER)
		listed_since_ns[server] = sim_now_ns();
}

static void look_at_master(unsigned server)
{
	if (is_able(server)) {
		missed_since_ns[server] = SIM_NEVER;
		failed[server] = false;
	} else if (missed_since_ns[server] == SIM_NEVER) {
		missed_since_ns[server] = sim_now_ns() + sim_between(0, 500) * SIM_MS;
	} else if (sim_now_ns() > missed_since_ns[server] + timeout_ns && most_masters_answer() &&
		   !sim_cluster_is_moving(server) && pick(server) != server) {
		failed[server] = true;
		take_over(pick(server), server, false);
	}
}

static void look(void *context)
{
	if (ended)
		return;
	for (unsigned i = 0; i < count; i++) {
		if (sim_is_replica(i))
			look_at_replica(i);
		else if (sim_cluster_owns(i))
			look_at_master(i);
	}
	sim_at(sim_now_ns() + LOOK_MS * SIM_MS, look, NULL);
}

void sim_takeovers_heard(unsigned server, unsigned owner)
{
	if (server != owner && !sim_is_replica(server) && masters < count)
		sim_cluster_follow(server, owner);
}

/* ---- a run ---- */

void sim_takeovers_begin(unsigned servers, unsigned of_them)
{
	count = servers;
	masters = of_them;
	ended = false;
	timeout_ns = sim_between(500, 1000) * SIM_MS;
	for (unsigned i = 0; i < count; i++) {
		missed_since_ns[i] = SIM_NEVER;
		failed[i] = false;
		listed_since_ns[i] = i < masters ? SIM_NEVER : INT64_MIN;
	}
	sim_replication_begin(count, masters);
	sim_at(sim_now_ns(), look, NULL);
}

bool sim_takeovers_are_over(void)
{
	for (unsigned i = 0; i < count; i++) {
		if (!is_able(i))
			return false;
		bool whole = sim_is_replica(i) && sim_is_linked(i) && sim_is_listed(i) &&
			     sim_cluster_owns(sim_master_of(i)) && !sim_lacks(i, sim_master_of(i));
		if (!whole && (sim_is_replica(i) || !sim_cluster_owns(i)))
			return false;
	}
	ended = true;
	return true;
}
