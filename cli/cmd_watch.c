/* SPDX-License-Identifier: MIT */
/* lockkeeper watch: the state of locks, and each change. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "commands.h"
#include "exit_code.h"
#include "message.h"
#include "session.h"
#include "signals.h"
#include "watch_command.h"
#include "watch_line.h"
#include "watch_prefix.h"

#define SLICE_MS 1000 /* between two looks at whether anybody reads */

const struct option_row watch_options[] = {
	{OPTION_JSON, "json", NULL, "as JSON: an object a line"},
	{OPTION_PREFIX, "prefix", "PREFIX", "watch all locks whose names begin so (several)"},
	{OPTION_ONCE, "once", NULL, "end behind the first change"},
	{OPTION_UNTIL, "until", "STATE", "end when a lock is free or held, or at a change"},
	{'w', "wait", "WAIT", "watch at most this long"},
	{OPTION_RENEWALS, "renewals", NULL, "tell of renewals too"},
	{OPTION_NO_INITIAL, "no-initial", NULL, "tell of changes alone, not of the present state"},
	{0, NULL, NULL, NULL},
};

enum until { UNTIL_NEVER, UNTIL_FREE, UNTIL_HELD, UNTIL_CHANGE };

struct watch_state {
	int json, renewals, no_initial;
	enum until until;
	int64_t wait_ms; /* -1: no limit */
	char **argv;     /* of COMMAND; NULL: there is none */
	char *prefixes[WATCH_PREFIXES_MAX];
	size_t prefix_count;
};

/* The watch that is under way. */
struct watching {
	const struct watch_state *state;
	lk_watch *watch;
	lk_cancel *cancel;             /* set by what must be looked at; NULL: there is none */
	struct watch_command *command; /* or NULL */
	struct watch_prefix *prefix;   /* or NULL */
	int64_t end_ns;
};

static int until_take(const char *value, enum until *until_out)
{
	static const char *const words[] = {
		[UNTIL_FREE] = "free", [UNTIL_HELD] = "held", [UNTIL_CHANGE] = "change"};
	for (int i = UNTIL_FREE; i <= UNTIL_CHANGE; i++) {
		if (strcmp(words[i], value) == 0) {
			*until_out = (enum until)i;
			return 0;
		}
	}
	return trouble("option --until: '%s' is not free, held or change", value);
}

static int watch_take(void *context, int id, const char *value)
{
	struct watch_state *state = context;
	switch (id) {
	case OPTION_JSON:
		state->json = 1;
		return 0;
	case OPTION_RENEWALS:
		state->renewals = 1;
		return 0;
	case OPTION_PREFIX:
		if (state->prefix_count == WATCH_PREFIXES_MAX)
			return trouble("option --prefix: more than %d", WATCH_PREFIXES_MAX);
		state->prefixes[state->prefix_count++] = (char *)value;
		return 0;
	case OPTION_NO_INITIAL:
		state->no_initial = 1;
		return 0;
	case OPTION_ONCE:
		state->until = UNTIL_CHANGE;
		return 0;
	case OPTION_UNTIL:
		return until_take(value, &state->until);
	default:
		return option_duration("-w", value, 0, LK_WAIT_MAX_MS, &state->wait_ms);
	}
}

/* `come`: it was not there before. */
static int is_reached(const lk_change *change, enum until until, int come)
{
	if (change->kind == LK_CHANGE_GAP)
		return 0;
	switch (until) {
	case UNTIL_FREE:
		return !change_is_held(change);
	case UNTIL_HELD:
		return change_is_held(change);
	case UNTIL_CHANGE:
		return come || change->kind != LK_CHANGE_STATE;
	default:
		return 0;
	}
}

/* Nobody reads any more: as a write would, it ends the program. */
static void stdout_check(void)
{
	struct pollfd reader = {STDOUT_FILENO, 0, 0};
	if (poll(&reader, 1, 0) != 1 || !(reader.revents & POLLERR))
		return;
	signal(SIGPIPE, SIG_DFL);
	raise(SIGPIPE);
}

/* With a COMMAND lines are printed where --json asks for them. */
static int change_tell(const struct watching *watching, const lk_change *change)
{
	const struct watch_state *state = watching->state;
	int code = 0;
	if (state->json)
		code = change_print_json(change);
	else if (!watching->command)
		code = change_print(change);
	if (code == 0 && watching->command)
		code = watch_command_tell(watching->command, change);
	return code;
}

/* The next change: 1; 0 when it is time to look at other things, or a code. */
static int change_await(const struct watching *watching, lk_change *change, lk_error *error)
{
	int64_t left_ms = SLICE_MS;
	if (watching->state->wait_ms >= 0)
		left_ms = (watching->end_ns - clock_now_ns()) / NS_PER_MS;
	int result = lk_watch_next(watching->watch, left_ms < SLICE_MS ? left_ms : SLICE_MS,
				   watching->cancel, change, error);
	if (result == LK_ECANCELLED) {
		lk_cancel_reset(watching->cancel);
		return 0;
	}
	if (result == 0 && (!watching->command || watching->state->json))
		stdout_check();
	return result;
}

/* Serves the command and the prefix, beside changes: 0, or an exit code. */
static int beside_take(const struct watching *watching)
{
	int code = 0;
	if (watching->command)
		watch_command_turn(watching->command, &code);
	if (code == 0 && watching->prefix)
		code = watch_prefix_turn(watching->prefix, watching->watch);
	return code;
}

static int watch_run(const struct watching *watching)
{
	const struct watch_state *state = watching->state;
	for (;;) {
		lk_change change = LK_CHANGE_INIT;
		lk_error error = {0};
		int code = beside_take(watching);
		if (code || (watching->command && watch_command_signal()))
			return code;
		if (state->wait_ms >= 0 && clock_now_ns() >= watching->end_ns)
			return EXIT_NOT_ACQUIRED;
		int result = change_await(watching, &change, &error);
		if (result < 0)
			return trouble_library(&error);
		if (result == 0)
			continue;
		int come = watching->prefix && watch_prefix_see(watching->prefix, &change);
		if (!change.initial || !state->no_initial || come)
			code = change_tell(watching, &change);
		if (code)
			return code;
		if (is_reached(&change, state->until, come))
			return watching->command ? watch_command_drain(watching->command) : 0;
	}
}

static int beside_begin(struct watching *watching, const struct session *session)
{
	const struct watch_state *state = watching->state;
	lk_error error = {0};
	if (!state->argv && !state->prefix_count)
		return 0;
	if (lk_cancel_new(&watching->cancel, &error))
		return trouble_library(&error);
	if (state->argv)
		watching->command = watch_command_new(state->argv, watching->cancel);
	if (state->prefix_count)
		watching->prefix = watch_prefix_new(session->client, watching->cancel,
						    (char **)state->prefixes, state->prefix_count,
						    session->argv, session->argc);
	if ((state->argv && !watching->command) || (state->prefix_count && !watching->prefix))
		return trouble("out of memory");
	return 0;
}

/* A signal that came meanwhile ends this program as it would have without a COMMAND. */
static int watch_serve(struct watching *watching, const struct session *session)
{
	watching->end_ns = clock_now_ns() + watching->state->wait_ms * NS_PER_MS;
	int code = beside_begin(watching, session);
	if (code == 0)
		code = watch_run(watching);
	watch_prefix_free(watching->prefix);
	watch_command_free(watching->command);
	lk_cancel_free(watching->cancel);
	return code;
}

static int watch_open(lk_watch **watch_out, const struct session *session,
		      const struct watch_state *state)
{
	lk_watch_options options = LK_WATCH_OPTIONS_INIT;
	lk_error error = {0};
	if (session->count > 1)
		return trouble("a quorum is not watched: watch each server by itself, with --url");
	options.renewals = state->renewals;
	if (lk_watch_new(watch_out, session->client, &options, &error))
		return trouble_library(&error);
	for (int i = 0; i < session->argc; i++)
		if (lk_watch_add(*watch_out, session->argv[i], strlen(session->argv[i]), &error))
			return trouble_library(&error);
	return 0;
}

/* Behind the names "--" begins COMMAND. Where it stands before all of them, and no --prefix does,
 * it only ends the options, so that a name may begin with a dash, and the next one begins
 * COMMAND. */
static int operands_split(struct session *session, int argc, char **argv, int end,
			  struct watch_state *state)
{
	if (session->argc == 0 && state->prefix_count == 0 && end < argc) {
		session->argv = argv + end + 1;
		while (end + 1 + session->argc < argc &&
		       strcmp(session->argv[session->argc], "--") != 0)
			session->argc++;
		end += 1 + session->argc;
	}
	if (end < argc)
		state->argv = argv + end + 1;
	return end >= argc || end + 1 < argc;
}

int cmd_watch(const struct command *command, int argc, char **argv)
{
	struct session session;
	struct watch_state state = {.wait_ms = -1};
	struct watching watching = {.state = &state};
	int end = 1;
	while (end < argc && strcmp(argv[end], "--") != 0)
		end++;
	int result = session_begin(&session, command, end, argv, watch_take, &state, 0,
				   LK_WATCH_NAMES_MAX);
	if (result)
		return -1 - result;
	int code = 0;
	if (!operands_split(&session, argc, argv, end, &state))
		code = usage_error(command, "COMMAND is missing");
	else if (session.argc == 0 && state.prefix_count == 0)
		code = usage_error(command, "NAME is missing, and so is --prefix");
	if (code == 0)
		code = session_open(&session);
	if (code == 0)
		code = watch_open(&watching.watch, &session, &state);
	if (code == 0)
		code = watch_serve(&watching, &session);
	lk_watch_free(watching.watch);
	code = session_end(&session, code);
	if (state.argv && watch_command_signal())
		signal_die(watch_command_signal());
	return code;
}
