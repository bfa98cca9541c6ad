/*
 * SETNX, then EXPIRE. The defect: who dies in between leaves a lock that never ends.
 */
#include "algorithm.h"

#define RELEASE                                                                                    \
	"if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end"

enum outcome algorithm_try(struct attempt *attempt)
{
	int64_t set = ask(attempt, "SETNX %s %s", attempt->name, attempt->token);
	if (set != 1)
		return set ? BROKEN : BUSY;
	long long lease_ms = attempt->lease_ms;
	return ask(attempt, "PEXPIRE %s %lld", attempt->name, lease_ms) < 0 ? BROKEN : DONE;
}

enum outcome algorithm_release(struct attempt *attempt)
{
	int64_t gone = ask(attempt, "EVAL %s 1 %s %s", RELEASE, attempt->name, attempt->token);
	return gone < 0 ? BROKEN : gone ? DONE : BUSY;
}
