/* SPDX-License-Identifier: MIT */
/* Who called this command: the script, for which it takes a lock and which outlives it. */
#ifndef CLI_CALLER_H
#define CLI_CALLER_H

#include <lockkeeper/config.h>

/* Has the client's record show the caller, unless the options name a process or a program. 0, or
 * EXIT_TROUBLE (said). */
int caller_record(lk_config *config);

#endif
