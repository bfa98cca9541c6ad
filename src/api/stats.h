/* SPDX-License-Identifier: MIT */
/* All counters of a client, for those that show them. */
#ifndef LK__API_STATS_H
#define LK__API_STATS_H

#include <lockkeeper/stats.h>

/* Fills all but `struct_size`. */
void lk__stats_get(lk_client *client, lk_stats *stats_out);

#endif
