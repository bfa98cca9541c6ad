/* SPDX-License-Identifier: MIT */
/* lockkeeper ask: asks whoever holds a lock to give it up. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "asker.h"
#include "commands.h"
#include "exit_code.h"
#include "message.h"
#include "owner.h"
#include "session.h"

#define AGAIN_MS 300

enum asked asker_ask(lk_lock *lock, const char *reason, lk_error *error)
{
	char who[128], host[65] = "?";
	int owners = 0, listeners = 0;
	if (!reason) {
		gethostname(host, sizeof(host) - 1);
		snprintf(who, sizeof(who), "pid %ld on %s", (long)getpid(), host);
	}
	for (int i = 0; i < 2; i++) {
		if (i > 0)
			poll(NULL, 0, AGAIN_MS);
		if (lk_lock_ask(lock, reason ? reason : who, &owners, &listeners, error))
			return ASKED_FAILED;
		if (owners == 0)
			return ASKED_FREE;
		if (listeners > 0)
			return ASKED_HEARD;
	}
	return ASKED_UNHEARD;
}

void asker_say_unheard(lk_client *client, const char *name)
{
	char who[OWNER_TEXT_SIZE] = "another client";
	lk_lock_info info = LK_LOCK_INFO_INIT;
	lk_scan *scan = NULL;
	if (lk_scan_new(&scan, client, NULL, NULL) == 0 &&
	    lk_scan_show(scan, name, strlen(name), &info, NULL) == 0 && info.holder_count > 0)
		holder_text(scan, &info, &info.holders[0], who, sizeof(who));
	lk_scan_free(scan);
	message("%.200s: its holder does not listen to requests (run --yield, or --on ask): %s",
		name, who);
}

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
