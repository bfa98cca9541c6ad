/* SPDX-License-Identifier: MIT */
/* Lines for the user's log callback; without one, silence. */
#ifndef LK__BASE_LOG_H
#define LK__BASE_LOG_H

#include <stdbool.h>

#include <lockkeeper/config.h>

#define LK__LOG_LINE_MAX 1024 /* longer lines are cut */

struct lk__log {
	int level; /* the highest that is wanted; 0 without a callback */
	lk_log_callback callback;
	void *context;
};

/* Whether debug lines are wanted: one branch, before anything is made into text. */
static inline bool lk__log_debugs(const struct lk__log *log)
{
	return __builtin_expect(log->level >= LK_LOG_DEBUG, 0);
}

/* Gives one line to the callback; control bytes become '?', for texts come from peers too. */
__attribute__((format(printf, 3, 4))) void lk__log(const struct lk__log *log, int level,
						   const char *format, ...);

#endif
