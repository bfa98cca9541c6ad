/* SPDX-License-Identifier: MIT */
/*
 * Errors and results as the program is told them: errors are all made here, and results in structs
 * that grow at their end.
 */
#ifndef LK__BASE_FAIL_H
#define LK__BASE_FAIL_H

#include <stdbool.h>
#include <string.h>

#include <lockkeeper/config.h>
#include <lockkeeper/error.h>

/* Writes code and text into `error`, which may be NULL, and returns the code. */
__attribute__((format(printf, 3, 4))) int lk__fail(lk_error *error, int code, const char *format,
						   ...);

/* As lk__fail(), for a system call that failed with `system_errno`; its text is appended. */
__attribute__((format(printf, 4, 5))) int lk__fail_errno(lk_error *error, int code,
							 int system_errno, const char *format, ...);

/* The system's text for it, in `text` or static. */
const char *lk__system_text(int system_errno, char *text, size_t size);

/* The code for a system call that failed: LK_ENOMEM for want of memory, LK_ESYSTEM of a descriptor
 * or the like; `otherwise` for what else it may tell. */
int lk__errno_code(int system_errno, int otherwise);

/* As lk__fail_errno() with its error, for a call that fails for want of something alone: a
 * descriptor, a thread, memory. LK_ENOMEM or LK_ESYSTEM. */
__attribute__((format(printf, 3, 4))) int lk__fail_system(lk_error *error, int system_errno,
							  const char *format, ...);

/* ---- for programs that were compiled with another size of a struct ---- */

#define LK__GROWTH_MAX 1024 /* bytes that a later version's struct may have more than ours */

/* The size that the caller has said in the first member of a struct. */
static inline size_t lk__size_of(const void *out)
{
	size_t size;
	memcpy(&size, out, sizeof(size));
	return size;
}

/* 0, or LK_EINVAL for a size of the caller's struct that no version can have. */
static inline int lk__check_size(const char *operation, const void *out, size_t least,
				 size_t own_size, lk_error *error)
{
	size_t size = lk__size_of(out);
	if (size >= least && size <= own_size + LK__GROWTH_MAX)
		return 0;
	return lk__fail(error, LK_EINVAL, "%s: struct_size is %zu", operation, size);
}

/* Writes as much of our struct as the caller's has room for; what we do not know becomes zero. */
static inline void lk__copy_sized(void *out, size_t size, const void *own, size_t own_size)
{
	size_t known = size < own_size ? size : own_size;
	memcpy(out, own, known);
	memset((char *)out + known, 0, size - known);
	memcpy(out, &size, sizeof(size));
}

#endif
