/* SPDX-License-Identifier: MIT */
#include "api/doctor/pace.h"

#include "base/clock.h"

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

/* What lockkeeper run keeps at the end of a lease, where it is not told otherwise. */
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
