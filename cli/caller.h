/* SPDX-License-Identifier: MIT */
/* Who called this command: the script, for which it takes a lock and which outlives it. */
#ifndef CLI_CALLER_H
#define CLI_CALLER_H

#include <sys/types.h>

#include <lockkeeper/config.h>

/* Its number, as far as that can be told; 0: it is in another pid namespace, or has ended. */
pid_t caller_find(void);

/* Takes the caller for --while, where nothing else will do. 0, or EXIT_TROUBLE (said). */
int caller_take(pid_t *pid_out);

/* Finds out whether a process that --while names may outlive this command. 0, or EXIT_TROUBLE
 * (said). */
int caller_check(pid_t pid);

/* Has the client's record show that process (0: none), unless the options name a process or a
 * program. 0, or EXIT_TROUBLE (said). */
int caller_record(lk_config *config, pid_t pid);

#endif
