/* SPDX-License-Identifier: MIT */
/*
 * A run is told of while it goes on: to its hooks (hooks.h), and in the one line of --json, which
 * is the last that lockkeeper says. Without either, nothing is asked for them.
 */
#ifndef CLI_TELLING_H
#define CLI_TELLING_H

#include <signal.h>
#include <stdint.h>

#include <lockkeeper/config.h>

#include "hooks.h"
#include "run_event.h"

struct telling_wish {
	struct hook_list hooks;
	int json;
};

struct telling {
	const struct telling_wish *wish;
	struct run_facts facts;
	struct hook_job job;
	struct hooks hooks;
	struct run_event event;       /* as far as it is known */
	int64_t began_ns, granted_ns; /* 0: not yet */
	enum run_event_type last;     /* which event the last one will be, as things stand */
	int lost_told, releasing, over;
	char *words; /* the line of --json, as things stand */
};

/* The wait for the lock begins. `mask` is the signal mask lockkeeper was started with; the process
 * of the hooks wipes its copy of `config`. */
void telling_begin(struct telling *telling, const struct telling_wish *wish, const char *name,
		   const sigset_t *mask, lk_config *config);

/* Somebody wants to know who has the lock instead. */
int telling_wants_holder(const struct telling *telling);

/* Another owner has it: `holder`, in words. `at_once`: the run does not wait. */
void telling_missed(struct telling *telling, const char *holder, int at_once);

/* It is held by this owner field, "" where there are several; `fence` may be 0. */
void telling_granted(struct telling *telling, const char *owner, uint64_t fence);

void telling_started(struct telling *telling);
void telling_risk(struct telling *telling);
void telling_lost(struct telling *telling);

/* Somebody asks for the lock, and says why: "" for no reason. */
void telling_asked(struct telling *telling, const char *reason);

/* The command has ended, and its lock is about to be released: lockkeeper will end with `code`,
 * also if the release is not answered. */
void telling_releasing(struct telling *telling, int code, int lost);

/* All is known. Only the first call counts. */
void telling_over(struct telling *telling, int code, int lost);

/* Waits for the hooks (hooks_end()), and prints the line. */
void telling_end(struct telling *telling);

#endif
