/* SPDX-License-Identifier: MIT */
/* How sentinels are reached and read, for those who ask them about more than their master. */
#ifndef LK__TOPO_SENTINEL_H
#define LK__TOPO_SENTINEL_H

#include <stdbool.h>

#include <hiredis/hiredis.h>

struct lk_config;
struct lk__link;

/* A copy of the configuration with the users, passwords and TLS of sentinels, which are their own.
 * NULL: out of memory. */
struct lk_config *lk__sentinel_config(const struct lk_config *config);

/* Writes the place of an instance into LK__PLACE_SIZE bytes; false: it has none. */
bool lk__sentinel_place(const redisReply *instance, char *place_out);

#endif
