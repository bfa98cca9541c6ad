/* SPDX-License-Identifier: MIT */
/* lockkeeper barrier: waits until so many have come, and prints the generation. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "exit_code.h"
#include "message.h"
#include "other_kind.h"
#include "session.h"
#include "signals.h"

const struct option_row barrier_options[] = {
	{'n', "nonblock", NULL, "fail unless it is the last one, instead of waiting"},
	{'w', "wait", "WAIT", "wait at most this long"},
	{'v', "verbose", NULL, "report the server, and what came of it"},
	{0, NULL, NULL, NULL},
};

struct barrier_state {
	int64_t wait_ms; /* -1: no limit */
	int limits;      /* -n or -w was given */
};

static int barrier_take(void *context, int id, const char *value)
{
	struct barrier_state *state = context;
	if (state->limits++)
		return trouble("-n and -w exclude each other");
	if (id == 'w')
		return option_duration("-w", value, 0, LK_WAIT_MAX_MS, &state->wait_ms);
	state->wait_ms = 0;
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

int cmd_barrier(const struct command *command, int argc, char **argv)
{
	struct session session;
	struct barrier_state state = {.wait_ms = -1};
	lk_barrier *barrier = NULL;
	lk_cancel *cancel = NULL;
	lk_error error = {0};
	int64_t parties = 0;
	int result = session_begin(&session, command, argc, argv, barrier_take, &state, 2, 2);
	if (result)
		return -1 - result;
	const char *name = session.argv[0];
	int code = *name ? operand_count("N", session.argv[1], 1, LK_BARRIER_PARTIES_MAX, &parties)
			 : trouble("NAME is empty");
	if (code == 0)
		code = session_open(&session);
	if (code == 0 &&
	    (lk_cancel_new(&cancel, &error) ||
	     lk_barrier_new(&barrier, session.client, name, strlen(name), parties, NULL, &error)))
		code = trouble_library(&error);
	if (code == 0)
		code = barrier_wait(&session, barrier, cancel, state.wait_ms);
	lk_barrier_free(barrier);
	code = session_end(&session, code);
	if (signalled && code == EXIT_SIGNAL_BASE)
		signal_die(signalled);
	lk_cancel_free(cancel);
	return code;
}
