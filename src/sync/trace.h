/* SPDX-License-Identifier: MIT */
/*
 * The lines of LK_LOG_DEBUG about decisions: each step of an attempt, with the owner number, and
 * what becomes of a hold. While the level is lower, each is one branch.
 *
 *   "orders" number 3: busy (ttl 29990 ms): wait for a message, at most 5000 ms
 */
#ifndef LK__SYNC_TRACE_H
#define LK__SYNC_TRACE_H

#include "base/log.h"
#include "sync/attempt.h"

struct lk__multi_event;
struct lk__multi_effects;

void lk__trace_step_line(const struct lk__log *log, const char *name,
			 const struct lk__attempt *attempt, const struct lk__attempt_event *event,
			 const struct lk__effects *effects, int64_t now_ns);
void lk__trace_multi_line(const struct lk__log *log, const char *name,
			  const struct lk__multi_event *event,
			  const struct lk__multi_effects *effects);
void lk__trace_hold_line(const struct lk__log *log, const char *name, uint64_t number,
			 const char *what);

static inline void lk__trace_step(const struct lk__log *log, const char *name,
				  const struct lk__attempt *attempt,
				  const struct lk__attempt_event *event,
				  const struct lk__effects *effects, int64_t now_ns)
{
	if (lk__log_debugs(log))
		lk__trace_step_line(log, name, attempt, event, effects, now_ns);
}

/* Traces a step of a multi lock; `name` is its first part's. */
static inline void lk__trace_multi(const struct lk__log *log, const char *name,
				   const struct lk__multi_event *event,
				   const struct lk__multi_effects *effects)
{
	if (lk__log_debugs(log))
		lk__trace_multi_line(log, name, event, effects);
}

static inline void lk__trace_hold(const struct lk__log *log, const char *name, uint64_t number,
				  const char *what)
{
	if (lk__log_debugs(log))
		lk__trace_hold_line(log, name, number, what);
}

#endif
