/* SPDX-License-Identifier: MIT */
/* The completion of bash. */
#include <stdio.h>

#include "completion.h"

static const char head[] =
	"# bash completion for lockkeeper; printed by: lockkeeper completion bash\n"
	"_lockkeeper()\n"
	"{\n"
	"\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
	"\tlocal cmd=${COMP_WORDS[1]} options='' valued='' words='' place=0 seen=1 i\n"
	"\tCOMPREPLY=()\n"
	"\tif ((COMP_CWORD == 1)); then\n";

static const char middle[] =
	"\tesac\n"
	"\tcase $prev in\n"
	"\t-o|--option) compopt -o nospace\n"
	"\t\tCOMPREPLY=($(compgen -S = -W \"$_lockkeeper_names\" -- \"$cur\")); return;;\n"
	"\t--on) compopt -o nospace\n"
	"\t\tCOMPREPLY=($(compgen -S = -W \"$_lockkeeper_events\" -- \"$cur\")); return;;\n"
	"\t-s|--signal) COMPREPLY=($(compgen -A signal -P '' -- \"SIG${cur#SIG}\")); return;;\n"
	"\tesac\n"
	"\t[[ \" $valued \" == *\" $prev \"* ]] && return\n"
	"\t# Where the operands begin: behind NAME, `run` completes the command's own line.\n"
	"\tfor ((i = 2; i < COMP_CWORD; i++)); do\n"
	"\t\tcase ${COMP_WORDS[i]} in\n"
	"\t\t-*) [[ \" $valued \" == *\" ${COMP_WORDS[i]} \"* ]] && ((i++));;\n"
	"\t\t*) ((seen >= place)) && break; ((seen++));;\n"
	"\t\tesac\n"
	"\tdone\n"
	"\t# Readline splits a name at its colons.\n"
	"\twhile ((i < COMP_CWORD)) && [[ ${COMP_WORDS[i+1]} =~ ^:+$ ]]; do\n"
	"\t\t((i + 2 < COMP_CWORD ? (i += 2) : (i = COMP_CWORD)))\n"
	"\tdone\n"
	"\tif ((i < COMP_CWORD)); then\n"
	"\t\tif [[ $cmd == run ]] && declare -F _command_offset >/dev/null; then\n"
	"\t\t\t((i++))\n"
	"\t\t\t[[ ${COMP_WORDS[i]} == -- ]] && ((i++))\n"
	"\t\t\t_command_offset $i\n"
	"\t\tfi\n"
	"\t\treturn\n"
	"\tfi\n"
	"\tif [[ $cur == -* ]]; then\n"
	"\t\tCOMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
	"\telif ((place == 1)); then\n"
	"\t\t_lockkeeper_locks ''\n"
	"\telif ((place == seen)); then\n"
	"\t\t_lockkeeper_locks '" COMPLETION_COUNTERS "'\n"
	"\telse\n"
	"\t\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
	"\tfi\n"
	"}\n"
	"# Names are compared and quoted, never expanded: anybody may have chosen them.\n"
	"_lockkeeper_locks()\n"
	"{\n"
	"\tlocal name quoted word=${COMP_LINE:0:COMP_POINT}\n"
	"\tword=${word##*[[:space:]]}\n"
	"\tlocal before=${word%\"${word##*:}\"}\n"
	"\t[[ $COMP_WORDBREAKS == *:* ]] || before=''\n"
	"\twhile IFS= read -r name; do\n"
	"\t\tprintf -v quoted %q \"$name\"\n"
	"\t\t[[ $quoted == \"$word\"* ]] && COMPREPLY+=(\"${quoted#\"$before\"}\")\n"
	"\tdone < <(";

static void option_print(const struct command *command, const struct option_row *row)
{
	(void)command;
	if (row->id < 256)
		printf("-%c ", row->id);
	printf("--%s ", row->name);
}

static void commands_print(const struct command *table)
{
	fputs("\t\tCOMPREPLY=($(compgen -W '", stdout);
	for (const struct command *command = table; command->name; command++)
		printf("%s ", command->name);
	fputs("--help --version' -- \"$cur\"))\n\t\treturn\n\tfi\n\tcase $cmd in\n", stdout);
	for (const struct command *command = table; command->name; command++) {
		printf("\t%s)\n\t\toptions='", command->name);
		completion_options(command, option_print);
		fputs("'\n\t\tvalued='", stdout);
		completion_options(command, completion_print_valued);
		printf("'\n\t\twords='%s' place=%d;;\n", command->words,
		       completion_name_place(command));
	}
}

void completion_bash(const struct command *table)
{
	fputs(head, stdout);
	commands_print(table);
	fputs(middle, stdout);
	printf("%s- \"$1\")\n}\n_lockkeeper_names='", completion_locks);
	completion_print_names();
	fputs("'\n_lockkeeper_events='", stdout);
	completion_print_events();
	fputs("'\ncomplete -F _lockkeeper lockkeeper\n", stdout);
}
