/* SPDX-License-Identifier: MIT */
/* Filling the caller's lk_error: every failure in the library is made here. */
#ifndef LK__BASE_FAIL_H
#define LK__BASE_FAIL_H

#include <lockkeeper/error.h>

/* Writes code and text into `error`, which may be NULL, and returns the code. */
__attribute__((format(printf, 3, 4))) int lk__fail(lk_error *error, int code, const char *format,
						   ...);

/* The same for a system call that failed with `system_errno`; its text is appended. */
__attribute__((format(printf, 4, 5))) int lk__fail_errno(lk_error *error, int code,
							 int system_errno, const char *format, ...);

#endif
