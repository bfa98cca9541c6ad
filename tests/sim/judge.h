/* What all worlds are judged by: times, codes, and what a client says of itself. */
#ifndef SIM_JUDGE_H
#define SIM_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockkeeper.h>

#define SIM_COMMAND_MS 300 /* the command limit of all clients */
#define SIM_WATCHDOG_MS 600
#define SIM_OPTIONS                                                                                \
	"watchdog_ms=600&command_timeout_ms=300&connect_timeout_ms=400"                            \
	"&backoff_min_ms=5&backoff_max_ms=100&client_record=off"
#define SIM_CALM_LEASE_MS 3000              /* longer than what a worker does with it */
#define SIM_LEASE_MOST_MS 900               /* in a world with troubles */
#define SIM_CLOSE_MS (200 + SIM_COMMAND_MS) /* what a close may take */

/* A world without any trouble. */
bool sim_is_calm(void);

/* A call that begins now. */
struct sim_call {
	const char *name;
	int64_t begun_ns, stalled_ns;
};
struct sim_call sim_call(const char *name);

/*
 * Fails when the call took longer. A thread that was given no time is not late, nor is one to which
 * such a thread is handing the lock. A hand-over that was begun is waited for, within the command
 * limit, and whoever has its turn behind it tries once.
 */
void sim_check_limit(const struct sim_call *call, int64_t limit_ms);

/* Fails when an acquire was ended early by a refusal that passes; memory that is short is told at
 * once. */
void sim_check_patience(const struct sim_call *call, int64_t wait_ms, int code,
			const lk_error *error);

/* What was left of a hold when the call began. */
int64_t sim_left_ms(const struct sim_call *call, int64_t deadline_ns);

/* Fails when the code is none of these; `closes`: nor one that a closed client gives; nor, where a
 * master may lose its replicas, that they lack it. */
void sim_check_code(const char *call, int code, const int *expected, size_t count, bool closes,
		    const lk_error *error);

/* The same of an acquire of a lock on one server, or of several such locks. */
void sim_check_acquire(int code, bool closes, const lk_error *error);

/* Of a code: its name; "done" of what is none. */
const char *sim_outcome(int code);

/* How many commands were sent twice. */
uint64_t sim_resent(lk_client *client);

#endif
