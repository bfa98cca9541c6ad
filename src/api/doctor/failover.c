/* SPDX-License-Identifier: MIT */
/*
 * How long a failover takes at most, as far as the settings tell: from the death of a master until
 * its locks can be renewed at another. And which leases outlast that.
 *
 *   last renewal ─ a third of the lease ─▶ the master dies, just before the next one
 *     ─▶ it is missed ─▶ another is elected ─▶ replicas follow that ─▶ renewed
 *     ─▶ lockkeeper run would end its command ─▶ the end of the lease
 *
 * It is the one question of the doctor's that is also asked alone.
 */
#include <lockkeeper/doctor.h>

#include <stdlib.h>

#include "api/check.h"
#include "api/doctor/findings.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conn/node.h"

#define OPERATION "lk_failover_time"
#define SENTINEL_MS 500 /* to connect to one, and for each answer of it */
#define SENTINELS_ALL_MS 1000

/* Sentinels ping once a second, ask one another once a second, begin an election within a second,
 * and look once a second whether the new master is one. */
#define SENTINELS_MS 4000
/* They tell other replicas to follow the new master, which then must have each renewal. */
#define FOLLOW_MS 3000

/* A node pings each other one after half of the timeout. A replica then waits half a second and a
 * random half; votes and the new map need some pings. */
#define PINGED_PART 2
#define VOTE_MS 2000

#define RENEWED_PART 3 /* a lease is renewed at a third */

/* The time that lockkeeper run keeps at the end of a lease, where it is not told otherwise. */
#define GRACE_MS INT64_C(5000)
#define GRACE_PART 3
#define SLACK_PART 10
#define SLACK_LEAST_MS INT64_C(10)
#define SLACK_MOST_MS INT64_C(500)

#define ROUND_MS 1000

int64_t lk__pace_of_sentinels_ms(int64_t down_after_ms, int64_t acks)
{
	if (down_after_ms <= 0)
		return 0;
	return down_after_ms + SENTINELS_MS + (acks > 1 ? FOLLOW_MS : 0);
}

int64_t lk__pace_of_cluster_ms(int64_t node_timeout_ms)
{
	return node_timeout_ms <= 0 ? 0 : node_timeout_ms + node_timeout_ms / PINGED_PART + VOTE_MS;
}

int64_t lk__pace_left_ms(int64_t lease_ms)
{
	int64_t grace_ms = lk__earlier(GRACE_MS, lease_ms / GRACE_PART);
	int64_t slack_ms = lk__earlier(SLACK_MOST_MS,
				       lk__later(SLACK_LEAST_MS, lease_ms / SLACK_PART));
	return lease_ms - lease_ms / RENEWED_PART - grace_ms - slack_ms;
}

/* With both at their most; a shorter lease has less of them. */
int64_t lk__pace_least_ms(int64_t failover_ms)
{
	int64_t least_ms = (failover_ms + GRACE_MS + SLACK_MOST_MS) * RENEWED_PART /
			   (RENEWED_PART - 1);
	int64_t short_ms = (failover_ms + SLACK_MOST_MS) * RENEWED_PART;
	if (short_ms < GRACE_MS * GRACE_PART)
		least_ms = short_ms;
	least_ms = (least_ms + ROUND_MS - 1) / ROUND_MS * ROUND_MS;
	return lk__pace_left_ms(least_ms) < failover_ms ? least_ms + ROUND_MS : least_ms;
}

/* ---- asked alone ---- */

/* Asks until the first one tells; most clients have found them a moment ago. 0: none does. A code,
 * where this process lacks what it needs. */
static int down_after_ms(const struct lk_config *config, int64_t *found_ms_out, lk_error *error)
{
	char host[LK__PLACE_SIZE], name[LK__PLACE_SIZE];
	int port;
	int64_t until_ns = lk__after_ms(lk__now_ns(), SENTINELS_ALL_MS);
	const char *at = config->places;
	while (*found_ms_out <= 0 && lk__now_ns() < until_ns &&
	       (at = lk__place_next(at, host, &port))) {
		lk__place_name(name, host, port);
		int rc = lk__sentinel_pace(config, name, SENTINEL_MS, found_ms_out);
		if (rc == LK_ENOMEM || rc == LK_ESYSTEM)
			return lk__fail(error, rc, OPERATION ": %s: %s", name, lk_error_text(rc));
	}
	return 0;
}

/* 0: it does not say. A code, where the node cannot be asked. */
static int node_timeout_ms(const struct lk__asked *asked, int64_t *timeout_ms_out, lk_error *error)
{
	struct lk__facts facts;
	lk__facts_clear(&facts);
	int rc = lk__facts_connect(asked, error);
	if (rc != LK__WAIT_READY)
		return rc;
	struct lk__request *request = lk__asked_say(
		asked, LK__SAY("CONFIG", "GET", "cluster-node-timeout"), &rc, error);
	if (!request)
		return rc == LK_EDENIED || rc == LK_EREFUSED ? 0 : rc;
	lk__facts_read_setting(&facts, request->reply);
	lk__request_free(request);
	*timeout_ms_out = facts.node_timeout_ms;
	return 0;
}

static int failover_time(struct lk__asked *asked, int64_t *failover_ms_out, lk_error *error)
{
	const struct lk_config *config = asked->client->config;
	struct lk__topo *topo = asked->client->topo;
	int64_t missed_ms = 0;
	int rc = 0;
	asked->node = topo->ops->node_at(topo, 0);
	if (config->deployment == LK__CLUSTER)
		rc = node_timeout_ms(asked, &missed_ms, error);
	else if (config->deployment == LK__SENTINEL)
		rc = down_after_ms(config, &missed_ms, error);
	if (rc < 0)
		return rc;
	*failover_ms_out = config->deployment == LK__SENTINEL
				   ? lk__pace_of_sentinels_ms(missed_ms, lk__node_acks(asked->node))
				   : lk__pace_of_cluster_ms(missed_ms);
	return 0;
}

int lk_failover_time(lk_client *client, int64_t *failover_ms_out, lk_error *error)
{
	struct lk__asked asked = {.client = client, .what = "examine"};
	if (!failover_ms_out)
		return lk__fail(error, LK_EINVAL, OPERATION ": an argument is NULL");
	int saved, rc = lk__enter(client, OPERATION, &asked.thread, &saved, error);
	if (rc < 0)
		return rc;
	rc = failover_time(&asked, failover_ms_out, error);
	lk__leave(saved);
	return rc;
}
