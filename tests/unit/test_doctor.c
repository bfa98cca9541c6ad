/* The doctor's judgement: from what was learnt about nodes to what is said of them; and what the
 * answers of servers tell. No server is asked. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/doctor/findings.h"

static char url_a[] = "redis://a", url_b[] = "redis://b", url_c[] = "redis://c",
	    url_d[] = "redis://d";

#define PUT(field, text) snprintf(field, sizeof(field), "%s", text)

/* A server on which nothing is to be found but notes. */
static struct lk__facts good(void)
{
	struct lk__facts facts;
	lk__facts_clear(&facts);
	facts.url = url_a;
	PUT(facts.machine, "a");
	facts.has_info = facts.has_config = facts.has_rights = true;
	PUT(facts.server, "redis");
	PUT(facts.version, "7.0.15");
	facts.compatible = 70015;
	PUT(facts.run_id, "run a");
	PUT(facts.data_id, "data a");
	PUT(facts.role, "master");
	PUT(facts.policy, "noeviction");
	PUT(facts.fsync, "always");
	facts.replicas = facts.memory_limit = facts.min_replicas = facts.timeout_s = 0;
	facts.append = facts.snapshots = 1;
	facts.lag_s = 10;
	facts.buffer_hard = 32 << 20;
	facts.buffer_soft = 8 << 20;
	facts.trip_best_us = 100;
	facts.trip_worst_us = 200;
	facts.clock_error_us = 50;
	return facts;
}

static struct lk__facts good_as(char *url, const char *mark)
{
	struct lk__facts facts = good();
	facts.url = url;
	snprintf(facts.machine, sizeof(facts.machine), "machine %s", mark);
	snprintf(facts.run_id, sizeof(facts.run_id), "run %s", mark);
	snprintf(facts.data_id, sizeof(facts.data_id), "data %s", mark);
	return facts;
}

struct judged {
	struct lk__findings findings;
	char promise[320];
};

static struct judged judge(const struct lk__facts *nodes, size_t count, bool quorum)
{
	struct judged judged = {.findings = {0}};
	struct lk__examined examined = {
		.nodes = (struct lk__facts *)nodes, .count = count, .own = count, .quorum = quorum};
	lk__judge(&judged.findings, &examined);
	lk__promise(&judged.findings, &examined, judged.promise, sizeof(judged.promise));
	return judged;
}

/* These ids, worst first, but "round-trip", which every server has; with `node` also where. */
static void are(const struct lk__findings *findings, const char *ids, bool node)
{
	char found[512] = "";
	for (size_t i = 0; i < findings->count; i++) {
		const struct lk__found_at *it = &findings->list[i];
		size_t used = strlen(found);
		assert_true(*it->detail);
		if (it->what == LK__FOUND_ROUND_TRIP)
			continue;
		used += (size_t)snprintf(found + used, sizeof(found) - used, "%s%s",
					 used ? " " : "", lk_finding_at(it->what)->id);
		if (node)
			snprintf(found + used, sizeof(found) - used, "@%zu", it->node);
	}
	free(findings->list);
	assert_string_equal(found, ids);
}

static void says(const struct lk__facts *nodes, size_t count, const char *ids, const char *promise)
{
	struct judged judged = judge(nodes, count, count > 1);
	are(&judged.findings, ids, false);
	print_message("%s\n", judged.promise);
	assert_non_null(strstr(judged.promise, promise));
}

/* ---- replicas and sentinels ---- */

/* The findings about a master of whom others are known. */
static void says_of_all(struct lk__facts *nodes, size_t count, const char *ids)
{
	struct lk__findings findings = {0};
	struct lk__examined examined = {.nodes = nodes, .count = count, .own = 1};
	lk__judge(&findings, &examined);
	are(&findings, ids, true);
}

static struct lk__facts good_master(void)
{
	struct lk__facts facts = good();
	facts.deployment = LK__SENTINEL;
	facts.replicas = facts.acks = 1;
	return facts;
}

static struct lk__facts good_replica(void)
{
	struct lk__facts facts = good_as(url_b, "b");
	facts.part = LK__PART_REPLICA;
	facts.deployment = LK__SENTINEL;
	PUT(facts.role, "replica");
	PUT(facts.data_id, "data a");
	facts.in_step = facts.read_only = 1;
	facts.priority = 100;
	return facts;
}

static struct lk__facts good_sentinel(const char *mark)
{
	struct lk__facts facts;
	lk__facts_clear(&facts);
	facts.part = LK__PART_SENTINEL;
	facts.url = url_c;
	snprintf(facts.machine, sizeof(facts.machine), "machine %s", mark);
	facts.sentinel = facts.has_rights = true;
	PUT(facts.master, "a:6379");
	facts.down_after_ms = 5000;
	facts.lease_ms = 30000;
	return facts;
}

static void test_a_watched_master(void **state)
{
	struct lk__facts nodes[] = {good_master(), good_sentinel("x"), good_sentinel("y"),
				    good_sentinel("z"), good_replica()};
	says_of_all(nodes, 5, "");
	PUT(nodes[2].master, "b:6379");
	says_of_all(nodes, 5, "sentinel-astray@2");
	PUT(nodes[2].master, "a:6379");
	PUT(nodes[2].machine, "machine x");
	says_of_all(nodes, 5, "failover-same-host@2");
	PUT(nodes[2].machine, "a"); /* a sentinel beside the master is usual */
	says_of_all(nodes, 5, "");
	nodes[1].down_after_ms = 10501;
	says_of_all(nodes, 5, "sentinel-slow@1");
	nodes[1].down_after_ms = 10500;
	says_of_all(nodes, 5, "");
	nodes[0].acks = nodes[0].replicas = 2; /* the other one has to follow, too */
	says_of_all(nodes, 5, "sentinel-slow@1");
	nodes[1].down_after_ms = 7500;
	says_of_all(nodes, 5, "");
	nodes[0].acks = nodes[0].replicas = 1;
	nodes[1].down_after_ms = 2000;
	says_of_all(nodes, 5, "");
	nodes[1].down_after_ms = 1999;
	says_of_all(nodes, 5, "sentinel-hasty@1");
	nodes[1].has_rights = false;
	PUT(nodes[1].reason, "SENTINEL MASTER: NOPERM");
	says_of_all(nodes, 5, "sentinel-hasty@1 not-looked-at@1");
	nodes[1].has_rights = true;
	nodes[1].down_after_ms = 10500;
	PUT(nodes[4].role, "master");
	says_of_all(nodes, 5, "replica-astray@4");
	PUT(nodes[4].role, "replica");
	nodes[4].in_step = nodes[4].priority = nodes[4].read_only = 0;
	PUT(nodes[1].master, "");
	PUT(nodes[1].reason, "SENTINEL MASTER: ERR No such master");
	PUT(nodes[2].no_failover, "NOQUORUM");
	nodes[3].unverified = "its certificate is not verified";
	says_of_all(nodes, 5,
		    "tls-unverified@3 replica-behind@4 replica-writable@4 sentinel-astray@1 "
		    "sentinel-no-failover@2 replica-never-promoted@4");
}

static void test_a_replica_as_master(void **state)
{
	struct lk__facts nodes[] = {good_master(), good_replica()};
	nodes[0].deployment = nodes[1].deployment = LK__REPLICAS;
	says_of_all(nodes, 2, "");
	nodes[1].append = nodes[1].snapshots = 0;
	says_of_all(nodes, 2, "replica-differs@1");
	nodes[0].append = nodes[0].snapshots = 0;
	says_of_all(nodes, 2, "persistence-off@0");
	nodes[1].loading = true;
	says_of_all(nodes, 2, "persistence-off@0 replica-behind@1");
	nodes[1].loading = false;
	PUT(nodes[1].data_id, "data b");
	says_of_all(nodes, 2, "persistence-off@0 replica-astray@1");
	nodes[0].code = LK_EUNREACHABLE;
	PUT(nodes[0].reason, "nobody answers");
	says_of_all(nodes, 2, "unreachable@0");
}

static void test_the_table(void **state)
{
	size_t count = 0;
	for (; lk_finding_at(count); count++) {
		const lk_finding_info *info = lk_finding_at(count);
		assert_true(*info->id && *info->meaning && *info->remedy);
		assert_between(info->severity, LK_SEVERITY_NOTE, LK_SEVERITY_ERROR);
		for (size_t i = 0; i < count; i++)
			assert_string_not_equal(lk_finding_at(i)->id, info->id);
		if (count > 0) /* the worst first */
			assert_true(lk_finding_at(count - 1)->severity >= info->severity);
	}
	assert_int_equal(count, LK__FOUND_COUNT);
	assert_null(lk_finding_at((size_t)-1));
}

/* Its masters are not a quorum: what one of them says is said of a part of the names. */
static void test_a_cluster(void **state)
{
	struct lk__facts facts[] = {good_as(url_a, "a"), good_as(url_b, "b"), good_as(url_c, "b")};
	struct judged judged = judge(facts, 3, false);
	assert_string_equal(judged.promise, "a cluster of 3 masters, of which 3 serve: a crash "
					    "loses no lock; while it is down no lock can be taken");
	free(judged.findings.list);
	PUT(facts[1].fsync, "everysec");
	facts[2].code = LK_EUNREACHABLE;
	judged = judge(facts, 3, false);
	assert_non_null(strstr(judged.promise, "of which 2 serve: what a crash loses differs"));
	for (size_t i = 0; i < judged.findings.count; i++)
		assert_null(strstr(lk_finding_at(judged.findings.list[i].what)->id, "quorum"));
	free(judged.findings.list);
	facts[0].code = facts[1].code = LK_EUNREACHABLE;
	judged = judge(facts, 3, false);
	assert_non_null(strstr(judged.promise, "of which 0 serve: no lock can be taken in it"));
	free(judged.findings.list);
}

/* The lease that is called safe is, and a shorter one is not. */
static void test_the_least_lease(void **state)
{
	static const int64_t failovers_ms[] = {1000,  1499,  3000,  4499,  4500,   4501,
					       12345, 18000, 24500, 65000, 3600000};
	for (size_t i = 0; i < COUNT(failovers_ms); i++) {
		int64_t least_ms = lk__pace_least_ms(failovers_ms[i]);
		assert_int_equal(least_ms % 1000, 0);
		assert_true(lk__pace_left_ms(least_ms) >= failovers_ms[i]);
		assert_true(lk__pace_left_ms(least_ms - 1000) < failovers_ms[i]);
	}
	assert_int_equal(lk__pace_least_ms(lk__pace_of_cluster_ms(15000)), 45000);
	assert_int_equal(lk__pace_least_ms(lk__pace_of_sentinels_ms(30000, 2)), 64000);
	assert_int_equal(lk__pace_of_sentinels_ms(-1, 2), 0);
	assert_int_equal(lk__pace_of_cluster_ms(-1), 0);
}

static void test_slots_and_pace_of_a_cluster(void **state)
{
	struct lk__facts facts = good();
	facts.lease_ms = 30000;
	facts.node_timeout_ms = 8334; /* every server has the setting */
	says(&facts, 1, "no-replica", "one server");
	facts.deployment = LK__CLUSTER;
	says(&facts, 1, "cluster-slow no-replica", "");
	facts.node_timeout_ms = 8333;
	facts.slots_missing = 0;
	says(&facts, 1, "no-replica", "");
	facts.slots_missing = 1;
	says(&facts, 1, "cluster-slots no-replica", "");
	facts.code = LK_EUNREACHABLE; /* the others told of them */
	PUT(facts.reason, "nobody answers");
	says(&facts, 1, "unreachable cluster-slots", "");
}

static void test_a_good_server(void **state)
{
	struct lk__facts facts = good();
	says(&facts, 1, "no-replica", "one server: a crash loses no lock");
	facts.snapshots = 0;
	says(&facts, 1, "no-replica", "a crash loses no lock");
}

static void test_eviction(void **state)
{
	struct lk__facts facts = good();
	facts.memory_limit = 100;
	says(&facts, 1, "no-replica", "one server: a crash");
	PUT(facts.policy, "volatile-lru");
	says(&facts, 1, "eviction no-replica", "none: a full memory");
	facts.memory_limit = 0;
	says(&facts, 1, "eviction-latent no-replica", "one server: a crash");
	facts.memory_limit = -1; /* the limit is not known: it may be there */
	says(&facts, 1, "eviction no-replica", "none: a full memory");
	facts = good();
	facts.memory_limit = 100;
	facts.memory_used = 89;
	says(&facts, 1, "no-replica", "one server");
	facts.memory_used = 90;
	says(&facts, 1, "memory-nearly-full no-replica", "one server");
	*facts.policy = '\0';
	facts.memory_used = 1;
	says(&facts, 1, "not-looked-at no-replica", "one server");
}

static void test_persistence(void **state)
{
	struct lk__facts facts = good();
	PUT(facts.fsync, "everysec");
	says(&facts, 1, "appendfsync-everysec no-replica", "loses the locks of about the last sec");
	PUT(facts.fsync, "no");
	says(&facts, 1, "appendfsync-no no-replica", "loses the locks of the last seconds");
	facts.append = 0;
	says(&facts, 1, "persistence-snapshots no-replica", "since the last snapshot");
	facts.snapshots = 0;
	says(&facts, 1, "persistence-off no-replica", "each restart loses every lock");
	facts.snapshots = -1;
	says(&facts, 1, "not-looked-at no-replica", "what a crash loses could not be looked at");
	facts = good();
	facts.disk_errors = true;
	says(&facts, 1, "disk-errors no-replica", "one server");
	facts = good();
	*facts.fsync = '\0';
	says(&facts, 1, "not-looked-at no-replica", "what a crash loses could not be looked at");
}

static void test_replicas(void **state)
{
	struct lk__facts facts = good();
	facts.replicas = 1;
	says(&facts, 1, "replicas-unguarded", "a failover loses the newest locks, without");
	facts.min_replicas = 1;
	says(&facts, 1, "replicas-lag", "a failover loses at most");
	facts.lag_s = 0; /* switches the guard off */
	says(&facts, 1, "replicas-unguarded", "without a limit");
	facts.replicas = -1;
	says(&facts, 1, "not-looked-at", "what a failover loses could not be looked at");
	facts = good();
	PUT(facts.role, "replica");
	says(&facts, 1, "replica", "no lock can be taken");
}

static void test_not_a_server_for_locks(void **state)
{
	struct lk__facts facts = good();
	facts.cluster = true;
	says(&facts, 1, "cluster-node", "no lock can be taken");
	facts = good();
	facts.sentinel = true;
	says(&facts, 1, "sentinel", "no lock can be taken");
	facts = good();
	facts.loading = true;
	says(&facts, 1, "loading", "no lock can be taken");
	facts = good();
	facts.active = 1;
	says(&facts, 1, "active-replication no-replica", "none: two servers");
	facts = good();
	PUT(facts.server, "keydb");
	says(&facts, 1, "unknown-server no-replica", "one server");
	*facts.server = '\0';
	says(&facts, 1, "unknown-server no-replica", "one server");
}

static void test_versions(void **state)
{
	struct lk__facts facts = good();
	facts.compatible = 60199;
	says(&facts, 1, "version-old no-replica", "none: the server is too old");
	facts.compatible = 60200;
	says(&facts, 1, "no-replica", "one server");
	PUT(facts.server, "valkey");
	facts.compatible = 70204;
	says(&facts, 1, "no-replica", "one server");
}

static void test_silent(void **state)
{
	static const struct {
		int code;
		bool sentinel;
		const char *id;
	} rows[] = {
		{LK_EUNREACHABLE, false, "unreachable"}, {LK_ETLS, false, "unusable"},
		{LK_EAUTH, false, "login-refused"},      {LK_EDENIED, false, "rights"},
		{LK_EDENIED, true, "sentinel"},          {LK_EPROTOCOL, false, "unusable"},
		{LK_EUNAVAILABLE, false, "unusable"},    {LK_EREFUSED, false, "unusable"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct lk__facts facts;
		lk__facts_clear(&facts);
		facts.url = url_a;
		facts.code = rows[i].code;
		facts.sentinel = rows[i].sentinel;
		PUT(facts.reason, "the reason");
		says(&facts, 1, rows[i].id, "");
	}
}

/* Of the others, too: who answers is reached. */
static void test_others_that_are_of_no_use(void **state)
{
	struct lk__facts nodes[] = {good_master(), good_sentinel("x"), good_sentinel("y"),
				    good_sentinel("z"), good_replica()};
	nodes[1].code = nodes[4].code = LK_EUNREACHABLE;
	PUT(nodes[1].reason, "down");
	PUT(nodes[4].reason, "down");
	says_of_all(nodes, 5, "replica-unreachable@4 sentinel-unreachable@1");
	nodes[1].code = nodes[4].code = LK_EAUTH;
	says_of_all(nodes, 5, "replica-unusable@4 sentinel-unusable@1");
}

/* Its only finding besides notes is what could not be looked at, in these words. */
static void misses(const struct lk__facts *facts, const char *what)
{
	struct judged judged = judge(facts, 1, false);
	assert_int_equal(judged.findings.list[0].what, LK__FOUND_NOT_LOOKED_AT);
	assert_non_null(strstr(judged.findings.list[0].detail, what));
	free(judged.findings.list);
}

static void test_what_is_refused_is_not_guessed(void **state)
{
	struct lk__facts facts;
	lk__facts_clear(&facts);
	facts.url = url_a;
	facts.trip_best_us = facts.trip_worst_us = 1;
	says(&facts, 1, "not-looked-at", "what a crash loses could not be looked at; what a fail");
	misses(&facts, "INFO is refused");
	misses(&facts, "; CONFIG GET is refused");
	facts = good();
	facts.has_rights = false;
	misses(&facts, "some rights");
	facts = good();
	facts.replicas = 2;
	facts.min_replicas = -1;
	says(&facts, 1, "not-looked-at", "what a failover loses could not be looked at");
	facts = good();
	facts.snapshots = -1;
	says(&facts, 1, "no-replica", "a crash loses no lock");
}

static void test_rights(void **state)
{
	struct lk__facts facts = good();
	PUT(facts.refused_partial, "zadd");
	says(&facts, 1, "rights-partial no-replica", "one server");
	PUT(facts.refused, "hset");
	says(&facts, 1, "rights rights-partial no-replica", "none: the user lacks rights");
	facts = good();
	PUT(facts.refused_messages, "subscribe on the channel c");
	says(&facts, 1, "messages-refused no-replica", "one server");
	facts = good();
	PUT(facts.deaf, "the server closed the connection");
	says(&facts, 1, "no-messages no-replica", "one server");
}

static void test_links(void **state)
{
	struct lk__facts facts = good();
	facts.timeout_s = 300;
	says(&facts, 1, "idle-timeout no-replica", "one server");
	facts = good();
	facts.buffer_soft = 4096;
	says(&facts, 1, "pubsub-buffer no-replica", "one server");
	facts.buffer_soft = facts.buffer_hard = 0; /* no limit */
	says(&facts, 1, "no-replica", "one server");
	facts.lease_ms = 100;
	facts.trip_worst_us = 10000;
	says(&facts, 1, "no-replica", "one server");
	facts.trip_worst_us = 10001;
	says(&facts, 1, "lease-short no-replica", "one server");
	facts.trip_worst_us = 200;
	facts.clock_ahead_us = 1000040;
	says(&facts, 1, "no-replica", "one server");
	facts.clock_ahead_us = -1000060;
	says(&facts, 1, "clock-apart no-replica", "one server");
	facts.clock_error_us = 5000000; /* a slow network tells no time */
	says(&facts, 1, "no-replica", "one server");
}

static void three(struct lk__facts *nodes)
{
	nodes[0] = good_as(url_a, "a");
	nodes[1] = good_as(url_b, "b");
	nodes[2] = good_as(url_c, "c");
}

static void test_quorum(void **state)
{
	struct lk__facts nodes[4];
	three(nodes);
	says(nodes, 3, "",
	     "a quorum of 3 servers, of which 3 serve: no lock is lost while a "
	     "majority of 2 serves; 1 more may fail");
	nodes[3] = good_as(url_d, "d");
	says(nodes, 4, "quorum-even", "majority of 3 serves; 1 more");
	says(nodes, 2, "quorum-too-few", "none: two servers");
	three(nodes);
	nodes[2].code = LK_EUNREACHABLE;
	PUT(nodes[2].reason, "down");
	says(nodes, 3, "unreachable",
	     "of which 2 serve: no lock is lost while a majority of 2 "
	     "serves; 0 more may fail");
	PUT(nodes[1].role, "replica");
	says(nodes, 3, "unreachable replica", "no lock can be taken, because only 1 serve");
}

static void test_a_quorum_that_is_none(void **state)
{
	struct lk__facts nodes[3];
	three(nodes);
	PUT(nodes[2].machine, nodes[0].machine);
	says(nodes, 3, "quorum-same-host", "but some share a machine");
	PUT(nodes[2].data_id, nodes[0].data_id);
	says(nodes, 3, "quorum-replicas", "none: this is no quorum");
	PUT(nodes[2].run_id, nodes[0].run_id);
	says(nodes, 3, "quorum-same-server", "none: this is no quorum");
	three(nodes);
	nodes[1].url = url_a;
	says(nodes, 3, "quorum-same-server", "none: this is no quorum");
	three(nodes);
	*nodes[0].data_id = *nodes[1].data_id = '\0'; /* not known: nothing is said */
	says(nodes, 3, "", "a quorum of 3");
	*nodes[0].run_id = '\0'; /* but without this a node has no vote */
	says(nodes, 3, "quorum-no-identity", "of which 2 serve");
	*nodes[1].run_id = '\0';
	says(nodes, 3, "quorum-no-identity quorum-no-identity", "because only 1 serve");
}

static void test_a_node_of_a_quorum_that_forgets(void **state)
{
	struct lk__facts nodes[3];
	three(nodes);
	nodes[1].append = nodes[1].snapshots = 0;
	says(nodes, 3, "quorum-restart-wait", "a quorum of 3");
	nodes[1].append = 1;
	PUT(nodes[1].fsync, "everysec");
	says(nodes, 3, "quorum-restart-wait", "a quorum of 3");
	nodes[1].replicas = 1;
	says(nodes, 3, "replicas-unguarded quorum-restart-wait", "a quorum of 3");
}

/* Until the time of the longest lease has passed since its start. */
static void test_nodes_of_a_quorum_without_a_vote(void **state)
{
	struct lk__facts nodes[3];
	three(nodes);
	for (size_t i = 0; i < 3; i++) {
		nodes[i].append = 0;
		nodes[i].uptime_s = 1000;
	}
	const char *wait = "quorum-restart-wait quorum-restart-wait quorum-restart-wait";
	says(nodes, 3, wait, "of which 3 serve");
	nodes[0].uptime_s = 30; /* of which one may not be over */
	says(nodes, 3, "quorum-no-vote quorum-restart-wait quorum-restart-wait quorum-restart-wait",
	     "of which 2 serve: no lock is lost while a majority of 2 serves; 0 more may fail");
	nodes[0].uptime_s = 31;
	says(nodes, 3, wait, "of which 3 serve");
	nodes[0].lease_ms = 60001;
	nodes[1].uptime_s = 5;
	says(nodes, 3,
	     "quorum-no-vote quorum-no-vote quorum-restart-wait quorum-restart-wait "
	     "quorum-restart-wait",
	     "a quorum of 3 servers: no lock can be taken for 26 s, because only 1 of them have");
	nodes[1].append = 1; /* always written before it answers */
	says(nodes, 3, "quorum-no-vote quorum-restart-wait quorum-restart-wait",
	     "of which 2 serve");
	nodes[1].append = -1;
	says(nodes, 3,
	     "quorum-no-vote quorum-no-vote not-looked-at quorum-restart-wait "
	     "quorum-restart-wait",
	     "for 26 s");
	nodes[2].code = LK_EUNREACHABLE;
	PUT(nodes[2].reason, "down");
	says(nodes, 3,
	     "unreachable quorum-no-vote quorum-no-vote not-looked-at quorum-restart-wait",
	     "for 31 s, because only 0 of them have");
	three(nodes); /* one server alone has no vote to lose */
	nodes[0].append = 0;
	nodes[0].uptime_s = 1;
	says(nodes, 1, "persistence-snapshots no-replica", "one server");
}

static void test_clocks_of_a_quorum(void **state)
{
	struct lk__facts nodes[3];
	three(nodes);
	nodes[0].clock_ahead_us = -600000;
	nodes[2].clock_ahead_us = 600000;
	says(nodes, 3, "quorum-clocks-apart", "a quorum of 3");
	nodes[2].clock_ahead_us = 300000;
	says(nodes, 3, "", "a quorum of 3");
}

/* ---- what servers answer ---- */

static struct lk__facts read_info(const char *text)
{
	struct lk__facts facts;
	lk__facts_clear(&facts);
	redisReply reply = {.type = REDIS_REPLY_STRING, .str = (char *)text, .len = strlen(text)};
	lk__facts_read_info(&facts, &reply);
	assert_true(facts.has_info);
	return facts;
}

static void test_servers_by_their_info(void **state)
{
	static const struct {
		const char *info, *server, *version;
		int compatible;
	} rows[] = {
		{"# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\n", "redis", "7.0.15", 70015},
		{"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n", "valkey",
		 "8.1.1", 70204},
		{"redis_version:6.2.11\r\ndragonfly_version:df-v1.2\r\n", "dragonfly", "df-v1.2",
		 60211},
		{"redis_version:7.4.3\r\ngarnet_version:1.0.60\r\n", "garnet", "1.0.60", 70403},
		{"redis_version:6.3.4\r\nexecutable:/usr/bin/keydb-server\r\n", "keydb", "6.3.4",
		 60304},
		{"redis_version:255.255.255\r\n", "redis", "255.255.255", 2575755},
		{"nothing:of use\r\n", "", "", -1},
		{"", "", "", -1},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct lk__facts facts = read_info(rows[i].info);
		assert_string_equal(facts.server, rows[i].server);
		assert_string_equal(facts.version, rows[i].version);
		assert_int_equal(facts.compatible, rows[i].compatible);
	}
}

static void test_info(void **state)
{
	struct lk__facts facts = read_info(
		"redis_version:7.0.15\r\nredis_mode:cluster\r\nrole:slave\r\nmaster_host:b\r\n"
		"master_port:7\r\nmaster_replid:data\r\nconnected_slaves:2\r\naof_enabled:1\r\n"
		"aof_last_write_status:err\r\nmaxmemory:9\r\nmaxmemory_policy:allkeys-lru\r\n"
		"run_id:this one is far longer than any run id that a server has ever told, "
		"64\r\n");
	assert_true(facts.cluster && facts.disk_errors && facts.append == 1);
	assert_int_equal(facts.uptime_s, -1);
	assert_int_equal(read_info("uptime_in_seconds:17\r\n").uptime_s, 17);
	assert_string_equal(facts.role, "replica");
	assert_string_equal(facts.master, "b:7");
	assert_string_equal(facts.data_id, "data");
	assert_string_equal(facts.policy, "allkeys-lru");
	assert_int_equal(facts.memory_limit, 9);
	assert_int_equal(facts.replicas, 2);
	assert_int_equal(strlen(facts.run_id), sizeof(facts.run_id) - 1);
	facts = read_info("role:active-replica\r\nrdb_last_bgsave_status:err\r\n");
	assert_int_equal(facts.active, 1);
	assert_true(facts.disk_errors);
}

static void read_pair(struct lk__facts *facts, const char *name, const char *value)
{
	redisReply one = {.type = REDIS_REPLY_STRING, .str = (char *)name, .len = strlen(name)};
	redisReply two = {.type = REDIS_REPLY_STRING, .str = (char *)value, .len = strlen(value)};
	redisReply *both[] = {&one, &two};
	redisReply reply = {.type = REDIS_REPLY_ARRAY, .elements = 2, .element = both};
	lk__facts_read_setting(facts, &reply);
}

static void test_settings(void **state)
{
	struct lk__facts facts;
	lk__facts_clear(&facts);
	redisReply refused = {.type = REDIS_REPLY_ERROR, .str = (char[]){"NOPERM"}};
	lk__facts_read_setting(&facts, &refused);
	assert_false(facts.has_config);
	read_pair(&facts, "save", "");
	read_pair(&facts, "appendonly", "yes");
	read_pair(&facts, "appendfsync", "everysec");
	read_pair(&facts, "client-output-buffer-limit",
		  "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60");
	read_pair(&facts, "timeout", "7");
	read_pair(&facts, "of-a-later-server", "7");
	assert_true(facts.has_config);
	assert_int_equal(facts.snapshots, 0);
	assert_int_equal(facts.append, 1);
	assert_string_equal(facts.fsync, "everysec");
	assert_int_equal(facts.buffer_hard, 33554432);
	assert_int_equal(facts.buffer_soft, 8388608);
	assert_int_equal(facts.timeout_s, 7);
	assert_string_equal(facts.server, "");
	read_pair(&facts, "multi-master", "yes");
	read_pair(&facts, "active-replica", "no");
	assert_int_equal(facts.active, 1);
	assert_string_equal(facts.server, "keydb");
}

/* KeyDB is what has its settings, with a value that they can have; not what answers anything. */
static void test_settings_that_only_keydb_has(void **state)
{
	struct lk__facts facts;
	lk__facts_clear(&facts);
	read_pair(&facts, "active-replica", "");
	read_pair(&facts, "multi-master", "0");
	assert_string_equal(facts.server, "");
	assert_int_equal(facts.active, -1);
	PUT(facts.server, "valkey");
	read_pair(&facts, "multi-master", "yes");
	assert_string_equal(facts.server, "valkey");
	lk__facts_clear(&facts);
	assert_string_equal(lk__facts_setting(0), "lockkeeper-nothing");
	read_pair(&facts, lk__facts_setting(0), "no");
	read_pair(&facts, "active-replica", "no");
	assert_string_equal(facts.server, "");
	assert_int_equal(facts.active, -1);
}

static void test_role(void **state)
{
	struct lk__facts facts;
	lk__facts_clear(&facts);
	redisReply role = {.type = REDIS_REPLY_STRING, .str = (char[]){"slave"}, .len = 5};
	redisReply host = {.type = REDIS_REPLY_STRING, .str = (char[]){"b"}, .len = 1};
	redisReply port = {.type = REDIS_REPLY_INTEGER, .integer = 7};
	redisReply *parts[] = {&role, &host, &port};
	redisReply reply = {.type = REDIS_REPLY_ARRAY, .elements = 3, .element = parts};
	lk__facts_read_role(&facts, &reply);
	assert_string_equal(facts.role, "replica");
	assert_string_equal(facts.master, "b:7");
	lk__facts_clear(&facts);
	redisReply master = {.type = REDIS_REPLY_STRING, .str = (char[]){"master"}, .len = 6};
	redisReply none = {.type = REDIS_REPLY_ARRAY, .elements = 0};
	parts[0] = &master;
	parts[1] = &port;
	parts[2] = &none;
	lk__facts_read_role(&facts, &reply);
	assert_int_equal(facts.replicas, 0);
	facts.replicas = 1; /* of INFO */
	lk__facts_read_role(&facts, &reply);
	assert_int_equal(facts.replicas, 1);
	reply.elements = 0;
	lk__facts_read_role(&facts, &reply);
	reply = (redisReply){.type = REDIS_REPLY_ERROR, .str = (char[]){"NOPERM"}};
	lk__facts_read_role(&facts, &reply);
	assert_string_equal(facts.role, "master");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_watched_master),
		cmocka_unit_test(test_a_replica_as_master),
		cmocka_unit_test(test_the_table),
		cmocka_unit_test(test_slots_and_pace_of_a_cluster),
		cmocka_unit_test(test_the_least_lease),
		cmocka_unit_test(test_a_good_server),
		cmocka_unit_test(test_a_cluster),
		cmocka_unit_test(test_eviction),
		cmocka_unit_test(test_persistence),
		cmocka_unit_test(test_replicas),
		cmocka_unit_test(test_not_a_server_for_locks),
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_silent),
		cmocka_unit_test(test_others_that_are_of_no_use),
		cmocka_unit_test(test_what_is_refused_is_not_guessed),
		cmocka_unit_test(test_rights),
		cmocka_unit_test(test_links),
		cmocka_unit_test(test_quorum),
		cmocka_unit_test(test_a_quorum_that_is_none),
		cmocka_unit_test(test_a_node_of_a_quorum_that_forgets),
		cmocka_unit_test(test_nodes_of_a_quorum_without_a_vote),
		cmocka_unit_test(test_clocks_of_a_quorum),
		cmocka_unit_test(test_servers_by_their_info),
		cmocka_unit_test(test_info),
		cmocka_unit_test(test_settings),
		cmocka_unit_test(test_settings_that_only_keydb_has),
		cmocka_unit_test(test_role),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
