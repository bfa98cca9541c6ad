/* SPDX-License-Identifier: MIT */
/* Time in ns of lk__now_ns(): units, deadlines, limits. */
#ifndef LK__BASE_CLOCK_H
#define LK__BASE_CLOCK_H

#include <stdint.h>

#include "base/door.h"

#define LK__MS INT64_C(1000000)
#define LK__US INT64_C(1000)
#define LK__NEVER INT64_MAX

/* `now_ns` + `ms`, or LK__NEVER where that overflows. */
static inline int64_t lk__after_ms(int64_t now_ns, int64_t ms)
{
	int64_t most_ns = now_ns > 0 ? LK__NEVER - now_ns
				     : LK__NEVER; /* before our machine's start */
	return ms > most_ns / LK__MS ? LK__NEVER : now_ns + ms * LK__MS;
}

static inline int64_t lk__earlier(int64_t one_ns, int64_t other_ns)
{
	return one_ns < other_ns ? one_ns : other_ns;
}

static inline int64_t lk__later(int64_t one_ns, int64_t other_ns)
{
	return one_ns > other_ns ? one_ns : other_ns;
}

/* Whole ms from `now_ns` to `deadline_ns`, rounded up, 0 … `most_ms`: for poll(). */
static inline int lk__ms_until(int64_t now_ns, int64_t deadline_ns, int most_ms)
{
	if (deadline_ns <= now_ns)
		return 0;
	int64_t ms = (deadline_ns - now_ns - 1) / LK__MS + 1;
	return ms > most_ms ? most_ms : (int)ms;
}

#endif
