/* SPDX-License-Identifier: MIT */
/*
 * watch --prefix: all locks whose names begin so. A thread walks over the keys, as ls does, and
 * finds what has come; from then on the server tells of that name as of any other.
 *
 * A walk looks at all keys of the database. Between two of them is a pause of 5 s, and of 20 times
 * what the last one took if that is more: so walks take a twentieth of the time at most. At most
 * LK_WATCH_NAMES_MAX names are watched at once: where there are more, those go that have been free
 * for longest.
 */
#ifndef CLI_WATCH_PREFIX_H
#define CLI_WATCH_PREFIX_H

#include <lockkeeper.h>

#define WATCH_PREFIXES_MAX 64

struct watch_prefix;

/* Begins to walk. `wake` is set when names have been found, or a walk has failed. The `prefixes`,
 * and the `own` names, which never go, are kept. NULL when it cannot be started. */
struct watch_prefix *watch_prefix_new(lk_client *client, lk_cancel *wake, char **prefixes,
				      size_t prefix_count, char **own, int own_count);

/* Has the watch take what was found: 0, or an exit code (said). */
int watch_prefix_turn(struct watch_prefix *prefix, lk_watch *watch);

/* Takes note of a change that is told. Tells whether its name was found by a later walk than the
 * first, and this is its first state: the lock has come since. */
int watch_prefix_see(struct watch_prefix *prefix, const lk_change *change);

/* Waits for a question that is under way, at most for the command limit. NULL is fine. */
void watch_prefix_free(struct watch_prefix *prefix);

#endif
