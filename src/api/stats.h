/* SPDX-License-Identifier: MIT */
/* All counters of a client, for those that show them. */
#ifndef LK__API_STATS_H
#define LK__API_STATS_H

#include <lockkeeper/stats.h>

struct lk__counters;

/* Fills all but `struct_size`. */
void lk__stats_get(lk_client *client, lk_stats *stats_out);

/* Reads what is counted by name: all but what its nodes count. */
void lk__stats_get_counters(const struct lk__counters *counters, lk_stats *stats_out);

#endif
