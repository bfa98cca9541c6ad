/* SPDX-License-Identifier: MIT */
/* A change of a lock, as a line. */
#ifndef CLI_WATCH_LINE_H
#define CLI_WATCH_LINE_H

#include <jansson.h>

#include <lockkeeper/watch.h>

/* The name of a kind of change: "acquired", … */
const char *change_name(const lk_change *change);

/* Tells whether somebody has it, as far as the change says: 1, or 0. */
int change_is_held(const lk_change *change);

/* Prints it to stdout, and flushes that: 0, or EXIT_TROUBLE (said). */
int change_print(const lk_change *change);

/* Prints it as an object on one line. */
int change_print_json(const lk_change *change);

/* That object; NULL when out of memory. */
json_t *change_json(const lk_change *change);

#endif
