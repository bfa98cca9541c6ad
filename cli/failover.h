/* SPDX-License-Identifier: MIT */
/* Whether a lease outlasts a failover. */
#ifndef CLI_FAILOVER_H
#define CLI_FAILOVER_H

#include <stdint.h>

#include <lockkeeper.h>

/* Asks the servers, and says so if the lease does not. `end_ms`: so long before the end of it the
 * command is ended. Blocks for about 3 s at most, and in a cluster for the command limit. */
void failover_warn(lk_client *client, int64_t lease_ms, int64_t end_ms);

#endif
