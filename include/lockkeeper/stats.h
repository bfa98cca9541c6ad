/* SPDX-License-Identifier: MIT */
/* Counters of a client since it was made, and histograms of its waits and holds. */
#ifndef LOCKKEEPER_STATS_H
#define LOCKKEEPER_STATS_H

#include <stddef.h>
#include <stdint.h>

#include <lockkeeper/client.h>
#include <lockkeeper/error.h>

#define LK_HISTOGRAM_SIZE 40

/* Bucket i counts durations of at least 2^i and under 2^(i+1) µs; bucket 0 all under 2 µs. */
typedef struct lk_histogram {
	uint64_t count;
	uint64_t sum_us;
	uint64_t bucket[LK_HISTOGRAM_SIZE];
} lk_histogram;

typedef struct lk_stats {
	size_t struct_size;
	uint64_t acquires;      /* holds granted, re-entries not counted */
	uint64_t reentries;     /* holds granted without a command */
	uint64_t handovers;     /* holds passed on in memory, without a command */
	uint64_t wire_grants;   /* grants by the server */
	uint64_t releases;      /* locks released on the server */
	uint64_t busy;          /* tries that found another owner */
	uint64_t timeouts;      /* calls that ended with LK_ETIMEDOUT or LK_EBUSY */
	uint64_t cancels;       /* calls that ended with LK_ECANCELLED */
	uint64_t failures;      /* calls that failed otherwise */
	uint64_t lost;          /* holds lost */
	uint64_t renewals;      /* leases renewed */
	uint64_t compensations; /* grants of unknown or abandoned tries that were released */
	uint64_t commands;      /* commands sent, repetitions included */
	uint64_t resent;        /* commands sent again after a lost connection */
	uint64_t connects;      /* connections made */
	uint64_t disconnects;   /* connections lost */
	uint64_t messages;      /* release messages heard */
	uint64_t held;          /* now: locks held */
	uint64_t waiting;       /* now: callers in queues */
	lk_histogram wait_us;   /* from call to grant, re-entries not counted */
	lk_histogram hold_us;   /* from grant to release */
	uint64_t unheard;       /* SUBSCRIBEs that the server refused */
} lk_stats;

LK_BEGIN_DECLS

/*
 * Copies the counters into `stats_out`. Set its `struct_size` first. Does not block.
 * `unheard` counts refused SUBSCRIBEs: waiters without one look again from time to time.
 * Errors: LK_EINVAL (struct_size), LK_EFORKED. Since 0.1.
 */
LK_API int lk_client_stats(lk_client *client, lk_stats *stats_out, lk_error *error);

LK_END_DECLS

#endif
