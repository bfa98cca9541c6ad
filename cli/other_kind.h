/* SPDX-License-Identifier: MIT */
/* The message about a name that something else has than what was wanted (LK_EWRONGTYPE). */
#ifndef CLI_OTHER_KIND_H
#define CLI_OTHER_KIND_H

#include <lockkeeper.h>

#include "kind.h"

/* Says what the server has under that name, and how to take or remove it. 1 if it is something else
 * than `wanted` (NULL: a counter), which is said; else 0. */
int other_kind_say(lk_client *client, const char *name, const struct lock_kind *wanted);

/* As trouble_library(), for a call about that name. */
int trouble_name(lk_client *client, const char *name, const struct lock_kind *wanted,
		 const lk_error *error);

#endif
