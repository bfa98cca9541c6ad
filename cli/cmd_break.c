/* SPDX-License-Identifier: MIT */
/* lockkeeper break: frees a lock whoever holds it, after a question. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "breaking.h"
#include "commands.h"
#include "exit_code.h"
#include "escape.h"
#include "message.h"
#include "session.h"

const struct option_row break_options[] = {
	{OPTION_YES, "yes", NULL, "do not ask; required without a terminal"},
	{0, NULL, NULL, NULL},
};

static void question_print(const char *name, const lk_lock_info *info)
{
	escape_print(stderr, name, strlen(name));
	for (size_t i = 0; i < info->holder_count; i++) {
		fputs(i ? ", " : " is held by ", stderr);
		escape_print(stderr, info->holders[i].field, info->holders[i].field_size);
	}
	fputs(". Its holder continues until it notices. Break it? [y/N] ", stderr);
}

/* 0 when the user agrees (or there is nothing to break), else an exit code. */
static int ask(const char *name, const lk_lock_info *info)
{
	char answer[16] = "";
	if (!isatty(STDIN_FILENO))
		return trouble("break: stdin is not a terminal, so it cannot ask; use --yes");
	if (info->holder_count == 0)
		return 0;
	question_print(name, info);
	if (!fgets(answer, sizeof(answer), stdin))
		fputc('\n', stderr);
	return strcmp(answer, "y\n") == 0 || strcmp(answer, "yes\n") == 0 ? 0
									  : trouble("not broken");
}

int lock_break(lk_client *client, const char *name, size_t name_size, const lk_lock_info *info,
	       lk_error *error)
{
	lk_lock *lock = NULL;
	const struct lock_kind *kind = kind_of(info);
	if (!kind) {
		error->code = LK_EINVAL;
		snprintf(error->message, sizeof(error->message),
			 "break: %.200s is a %s, which nobody holds as a whole", name, info->type);
		return LK_EINVAL;
	}
	int result = kind->make(&lock, client, name, name_size, error);
	if (result == 0)
		result = lk_lock_force_release(lock, error);
	lk_lock_free(lock);
	return result;
}

static int break_and_say(lk_client *client, const char *name, const lk_lock_info *info)
{
	lk_error error = {0};
	int result = lock_break(client, name, strlen(name), info, &error);
	if (result < 0)
		return trouble_library(&error);
	if (result == 0)
		message("%s was not locked", name);
	return 0;
}

int cmd_break(const struct command *command, int argc, char **argv)
{
	struct session session;
	lk_scan *scan = NULL;
	lk_lock_info info = {.type = ""};
	lk_error error = {0};
	int yes = 0;
	int result = session_begin(&session, command, argc, argv, take_flag, &yes, 1, 1);
	if (result)
		return -1 - result;
	const char *name = session.argv[0];
	int code = *name ? session_open(&session) : trouble("NAME is empty");
	if (code == 0 && (lk_scan_new(&scan, session.client, NULL, &error) ||
			  lk_scan_show(scan, name, strlen(name), &info, &error)))
		code = trouble_library(&error);
	if (code == 0 && !yes)
		code = ask(name, &info);
	if (code == 0)
		code = break_and_say(session.client, name, &info);
	lk_scan_free(scan);
	return session_end(&session, code);
}
