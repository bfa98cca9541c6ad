/* SPDX-License-Identifier: MIT */
/*
 * The front: on a terminal, the process that the shell knows as the job.
 *
 * Ctrl-Z must stop what the shell waits for, and a stopped process cannot renew a lease. So where
 * there is a controlling terminal, lockkeeper is two processes: the front, which stops and goes on
 * with the command, and behind it, in a group of its own that the terminal's signals do not reach,
 * the keeper, which renews all the while.
 *
 * The command joins the front's process group, the job's. So the terminal, the shell and the
 * other members of a pipeline treat it as they treat any job; nobody has to move the foreground.
 * What the terminal sends to the group is not sent a second time. To be sure which signals those
 * are, the command waits with all signals blocked until the front knows that it is in the group:
 *
 *   keeper ── joined ──> front          the command has all that comes from now on
 *   keeper <── what came before, ready  the command is given that, whether it has it already or
 *                                       not: a blocked signal is pending once, however often sent
 *   keeper ── go ──> guard              the command is executed
 */
#ifndef CLI_JOB_FRONT_H
#define CLI_JOB_FRONT_H

#include <signal.h>
#include <sys/types.h>

#include <lockkeeper/config.h>

struct front {
	pid_t pid;   /* 0: there is none */
	pid_t group; /* the job's process group */
	pid_t shell; /* the front's parent */
	int fd;      /* to the front; end of file: it is gone. -1: there is none */
};

/*
 * On a terminal, forks: the caller goes on as the keeper in the child, and the parent serves as the
 * front and never returns; it wipes its copy of `config`. Elsewhere does nothing. 0, or
 * EXIT_TROUBLE (said).
 */
int front_split(struct front *front_out, lk_config *config, const sigset_t *relayed);

/* Tells the front that the command has joined its group. */
void front_joined(const struct front *front, pid_t command);

/* 1 when the front has answered that, and relayed all signals that came before, else 0. */
int front_is_ready(const struct front *front);

/* Has the front stop itself by `number`, as the command was stopped; not if the command goes on
 * again by then. */
void front_stop(const struct front *front, int number);

/*
 * 1 when the shell has gone away and left the front behind. The kernel would then hang up a stopped
 * job; ours it takes for one that still has a shell, for the command's parent, the guard, is in the
 * same session.
 */
int front_is_orphaned(const struct front *front);

/* Has the front restore the terminal's settings at the end, for the command was killed. */
void front_restore(const struct front *front);

/* Tells the front that lockkeeper ends: wakes it if it is stopped, and, with `number` not 0, has
 * it die of that signal, so that a shell's loop ends on Ctrl-C. */
void front_finish(const struct front *front, int number);

#endif
