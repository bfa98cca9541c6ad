/* SPDX-License-Identifier: MIT */
#include "failover.h"

#include <inttypes.h>

#include "message.h"

#define RENEWED_PART 3            /* a lease is renewed at a third */
#define END_MOST_MS INT64_C(5500) /* what a longer lease keeps at its end, without -k */

void failover_warn(lk_client *client, int64_t lease_ms, int64_t end_ms)
{
	int64_t failover_ms = 0;
	if (lk_failover_time(client, &failover_ms, NULL))
		return;
	if (failover_ms <= lease_ms - lease_ms / RENEWED_PART - end_ms)
		return;
	int64_t most_ms = end_ms > END_MOST_MS ? end_ms : END_MOST_MS;
	int64_t least_ms = (failover_ms + most_ms) * RENEWED_PART / (RENEWED_PART - 1);
	message("a failover may take %" PRId64 " ms, and the command would be ended in it: a lease "
		"of %" PRId64 " s outlasts it (-l)",
		failover_ms, (least_ms + 999) / 1000);
}
