/* SPDX-License-Identifier: MIT */
/* Counters of a client since it was made, histograms of its waits, holds and renewals, and all of
 * them as text for Prometheus. */
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

/* Why a hold was lost. */
enum lk_loss_cause {
	LK_LOST_EXPIRED, /* its lease ended: it was not to be renewed, or the process did not run */
	LK_LOST_BROKEN,  /* the server did not have it any more */
	LK_LOST_UNREACHABLE, /* no server, or no majority, answered its renewals in time */
	LK_LOST_REFUSED,     /* the server refused to renew it */
	LK_LOST_UNKNOWN,     /* memory or a resource was lacking */
	LK_LOSS_CAUSES
};

typedef struct lk_stats {
	size_t struct_size;
	uint64_t acquires;      /* holds granted, re-entries not counted */
	uint64_t reentries;     /* holds granted without a command */
	uint64_t handovers;     /* holds passed on in memory, without a command */
	uint64_t wire_grants;   /* grants by the server */
	uint64_t releases;      /* locks released on the server */
	uint64_t busy;          /* tries that found another owner */
	uint64_t timeouts;      /* calls that ended with LK_ETIMEDOUT */
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
	uint64_t refusals;      /* calls that ended with LK_EBUSY */
	uint64_t contended; /* of the acquires: those that another owner or caller kept waiting */
	uint64_t at_risk;   /* holds whose margin began before they were renewed or released */
	uint64_t failovers; /* times that another master was believed */
	uint64_t lost_by[LK_LOSS_CAUSES]; /* the holds lost, by enum lk_loss_cause */
	lk_histogram renewal_us;          /* from sending a renewal to its answer */
	lk_histogram margin_us;           /* the lease that was left when that answer came */
} lk_stats;

#define LK_HISTOGRAM_INIT                                                                          \
	{                                                                                          \
		0, 0,                                                                              \
		{                                                                                  \
			0                                                                          \
		}                                                                                  \
	}

#define LK_STATS_INIT                                                                              \
	{                                                                                          \
		sizeof(lk_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,         \
			LK_HISTOGRAM_INIT, LK_HISTOGRAM_INIT, 0, 0, 0, 0, 0, {0},                  \
			LK_HISTOGRAM_INIT, LK_HISTOGRAM_INIT                                       \
	}

LK_BEGIN_DECLS

/*
 * Copies the counters into `stats_out`. Set its `struct_size` first. Does not block.
 * `unheard` counts refused SUBSCRIBEs: waiters without one look again from time to time.
 * Errors: LK_EINVAL (struct_size), LK_EFORKED. Since 0.2.
 */
LK_API int lk_client_stats(lk_client *client, lk_stats *stats_out, lk_error *error);

#define LK_STATS_CLIENTS_MAX 100 /* in one text */
#define LK_STATS_NAMES_MAX 100   /* of one client */

/*
 * From now on locks of this name, of every kind, are also counted apart, and lk_stats_write() shows
 * them with the name as the label `lock`. A name that ends in '*' stands for all names that begin
 * with what is before it. The first that was declared and fits counts; locks that none fits count
 * as "other". Names are copied, and may be any bytes: what is no UTF-8 becomes U+FFFD in the label,
 * and names with the same label are counted together. A name may be declared again.
 *
 * Declare names before the client has a lock: later, this fails with LK_EINVAL, so that the counts
 * of all names are always those of the client. `name_size` may be LK_STRLEN. Does not block.
 * Errors: LK_EINVAL, LK_ELIMIT (LK_STATS_NAMES_MAX), LK_ENOMEM, LK_ECLOSED, LK_EFORKED. Since 0.2.
 */
LK_API int lk_stats_declare(lk_client *client, const void *name, size_t name_size, lk_error *error);

enum lk_stats_format {
	LK_STATS_PROMETHEUS, /* text 0.0.4: "text/plain; version=0.0.4; charset=utf-8" */
	LK_STATS_OPENMETRICS /* "application/openmetrics-text; version=1.0.0; charset=utf-8" */
};

/* One of the clients whose metrics stand in a text. */
typedef struct lk_stats_source {
	lk_client *client;
	const char
		*label; /* the value of its label `client`; NULL: it has none, where it is alone */
} lk_stats_source;

/*
 * Writes the metrics of `count` clients, 1 … LK_STATS_CLIENTS_MAX, as text into `buffer`, without
 * a NUL, and its length to `length_out`. docs/metrics.md lists the series. In each text the number
 * of a histogram's durations is the sum of its buckets. Their bounds are powers of four in
 * microseconds, written in seconds, with a decimal point whatever the locale. A label may be any
 * text: bytes that are no UTF-8 become U+FFFD. The size of the text does not grow with the number
 * of locks: the only names in it are those of lk_stats_declare(). Of a client's nodes only the
 * first 100 are shown. Does not block, send, or allocate memory. Any thread may call it, also for a
 * client without threads.
 *
 * A text that does not fit fails with LK_ELIMIT: `buffer` then has nothing of use, and
 * `length_out` is the size that is needed, which can grow until the next call. `buffer` may be NULL
 * if `size` is 0.
 * Errors: LK_EINVAL (an argument; several sources, and one without a label), LK_ELIMIT, LK_EFORKED.
 * Since 0.2.
 */
LK_API int lk_stats_write(const lk_stats_source *sources, size_t count, int format, char *buffer,
			  size_t size, size_t *length_out, lk_error *error);

LK_END_DECLS

#endif
