/* SPDX-License-Identifier: MIT */
/*
 * run --metrics-file: what a job under a lock did last, as a file for a collector of text files
 * (Prometheus' node_exporter).
 *
 *     lockkeeper_job_last_success_timestamp_seconds{lock="nightly"} 1764300000.123
 *
 * The file is for one job on one host. It is written whole: under another name, which collectors
 * leave alone, and then renamed. What a run does not know stays as the file had it, so a run that
 * was skipped changes its own series only. A file that cannot be read or written is a warning, and
 * nothing else: the job runs.
 */
#ifndef CLI_JOB_METRICS_H
#define CLI_JOB_METRICS_H

#include <stdint.h>

enum job_series {
	JOB_START, /* timestamps are in ms since 1970 */
	JOB_END,
	JOB_LAST_SUCCESS,
	JOB_DURATION, /* ms */
	JOB_WAIT,     /* ms */
	JOB_STATUS,
	JOB_RUNNING,
	JOB_SKIPS,
	JOB_SUCCEEDED, /* from here on: runs, by result */
	JOB_FAILED,
	JOB_SKIPPED,
	JOB_LOST,
	JOB_REFUSED, /* the lock could not be had, and not since another had it */
	JOB_SERIES
};

struct job_metrics {
	const char *path; /* NULL: nothing is written */
	const char *lock;
	int64_t begun_ns, granted_ns; /* 0: not yet */
};

/* 0, or an exit code (said): the path is not one that a collector would read. */
int job_metrics_check(const char *path);

/* The wait for the lock begins; the strings are kept. */
void job_metrics_begin(struct job_metrics *metrics, const char *path, const char *lock);

/* The lock was granted, and the command starts. */
void job_metrics_started(struct job_metrics *metrics);

/* The command has ended with this exit code of ours. */
void job_metrics_ended(const struct job_metrics *metrics, int code, int lost);

/* There was no grant; `skipped`: another owner had the lock. */
void job_metrics_missed(const struct job_metrics *metrics, int skipped);

#endif
