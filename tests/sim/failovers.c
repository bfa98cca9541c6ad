#include "failovers.h"

#include "cluster.h"
#include "happens.h"
#include "judge.h"
#include "kind.h"
#include "network.h"
#include "order.h"
#include "outages.h"
#include "replication.h"
#include "sentinels.h"
#include "server.h"
#include "world.h"

#define SEEN_MS 5500     /* until clients count a replica that is alive again, at most */
#define HICCUP_MS 300    /* of which nobody takes notice */
#define CATCH_UP_MS 500  /* that a planned failover waits for its replica */
#define LINK_MS 2000     /* that somebody waits for a former master to follow */
#define MISSED_MS 4000   /* that somebody waits for sentinels to miss a master */
#define SETTLED_MS 10000 /* until all follow one master, in the end */

static unsigned count, sentinels, master, unpromised_runs, failovers;
static bool promised, blind;
/* As clients see it; SIM_NEVER: it is in trouble. */
static int64_t well_since_ns[SIM_SERVERS_MAX];
static struct sim_task *task;

/* ---- who must have what ---- */

unsigned sim_servers(void)
{
	return sim_is_cluster() ? sim_cluster_size() : count;
}

unsigned sim_master(void)
{
	return master;
}

unsigned sim_keeper(const char *key)
{
	return sim_is_cluster() ? sim_cluster_keeper(key) : master;
}

bool sim_has_copy(unsigned server, const char *key)
{
	unsigned keeper = sim_keeper(key);
	return server == keeper || (sim_is_replicated() && sim_master_of(server) == keeper);
}

bool sim_must_have(unsigned server, int64_t deadline_ns)
{
	int64_t earliest_ns = deadline_ns - SIM_LEASE_MOST_MS * SIM_MS;
	if (sim_is_cluster())
		return sim_cluster_must_have(server, deadline_ns);
	return server == master || (!blind && well_since_ns[server] <= earliest_ns);
}

bool sim_is_promised(void)
{
	return promised;
}

void sim_count_failover(bool firm)
{
	failovers++;
	unpromised_runs += promised && !firm;
	promised &= firm;
}

unsigned sim_unpromised_runs(void)
{
	return unpromised_runs;
}

unsigned sim_failover_count(void)
{
	return failovers;
}

static void is_in_trouble(unsigned server)
{
	well_since_ns[server] = SIM_NEVER;
}

static void is_well(unsigned server)
{
	well_since_ns[server] = sim_now_ns() + SEEN_MS * SIM_MS;
}

static bool is_up(unsigned server)
{
	return !sim_server_is_down(server) && !sim_server_hangs(server);
}

static bool is_whole(unsigned server)
{
	return sim_is_linked(server) && !sim_lacks(server, master);
}

/* Clients grant nothing without it. Where it was in trouble, a count may have changed meanwhile,
 * which has no lease. */
static bool is_counted(unsigned server)
{
	bool seen = well_since_ns[server] <= sim_now_ns() - SIM_LEASE_MOST_MS * SIM_MS;
	bool ever = well_since_ns[server] == INT64_MIN;
	return !blind && (ever || (seen && sim_is_linked(server)));
}

/* It has all that a client was told of, where no failure is one for which nothing is promised. */
static bool is_firm(unsigned server)
{
	return is_whole(server) || is_counted(server);
}

/* ---- failovers ---- */

static void follow_all(void)
{
	for (unsigned i = 0; i < count; i++)
		if (i != master && sim_is_replica(i) && sim_master_of(i) != master)
			sim_follow(i, master);
}

/* From here on it is the one that is meant. `ends`: the old one grants nothing any more. */
static void take_over(unsigned server, unsigned old, bool ends)
{
	bool firm = ends ? is_firm(server) : is_counted(server);
	if (!firm)
		sim_note("server %u may lack something", server);
	sim_count_failover(firm);
	sim_promote(server);
	sim_order_of(server);
	master = server;
	is_in_trouble(old);
	if (sentinels > 0)
		sim_sentinels_switch(server, 400);
	sim_sleep(sim_between(0, 100) * SIM_MS);
	follow_all();
}

static bool is_linked(const void *server)
{
	return sim_is_linked((unsigned)((const int64_t *)server - well_since_ns));
}

/* Sentinels end its clients' connections. Clients of theirs count it once it follows. */
static void demote(unsigned old)
{
	if (sentinels > 0 || sim_chance(500))
		sim_network_lose(old, false);
	sim_follow(old, master);
	if (sentinels > 0)
		sim_wait(is_linked, &well_since_ns[old], sim_now_ns() + LINK_MS * SIM_MS);
	if (sentinels == 0 || sim_is_linked(old))
		is_well(old);
}

/* A replica that is up; or the master, if there is none. */
static unsigned pick(bool firm)
{
	unsigned first = (unsigned)sim_random(count);
	for (unsigned i = 0; i < count; i++) {
		unsigned server = (first + i) % count;
		if (server != master && is_up(server) && (is_firm(server) || !firm))
			return server;
	}
	return master;
}

/* The master takes no writes until the replica has all. */
static void planned_failover(void)
{
	unsigned old = master, to = pick(true);
	int64_t until_ns = sim_now_ns() + CATCH_UP_MS * SIM_MS;
	if (to == old || !sim_is_linked(to))
		return;
	sim_note("server %u is to take over from server %u", to, old);
	sim_server_pause(old, true);
	while (sim_lacks(to, old) && sim_now_ns() < until_ns)
		sim_sleep(SIM_MS);
	if (!sim_lacks(to, old)) {
		take_over(to, old, true);
		demote(old);
	}
	sim_server_pause(old, false);
}

/* Most of what takes over is a replica for which something is promised. */
static bool may_take_over(unsigned to)
{
	return to != master && is_up(to) &&
	       (blind ? is_whole(to) : is_counted(to) || sim_chance(100));
}

/* SENTINEL FAILOVER: the old one goes on until it is told. */
static void switch_by_sentinels(void)
{
	unsigned old = master, to = sim_sentinels_pick(old);
	if (!may_take_over(to))
		return;
	sim_sentinels_promote(to);
	sim_sleep(sim_between(0, 200) * SIM_MS);
	if (!is_up(to))
		return;
	take_over(to, old, false);
	sim_sleep(sim_between(0, 1500) * SIM_MS);
	demote(old);
}

/* Most sentinels and all replicas lose it; some of them, and clients, do not. */
static void part_master(void)
{
	int64_t until_ns = sim_now_ns() + sim_between(1500, 4000) * SIM_MS;
	for (unsigned i = 0; i < sentinels / 2 + 1; i++)
		sim_sentinel_cut(i, master, until_ns);
	for (unsigned i = 0; i < count; i++)
		if (i != master)
			sim_replication_cut(i, until_ns);
}

static void stop_master(void)
{
	if (!blind && sim_chance(400))
		sim_server_hang(master, sim_now_ns() + sim_between(300, 3000) * SIM_MS);
	else if (!blind && sentinels > 0 && sim_chance(300))
		part_master();
	else
		sim_server_stop(master, sim_chance(300));
}

static void stop_ends(unsigned server)
{
	if (sim_server_is_down(server))
		sim_server_start(server, true);
	while (sim_server_hangs(server))
		sim_sleep(10 * SIM_MS);
}

/* Who takes over from a master that is missed; or that, when it is back before. */
static unsigned missed(void)
{
	if (sentinels == 0) {
		sim_sleep(sim_between(50, 1200) * SIM_MS);
		return pick(blind || sim_chance(850));
	}
	int64_t until_ns = sim_now_ns() + MISSED_MS * SIM_MS;
	while (!sim_is_called_down(master) && sim_now_ns() < until_ns)
		sim_sleep(10 * SIM_MS);
	if (!sim_is_called_down(master))
		return master;
	unsigned to = sim_sentinels_pick(master);
	if (!may_take_over(to))
		return master;
	sim_sentinels_promote(to);
	sim_sleep(sim_between(0, 50) * SIM_MS);
	return is_up(to) ? to : master;
}

/* Where a client may not see both, it is a replica as it starts. */
static void unplanned_failover(void)
{
	unsigned old = master;
	stop_master();
	unsigned to = missed();
	if (to == old) {
		stop_ends(old);
		return;
	}
	take_over(to, old, blind);
	sim_sleep(sim_between(0, 600) * SIM_MS);
	if (blind)
		sim_follow(old, master);
	stop_ends(old);
	if (!blind)
		sim_sleep(sim_between(0, sentinels > 0 ? 1500 : 500) * SIM_MS);
	demote(old);
}

/* ---- replicas ---- */

static void hang_replica(unsigned server)
{
	int64_t hang_ms = sim_between(1, 1500);
	if (hang_ms > HICCUP_MS)
		is_in_trouble(server);
	sim_server_hang(server, sim_now_ns() + hang_ms * SIM_MS);
	sim_sleep(hang_ms * SIM_MS);
	if (hang_ms > HICCUP_MS)
		is_well(server);
}

static void stop_replica(unsigned server)
{
	is_in_trouble(server);
	sim_server_stop(server, sim_chance(300));
	sim_sleep(sim_between(1, 2000) * SIM_MS);
	sim_server_start(server, true);
	is_well(server);
}

static void trouble_replica(void)
{
	unsigned server = (unsigned)sim_random(count);
	int64_t until_ns = sim_now_ns() + sim_between(1, 1500) * SIM_MS;
	if (server == master)
		return;
	switch (sim_random(4)) {
	case 0:
		hang_replica(server);
		break;
	case 1:
		stop_replica(server);
		break;
	case 2:
		sim_replication_cut(server, until_ns);
		break;
	default:
		sim_replication_stall(server, until_ns);
	}
}

/* One hangs, stops, or hears nothing of a server; or two, of three or more. */
static void trouble_sentinels(void)
{
	unsigned first = (unsigned)sim_random(sentinels), some = sim_chance(200) ? 2 : 1;
	int64_t until_ns = sim_now_ns() + sim_between(1, 2500) * SIM_MS;
	for (unsigned i = 0; i < some; i++) {
		unsigned sentinel = (first + i) % sentinels;
		if (sim_chance(300))
			sim_sentinel_cut(sentinel, (unsigned)sim_random(count), until_ns);
		else if (sim_chance(500))
			sim_server_hang(count + sentinel, until_ns);
		else
			sim_server_stop(count + sentinel, sim_chance(300));
	}
	sim_sleep(until_ns - sim_now_ns());
	for (unsigned i = 0; i < sentinels; i++)
		stop_ends(count + i);
}

/*
 * One answers late, to a question of an earlier round, since clients lose their connections to the
 * master meanwhile and ask all anew; and then not at all. A replica is cut off from its master, and
 * is up: nothing is granted without it.
 */
static void stutter(void)
{
	unsigned sentinel = count + (unsigned)sim_random(sentinels), replica = pick(false);
	int64_t until_ns = sim_now_ns() + sim_between(50, 400) * SIM_MS;
	sim_server_hang(sentinel, until_ns);
	if (replica != master)
		sim_replication_cut(replica, until_ns + sim_between(0, 1500) * SIM_MS);
	for (int64_t at_ns = sim_now_ns(); at_ns < until_ns;
	     at_ns += sim_between(20, 150) * SIM_MS) {
		sim_sleep(at_ns - sim_now_ns());
		sim_network_lose(master, false);
	}
	sim_sleep(until_ns - sim_now_ns() + sim_between(100, 1000) * SIM_US);
	sim_server_stop(sentinel, false);
	sim_sleep(sim_between(100, 1500) * SIM_MS);
	stop_ends(sentinel);
}

/* ---- a run ---- */

static void *failovers_main(void *argument)
{
	while (sim_has(SIM_OUTAGES)) {
		sim_sleep(sim_between(0, sim_chance(300) ? 100 : 1500) * SIM_MS);
		if (!sim_has(SIM_OUTAGES) || !sim_happens())
			continue;
		if (sentinels > 0 && sim_chance(200))
			trouble_sentinels();
		else if (sentinels > 0 && !blind && sim_chance(300))
			stutter();
		else if (sim_chance(400))
			trouble_replica();
		else if (sim_chance(600))
			unplanned_failover();
		else if (sentinels > 0 && !blind)
			switch_by_sentinels();
		else
			planned_failover();
	}
	return NULL;
}

void sim_failovers_begin(unsigned servers, unsigned watchers)
{
	count = servers;
	sentinels = watchers;
	master = 0;
	promised = true;
	/* A client that loses connections, or gets no time while it makes them, may take a replica
	 * for down that is well. */
	blind = sim_has(SIM_LOSSES | SIM_STALLS);
	task = NULL;
	for (unsigned i = 0; i < count; i++)
		well_since_ns[i] = INT64_MIN;
	if (count <= 1)
		return;
	sim_replication_begin(count, 1);
	if (sentinels > 0)
		sim_sentinels_begin(count, sentinels, sim_between(700, 1500));
	if (sim_has(SIM_OUTAGES))
		task = sim_spawn(failovers_main, NULL);
}

static bool is_settled(const void *nothing)
{
	for (unsigned i = 0; i < count; i++)
		if (i != master && !is_whole(i))
			return false;
	return sentinels == 0 || sim_sentinels_agree(master);
}

void sim_failovers_end(void)
{
	sim_cease();
	if (task)
		sim_wait(sim_ended, task, SIM_NEVER);
	if (count > 1)
		sim_wait(is_settled, NULL, sim_now_ns() + SETTLED_MS * SIM_MS);
	if (count > 1 && !is_settled(NULL))
		sim_fail("not all servers follow server %u", master);
}

void sim_failovers_rest(void)
{
	sim_replication_rest();
	sim_sentinels_rest();
}
