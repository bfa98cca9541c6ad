/* SPDX-License-Identifier: MIT */
/* Lines for the user's log callback; without one, silence. */
#ifndef LK__BASE_LOG_H
#define LK__BASE_LOG_H

#include <lockkeeper/config.h>

#define LK__LOG_LINE_MAX 1024 /* longer lines are cut */

struct lk__log {
	int level; /* the highest that is wanted */
	lk_log_callback callback;
	void *context;
};

/* Gives one line to the callback; control bytes become '?', for texts come from peers too. */
__attribute__((format(printf, 3, 4))) void lk__log(const struct lk__log *log, int level,
						   const char *format, ...);

#endif
