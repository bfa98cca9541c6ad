/* lockkeeper lock, unlock and extend: for scripts that cannot wrap a command. */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "exit_code.h"
#include "message.h"
#include "session.h"

const struct option_row lock_options[] = {
	{'n', "nonblock", NULL, "fail when another owner holds the lock, instead of waiting"},
	{'w', "wait", "WAIT", "wait for the lock at most so long"},
	{'l', "lease", "LEASE", "how long it is locked; nobody renews it (required)"},
	{OPTION_PLAIN, "plain", NULL, "a plain lock, SET NX PX, as other programs take it"},
	{0, NULL, NULL, NULL},
};

const struct option_row extend_options[] = {
	{'l', "lease", "LEASE", "how long it is locked from now on, at least (required)"},
	{OPTION_PLAIN, "plain", NULL, "it is a plain lock"},
	{0, NULL, NULL, NULL},
};

const struct option_row unlock_options[] = {
	{OPTION_PLAIN, "plain", NULL, "it is a plain lock"},
	{0, NULL, NULL, NULL},
};

struct lock_state {
	int nonblock;
	int has_wait;
	int64_t wait_ms;
	int64_t lease_ms;
	const struct lock_kind *kind;
};

static int lock_take(void *context, int id, const char *value)
{
	struct lock_state *state = context;
	if (kind_take(&state->kind, id))
		return 0; /* there is one to choose */
	switch (id) {
	case 'n':
		state->nonblock = 1;
		return 0;
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
	options.lease_ms = state->lease_ms;
	if (state->nonblock)
		return lk_lock_try(lock, &options, error);
	if (state->has_wait)
		return lk_lock_acquire_within(lock, state->wait_ms, &options, error);
	return lk_lock_acquire(lock, &options, error);
}

/* A lock whose owner nobody learns could only be waited for: it is given back. */
static int owner_print(lk_lock *lock)
{
	char field[LK_FIELD_SIZE];
	lk_error error = {0};
	int code;
	if (lk_lock_export(lock, NULL, field, sizeof(field), &error)) {
		code = trouble_library(&error);
	} else {
		puts(field);
		code = output_finish();
	}
	if (code)
		lk_lock_release(lock, NULL, NULL);
	return code;
}

static int lock_check(const struct command *command, const struct lock_state *state)
{
	if (state->lease_ms == 0)
		return usage_error(command, "-l LEASE is missing");
	if (state->nonblock && state->has_wait)
		return usage_error(command, "-n and -w exclude each other");
	return 0;
}

int cmd_lock(const struct command *command, int argc, char **argv)
{
	struct session session;
	struct lock_state state = {.kind = &kind_default};
	lk_lock *lock = NULL;
	lk_error error = {0};
	int result = session_begin(&session, command, argc, argv, lock_take, &state, 1, 1);
	if (result)
		return -1 - result;
	int code = lock_check(command, &state);
	session.kind = state.kind;
	if (code == 0)
		code = session_open_lock(&session, &lock);
	if (code == 0 && lock_acquire(lock, &state, &error))
		code = trouble_library(&error);
	else if (code == 0)
		code = owner_print(lock);
	lk_lock_free(lock);
	return session_end(&session, code);
}

int cmd_unlock(const struct command *command, int argc, char **argv)
{
	struct session session;
	struct lock_state state = {.kind = &kind_default};
	lk_lock *lock = NULL;
	lk_error error = {0};
	int result = session_begin(&session, command, argc, argv, lock_take, &state, 2, 2);
	if (result)
		return -1 - result;
	session.kind = state.kind;
	int code = session_open_lock(&session, &lock);
	if (code == 0 && lk_lock_release_field(lock, session.argv[1], &error))
		code = trouble_library(&error);
	lk_lock_free(lock);
	return session_end(&session, code);
}

int cmd_extend(const struct command *command, int argc, char **argv)
{
	struct session session;
	struct lock_state state = {.kind = &kind_default};
	lk_lock *lock = NULL;
	lk_error error = {0};
	int result = session_begin(&session, command, argc, argv, lock_take, &state, 2, 2);
	if (result)
		return -1 - result;
	int code = lock_check(command, &state);
	session.kind = state.kind;
	if (code == 0)
		code = session_open_lock(&session, &lock);
	if (code == 0 && lk_lock_extend_field(lock, session.argv[1], state.lease_ms, &error))
		code = trouble_library(&error);
	lk_lock_free(lock);
	return session_end(&session, code);
}
