/* SPDX-License-Identifier: MIT */
/* lockkeeper latch: sets a count-down latch, counts it down, waits until it is open, deletes it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "exit_code.h"
#include "kind.h"
#include "message.h"
#include "session.h"

const struct option_row latch_options[] = {
	{'n', "nonblock", NULL, "wait: fail if the latch is closed, instead of waiting"},
	{'w', "wait", "WAIT", "wait: wait at most this long"},
	{OPTION_TTL, "ttl", "TIME",
	 "set: it goes when it was not changed for TIME (default: it stays)"},
	{'v', "verbose", NULL,
	 "report the server, what came of it, and now and then what `latch wait` waits for"},
	{'q', "quiet", NULL, "wait: do not show on the terminal what it waits for"},
	{0, NULL, NULL, NULL},
};

struct latch_state {
	int64_t wait_ms; /* -1: no limit */
	int limits;      /* -n or -w was given */
	int waits;       /* an option of `wait` was given */
	int64_t ttl_ms;  /* one of `set`; 0: it was not */
};

static int latch_take(void *context, int id, const char *value)
{
	struct latch_state *state = context;
	if (id == OPTION_TTL)
		return option_duration("--ttl", value, 1, LK_LEASE_MAX_MS, &state->ttl_ms);
	state->waits = 1;
	if (state->limits++)
		return trouble("-n and -w exclude each other");
	if (id == 'w')
		return option_duration("-w", value, 0, LK_WAIT_MAX_MS, &state->wait_ms);
	state->wait_ms = 0;
	return 0;
}

/* Tells of trouble with the latch that the second operand names. */
static int latch_trouble(const struct session *session, const lk_error *error)
{
	return trouble_name(session->client, session->argv[1], NULL, error);
}

static int latch_set(const struct session *session, lk_latch *latch, int64_t count)
{
	const char *name = session->argv[1];
	lk_error error = {0};
	int result = lk_latch_try_set(latch, count, &error);
	if (result < 0)
		return latch_trouble(session, &error);
	if (result == 1) {
		session_did(session, "set", name);
		return 0;
	}
	message("%s already has a count", name);
	return EXIT_NOT_ACQUIRED;
}

/* An open latch has no count, and nor has a name that is misspelled. */
static void open_say(const struct session *session)
{
	message("%.200s has no count: it is open, or was never set (or the name is misspelled)",
		session->argv[1]);
}

/* The count; the largest where this user may not ask for it. 0, or an exit code (said). */
static int latch_ask(const struct session *session, lk_latch *latch, int64_t *count_out)
{
	lk_error error = {0};
	*count_out = LK_LATCH_COUNT_MAX;
	int result = lk_latch_count(latch, count_out, &error);
	return result && result != LK_EDENIED ? latch_trouble(session, &error) : 0;
}

static int latch_down(const struct session *session, lk_latch *latch, int64_t by)
{
	int64_t before, left;
	lk_error error = {0};
	int code = latch_ask(session, latch, &before);
	if (code)
		return code;
	if (lk_latch_count_down(latch, by, &left, &error))
		return latch_trouble(session, &error);
	if (before == 0 && left == 0)
		open_say(session);
	else
		session_did(session, "counted down", session->argv[1]);
	printf("%" PRId64 "\n", left);
	return output_finish();
}

static int latch_wait(struct session *session, lk_latch *latch, const struct latch_state *state)
{
	lk_error error = {0};
	int64_t count;
	if (session->told.verbose && lk_latch_count(latch, &count, NULL) == 0 && count == 0)
		open_say(session);
	session->told.once = state->wait_ms == 0;
	wait_status_begin(&session->waiting, session->client, NULL, session->argv[1],
			  &session->told);
	int result = lk_latch_await(latch, state->wait_ms, NULL, &error);
	wait_status_end(&session->waiting);
	int code = result ? latch_trouble(session, &error) : 0;
	if (code == EXIT_NOT_ACQUIRED && session->told.verbose)
		wait_status_conclude(&session->waiting);
	return code;
}

static int latch_delete(const struct session *session, lk_latch *latch)
{
	const char *name = session->argv[1];
	lk_error error = {0};
	int result = lk_latch_delete(latch, &error);
	if (result < 0)
		return latch_trouble(session, &error);
	if (result == 0)
		message("%s had no count", name);
	else
		session_did(session, "deleted", name);
	return 0;
}

/* The number among the operands; 1 when there need not be one and is none. */
static int latch_number(const struct command *command, const struct session *session,
			int64_t *number_out)
{
	const char *verb = session->argv[0];
	int is_set = strcmp(verb, "set") == 0, is_down = strcmp(verb, "down") == 0;
	*number_out = 1;
	if (!is_set && !is_down && strcmp(verb, "wait") != 0 && strcmp(verb, "delete") != 0)
		return usage_error(command, "'%s' is unknown: use set, down, wait or delete", verb);
	if (!is_set && !is_down && session->argc == 3)
		return usage_error(command, "%s takes no COUNT", verb);
	if (is_set && session->argc == 2)
		return usage_error(command, "COUNT is missing");
	if (session->argv[1][0] == '\0')
		return trouble("NAME is empty");
	return session->argc == 3
		       ? operand_count("COUNT", session->argv[2], 1, LK_LATCH_COUNT_MAX, number_out)
		       : 0;
}

static int latch_do(struct session *session, lk_latch *latch, int64_t number,
		    const struct latch_state *state)
{
	const char *verb = session->argv[0];
	if (strcmp(verb, "set") == 0)
		return latch_set(session, latch, number);
	if (strcmp(verb, "down") == 0)
		return latch_down(session, latch, number);
	return strcmp(verb, "wait") == 0 ? latch_wait(session, latch, state)
					 : latch_delete(session, latch);
}

int cmd_latch(const struct command *command, int argc, char **argv)
{
	struct session session;
	struct latch_state state = {.wait_ms = -1};
	lk_latch *latch = NULL;
	lk_latch_options options = LK_LATCH_OPTIONS_INIT;
	lk_error error = {0};
	int64_t number;
	int result = session_begin(&session, command, argc, argv, latch_take, &state, 2, 3);
	if (result)
		return -1 - result;
	int code = latch_number(command, &session, &number);
	if (code == 0 && (state.waits || session.told.quiet) &&
	    strcmp(session.argv[0], "wait") != 0)
		code = usage_error(command, "-n, -w and -q are for wait");
	if (code == 0 && state.ttl_ms && strcmp(session.argv[0], "set") != 0)
		code = usage_error(command, "--ttl is for set");
	if (code == 0)
		code = session_open(&session);
	const char *name = session.argv[1];
	options.ttl_ms = state.ttl_ms;
	if (code == 0 && lk_latch_new(&latch, session.client, name, strlen(name), &options, &error))
		code = trouble_library(&error);
	if (code == 0)
		code = latch_do(&session, latch, number, &state);
	lk_latch_free(latch);
	return session_end(&session, code);
}
