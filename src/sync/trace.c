/* SPDX-License-Identifier: MIT */
#include "sync/trace.h"

#include <inttypes.h>
#include <stdio.h>

#include <lockkeeper/error.h>

#include "base/clock.h"
#include "sync/multi/attempt.h"

#define PART_SIZE 160

static const char *const events[] = {
	[LK__ATTEMPT_ADOPTED] = "begun",
	[LK__ATTEMPT_CONNECTED] = "connected",
	[LK__ATTEMPT_GRANTED] = "granted",
	[LK__ATTEMPT_BUSY] = "busy",
	[LK__ATTEMPT_LATE] = "late",
	[LK__ATTEMPT_FAILED] = "failed",
	[LK__ATTEMPT_UNKNOWN] = "outcome unknown",
	[LK__ATTEMPT_LISTENING] = "listening",
	[LK__ATTEMPT_WOKEN] = "woken",
	[LK__ATTEMPT_TIMER] = "time has come",
	[LK__ATTEMPT_LEFT] = "left by its caller",
};

static const char *const actions[] = {
	[LK__ATTEMPT_DO_NOTHING] = "nothing to do",
	[LK__ATTEMPT_DO_CONNECT] = "connect",
	[LK__ATTEMPT_DO_SEND] = "send a try",
	[LK__ATTEMPT_DO_AWAIT] = "await the try in flight",
	[LK__ATTEMPT_DO_LISTEN] = "subscribe",
	[LK__ATTEMPT_DO_WAIT] = "wait for a message",
	[LK__ATTEMPT_DO_HOLD_OFF] = "hold off",
	[LK__ATTEMPT_DO_PAUSE] = "pause",
	[LK__ATTEMPT_DO_GRANT] = "grant",
	[LK__ATTEMPT_DO_FAIL] = "give up",
};

static const char *event_text(const struct lk__attempt_event *event, char text[PART_SIZE])
{
	const char *name = events[event->type];
	if (event->code)
		snprintf(text, PART_SIZE, "%s (%s)", name, lk_error_text(event->code));
	else if (event->type == LK__ATTEMPT_BUSY)
		snprintf(text, PART_SIZE, "%s (ttl %" PRId64 " ms)", name, event->ttl_ms);
	else
		snprintf(text, PART_SIZE, "%s%s", name,
			 event->copied ? " (of several copies)" : "");
	return text;
}

static const char *action_text(const struct lk__effects *effects, int64_t now_ns,
			       char text[PART_SIZE])
{
	const char *name = actions[effects->action];
	bool waits = effects->until_ns > now_ns && effects->until_ns != LK__NEVER;
	if (effects->code)
		snprintf(text, PART_SIZE, "%s (%s)", name, lk_error_text(effects->code));
	else if (waits)
		snprintf(text, PART_SIZE, "%s, at most %" PRId64 " ms", name,
			 (effects->until_ns - now_ns) / LK__MS);
	else
		snprintf(text, PART_SIZE, "%s", name);
	return text;
}

void lk__trace_step_line(const struct lk__log *log, const char *name,
			 const struct lk__attempt *attempt, const struct lk__attempt_event *event,
			 const struct lk__effects *effects, int64_t now_ns)
{
	char happened[PART_SIZE], follows[PART_SIZE], given_up[PART_SIZE] = "";
	if (effects->compensate)
		snprintf(given_up, sizeof(given_up), "; number %" PRIu64 " is given back%s",
			 effects->gives_up,
			 effects->compensate == LK__COMPENSATE_COPIES ? ", and again later" : "");
	lk__log(log, LK_LOG_DEBUG, "\"%.200s\" number %" PRIu64 ": %s: %s%s", name, attempt->number,
		event_text(event, happened), action_text(effects, now_ns, follows), given_up);
}

void lk__trace_multi_line(const struct lk__log *log, const char *name,
			  const struct lk__multi_event *event,
			  const struct lk__multi_effects *effects)
{
	static const char *const happened[] = {
		[LK__MULTI_STARTED] = "begun",
		[LK__MULTI_AWAITED] = "a part was waited for",
		[LK__MULTI_LOOKED] = "looked",
		[LK__MULTI_CONNECTED] = "connected",
		[LK__MULTI_READY] = "all connected",
		[LK__MULTI_TRIED] = "tried",
		[LK__MULTI_GIVEN_BACK] = "given back",
		[LK__MULTI_TIMER] = "time has come",
	};
	static const char *const follows[] = {
		[LK__MULTI_DO_AWAIT] = "wait for a part", [LK__MULTI_DO_LOOK] = "look",
		[LK__MULTI_DO_CONNECT] = "connect",       [LK__MULTI_DO_TRY] = "send a try",
		[LK__MULTI_DO_GIVE_BACK] = "give back",   [LK__MULTI_DO_PAUSE] = "pause",
		[LK__MULTI_DO_GRANT] = "grant",           [LK__MULTI_DO_FAIL] = "give up",
	};
	int code = event->code ? event->code : effects->code;
	lk__log(log, LK_LOG_DEBUG, "\"%.200s\" and others: %s: %s, part %zu%s%s", name,
		happened[event->type], follows[effects->action], effects->part, code ? ": " : "",
		code ? lk_error_text(code) : "");
}

void lk__trace_hold_line(const struct lk__log *log, const char *name, uint64_t number,
			 const char *what)
{
	lk__log(log, LK_LOG_DEBUG, "\"%.200s\" number %" PRIu64 ": %s", name, number, what);
}
