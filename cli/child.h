/* SPDX-License-Identifier: MIT */
/* Starting the command, as a child of the guard. */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include <signal.h>
#include <sys/types.h>

struct guard_page;

/* Saves what lockkeeper changes of its signals before the command is started: the command must get
 * it back as it was. */
void child_save_signals(void);

/* Gives them back, in a process that is about to execute another program, with this mask. */
void child_restore_signals(const sigset_t *mask);

/*
 * Forks and executes the command of the page: in its group, with the signal mask and dispositions
 * that lockkeeper was started with, and LOCKKEEPER_NAME, _RUN, _OWNER and _DEADLINE_MS in its
 * environment; variables that give the number of the process that was started as lockkeeper give
 * the command's.
 * Does not wait until it is executed, which may take long: `*exec_out` becomes readable with errno
 * (an int) when it could not be, and ends without it once it runs. 0, or errno.
 *
 * In the job's group it is not executed before child_go(); until then every signal for it is kept.
 */
int child_start(const struct guard_page *page, pid_t *pid_out, int *exec_out);

/* Lets the command be executed; `exec` is from child_start(). */
void child_go(int exec);

#endif
