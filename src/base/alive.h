/* SPDX-License-Identifier: MIT */
/*
 * A mark that fork wipes: 1 in the process that made it, 0 in its children. Looking at it takes no
 * system call.
 */
#ifndef LK__BASE_ALIVE_H
#define LK__BASE_ALIVE_H

#include <stdatomic.h>

#include <lockkeeper/error.h>

/* 0, or LK_ESYSTEM with `error` filled. */
int lk__alive_new(const _Atomic int **alive_out, lk_error *error);
void lk__alive_free(const _Atomic int *alive);

#endif
