/* SPDX-License-Identifier: MIT */
/*
 * Ending all descendants by rounds of SIGKILL: how long to pause between two rounds, and the truth
 * about those that cannot be ended, because they run as another user (a set-user-ID program, sudo).
 */
#ifndef CLI_KILL_ROUNDS_H
#define CLI_KILL_ROUNDS_H

#include <stdint.h>
#include <sys/types.h>

#include "tree.h"

struct kill_rounds {
	int64_t began_ns;
	int64_t pause_ns; /* until the next round */
	int left;         /* all that still lives cannot be ended */
	pid_t pid;        /* one of these; 0: /proc does not show it */
	int unseen;       /* rounds on end that found nobody */
	int said;
};

/* Before the first round. */
void kill_rounds_begin(struct kill_rounds *rounds);

/* Judges one round: how many processes it found, and which it might not signal. Zombies are reaped
 * between two rounds; the rounds end when no child is left. */
void kill_rounds_judge(struct kill_rounds *rounds, int living, const struct tree_denied *denied);

/* Says once what is left, which keeps the lock. */
void kill_rounds_say(struct kill_rounds *rounds);

/* Says that what is left goes on without the lock. */
void kill_rounds_give_up(const struct kill_rounds *rounds);

#endif
