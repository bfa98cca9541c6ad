/* SPDX-License-Identifier: MIT */
/*
 * How long a failover takes at most, as far as the settings tell: from the death of a master until
 * its locks can be renewed at another. And which leases outlast that.
 *
 *   last renewal ─ a third of the lease ─▶ the master dies, just before the next one
 *     ─▶ it is missed ─▶ another is elected ─▶ replicas follow that ─▶ renewed
 *     ─▶ lockkeeper run would end its command ─▶ the end of the lease
 */
#ifndef LK__API_DOCTOR_PACE_H
#define LK__API_DOCTOR_PACE_H

#include <stdint.h>

/* 0: not known. `acks`: how many replicas must have a renewal. */
int64_t lk__pace_of_sentinels_ms(int64_t down_after_ms, int64_t acks);
int64_t lk__pace_of_cluster_ms(int64_t node_timeout_ms);

/* What a lease leaves for a failover. */
int64_t lk__pace_left_ms(int64_t lease_ms);

/* The shortest lease, in whole seconds, that leaves so much. */
int64_t lk__pace_least_ms(int64_t failover_ms);

#endif
