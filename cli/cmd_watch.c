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
#include "watch_line.h"

#define SLICE_MS 1000 /* between two looks at whether anybody reads */

const struct option_row watch_options[] = {
	{OPTION_JSON, "json", NULL, "as JSON: an object a line"},
	{OPTION_ONCE, "once", NULL, "end behind the first change"},
	{OPTION_UNTIL, "until", "STATE", "end when a lock is free or held, or at a change"},
	{'w', "wait", "WAIT", "watch at most this long"},
	{OPTION_RENEWALS, "renewals", NULL, "tell of renewals too"},
	{0, NULL, NULL, NULL},
};

enum until { UNTIL_NEVER, UNTIL_FREE, UNTIL_HELD, UNTIL_CHANGE };

struct watch_state {
	int json, renewals;
	enum until until;
	int64_t wait_ms; /* -1: no limit */
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
	case OPTION_ONCE:
		state->until = UNTIL_CHANGE;
		return 0;
	case OPTION_UNTIL:
		return until_take(value, &state->until);
	default:
		return option_duration("-w", value, 0, LK_WAIT_MAX_MS, &state->wait_ms);
	}
}

static int is_reached(const lk_change *change, enum until until)
{
	if (change->kind == LK_CHANGE_GAP)
		return 0;
	switch (until) {
	case UNTIL_FREE:
		return !change_is_held(change);
	case UNTIL_HELD:
		return change_is_held(change);
	case UNTIL_CHANGE:
		return change->kind != LK_CHANGE_STATE;
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

static int watch_run(lk_watch *watch, const struct watch_state *state)
{
	int64_t end_ns = clock_now_ns() + state->wait_ms * NS_PER_MS;
	for (;;) {
		lk_change change = LK_CHANGE_INIT;
		lk_error error = {0};
		int64_t left_ms = SLICE_MS;
		if (state->wait_ms >= 0)
			left_ms = (end_ns - clock_now_ns()) / NS_PER_MS;
		if (left_ms <= 0)
			return EXIT_NOT_ACQUIRED;
		int result = lk_watch_next(watch, left_ms < SLICE_MS ? left_ms : SLICE_MS, NULL,
					   &change, &error);
		if (result < 0)
			return trouble_library(&error);
		if (result == 0) {
			stdout_check();
			continue;
		}
		int code = state->json ? change_print_json(&change) : change_print(&change);
		if (code || is_reached(&change, state->until))
			return code;
	}
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

int cmd_watch(const struct command *command, int argc, char **argv)
{
	struct session session;
	struct watch_state state = {.wait_ms = -1};
	lk_watch *watch = NULL;
	int result = session_begin(&session, command, argc, argv, watch_take, &state, 1,
				   LK_WATCH_NAMES_MAX);
	if (result)
		return -1 - result;
	int code = session_open(&session);
	if (code == 0)
		code = watch_open(&watch, &session, &state);
	if (code == 0)
		code = watch_run(watch, &state);
	lk_watch_free(watch);
	return session_end(&session, code);
}
