/* SPDX-License-Identifier: MIT */
/*
 * The keeper: takes the lock, has the guard run the command, keeps the lease while it runs, and
 * releases.
 */
#ifndef CLI_KEEPER_H
#define CLI_KEEPER_H

#include <stdint.h>

#include <lockkeeper.h>

#include "kind.h"
#include "nodes.h"
#include "telling.h"
#include "wait_status.h"

#define KEEPER_WAIT_FOREVER INT64_C(-1)

struct keeper_options {
	int64_t wait_ms; /* KEEPER_WAIT_FOREVER, 0: ask once, else the limit */
	int64_t lease_ms;
	int64_t grace_ms;
	int64_t hold_ms;   /* the lock stays at least so long, also when the command has ended */
	int conflict_code; /* exit code when another owner holds the lock */
	int end_signal;
	struct wait_status_wish told; /* verbose: not the wait alone */
	const struct lock_kind *kind;
	int64_t permits; /* 0: a lock; else a permit of so many */
	const char *name;
	const char *also[LK_MULTI_LOCK_MAX]; /* locks to take besides */
	size_t also_count;
	struct nodes nodes; /* more than one: a quorum */
	int64_t quarantine_ms;
	const char *metrics_file; /* NULL: none */
	struct telling_wish tell;
	char *const *argv;
};

/* Runs the command under the lock; the configuration is used up. Returns the exit code of the
 * program. */
int keeper_run(lk_config *config, const struct keeper_options *options);

#endif
