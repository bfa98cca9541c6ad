/* SPDX-License-Identifier: MIT */
/* Freeing a lock that somebody else holds. */
#ifndef CLI_BREAKING_H
#define CLI_BREAKING_H

#include <lockkeeper.h>

/* Frees it as the kind that it looks like: 1 broken, 0 it was not locked, or a code with `error`
 * (LK_EINVAL: nobody holds such a thing as a whole). */
int lock_break(lk_client *client, const char *name, size_t name_size, const lk_lock_info *info,
	       lk_error *error);

#endif
