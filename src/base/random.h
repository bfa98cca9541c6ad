/* SPDX-License-Identifier: MIT */
/* Random UUIDs. */
#ifndef LK__BASE_RANDOM_H
#define LK__BASE_RANDOM_H

#define LK__UUID_SIZE 37 /* with its NUL */

/* Writes a random UUID (version 4, lower case) and a NUL. 0, or LK_ESYSTEM and nothing written. */
int lk__random_uuid(char uuid[LK__UUID_SIZE]);

#endif
