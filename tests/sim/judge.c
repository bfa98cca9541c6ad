#include "judge.h"

#include <string.h>

#include "replication.h"
#include "world.h"

#define SLACK_NS (5 * SIM_MS) /* a limit in ms, and the clock's own steps */

bool sim_is_calm(void)
{
	return !sim_has(SIM_ALL_TROUBLES);
}

struct sim_call sim_call(const char *name)
{
	return (struct sim_call){name, sim_now_ns(), sim_stalled_ns()};
}

/* For which the answer to the last try is waited for, beyond the limit. */
static int64_t last_answer_ms(int64_t limit_ms)
{
	int64_t part_ms = limit_ms / 10 + 1;
	return part_ms < 20 ? 20 : part_ms > 250 ? 250 : part_ms;
}

void sim_check_limit(const struct sim_call *call, int64_t limit_ms)
{
	int64_t stalled_ns = sim_stalled_ns() - call->stalled_ns;
	int64_t took_ns = sim_now_ns() - call->begun_ns - stalled_ns;
	if (took_ns > (limit_ms + SIM_COMMAND_MS + last_answer_ms(limit_ms)) * SIM_MS + SLACK_NS)
		sim_fail("%s took %.3f ms, and had %lld", call->name, (double)took_ns / 1e6,
			 (long long)limit_ms);
}

void sim_check_patience(const struct sim_call *call, int64_t wait_ms, int code,
			const lk_error *error)
{
	bool refused = code == LK_EREFUSED || code == LK_EUNAVAILABLE;
	if (refused && !strstr(error->message, ": OOM ") &&
	    sim_now_ns() < call->begun_ns + wait_ms * SIM_MS)
		sim_fail("%s did not wait for %lld ms: %s", call->name, (long long)wait_ms,
			 error->message);
}

int64_t sim_left_ms(const struct sim_call *call, int64_t deadline_ns)
{
	return deadline_ns > call->begun_ns ? (deadline_ns - call->begun_ns) / SIM_MS + 1 : 0;
}

void sim_check_code(const char *call, int code, const int *expected, size_t count, bool closes,
		    const lk_error *error)
{
	static const int of_close[] = {LK_ECLOSED, LK_EDRAINING, LK_EMAYBEHELD, LK_ELOST,
				       LK_ENOTOWNER};
	for (size_t i = 0; closes && i < sizeof(of_close) / sizeof(of_close[0]); i++)
		if (code == of_close[i])
			return;
	for (size_t i = 0; i < count; i++)
		if (code == expected[i])
			return;
	/* Memory is short for a time, or it may write nothing, or it is busy. */
	if ((code == LK_EREFUSED || code == LK_EUNAVAILABLE) && sim_had(SIM_REFUSALS))
		return;
	/* A connection that is missing needs a descriptor; a release goes on behind the call. */
	if (code == LK_ESYSTEM && sim_had(SIM_SHORTAGES) && strcmp(call, "release") != 0)
		return;
	/* A limit may pass during a WAIT, one's own or that of a caller that has left. */
	bool waits = sim_is_replicated() &&
		     (strcmp(call, "acquire") == 0 || strcmp(call, "leave") == 0);
	if (waits && (code == LK_ENOTDURABLE || code == LK_EUNAVAILABLE))
		return;
	if (code == LK_ENOTDURABLE && sim_is_replicated() && !sim_is_calm())
		return;
	sim_fail("%s: %s: %s", call, sim_outcome(code), error->message);
}

const char *sim_outcome(int code)
{
	return code < 0 ? lk_error_name(code) : "done";
}

uint64_t sim_resent(lk_client *client)
{
	lk_stats stats = {.struct_size = sizeof(stats)};
	lk_client_stats(client, &stats, NULL);
	return stats.resent;
}

void sim_check_acquire(int code, bool closes, const lk_error *error)
{
	static const int expected[] = {0,
				       LK_EBUSY,
				       LK_ETIMEDOUT,
				       LK_ECANCELLED,
				       LK_EMAYBEHELD,
				       LK_EUNREACHABLE,
				       LK_EUNAVAILABLE};
	sim_check_code("acquire", code, expected, sim_is_calm() ? 6 : 7, closes, error);
}
