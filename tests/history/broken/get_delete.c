/*
 * SET NX PX, released by GET and then DEL if the token is one's own. The defect: the lease may end
 * in between.
 */
#include "algorithm.h"

#include <string.h>

enum outcome algorithm_try(struct attempt *attempt)
{
	long long lease_ms = attempt->lease_ms;
	int64_t set = ask(attempt, "SET %s %s NX PX %lld", attempt->name, attempt->token, lease_ms);
	return set < 0 ? BROKEN : set ? DONE : BUSY;
}

enum outcome algorithm_release(struct attempt *attempt)
{
	char owner[64];
	if (ask_text(attempt, owner, "GET %s", attempt->name) < 0)
		return BROKEN;
	if (strcmp(owner, attempt->token) != 0)
		return BUSY;
	return ask(attempt, "DEL %s", attempt->name) < 0 ? BROKEN : DONE;
}
