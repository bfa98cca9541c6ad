/*
 * SETNX with the time at which the lease ends, by the client's clock; who finds it past takes the
 * lock over by GETSET. The defect: what one client's clock says is nothing to another's.
 */
#include "algorithm.h"

#include <stdlib.h>
#include <time.h>

static int64_t wall_clock_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

enum outcome algorithm_try(struct attempt *attempt)
{
	char seen[64], previous[64];
	attempt->expiry_ms = wall_clock_ms() + attempt->lease_ms + 1;
	long long expiry_ms = attempt->expiry_ms;
	int64_t set = ask(attempt, "SETNX %s %lld", attempt->name, expiry_ms);
	if (set)
		return set == 1 ? DONE : BROKEN;
	if (ask_text(attempt, seen, "GET %s", attempt->name) < 0)
		return BROKEN;
	if (!*seen || strtoll(seen, NULL, 10) >= wall_clock_ms())
		return BUSY;
	if (ask_text(attempt, previous, "GETSET %s %lld", attempt->name, expiry_ms) < 0)
		return BROKEN;
	return strtoll(previous, NULL, 10) == strtoll(seen, NULL, 10) ? DONE : BUSY;
}

enum outcome algorithm_release(struct attempt *attempt)
{
	if (wall_clock_ms() >= attempt->expiry_ms)
		return BUSY;
	return ask(attempt, "DEL %s", attempt->name) < 0 ? BROKEN : DONE;
}
