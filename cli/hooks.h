/* SPDX-License-Identifier: MIT */
/*
 * run --on EVENT=COMMAND: commands that are told what becomes of the run.
 *
 * A process of its own runs them, so they delay neither a renewal nor the end of the command, and
 * their end changes no exit status. It is forked before there is a client, in a session of its own,
 * and no descendant of the keeper, which would end it where the guard has died; only where
 * lockkeeper is process 1 do orphans come back to it.
 *
 * - The hooks of an event run beside one another, each with a limit of 10 s. A hook has ended when
 *   no process of its group is left. At its limit it is killed with all that it started.
 * - The hooks of the last event (run_event.h) wait until those before have ended. So a monitor that
 *   hears of the start hears of it before the end, and lockkeeper ends at most 20 s (twice the
 *   limit) later than without hooks.
 * - A hook whose last run has not ended is not run again for an event that comes meanwhile.
 * - If the keeper is killed, the hooks of the last event that it promised run, which is `error`
 *   until it has begun to release.
 * - A hook that fails, is killed at its limit or cannot be started is a warning. The warning does
 *   not show the hook's command, which may have a secret in it.
 */
#ifndef CLI_HOOKS_H
#define CLI_HOOKS_H

#include <signal.h>
#include <stddef.h>

#include <lockkeeper/config.h>

#include "run_event.h"

#define HOOKS_MAX 128
#define HOOK_LIMIT_MS INT64_C(10000)
#define HOOKS_END_LIMIT_MS (2 * HOOK_LIMIT_MS)

struct hook {
	unsigned events; /* a bit for each */
	const char *command;
};

struct hook_list {
	struct hook hooks[HOOKS_MAX];
	size_t count;
	unsigned events; /* of all */
};

/* All that the process that runs them needs to know. */
struct hook_job {
	const struct hook_list *list;
	const struct run_facts *facts;
	sigset_t mask; /* the signal mask lockkeeper was started with */
};

struct hook_message {
	struct run_event event;
	int is_promise; /* for when the keeper ends without a word */
};

struct hooks {
	int fd; /* to the process that runs them; -1: there is none */
};

/* Takes the value of --on: EVENT[,EVENT…]=COMMAND, which is kept. 0, or an exit code (said). */
int hooks_take(struct hook_list *list, const char *value);

/* Starts the process that runs them, which wipes its copy of `config`. Where that fails, it says so
 * and the run goes on without hooks. */
void hooks_begin(struct hooks *hooks_out, const struct hook_job *job, lk_config *config);

/* Tells of an event, without waiting. */
void hooks_tell(const struct hooks *hooks, const struct run_event *event);

/* Says which event is the last one if the keeper ends without telling of one. */
void hooks_promise(const struct hooks *hooks, const struct run_event *event);

/* Behind the last event: waits until all have ended, HOOKS_END_LIMIT_MS at most. A signal that ends
 * a wait, and arrives a second after the release or later, ends this one, too; the hooks go on for
 * what is left of their limit. */
void hooks_end(struct hooks *hooks);

/* The work of that process, which returns when the keeper has gone and the last hook has ended. */
void hook_runner_main(int fd, const struct hook_job *job);

#endif
