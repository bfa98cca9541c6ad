/* SPDX-License-Identifier: MIT */
/* lockkeeper ask: asks whoever holds a lock to give it up. */
#include "asker.h"
#include "commands.h"
#include "exit_code.h"
#include "message.h"
#include "session.h"

const struct option_row ask_options[] = {
	{OPTION_REASON, "reason", "TEXT", "why, for the holder"},
	VERBOSE_ROW,
	{0, NULL, NULL, NULL},
};

static int ask_take(void *context, int id, const char *value)
{
	const char **reason = context;
	(void)id;
	*reason = value;
	return 0;
}

int cmd_ask(const struct command *command, int argc, char **argv)
{
	struct session session;
	const char *reason = NULL;
	lk_error error = {0};
	lk_lock *lock = NULL;
	int result = session_begin(&session, command, argc, argv, ask_take, &reason, 1, 1);
	if (result)
		return -1 - result;
	const char *name = session.argv[0];
	int code = session_open_lock(&session, &lock);
	if (code == 0) {
		switch (asker_ask(lock, reason, &error)) {
		case ASKED_HEARD:
			session_did(&session, "asked for", name);
			break;
		case ASKED_FREE:
			message("%.200s: nobody holds it", name);
			code = EXIT_FREE;
			break;
		case ASKED_UNHEARD:
			asker_say_unheard(session.client, name);
			code = EXIT_NOT_ACQUIRED;
			break;
		case ASKED_FAILED:
			code = trouble_library(&error);
		}
	}
	lk_lock_free(lock);
	return session_end(&session, code);
}
