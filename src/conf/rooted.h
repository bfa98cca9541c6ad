/* SPDX-License-Identifier: MIT */
/*
 * Paths that do not begin at the root: each is meant from the folder in which the program is when
 * it sets the option. The program may leave that folder afterwards, as whoever goes into the
 * background does, and a client reads its files and finds its socket again with each connection.
 *
 * A path stays as it is where the whole one does not fit, or where that folder has no path (it is
 * removed, say).
 */
#ifndef LK__CONF_ROOTED_H
#define LK__CONF_ROOTED_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the path from the root, which `size` bytes hold with its NUL. False: the path stays as it
 * is. */
bool lk__path_rooted(const char *path, char *rooted_out, size_t size);

/* The URL unix://… with that path in it, to be freed; NULL: no memory. */
char *lk__url_rooted(const char *url, const char *rooted);

#endif
