/* SPDX-License-Identifier: MIT */
/* Results in structs that grow at their end, for programs that were compiled with another size. */
#ifndef LK__BASE_SIZED_H
#define LK__BASE_SIZED_H

#include <string.h>

#include "base/fail.h"

#define LK__GROWTH_MAX 1024 /* bytes that a later version's struct may have more than ours */

/* 0, or LK_EINVAL for a size of the caller's struct that no version can have. */
static inline int lk__check_size(const char *operation, const char *what, size_t size, size_t least,
				 size_t own_size, lk_error *error)
{
	if (size >= least && size <= own_size + LK__GROWTH_MAX)
		return 0;
	return lk__fail(error, LK_EINVAL, "%s: %s is %zu", operation, what, size);
}

/* Writes as much of our struct as the caller's has room for; what we do not know becomes zero. */
static inline void lk__copy_sized(void *out, size_t size, const void *own, size_t own_size)
{
	memset(out, 0, size);
	memcpy(out, own, size < own_size ? size : own_size);
}

#endif
