/* SPDX-License-Identifier: MIT */
/*
 * The options and operands that `run` and `elect` have in common, and what follows from them.
 *
 * run_take() for each option, then run_operands(), then run_settle(). Each returns 0, or an exit
 * code (said).
 */
#ifndef CLI_RUN_SETTLE_H
#define CLI_RUN_SETTLE_H

#include "keeper.h"
#include "options.h"

/* Options that were given: what follows from others does not replace them. */
struct run_given {
	int grace, quarantine;
	const char *shell_line; /* of -c; NULL: none */
	const char *note;       /* NULL: none */
};

/* Takes -l, -k, -s or -c; does nothing for any other option. */
int run_take(struct keeper_options *keep, struct run_given *given, int id, const char *value);

/* Finds NAME and the command among the operands. */
int run_operands(const struct command *command, struct keeper_options *keep,
		 const struct run_given *given, int argc, char **argv);

/* Settles lease, grace, quarantine, and what the client's record tells of the command; and the
 * server. */
int run_settle(struct keeper_options *keep, const struct run_given *given, lk_config *config);

#endif
