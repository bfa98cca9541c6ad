/* SPDX-License-Identifier: MIT */
/*
 * The keeper: takes the lock, has the guard run the command, keeps the lease while it runs, and
 * releases.
 */
#ifndef CLI_KEEPER_H
#define CLI_KEEPER_H

#include <stdatomic.h>
#include <stdint.h>

#include <lockkeeper.h>

#include "kind.h"
#include "nodes.h"
#include "telling.h"
#include "wait_status.h"

#define KEEPER_WAIT_FOREVER INT64_C(-1)

/* A round and who started it tell one another this, in memory of both. */
struct keeper_drain {
	_Atomic int wanted; /* the leader is to hand over when another waits */
	_Atomic int leads;  /* the candidate does */
};

/* How `elect` runs: it stands for election, and leads while its command runs. */
struct keeper_election {
	const char *value;
	int priority;
	int standing;
	const char *ready_file;    /* NULL: none */
	const char *progress_file; /* NULL: none; else the command touches it */
	int64_t progress_ms;       /* so often */
	int drain_signal;          /* 0: none */
	struct keeper_drain *drain;
};

/* The end of a run, in memory that outlives its process. */
struct keeper_outcome {
	int acquired; /* the lock was granted, */
	int started;  /* and the command ran; */
	int asked;    /* and was ended since the leader was asked to give its place away; */
	int leaving;  /* it was said to be about to end */
	int passes;   /* or was not, and what stood in the way may pass */
	int64_t held_ms;
};

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
	int64_t parties; /* 0: a lock; else a place inside a barrier of so many */
	const char *name;
	const char *also[LK_MULTI_LOCK_MAX]; /* locks to take besides */
	size_t also_count;
	struct nodes nodes; /* more than one: a quorum */
	int64_t quarantine_ms;
	const char *metrics_file; /* NULL: none */
	struct telling_wish tell;
	int yields;          /* the command is ended when somebody asks for the lock */
	int replaces;        /* who holds it is asked to give it up */
	const char *command; /* of lockkeeper: "run", "elect" or "barrier" */
	char *const *argv;
	const struct keeper_election *election; /* NULL: it is a lock */
	struct keeper_outcome *outcome;         /* NULL: nobody asks */
};

/* Tells whether the run is to hear when somebody asks for its lock. */
int keeper_hears(const struct keeper_options *options);

/* Runs the command under the lock; the configuration is used up. Returns the exit code of the
 * program. */
int keeper_run(lk_config *config, const struct keeper_options *options);

#endif
