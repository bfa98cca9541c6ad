/* SPDX-License-Identifier: MIT */
/* lockkeeper server: start, stop and status of the private server. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "connect.h"
#include "exit_code.h"
#include "message.h"
#include "server.h"
#include "server_folder.h"
#include "server_prepare.h"
#include "server_start.h"
#include "session.h"

/* As systemctl(1) and the LSB say "not running". */
#define EXIT_NOT_RUNNING 3

const struct option_row server_options[] = {
	{OPTION_FORCE, "force", NULL, "stop: even while locks are held"},
	{OPTION_URL, "url", NULL, NULL}, /* it names another server */
	{0, NULL, NULL, NULL},
};

static int lock_count(lk_client *client, const lk_lock_info *info, void *state)
{
	int64_t *count = state;
	(void)client;
	*count += info->holder_count > 0;
	return 0;
}

static int running_print(const struct server_place *place, const struct server_view *view)
{
	int64_t count = 0;
	int code = locks_walk(view->socket->url, lock_count, &count);
	if (code)
		return code;
	puts("running");
	if (view->pid)
		printf("process: %d\n", (int)view->pid);
	else
		puts("process: unknown, in another pid namespace");
	printf("url: %s\nfolder: %s\nlocks: %" PRId64 "\n", place->published.url, place->folder,
	       count);
	return output_finish();
}

static int status_print(const struct server_place *place, int folder)
{
	struct server_view view = {.state = SERVER_ABSENT};
	if (folder >= 0)
		server_find(place, folder, &view);
	if (view.state == SERVER_READY)
		return running_print(place, &view);
	if (view.state != SERVER_ABSENT || (folder >= 0 && server_is_alive(folder)))
		return server_complain(&view);
	printf("not running\nfolder: %s\n", place->folder);
	return output_finish() ? EXIT_TROUBLE : EXIT_NOT_RUNNING;
}

static int server_status(const struct server_place *place)
{
	int folder = folder_open(place->folder);
	int code = folder == FOLDER_REFUSED ? EXIT_TROUBLE : status_print(place, folder);
	if (folder >= 0)
		close(folder);
	return code;
}

static int server_start_say(const struct server_place *place)
{
	struct server_guard guard;
	int code = server_enter(place, &guard);
	if (code == 0)
		code = server_lock(&guard);
	if (code == 0)
		code = server_ensure_locked(place, &guard);
	if (code == 0)
		code = status_print(place, guard.folder);
	server_leave(&guard);
	return code;
}

/* Refuses while locks are held there, and when that cannot be found out. */
static int stop_check(const struct server_view *view)
{
	int64_t count = 0;
	if (view->state == SERVER_ABSENT)
		return 0;
	int code = view->state == SERVER_READY ? locks_walk(view->socket->url, lock_count, &count)
					       : server_complain(view);
	if (code || count == 0)
		return code;
	return trouble("%" PRId64
		       " lock%s held there (see lockkeeper ls): the server keeps running; "
		       "--force stops it anyway",
		       count, count == 1 ? " is" : "s are");
}

/* With other commands at work on the server, a stop is refused; mostly it is their locks. */
static int stop_refuse(const struct server_place *place, int folder)
{
	struct server_view view;
	server_find(place, folder, &view);
	/* One that is starting holds no locks yet, and is about to change its socket's name. */
	int code = view.socket == &place->starting ? 0 : stop_check(&view);
	return code ? code
		    : trouble("other commands are using the private server: it keeps running; "
			      "--force stops it anyway");
}

static int stop_locked(const struct server_place *place, struct server_guard *guard, int force)
{
	struct server_view view;
	int code = server_lock(guard);
	if (code)
		return code;
	server_find(place, guard->folder, &view);
	if (!force)
		code = stop_check(&view);
	return code ? code : server_end(guard, &view, force);
}

static int server_stop(const struct server_place *place, int force)
{
	struct server_guard guard;
	int folder = folder_open(place->folder);
	if (folder < 0)
		return folder == FOLDER_REFUSED ? EXIT_TROUBLE : 0; /* never started */
	close(folder);
	int code = server_enter_alone(place, &guard);
	if (code == 0 && guard.users < 0 && !force)
		code = stop_refuse(place, guard.folder);
	else if (code == 0)
		code = stop_locked(place, &guard, force);
	server_leave(&guard);
	return code;
}

int cmd_server(const struct command *command, int argc, char **argv)
{
	struct session session;
	struct server_place place;
	int force = 0;
	int result = session_begin(&session, command, argc, argv, take_flag, &force, 1, 1);
	if (result)
		return -1 - result;
	const char *what = session.argv[0];
	int code = server_locate(&place);
	if (code == 0 && strcmp(what, "start") == 0)
		code = private_check_start(session.config);
	if (code == 0 && strcmp(what, "start") == 0)
		code = server_start_say(&place);
	else if (code == 0 && strcmp(what, "stop") == 0)
		code = server_stop(&place, force);
	else if (code == 0 && strcmp(what, "status") == 0)
		code = server_status(&place);
	else if (code == 0)
		code = usage_error(command, "'%s' is unknown: use %s", what, command->operands);
	return session_end(&session, code);
}
