/* SPDX-License-Identifier: MIT */
/* The command `lockkeeper`: the table of its commands, and the choice among them. */
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <lockkeeper/version.h>

#include "commands.h"
#include "conf.h"
#include "exit_code.h"
#include "message.h"

static int cmd_help(const struct command *command, int argc, char **argv);

const struct command commands[] = {
	{"run", "NAME [--] COMMAND [ARG…]", "", "Runs a command while holding a lock.", run_options,
	 1, cmd_run},
	{"lock", "NAME", "", "Takes a lock for a lease and prints its owner field.", lock_options,
	 0, cmd_lock},
	{"unlock", "NAME OWNER", "", "Releases a lock that `lock` took.", unlock_options, 0,
	 cmd_unlock},
	{"extend", "NAME OWNER", "", "Extends a lock to last at least LEASE from now.",
	 extend_options, 0, cmd_extend},
	{"ls", "[PATTERN]", "", "Lists the locks that are held.", ls_options, 0, cmd_ls},
	{"show", "NAME", "", "Shows one lock.", json_options, 0, cmd_show},
	{"top", "[PATTERN]", "", "Shows the locks that are held, live.", top_options, 0, cmd_top},
	{"metrics", "", "", "Prints what is on the server for Prometheus, or serves it as a page.",
	 metrics_options, 0, cmd_metrics},
	{"ask", "NAME", "", "Asks whoever holds a lock to give it up.", ask_options, 0, cmd_ask},
	{"break", "NAME", "", "Frees a lock, whoever holds it.", break_options, 0, cmd_break},
	{"wait", "NAME", "", "Waits until a lock is free, without taking it.", wait_options, 0,
	 cmd_wait},
	{"watch", "[NAME…] [-- COMMAND [ARG…]]", "",
	 "Shows the state of locks, and each change when it happens, or runs a command for each.",
	 watch_options, 0, cmd_watch},
	{"fence", "check KEY TOKEN", "check", "Succeeds if TOKEN is the newest seen for KEY.", NULL,
	 0, cmd_fence},
	{"latch", "set NAME COUNT|down NAME [COUNT]|wait NAME|delete NAME", "set down wait delete",
	 "Sets a count-down latch, counts it down, waits until it is open, or deletes it.",
	 latch_options, 0, cmd_latch},
	{"barrier", "NAME N [[--] COMMAND [ARG…]]", "",
	 "Waits until N have come, and prints their generation, or runs a command meanwhile "
	 "inside.",
	 barrier_options, 1, cmd_barrier},
	{"sem", "set NAME COUNT|show NAME|delete NAME", "set show delete",
	 "Sets or shows how many permits a semaphore has, or deletes it.", sem_options, 0, cmd_sem},
	{"elect", "NAME [--] COMMAND [ARG…]", "", "Runs a command while leading an election.",
	 elect_options, 1, cmd_elect},
	{"leader", "NAME", "", "Shows who leads an election.", leader_options, 0, cmd_leader},
	{"doctor", "[NAME]", "", "Says what the servers promise, and what would lose locks.",
	 doctor_options, 0, cmd_doctor},
	{"server", "start|stop|status", "start stop status",
	 "Controls the private server, the default when no server is named.", server_options, 0,
	 cmd_server},
	{"completion", "bash|zsh|fish", "bash zsh fish", "Prints the completion for a shell.", NULL,
	 0, cmd_completion},
	{"help", "[COMMAND]", "", "Prints the usage of a command, or this list.", NULL, 0,
	 cmd_help},
	{NULL, NULL, NULL, NULL, NULL, 0, NULL},
};

static void help_print(FILE *stream)
{
	fputs("usage: lockkeeper COMMAND [OPTION…] …\n"
	      "Distributed locks on Redis and Valkey, for the shell.\n\n",
	      stream);
	for (const struct command *command = commands; command->name; command++)
		fprintf(stream, "  %-11s %s\n", command->name, command->summary);
	fputs("\nlockkeeper COMMAND --help lists the options. LOCKKEEPER_URL names the server, or "
	      "--url,\nor for everybody on the machine url=URL in " CONF_PATH ". Without "
	      "any\nlockkeeper uses a private redis-server.\n",
	      stream);
}

static const struct command *command_find(const char *name)
{
	for (const struct command *command = commands; command->name; command++) {
		if (strcmp(command->name, name) == 0)
			return command;
	}
	return NULL;
}

static int cmd_help(const struct command *command, int argc, char **argv)
{
	const struct command *about = argc == 2 ? command_find(argv[1]) : NULL;
	if (argc > 2)
		return usage_error(command, "wanted: %s", command->operands);
	if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
		about = command;
	else if (argc == 2 && !about)
		return trouble("unknown command '%s' (see lockkeeper --help)", argv[1]);
	if (about)
		usage_print(about);
	else
		help_print(stdout);
	return output_finish();
}

/* No descriptor of ours must become somebody's stdin, stdout or stderr. What takes the place of
 * one that is closed cannot be read or written either: an owner printed there would be lost. */
static int streams_open(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		int mode = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", mode | O_CLOEXEC) != fd)
			return EXIT_TROUBLE;
	}
	return 0;
}

int main(int argc, char **argv)
{
#ifdef M_ARENA_MAX
	/* The threads allocate little: making an arena for each takes longer. */
	mallopt(M_ARENA_MAX, 1);
#endif
	if (streams_open())
		return EXIT_TROUBLE;
	if (getauxval(AT_SECURE))
		return trouble("refusing to run with the rights of another user (setuid)");
	if (argc < 2) {
		help_print(stderr);
		return EXIT_TROUBLE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		help_print(stdout);
		return output_finish();
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
		printf("lockkeeper %s\n", lk_version());
		return output_finish();
	}
	const struct command *command = command_find(argv[1]);
	if (!command && argv[1][0] == '-')
		return trouble(
			"option %s: options stand behind the command (see lockkeeper --help)",
			argv[1]);
	if (!command)
		return trouble("unknown command '%s' (see lockkeeper --help)", argv[1]);
	conf_read();
	return command->run(command, argc - 1, argv + 1);
}
