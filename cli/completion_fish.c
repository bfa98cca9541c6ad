/* SPDX-License-Identifier: MIT */
/* The completion of fish. */
#include <stdio.h>
#include <string.h>

#include "completion.h"

static const char head[] =
	"# fish completion for lockkeeper; printed by: lockkeeper completion fish\n"
	"# Arguments: the command; how many operands there are at least, and at most; its options "
	"with a value.\n"
	"function __lockkeeper_at\n"
	"\tset -l words (commandline -opc)\n"
	"\ttest \"$words[2]\" = $argv[1]; or return 1\n"
	"\tset -l operands\n"
	"\tset -l skip 0\n"
	"\tset -g __lockkeeper_rest\n"
	"\tfor word in $words[3..-1]\n"
	"\t\tif test $skip = 1\n"
	"\t\t\tset skip 0\n"
	"\t\telse if test \"$argv[1]\" = run -a (count $operands) = 1\n"
	"\t\t\tset -a __lockkeeper_rest $word\n"
	"\t\telse if string match -q -- '-*' $word\n"
	"\t\t\tcontains -- $word $argv[4..-1]; and set skip 1\n"
	"\t\telse\n"
	"\t\t\tset -a operands $word\n"
	"\t\tend\n"
	"\tend\n"
	"\ttest (count $operands) -ge $argv[2] -a (count $operands) -le $argv[3]\n"
	"end\n"
	"# Behind NAME, `run` completes the command's own line.\n"
	"function __lockkeeper_command\n"
	"\tset -l words $__lockkeeper_rest\n"
	"\tset -l current (commandline -ct)\n"
	"\ttest \"$words[1]\" = --; and set -e words[1]\n"
	"\tcomplete -C (string join ' ' -- (string escape -- $words) \"$current\")\n"
	"end\n"
	"function __lockkeeper_signals\n"
	"\tstring replace -r '^' SIG (kill -l | string split -n ' ')\n"
	"end\n"
	"function __lockkeeper_locks\n"
	"\t";

static const char first[] = "- \"$argv[1]\"\nend\n"
			    "complete -c lockkeeper -f\n"
			    "complete -c lockkeeper -n __fish_use_subcommand -l help\n"
			    "complete -c lockkeeper -n __fish_use_subcommand -l version\n";

static void quoted_print(const char *text)
{
	putchar('\'');
	for (; *text; text++) {
		if (*text == '\'' || *text == '\\')
			putchar('\\');
		putchar(*text);
	}
	putchar('\'');
}

/* The start of a line that applies behind so many operands of the command. */
static void condition_print(const struct command *command, int least, int most)
{
	printf("complete -c lockkeeper -n '__lockkeeper_at %s %d %d ", command->name, least, most);
	completion_options(command, completion_print_valued);
	putchar('\'');
}

static void option_print(const struct command *command, const struct option_row *row)
{
	condition_print(command, 0, completion_name_place(command) == 2);
	if (row->id < 256)
		printf(" -s %c", row->id);
	printf(" -l %s -d ", row->name);
	quoted_print(row->help);
	if (row->argument)
		fputs(" -x", stdout);
	if (strcmp(row->name, "option") == 0) {
		fputs(" -a '(printf \"%s=\\n\" ", stdout);
		completion_print_names();
		fputs(")'", stdout);
	} else if (row->id == OPTION_ON) {
		fputs(" -a '(printf \"%s=\\n\" ", stdout);
		completion_print_events();
		fputs(")'", stdout);
	} else if (strcmp(row->name, "signal") == 0)
		fputs(" -a '(__lockkeeper_signals)'", stdout);
	putchar('\n');
}

static void command_print(const struct command *command)
{
	printf("complete -c lockkeeper -n __fish_use_subcommand -a %s -d ", command->name);
	quoted_print(command->summary);
	putchar('\n');
	completion_options(command, option_print);
	if (*command->words) {
		condition_print(command, 0, 0);
		printf(" -a '%s'\n", command->words);
	}
	int place = completion_name_place(command);
	if (place) {
		condition_print(command, place - 1, place - 1);
		printf(" -a '(__lockkeeper_locks \"%s\")'\n",
		       place == 2 ? COMPLETION_COUNTERS : "");
	}
	if (command->stops) {
		condition_print(command, 1, 1);
		fputs(" -a '(__lockkeeper_command)'\n", stdout);
	}
}

void completion_fish(const struct command *table)
{
	printf("%s%s%s", head, completion_locks, first);
	for (const struct command *command = table; command->name; command++)
		command_print(command);
}
