/* SPDX-License-Identifier: MIT */
/* What `run` and `elect` make of their options and operands. Each returns 0, or an exit code
 * (said). */
#ifndef CLI_RUN_SETTLE_H
#define CLI_RUN_SETTLE_H

#include "keeper.h"
#include "options.h"

/* Options that were given: what follows from others does not replace them. */
struct run_given {
	int grace, quarantine;
};

/* The lease is the watchdog's: either -l sets it, or it is what the client is configured to; and
 * what follows from it. */
int run_settle_lease(struct keeper_options *keep, const struct run_given *given, lk_config *config);

/* Finds NAME and the command among the operands. `shell_line`: that of -c, or NULL. */
int run_settle_operands(const struct command *command, struct keeper_options *keep,
			const char *shell_line, int argc, char **argv);

/* The record of the client shows the command's name. */
int run_settle_program(const struct keeper_options *keep, lk_config *config);

#endif
