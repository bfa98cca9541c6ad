/* lockkeeper completion: prints the bash completion, made from the tables that are parsed. */
#include <stdio.h>
#include <string.h>

#include <lockkeeper/config.h>

#include "commands.h"
#include "message.h"
#include "session.h"

static const char head[] =
	"# bash completion for lockkeeper; printed by: lockkeeper completion bash\n"
	"_lockkeeper()\n"
	"{\n"
	"\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
	"\tlocal cmd=${COMP_WORDS[1]} options='' valued='' words='' i\n"
	"\tCOMPREPLY=()\n"
	"\tif ((COMP_CWORD == 1)); then\n";

static const char middle[] =
	"\tesac\n"
	"\tcase $prev in\n"
	"\t-o|--option) compopt -o nospace\n"
	"\t\tCOMPREPLY=($(compgen -S = -W \"$_lockkeeper_names\" -- \"$cur\")); return;;\n"
	"\t-s|--signal) COMPREPLY=($(compgen -A signal -P '' -- \"SIG${cur#SIG}\")); return;;\n"
	"\tesac\n"
	"\t[[ \" $valued \" == *\" $prev \"* ]] && return\n"
	"\t# Where the operands begin: behind NAME, `run` completes the command's own line.\n"
	"\tfor ((i = 2; i < COMP_CWORD; i++)); do\n"
	"\t\tcase ${COMP_WORDS[i]} in\n"
	"\t\t-*) [[ \" $valued \" == *\" ${COMP_WORDS[i]} \"* ]] && ((i++));;\n"
	"\t\t*) break;;\n"
	"\t\tesac\n"
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
	"\telse\n"
	"\t\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
	"\tfi\n"
	"}\n"
	"complete -F _lockkeeper lockkeeper\n";

static void row_print(const struct option_row *row, int only_valued)
{
	if (only_valued && !row->argument)
		return;
	if (row->id < 256)
		printf("-%c ", row->id);
	printf("--%s ", row->name);
}

static void rows_print(const struct command *command, int only_valued)
{
	for (const struct option_row *row = command->options; row && row->id; row++)
		row_print(row, only_valued);
	for (const struct option_row *row = common_options; row->id; row++)
		if (!row_find(command->options, row->id))
			row_print(row, only_valued);
}

static void commands_print(void)
{
	fputs("\t\tCOMPREPLY=($(compgen -W '", stdout);
	for (const struct command *command = commands; command->name; command++)
		printf("%s ", command->name);
	fputs("--help --version' -- \"$cur\"))\n\t\treturn\n\tfi\n\tcase $cmd in\n", stdout);
	for (const struct command *command = commands; command->name; command++) {
		printf("\t%s)\n\t\toptions='", command->name);
		rows_print(command, 0);
		fputs("'\n\t\tvalued='", stdout);
		rows_print(command, 1);
		printf("'\n\t\twords='%s';;\n", command->words);
	}
}

static void names_print(void)
{
	fputs("_lockkeeper_names='", stdout);
	for (size_t i = 0; i < lk_option_count(); i++) {
		const lk_option_info *row = lk_option_at(i);
		if (strcmp(row->type, "secret") != 0)
			printf("%s ", row->name);
	}
	fputs("'\n", stdout);
}

int cmd_completion(const struct command *command, int argc, char **argv)
{
	struct session session;
	int result = session_begin(&session, command, argc, argv, take_nothing, NULL, 1, 1);
	if (result)
		return -1 - result;
	if (strcmp(session.argv[0], "bash") != 0)
		return session_end(&session,
				   usage_error(command, "'%s': only bash", session.argv[0]));
	fputs(head, stdout);
	commands_print();
	fputs(middle, stdout);
	names_print();
	return session_end(&session, output_finish());
}
