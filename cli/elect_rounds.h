/* SPDX-License-Identifier: MIT */
/*
 * The rounds of `elect`: each stands for election, runs the command while it leads, and resigns
 * when that has ended.
 *
 *   shell ── elect ── keeper ── guard ── command ── …
 *
 * Each round is a process of its own, with a client, a keeper and a guard as those of `run`:
 * nothing of one round is left in the next. A signal is handed to the round, and no other round
 * follows that one.
 */
#ifndef CLI_ELECT_ROUNDS_H
#define CLI_ELECT_ROUNDS_H

#include "keeper.h"

/* Runs rounds, or one. Returns the exit code of the program. */
int elect_rounds(lk_config *config, const struct keeper_options *options, int once);

#endif
