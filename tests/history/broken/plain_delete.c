/*
 * SET NX PX, released by DEL. The defect: a late release deletes whoever has it by then.
 */
#include "algorithm.h"

enum outcome algorithm_try(struct attempt *attempt)
{
	long long lease_ms = attempt->lease_ms;
	int64_t set = ask(attempt, "SET %s %s NX PX %lld", attempt->name, attempt->token, lease_ms);
	return set < 0 ? BROKEN : set ? DONE : BUSY;
}

enum outcome algorithm_release(struct attempt *attempt)
{
	return ask(attempt, "DEL %s", attempt->name) < 0 ? BROKEN : DONE;
}
