/* SPDX-License-Identifier: MIT */
/* The completions of the shells: one function each, all made from the tables that are parsed. */
#ifndef CLI_COMPLETION_H
#define CLI_COMPLETION_H

#include "options.h"

/* Print the whole completion, of the commands of that table, to stdout. */
void completion_bash(const struct command *table);
void completion_zsh(const struct command *table);
void completion_fish(const struct command *table);

/*
 * A command line for any of the shells that prints the names of the locks, each on a line, for
 * about a second at most. Add "- PATTERN": lines of ls without it are left out. It says nothing on
 * an error, and never starts the private server: `ls`
 * is given the URL of the one that runs. A name that ls escapes, or that looks like an option, is
 * left out. The names are whatever others wrote to the server: a shell must not expand them.
 */
extern const char completion_locks[];

/* The pattern for counters: they have no holder. */
#define COMPLETION_COUNTERS "\t-\t"

/* Which operand of the command is the name of a lock, or 2: of a counter; 0: none is. */
int completion_name_place(const struct command *command);

/* Calls `print` with each option of the command, the common ones included. */
void completion_options(const struct command *command,
			void (*print)(const struct command *command, const struct option_row *row));

/* Prints the long and the short name of an option that has a value, for a list of words. */
void completion_print_valued(const struct command *command, const struct option_row *row);

/* Prints the names of the options of the client, but for secrets. */
void completion_print_names(void);

/* Prints the events of run --on. */
void completion_print_events(void);

#endif
