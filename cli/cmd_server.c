/* lockkeeper server: start, stop and status of the private server. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "exit_code.h"
#include "message.h"
#include "server.h"
#include "server_start.h"
#include "session.h"

/* As systemctl(1) and the LSB say "not running". */
#define EXIT_NOT_RUNNING 3

const struct option_row server_options[] = {
	{OPTION_FORCE, "force", NULL, "stop: also while locks are held"},
	{0, NULL, NULL, NULL},
};

/* Counts the locks on the private server, whatever server the environment names. */
static int locks_count(const struct server_place *place, int64_t *count_out)
{
	lk_error error = {0};
	lk_config *config = NULL;
	lk_client *client = NULL;
	lk_scan *scan = NULL;
	lk_lock_info info;
	*count_out = 0;
	int result = lk_config_new(&config, &error);
	if (result == 0)
		result = lk_config_set(config, "url", place->url, &error);
	if (result == 0)
		result = lk_client_new(&client, config, &error);
	if (result == 0)
		result = lk_scan_new(&scan, client, NULL, &error);
	while (result == 0 && (result = lk_scan_next(scan, &info, &error)) == 1) {
		*count_out += info.holder_count > 0;
		result = 0;
	}
	lk_scan_free(scan);
	lk_client_free(client);
	lk_config_free(config);
	return result < 0 ? trouble_library(&error) : 0;
}

static int status_print(const struct server_place *place)
{
	int64_t count;
	pid_t pid = server_find(place);
	if (pid == 0 && server_is_alive(place))
		return trouble("the private server is there but does not answer: see %s/redis.log",
			       place->folder);
	if (pid == 0) {
		printf("not running\nfolder: %s\n", place->folder);
		return output_finish() ? EXIT_TROUBLE : EXIT_NOT_RUNNING;
	}
	int code = locks_count(place, &count);
	if (code)
		return code;
	printf("running\nprocess: %d\nurl: %s\nfolder: %s\nlocks: %" PRId64 "\n", (int)pid,
	       place->url, place->folder, count);
	return output_finish();
}

static int server_start_say(const struct server_place *place)
{
	int code = server_ensure(place);
	return code ? code : status_print(place);
}

static int server_stop(const struct server_place *place, int force)
{
	int64_t count = 0;
	if (server_find(place) == 0 && access(place->folder, F_OK))
		return 0; /* never started: nothing to guard */
	int guard = server_guard(place), code = 0;
	if (guard < 0)
		return EXIT_TROUBLE;
	pid_t pid = server_find(place);
	if (pid && !force)
		code = locks_count(place, &count);
	if (code == 0 && count > 0)
		code = trouble("%" PRId64 " lock%s held there (see lockkeeper ls): the server "
			       "goes on; --force stops it all the same",
			       count, count == 1 ? " is" : "s are");
	if (code == 0 && pid)
		code = server_end(place, pid);
	else if (code == 0 && server_is_alive(place))
		code = trouble("the private server does not answer, and so cannot be stopped");
	close(guard);
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
		code = server_start_say(&place);
	else if (code == 0 && strcmp(what, "stop") == 0)
		code = server_stop(&place, force);
	else if (code == 0 && strcmp(what, "status") == 0)
		code = status_print(&place);
	else if (code == 0)
		code = usage_error(command, "'%s' is none of %s", what, command->operands);
	return session_end(&session, code);
}
