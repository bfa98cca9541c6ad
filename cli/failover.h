/* SPDX-License-Identifier: MIT */
/* Tells whether a lease outlasts a failover. */
#ifndef CLI_FAILOVER_H
#define CLI_FAILOVER_H

#include <stdint.h>

#include <lockkeeper.h>

/* Asks the servers how long a failover may take, and warns if the lease is too short for it. The
 * command is ended `end_ms` before the lease ends. Blocks for about 3 s at most, and in a cluster
 * for the command limit. */
void failover_warn(lk_client *client, int64_t lease_ms, int64_t end_ms);

#endif
