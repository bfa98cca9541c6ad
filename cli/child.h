/* Starting the command, as a child of the guard. */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include <sys/types.h>

struct guard_page;

/* What lockkeeper changes of its signals before the command is started, and the command must
 * get back as it was: saves it. */
void child_save_signals(void);

/*
 * Forks and executes the command of the page: in its group, with the signal mask and dispositions
 * that lockkeeper was started with, and LOCKKEEPER_NAME, _OWNER and _DEADLINE_MS in its
 * environment.
 * 0 once it runs, else errno.
 */
int child_start(const struct guard_page *page, pid_t *pid_out);

#endif
