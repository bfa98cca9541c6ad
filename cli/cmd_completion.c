/* SPDX-License-Identifier: MIT */
/* lockkeeper completion: prints the completion of a shell. */
#include <string.h>

#include "commands.h"
#include "completion.h"
#include "message.h"
#include "session.h"

static const struct {
	const char *shell;
	void (*print)(const struct command *table);
} shells[] = {
	{"bash", completion_bash},
	{"zsh", completion_zsh},
	{"fish", completion_fish},
};

int cmd_completion(const struct command *command, int argc, char **argv)
{
	struct session session;
	int result = session_begin(&session, command, argc, argv, take_nothing, NULL, 1, 1);
	if (result)
		return -1 - result;
	for (size_t i = 0; i < sizeof(shells) / sizeof(*shells); i++) {
		if (strcmp(session.argv[0], shells[i].shell) == 0) {
			shells[i].print(commands);
			return session_end(&session, output_finish());
		}
	}
	return session_end(&session, usage_error(command, "'%s' is unknown: use %s",
						 session.argv[0], command->operands));
}
