/* lockkeeper latch: sets a count-down latch, counts it down, waits until it is open. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "exit_code.h"
#include "message.h"
#include "session.h"

const struct option_row latch_options[] = {
	{'n', "nonblock", NULL, "wait: fail when it is closed, instead of waiting"},
	{'w', "wait", "WAIT", "wait: at most so long"},
	{0, NULL, NULL, NULL},
};

struct latch_state {
	int64_t wait_ms; /* -1: no limit */
	int waits;       /* -n or -w was given */
};

static int latch_take(void *context, int id, const char *value)
{
	struct latch_state *state = context;
	if (state->waits++)
		return trouble("-n and -w exclude each other");
	if (id == 'w')
		return option_duration("-w", value, 0, LK_WAIT_MAX_MS, &state->wait_ms);
	state->wait_ms = 0;
	return 0;
}

static int latch_set(lk_latch *latch, const char *name, int64_t count)
{
	lk_error error = {0};
	int result = lk_latch_try_set(latch, count, &error);
	if (result < 0)
		return trouble_library(&error);
	if (result == 1)
		return 0;
	message("%s has a count already", name);
	return EXIT_NOT_ACQUIRED;
}

static int latch_down(lk_latch *latch, int64_t by)
{
	int64_t left;
	lk_error error = {0};
	if (lk_latch_count_down(latch, by, &left, &error))
		return trouble_library(&error);
	printf("%" PRId64 "\n", left);
	return output_finish();
}

static int latch_wait(lk_latch *latch, int64_t wait_ms)
{
	lk_error error = {0};
	int result = wait_ms < 0 ? lk_latch_await(latch, NULL, &error)
				 : lk_latch_await_within(latch, wait_ms, NULL, &error);
	return result ? trouble_library(&error) : 0;
}

/* The number among the operands; 1 when there need not be one and is none. */
static int latch_number(const struct command *command, const struct session *session,
			int64_t *number_out)
{
	const char *verb = session->argv[0];
	int is_wait = strcmp(verb, "wait") == 0, is_set = strcmp(verb, "set") == 0;
	*number_out = 1;
	if (!is_wait && !is_set && strcmp(verb, "down") != 0)
		return usage_error(command, "'%s': set, down or wait", verb);
	if (is_wait && session->argc == 3)
		return usage_error(command, "wait takes no COUNT");
	if (is_set && session->argc == 2)
		return usage_error(command, "COUNT is missing");
	if (session->argv[1][0] == '\0')
		return trouble("NAME is empty");
	return session->argc == 3
		       ? operand_count("COUNT", session->argv[2], 1, LK_LATCH_COUNT_MAX, number_out)
		       : 0;
}

int cmd_latch(const struct command *command, int argc, char **argv)
{
	struct session session;
	struct latch_state state = {.wait_ms = -1};
	lk_latch *latch = NULL;
	lk_error error = {0};
	int64_t number;
	int result = session_begin(&session, command, argc, argv, latch_take, &state, 2, 3);
	if (result)
		return -1 - result;
	int code = latch_number(command, &session, &number);
	if (code == 0 && state.waits && strcmp(session.argv[0], "wait") != 0)
		code = usage_error(command, "-n and -w are for wait");
	if (code == 0)
		code = session_open(&session);
	const char *name = session.argv[1];
	if (code == 0 && lk_latch_new(&latch, session.client, name, strlen(name), &error))
		code = trouble_library(&error);
	if (code == 0) {
		switch (session.argv[0][0]) {
		case 's':
			code = latch_set(latch, name, number);
			break;
		case 'd':
			code = latch_down(latch, number);
			break;
		default:
			code = latch_wait(latch, state.wait_ms);
		}
	}
	lk_latch_free(latch);
	return session_end(&session, code);
}
