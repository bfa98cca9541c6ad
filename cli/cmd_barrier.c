/* SPDX-License-Identifier: MIT */
/* lockkeeper barrier: waits until so many have come, and prints the generation; or runs a command
 * between the doors of a double barrier. */
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "exit_code.h"
#include "keeper.h"
#include "kind.h"
#include "message.h"
#include "run_settle.h"
#include "session.h"
#include "signals.h"

const struct option_row barrier_options[] = {
	{'n', "nonblock", NULL, "fail unless it is the last one, instead of waiting"},
	{'w', "wait", "WAIT", "wait at most this long"},
	{'l', "lease", "LEASE",
	 "(with COMMAND) lease of its place, renewed while COMMAND runs (default 30)"},
	{'k', "kill-after", "GRACE", "time from SIGNAL to SIGKILL (default min(5, LEASE/3))"},
	{'s', "signal", "SIGNAL", "signal that ends COMMAND before the lease does (default TERM)"},
	{'c', "command", "STRING", "run STRING with the shell instead of COMMAND"},
	{'v', "verbose", NULL, "report the server, and what came of it"},
	{0, NULL, NULL, NULL},
};

struct barrier_state {
	struct keeper_options keep;
	struct run_given given;
	int limits; /* -n or -w was given, */
	int runs;   /* or what only a command has use for */
};

static int barrier_take(void *context, int id, const char *value)
{
	struct barrier_state *state = context;
	if (id != 'n' && id != 'w') {
		state->runs = 1;
		return run_take(&state->keep, &state->given, id, value);
	}
	if (state->limits++)
		return trouble("-n and -w exclude each other");
	if (id == 'w')
		return option_duration("-w", value, 0, LK_WAIT_MAX_MS, &state->keep.wait_ms);
	state->keep.wait_ms = 0;
	return 0;
}

/* ---- a signal ends the wait: one that is gone is not to be counted ---- */

static lk_cancel *cancelled;
static volatile sig_atomic_t signalled;

static void on_signal(int number)
{
	signalled = number;
	lk_cancel_now(cancelled);
}

static void signals_take(lk_cancel *cancel)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action = {.sa_handler = on_signal};
	cancelled = cancel;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct sigaction was;
		if (sigaction(numbers[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
	}
}

/* ---- the wait ---- */

static int barrier_wait(const struct session *session, lk_barrier *barrier, lk_cancel *cancel,
			int64_t wait_ms)
{
	const char *name = session->argv[0];
	lk_error error = {0};
	uint64_t generation = 0;
	signals_take(cancel);
	if (lk_barrier_await(barrier, wait_ms, cancel, &generation, &error)) {
		if (error.code != LK_ETIMEDOUT && error.code != LK_EBUSY)
			return error.code == LK_ECANCELLED
				       ? EXIT_SIGNAL_BASE
				       : trouble_name(session->client, name, &kind_barrier, &error);
		message("%s: others have not come", name);
		return EXIT_NOT_ACQUIRED;
	}
	session_did(session, "met at", name);
	printf("%" PRIu64 "\n", generation);
	return output_finish();
}

/* Meets the others, and prints the generation. */
static int barrier_meet(struct session *session, const struct barrier_state *state)
{
	const char *name = session->argv[0];
	lk_barrier *barrier = NULL;
	lk_cancel *cancel = NULL;
	lk_error error = {0};
	int code = session_open(session);
	if (code == 0 && (lk_cancel_new(&cancel, &error) ||
			  lk_barrier_new(&barrier, session->client, name, LK_STRLEN,
					 state->keep.parties, NULL, &error)))
		code = trouble_library(&error);
	if (code == 0)
		code = barrier_wait(session, barrier, cancel, state->keep.wait_ms);
	lk_barrier_free(barrier);
	code = session_end(session, code);
	if (signalled && code == EXIT_SIGNAL_BASE)
		signal_die(signalled);
	lk_cancel_free(cancel);
	return code;
}

/* Enters with the others, runs the command, and leaves with them. */
static int barrier_run(const struct command *command, struct session *session,
		       struct barrier_state *state)
{
	char *name = session->argv[0];
	session->argv[1] = name;
	state->keep.told = session->told;
	int code = session->refused ? session_open(session) /* which says why */ : 0;
	if (code == 0)
		code = run_operands(command, &state->keep, &state->given, session->argc - 1,
				    session->argv + 1);
	if (code == 0)
		code = run_settle(&state->keep, &state->given, session->config);
	if (code == 0)
		code = keeper_run(session->config, &state->keep);
	return session_end(session, code);
}

int cmd_barrier(const struct command *command, int argc, char **argv)
{
	struct session session;
	struct barrier_state state = {.keep = {.wait_ms = KEEPER_WAIT_FOREVER,
					       .conflict_code = EXIT_NOT_ACQUIRED,
					       .end_signal = SIGTERM,
					       .kind = &kind_default}};
	int result = session_begin(&session, command, argc, argv, barrier_take, &state, 2, INT_MAX);
	if (result)
		return -1 - result;
	int code = *session.argv[0] ? operand_count("N", session.argv[1], 1, LK_BARRIER_PARTIES_MAX,
						    &state.keep.parties)
				    : trouble("NAME is empty");
	if (code)
		return session_end(&session, code);
	if (session.argc > 2 || state.given.shell_line)
		return barrier_run(command, &session, &state);
	if (state.runs)
		return session_end(&session,
				   usage_error(command, "-l, -k and -s are for COMMAND, which is "
							"missing"));
	return barrier_meet(&session, &state);
}
