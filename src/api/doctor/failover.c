/* SPDX-License-Identifier: MIT */
/* How long a failover may take: the one question of the doctor's that is asked alone. */
#include <lockkeeper/doctor.h>

#include <stdlib.h>

#include "api/check.h"
#include "api/doctor/examine.h"
#include "api/doctor/pace.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conn/node.h"

#define OPERATION "lk_failover_time"
#define SENTINEL_MS 500 /* to connect to one, and for each answer of it */
#define SENTINELS_MS 1000

/* Of the first that tells; most clients have found them a moment ago. 0: none does. A code, where
 * this process lacks what it needs. */
static int down_after_ms(const struct lk_config *config, int64_t *found_ms_out, lk_error *error)
{
	char host[LK__PLACE_SIZE], name[LK__PLACE_SIZE];
	int port;
	int64_t until_ns = lk__after_ms(lk__now_ns(), SENTINELS_MS);
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
	struct lk__request *request = lk__request_new(
		3, (const char *[]){"CONFIG", "GET", "cluster-node-timeout"}, (size_t[]){6, 3, 20});
	rc = lk__facts_question(asked, request, error);
	if (rc != LK__WAIT_READY)
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
	struct lk__asked asked = {.client = client};
	if (!failover_ms_out)
		return lk__fail(error, LK_EINVAL, OPERATION ": an argument is NULL");
	int saved, rc = lk__enter(client, OPERATION, &asked.thread, &saved, error);
	if (rc < 0)
		return rc;
	rc = failover_time(&asked, failover_ms_out, error);
	lk__leave(saved);
	return rc;
}
