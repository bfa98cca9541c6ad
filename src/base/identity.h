/* SPDX-License-Identifier: MIT */
/* Which process and which client it is: a mark that fork wipes, and random UUIDs. */
#ifndef LK__BASE_IDENTITY_H
#define LK__BASE_IDENTITY_H

#include <stdatomic.h>

#include <lockkeeper/error.h>

/* The mark: 1 in the process that made it, 0 in its children. Looking at it takes no system call.
 * 0, or LK_ESYSTEM with `error` filled. */
int lk__alive_new(const _Atomic int **alive_out, lk_error *error);
void lk__alive_free(const _Atomic int *alive);

#define LK__UUID_SIZE 37 /* with its NUL */

/* Writes a random UUID (version 4, lower case) and a NUL. 0, or LK_ESYSTEM and nothing written. */
int lk__random_uuid(char uuid[LK__UUID_SIZE]);

#endif
