/* The command `lockkeeper`: the table of its commands, and the choice among them. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <lockkeeper/version.h>

#include "commands.h"
#include "exit_code.h"
#include "message.h"

const struct command commands[] = {
	{"run", "NAME [--] COMMAND [ARG…]", "", "Runs a command while holding a lock.", run_options,
	 1, cmd_run},
	{"lock", "NAME", "", "Takes a lock for a lease and prints its owner field.", lock_options,
	 0, cmd_lock},
	{"unlock", "NAME OWNER", "", "Releases a lock that `lock` took.", unlock_options, 0,
	 cmd_unlock},
	{"extend", "NAME OWNER", "", "Makes a lock last at least a lease from now.", extend_options,
	 0, cmd_extend},
	{"ls", "[PATTERN]", "", "Lists the locks that are held.", json_options, 0, cmd_ls},
	{"show", "NAME", "", "Shows one lock.", json_options, 0, cmd_show},
	{"break", "NAME", "", "Frees a lock, whoever holds it.", break_options, 0, cmd_break},
	{"fence", "check KEY TOKEN", "check", "Lets in who bears the newest token seen at KEY.",
	 NULL, 0, cmd_fence},
	{"latch", "set NAME COUNT|down NAME [COUNT]|wait NAME", "set down wait",
	 "Sets a count-down latch, counts it down, or waits until it is open.", latch_options, 0,
	 cmd_latch},
	{"sem", "set NAME COUNT|show NAME", "set show",
	 "Sets or shows how many permits a semaphore has.", json_options, 0, cmd_sem},
	{"server", "start|stop|status", "start stop status",
	 "Controls the private server, which is used when no other is named.", server_options, 0,
	 cmd_server},
	{"completion", "bash", "bash", "Prints the completion for a shell.", NULL, 0,
	 cmd_completion},
	{NULL, NULL, NULL, NULL, NULL, 0, NULL},
};

static void help_print(FILE *stream)
{
	fputs("usage: lockkeeper COMMAND [OPTION…] …\n"
	      "Distributed locks on Redis and Valkey, for the shell.\n\n",
	      stream);
	for (const struct command *command = commands; command->name; command++)
		fprintf(stream, "  %-11s %s\n", command->name, command->summary);
	fputs("\nlockkeeper COMMAND --help tells the options. The server is named by "
	      "LOCKKEEPER_URL;\nwithout it a private redis-server is used.\n",
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

/* A descriptor of ours must never become somebody's stdin, stdout or stderr. */
static int streams_open(void)
{
	int fd;
	do {
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd < 0)
		return EXIT_TROUBLE;
	close(fd);
	return 0;
}

int main(int argc, char **argv)
{
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
	if (!command)
		return trouble("unknown command '%s' (see lockkeeper --help)", argv[1]);
	return command->run(command, argc - 1, argv + 1);
}
