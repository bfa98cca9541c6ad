/* lockkeeper break: frees a lock whoever holds it, after a question. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "exit_code.h"
#include "escape.h"
#include "message.h"
#include "session.h"

const struct option_row break_options[] = {
	{OPTION_YES, "yes", NULL, "do not ask; needed where there is no terminal"},
	{0, NULL, NULL, NULL},
};

static void question_print(const char *name, const lk_lock_info *info)
{
	escape_print(stderr, name, strlen(name));
	for (size_t i = 0; i < info->holder_count; i++) {
		fputs(i ? ", " : " is held by ", stderr);
		escape_print(stderr, info->holders[i].field, info->holders[i].field_size);
	}
	fputs(". Its holder will go on until it notices. Break it? [y/N] ", stderr);
}

/* 0 when the user agrees (or there is nothing to break), else an exit code. */
static int ask(lk_client *client, const char *name)
{
	char answer[16] = "";
	lk_error error = {0};
	lk_lock_info info;
	lk_scan *scan = NULL;
	if (!isatty(STDIN_FILENO))
		return trouble("break: stdin is no terminal to ask on; say --yes");
	int result = lk_scan_new(&scan, client, NULL, &error);
	if (result == 0)
		result = lk_scan_show(scan, name, strlen(name), &info, &error);
	if (result == 0 && info.holder_count > 0) {
		question_print(name, &info);
		if (!fgets(answer, sizeof(answer), stdin))
			fputc('\n', stderr);
	} else {
		strcpy(answer, "y\n");
	}
	lk_scan_free(scan);
	if (result)
		return trouble_library(&error);
	return strcmp(answer, "y\n") == 0 || strcmp(answer, "yes\n") == 0 ? 0
									  : trouble("not broken");
}

int cmd_break(const struct command *command, int argc, char **argv)
{
	struct session session;
	lk_lock *lock = NULL;
	lk_error error = {0};
	int yes = 0;
	int result = session_begin(&session, command, argc, argv, take_flag, &yes, 1, 1);
	if (result)
		return -1 - result;
	int code = session_open_lock(&session, &lock);
	if (code == 0 && !yes)
		code = ask(session.client, session.argv[0]);
	if (code == 0) {
		result = lk_lock_force_release(lock, &error);
		if (result < 0)
			code = trouble_library(&error);
		else if (result == 0)
			message("%s was not locked", session.argv[0]);
	}
	lk_lock_free(lock);
	return session_end(&session, code);
}
