/* SPDX-License-Identifier: MIT */
/* The way to a server: what it does to connections, how long it takes, and what its clock says. */
#include <stdlib.h>

#include "api/doctor/findings.h"

#define BUFFER_LEAST (INT64_C(1) << 20) /* room for some 10,000 messages */
#define CLOCK_APART_US INT64_C(1000000) /* more than NTP ever leaves */

static bool is_small(int64_t limit)
{
	return limit > 0 && limit < BUFFER_LEAST;
}

void lk__judge_links(struct lk__findings *findings, const struct lk__facts *node, size_t index)
{
	long long ahead_ms = (long long)node->clock_ahead_us / 1000;
	if (is_small(node->buffer_hard) || is_small(node->buffer_soft))
		lk__find(findings, LK__FOUND_BUFFER, index,
			 "client-output-buffer-limit pubsub is %lld bytes hard, %lld soft",
			 (long long)node->buffer_hard, (long long)node->buffer_soft);
	if (node->timeout_s > 0)
		lk__find(findings, LK__FOUND_TIMEOUT, index, "timeout is %lld seconds",
			 (long long)node->timeout_s);
	if (node->trip_best_us < 0)
		return;
	if (llabs(node->clock_ahead_us) > CLOCK_APART_US + node->clock_error_us)
		lk__find(findings, LK__FOUND_CLOCK, index,
			 "the server's clock is %lld.%03lld s %s ours", llabs(ahead_ms) / 1000,
			 llabs(ahead_ms) % 1000, ahead_ms > 0 ? "ahead of" : "behind");
	if (node->lease_ms > 0 && node->trip_worst_us > node->lease_ms * 100)
		lk__find(findings, LK__FOUND_LEASE, index,
			 "watchdog_ms is %lld, and ten round trips are %lld ms",
			 (long long)node->lease_ms, (long long)node->trip_worst_us / 100);
	lk__find(findings, LK__FOUND_ROUND_TRIP, index,
		 "%.2f ms at best, %.2f ms at worst of a few; ten are %.2f ms",
		 (double)node->trip_best_us / 1000, (double)node->trip_worst_us / 1000,
		 (double)node->trip_worst_us / 100);
}
