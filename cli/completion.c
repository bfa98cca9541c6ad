/* SPDX-License-Identifier: MIT */
/* The parts that the completions of the shells have in common. */
#include <stdio.h>
#include <string.h>

#include <lockkeeper/config.h>

#include "completion.h"
#include "run_event.h"

const char completion_locks[] =
	"timeout 1 sh -c '"
	"{ lockkeeper ls --no-private || { [ -z \"$LOCKKEEPER_URL\" ] && "
	"url=$(lockkeeper server status | sed -n \"s/^url: //p\") && [ \"$url\" ] && "
	"LOCKKEEPER_URL=$url lockkeeper ls; }; } | sed 1d | grep -e \"$1\" | cut -f 1 | "
	"sed -e \"/[\\]/d\" -e /^-/d | sort -u' 2>/dev/null </dev/null ";

int completion_name_place(const struct command *command)
{
	if (strncmp(command->operands, "NAME", strlen("NAME")) == 0)
		return 1;
	return strstr(command->operands, " NAME") ? 2 : 0;
}

void completion_options(const struct command *command,
			void (*print)(const struct command *command, const struct option_row *row))
{
	for (const struct option_row *row = command->options; row && row->id; row++)
		if (row->help)
			print(command, row);
	for (const struct option_row *row = common_options; row->id; row++)
		if (!row_find(command->options, row->id))
			print(command, row);
}

void completion_print_valued(const struct command *command, const struct option_row *row)
{
	(void)command;
	if (!row->argument)
		return;
	if (row->id < 256)
		printf("-%c ", row->id);
	printf("--%s ", row->name);
}

void completion_print_names(void)
{
	for (size_t i = 0; i < lk_option_count(); i++) {
		const lk_option_info *row = lk_option_at(i);
		if (strcmp(row->type, "secret") != 0)
			printf("%s ", row->name);
	}
}

void completion_print_events(void)
{
	for (int i = 0; i < RUN_EVENTS; i++)
		printf("%s ", run_event_name(i));
}
