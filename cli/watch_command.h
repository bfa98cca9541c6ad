/* SPDX-License-Identifier: MIT */
/*
 * watch … -- COMMAND: a program that is run for each change.
 *
 * One at a time, in the order in which the names changed. Changes of a name that come while it runs
 * become one: the newest, with their number, and whether one of them was a gap. So no more is kept
 * than one change for each name, and a slow program delays no watch. It is told by its environment,
 * and by an object on its standard input. It has a process group of its own: a signal that ends the
 * watch is passed on to that, and what has not ended 10 s later is killed.
 */
#ifndef CLI_WATCH_COMMAND_H
#define CLI_WATCH_COMMAND_H

#include <lockkeeper.h>

struct watch_command;

/* `argv` is kept, and ends with NULL. From here on a signal that ends a program is taken note of,
 * and so is the end of a COMMAND: each sets `wake`. NULL when out of memory. */
struct watch_command *watch_command_new(char **argv, lk_cancel *wake);

/* Sees that it is run for that change: 0, or EXIT_TROUBLE (said). */
int watch_command_tell(struct watch_command *command, const lk_change *change);

/* Takes note of an end, and starts what is next. 1 while there is anything to run, or 0; of a
 * COMMAND that cannot be executed `*code_out` is the exit code (said), and else 0. */
int watch_command_turn(struct watch_command *command, int *code_out);

/* Waits until all have run, or a signal came. The exit code of the last one. */
int watch_command_drain(struct watch_command *command);

/* The signal that came; 0: none did. */
int watch_command_signal(void);

/* Ends the one that runs, and frees it. NULL is fine. */
void watch_command_free(struct watch_command *command);

#endif
