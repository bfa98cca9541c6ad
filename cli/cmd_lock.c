/* SPDX-License-Identifier: MIT */
/* lockkeeper lock, unlock and extend: for scripts that cannot wrap a command. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "caller.h"
#include "commands.h"
#include "exit_code.h"
#include "kind.h"
#include "lock_while.h"
#include "message.h"
#include "report.h"
#include "session.h"
#include "signal_relay.h"
#include "signals.h"

#define GRACE_MS INT64_C(5000)
#define PID_LAST 4194304 /* the kernel's bound of kernel.pid_max */

const struct option_row lock_options[] = {
	{'n', "nonblock", NULL, "fail if another owner holds the lock, instead of waiting"},
	{'w', "wait", "WAIT", "wait for the lock at most this long"},
	{'l', "lease", "LEASE", "lease of the lock, renewed with --while only (required without)"},
	{OPTION_WHILE, "while", "PID",
	 "renew the lock while this process lives (caller: the script), then release it"},
	{'s', "signal", "SIGNAL",
	 "(--while) signal for the process when the lock is lost (default TERM)"},
	{OPTION_PLAIN, "plain", NULL,
	 "take a plain lock (SET NX PX); run alone has --fair, --shared and the like"},
	{OPTION_POLL, "poll", "TIME",
	 "(--plain) look again after TIME at the latest (default 0.1)"},
	{OPTION_NOTIFY, "notify", "WHOM",
	 "(plain) wake this library's waiters too when it is released"},
	WAIT_STATUS_ROWS("the command"),
	{0, NULL, NULL, NULL},
};

const struct option_row extend_options[] = {
	{'l', "lease", "LEASE", "the lock lasts at least this long from now (required)"},
	{OPTION_PLAIN, "plain", NULL, "the lock is a plain lock"},
	VERBOSE_ROW,
	{0, NULL, NULL, NULL},
};

const struct option_row unlock_options[] = {
	{OPTION_PLAIN, "plain", NULL, "the lock is a plain lock"},
	VERBOSE_ROW,
	{OPTION_NOTIFY, "notify", "WHOM",
	 "(plain) wake this library's waiters too when it is released"},
	{0, NULL, NULL, NULL},
};

struct lock_state {
	int nonblock;
	int has_wait;
	int64_t wait_ms;
	int64_t lease_ms;
	const struct lock_kind *kind;
	lk_cancel *cancel;
	pid_t pid; /* that the lock is held for; 0: --while is not given */
	struct lock_while keeper;
};

static int while_take(const char *value, pid_t *pid_out)
{
	char *end;
	if (strcmp(value, "caller") == 0)
		return caller_take(pid_out);
	long long pid = *value >= '0' && *value <= '9' ? strtoll(value, &end, 10) : 0;
	if (pid < 1 || *end != '\0' || pid > PID_LAST)
		return trouble("option --while: '%s' is neither caller nor a process, a whole "
			       "number from 1 to %d",
			       value, PID_LAST);
	*pid_out = (pid_t)pid;
	return caller_check(*pid_out);
}

static int signal_take(const char *value, int *number_out)
{
	int number = signal_parse(value);
	if (number < 0)
		return trouble("option -s: '%s' is not a signal", value);
	*number_out = number;
	return 0;
}

static int lock_take(void *context, int id, const char *value)
{
	struct lock_state *state = context;
	if (kind_take(&state->kind, id))
		return 0; /* there is one to choose */
	switch (id) {
	case OPTION_WHILE:
		return while_take(value, &state->pid);
	case 's':
		return signal_take(value, &state->keeper.signal);
	case OPTION_NOTIFY:
		kind_notify(value);
		return 0;
	case 'n':
		state->nonblock = 1;
		return 0;
	case OPTION_POLL:
		return option_duration("--poll", value, LK_POLL_MIN_MS, LK_POLL_MAX_MS,
				       kind_poll_ms());
	case 'w':
		state->has_wait = 1;
		return option_duration("-w", value, 0, LK_WAIT_MAX_MS, &state->wait_ms);
	default:
		return option_duration("-l", value, LK_LEASE_MIN_MS, LK_LEASE_MAX_MS,
				       &state->lease_ms);
	}
}

static int lock_acquire(lk_lock *lock, const struct lock_state *state, lk_error *error)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	if (state->pid) /* renewed, and the process told in time, as by `run` */
		options.margin_ms = state->lease_ms / 3 < GRACE_MS ? state->lease_ms / 3 : GRACE_MS;
	else
		options.lease_ms = state->lease_ms;
	options.cancel = state->cancel;
	int64_t wait_ms = state->nonblock ? 0 : state->has_wait ? state->wait_ms : -1;
	return lk_lock_acquire(lock, wait_ms, &options, error);
}

static int owner_print(lk_lock *lock)
{
	char field[LK_FIELD_SIZE];
	lk_error error = {0};
	if (lk_lock_export(lock, NULL, field, sizeof(field), &error))
		return trouble_library(&error);
	puts(field);
	return output_finish();
}

/* A lock whose owner nobody learns could only be waited for. */
static void lock_give_back(lk_lock *lock, int code)
{
	lk_error error = {0};
	relay_release(code, RELEASE_LIMIT_S, 0);
	if (lk_lock_release(lock, NULL, &error))
		trouble_library(&error);
	relay_released();
}

/* Not acquired: the exit code. */
static int lock_missed(struct session *session, const struct report *report, const lk_error *error)
{
	int code = trouble_name(session->client, session->argv[0], session->kind, error);
	if (code == EXIT_NOT_ACQUIRED)
		wait_status_nested(&session->waiting);
	if (code == EXIT_NOT_ACQUIRED) {
		report_missed(report);
		wait_status_conclude(&session->waiting);
	}
	return code;
}

/* Takes the lock and prints its owner; a signal ends the wait. */
static int lock_serve(struct session *session, lk_lock *lock, struct lock_state *state)
{
	lk_error error = {0};
	sigset_t relayed, mask;
	if (lk_cancel_new(&state->cancel, &error))
		return trouble_library(&error);
	signal(SIGPIPE, SIG_IGN);
	relay_block(&relayed, &mask);
	int code = relay_begin(&relayed, 0, state->cancel);
	if (code)
		return code;
	struct report report;
	report_begin(&report, session->argv[0], session->told.verbose);
	session->told.once = state->nonblock;
	wait_status_begin(&session->waiting, session->client, lock, session->argv[0],
			  &session->told);
	int result = lock_acquire(lock, state, &error);
	wait_status_end(&session->waiting);
	relay_run();
	if (result == LK_ECANCELLED)
		return EXIT_SIGNAL_BASE + relay_cause();
	if (result)
		return lock_missed(session, &report, &error);
	report_acquired(&report);
	if (relay_cause())
		code = EXIT_SIGNAL_BASE + relay_cause();
	else
		code = state->pid ? while_hand(&state->keeper, lock) : owner_print(lock);
	if (code)
		lock_give_back(lock, code);
	else if (state->pid)
		while_keep(&state->keeper, session->client, lock, session->argv[0]);
	return code;
}

static int notify_check(const struct command *command, const struct lock_state *state)
{
	return kind_notifies_in_vain(state->kind) ? usage_error(command, "--notify needs --plain")
						  : 0;
}

static int lock_check(const struct command *command, const struct lock_state *state)
{
	if (state->lease_ms == 0 && !state->pid)
		return usage_error(command, "-l LEASE is missing");
	if (state->keeper.signal && !state->pid)
		return usage_error(command, "-s is for --while");
	if (state->nonblock && state->has_wait)
		return usage_error(command, "-n and -w exclude each other");
	int code = notify_check(command, state);
	if (code == 0 && kind_polls_in_vain(state->kind, 0))
		code = usage_error(command, "--poll is for --plain");
	return code;
}

/* The watchdog renews it: its lease is what -l says, or what the client is configured to. */
static int lease_settle(struct lock_state *state, lk_config *config)
{
	char text[24];
	lk_error error = {0};
	if (state->lease_ms) {
		snprintf(text, sizeof(text), "%" PRId64, state->lease_ms);
		return lk_config_set(config, "watchdog_ms", text, &error) ? trouble_library(&error)
									  : 0;
	}
	if (lk_config_get(config, "watchdog_ms", text, sizeof(text)) < 0)
		return trouble("the library has no option watchdog_ms");
	state->lease_ms = atoll(text);
	return 0;
}

/* Finds out whether the process can be told of a loss. 0, or EXIT_TROUBLE (said). */
static int signal_check(const struct process_handle *watched, int number)
{
	if (process_handle_signal(watched, 0) == EPERM)
		return trouble("option --while: process %d belongs to another user: it could not "
			       "be told that the lock is lost",
			       (int)watched->pid);
	if (process_handle_ignores(watched, number))
		message("option --while: process %d ignores SIG%s, which would tell it that "
			"the lock is lost (-s names another signal)",
			(int)watched->pid, signal_name(number));
	return 0;
}

/* In the keeper 0; in the first process 1, with the exit code. */
static int keeper_start(struct lock_state *state, lk_config *config, int *code_out)
{
	struct lock_while *keeper = &state->keeper;
	int system_errno = process_handle_open(&keeper->watched, state->pid);
	if (system_errno)
		*code_out = trouble_errno(system_errno, "option --while: process %d",
					  (int)state->pid);
	else
		*code_out = lease_settle(state, config);
	keeper->needs_folder = working_folder_needed(config);
	if (!keeper->signal)
		keeper->signal = SIGTERM;
	if (!*code_out)
		*code_out = signal_check(&keeper->watched, keeper->signal);
	return *code_out || while_split(keeper, code_out);
}

/* The end of a process that a shell waits for. */
static int lock_end(struct session *session, int code)
{
	session_end(session, code);
	if (code > EXIT_SIGNAL_BASE)
		signal_die(code - EXIT_SIGNAL_BASE);
	return code;
}

int cmd_lock(const struct command *command, int argc, char **argv)
{
	struct session session;
	struct lock_state state = {.kind = &kind_default};
	lk_lock *lock = NULL;
	int result = session_begin(&session, command, argc, argv, lock_take, &state, 1, 1);
	if (result)
		return -1 - result;
	int code = lock_check(command, &state);
	session.kind = state.kind;
	if (code == 0)
		code = caller_record(session.config, state.pid ? state.pid : caller_find());
	if (code == 0 && state.pid && keeper_start(&state, session.config, &code))
		return lock_end(&session, code);
	if (code == 0)
		code = session_open_lock(&session, &lock);
	if (code == 0)
		code = lock_serve(&session, lock, &state);
	lk_cancel_free(state.cancel);
	lk_lock_free(lock);
	if (!state.pid)
		return lock_end(&session, code);
	code = session_end(&session, code);
	while_end(&state.keeper, code);
	return code;
}

int cmd_unlock(const struct command *command, int argc, char **argv)
{
	struct session session;
	struct lock_state state = {.kind = &kind_default};
	lk_lock *lock = NULL;
	lk_release_options options = LK_RELEASE_OPTIONS_INIT;
	lk_error error = {0};
	int result = session_begin(&session, command, argc, argv, lock_take, &state, 2, 2);
	if (result)
		return -1 - result;
	session.kind = state.kind;
	int code = notify_check(command, &state);
	if (code)
		return session_end(&session, code);
	if (while_unlock(session.argv[0], session.argv[1], session.told.verbose, &code))
		return session_end(&session, code);
	code = session_open_lock(&session, &lock);
	options.field = session.argv[1];
	if (code == 0 && lk_lock_release(lock, &options, &error))
		code = trouble_name(session.client, session.argv[0], session.kind, &error);
	else if (code == 0 && session.told.verbose)
		message("released %.200s", session.argv[0]);
	lk_lock_free(lock);
	return session_end(&session, code);
}

int cmd_extend(const struct command *command, int argc, char **argv)
{
	struct session session;
	struct lock_state state = {.kind = &kind_default};
	lk_lock *lock = NULL;
	lk_extend_options options = LK_EXTEND_OPTIONS_INIT;
	lk_error error = {0};
	int result = session_begin(&session, command, argc, argv, lock_take, &state, 2, 2);
	if (result)
		return -1 - result;
	int code = lock_check(command, &state);
	session.kind = state.kind;
	if (code == 0)
		code = session_open_lock(&session, &lock);
	options.field = session.argv[1];
	if (code == 0 && lk_lock_extend(lock, state.lease_ms, &options, &error))
		code = trouble_name(session.client, session.argv[0], session.kind, &error);
	else if (code == 0)
		session_did(&session, "extended", session.argv[0]);
	lk_lock_free(lock);
	return session_end(&session, code);
}
