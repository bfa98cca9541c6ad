/* SPDX-License-Identifier: MIT */
/* The completion of zsh. */
#include <stdio.h>

#include "completion.h"

/* Names that zsh itself uses, as `commands` and `options`, must not be hidden. */
static const char head[] =
	"#compdef lockkeeper\n"
	"# zsh completion for lockkeeper; printed by: lockkeeper completion zsh\n"
	"_lockkeeper()\n"
	"{\n"
	"\tlocal -a subcommands flags valued operands names events\n"
	"\tlocal i place=0 seen=1\n"
	"\tsubcommands=(\n";

static const char first[] = "\t)\n"
			    "\tif ((CURRENT == 2)); then\n"
			    "\t\t_describe command subcommands\n"
			    "\t\tcompadd -- --help --version\n"
			    "\t\treturn\n"
			    "\tfi\n"
			    "\tcase $words[2] in\n";

static const char middle[] =
	"\tesac\n"
	"\tcase $words[CURRENT-1] in\n"
	"\t-o|--option) compadd -S = -a names; return;;\n"
	"\t--on) compadd -S = -a events; return;;\n"
	"\t-s|--signal) compadd -- SIG${^signals[2,-3]}; return;;\n"
	"\tesac\n"
	"\t((${valued[(Ie)$words[CURRENT-1]]})) && return\n"
	"\t# Where the operands begin: behind NAME, `run` completes the command's own line.\n"
	"\tfor ((i = 3; i < CURRENT; i++)); do\n"
	"\t\tcase $words[i] in\n"
	"\t\t-*) ((${valued[(Ie)$words[i]]})) && ((i++));;\n"
	"\t\t*) ((seen >= place)) && break; ((seen++));;\n"
	"\t\tesac\n"
	"\tdone\n"
	"\tif ((i < CURRENT)); then\n"
	"\t\t[[ $words[2] == run ]] || return\n"
	"\t\t[[ $words[i+1] == -- ]] && ((i++))\n"
	"\t\t((i < CURRENT)) || return\n"
	"\t\tshift $i words\n"
	"\t\t((CURRENT -= i))\n"
	"\t\t_normal\n"
	"\telif [[ $PREFIX == -* ]]; then\n"
	"\t\t_describe -o option flags\n"
	"\telif ((place == 1)); then\n"
	"\t\t_lockkeeper_locks ''\n"
	"\telif ((place == seen)); then\n"
	"\t\t_lockkeeper_locks '" COMPLETION_COUNTERS "'\n"
	"\telse\n"
	"\t\tcompadd -a operands\n"
	"\tfi\n"
	"}\n"
	"_lockkeeper_locks()\n"
	"{\n"
	"\tlocal -a names\n"
	"\tnames=(\"${(@f)$(";

static const char tail[] = "- \"$1\")}\")\n"
			   "\tcompadd -a names\n"
			   "}\n"
			   "if [[ $funcstack[1] == _lockkeeper ]]; then\n"
			   "\t_lockkeeper \"$@\"\n"
			   "else\n"
			   "\tcompdef _lockkeeper lockkeeper\n"
			   "fi\n";

/* Prints "name:text" between single quotes. */
static void described_print(const char *name, const char *text)
{
	printf("'%s:", name);
	for (; *text; text++)
		fputs(*text == '\'' ? "'\\''" : (char[]){*text, '\0'}, stdout);
	fputs("' ", stdout);
}

static void option_print(const struct command *command, const struct option_row *row)
{
	char name[64];
	(void)command;
	if (row->id < 256) {
		snprintf(name, sizeof(name), "-%c", row->id);
		described_print(name, row->help);
	}
	snprintf(name, sizeof(name), "--%s", row->name);
	described_print(name, row->help);
}

static void command_print(const struct command *command)
{
	printf("\t%s)\n\t\tflags=(", command->name);
	completion_options(command, option_print);
	fputs(")\n\t\tvalued=(", stdout);
	completion_options(command, completion_print_valued);
	printf(")\n\t\toperands=(%s) place=%d;;\n", command->words, completion_name_place(command));
}

void completion_zsh(const struct command *table)
{
	fputs(head, stdout);
	for (const struct command *command = table; command->name; command++) {
		fputs("\t\t", stdout);
		described_print(command->name, command->summary);
		putchar('\n');
	}
	fputs("\t)\n\tnames=(", stdout);
	completion_print_names();
	fputs(")\n\tevents=(", stdout);
	completion_print_events();
	fputs(first, stdout);
	for (const struct command *command = table; command->name; command++)
		command_print(command);
	printf("%s%s%s", middle, completion_locks, tail);
}
