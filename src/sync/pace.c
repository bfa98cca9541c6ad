/* SPDX-License-Identifier: MIT */
#include "sync/pace.h"

#include <assert.h>
#include <stdbool.h>

#include "base/clock.h"

#define FASTEST_PART 16 /* of the slowest */
#define FASTEST_NS (5 * LK__MS)

/* FNV-1a. */
uint64_t lk__pace_holder(const char *token, size_t size)
{
	uint64_t hash = UINT64_C(14695981039346656037);
	for (size_t i = 0; i < size; i++)
		hash = (hash ^ (unsigned char)token[i]) * UINT64_C(1099511628211);
	return hash ? hash : 1;
}

void lk__pace_see(struct lk__pace *pace, uint64_t holder)
{
	bool other = holder && pace->holder && holder != pace->holder;
	pace->holder = holder;
	pace->missed += other;
	pace->looks = other ? 1 : pace->looks + 1;
}

int64_t lk__pace_ns(const struct lk__pace *pace, int64_t poll_ns)
{
	assert(poll_ns > 0);
	if (!pace->holder)
		return poll_ns;
	int64_t fastest_ns = poll_ns / FASTEST_PART, slowest_ns = poll_ns;
	if (fastest_ns < FASTEST_NS)
		fastest_ns = lk__earlier(FASTEST_NS, poll_ns);
	for (unsigned i = 0; i < pace->missed && slowest_ns > fastest_ns; i++)
		slowest_ns /= 2;
	int64_t pause_ns = fastest_ns;
	for (unsigned i = 1; i < pace->looks && pause_ns < slowest_ns; i++)
		pause_ns *= 2;
	if (pause_ns > slowest_ns)
		pause_ns = slowest_ns;
	return pause_ns > fastest_ns ? pause_ns : fastest_ns;
}
