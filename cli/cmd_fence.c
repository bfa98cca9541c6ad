/* SPDX-License-Identifier: MIT */
/* lockkeeper fence: whether a token is the newest. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "message.h"
#include "session.h"

static int token_parse(const char *text, uint64_t *token_out)
{
	char *end;
	errno = 0;
	unsigned long long token = *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
	if (token == 0 || *end || errno || token > LK_FENCE_TOKEN_MAX)
		return trouble("TOKEN '%s' is not a whole number from 1 to %" PRIu64, text,
			       LK_FENCE_TOKEN_MAX);
	*token_out = token;
	return 0;
}

int cmd_fence(const struct command *command, int argc, char **argv)
{
	struct session session;
	lk_error error = {0};
	uint64_t token = 0;
	int result = session_begin(&session, command, argc, argv, take_nothing, NULL, 3, 3);
	if (result)
		return -1 - result;
	const char *key = session.argv[1];
	int code = 0;
	if (strcmp(session.argv[0], "check") != 0)
		code = usage_error(command, "'%s' is unknown: use check", session.argv[0]);
	else if (*key == '\0')
		code = trouble("KEY is empty");
	if (code == 0)
		code = token_parse(session.argv[2], &token);
	if (code == 0)
		code = session_open(&session);
	if (code == 0 &&
	    lk_fence_check(session.client, key, strlen(key), token, NULL, NULL, &error))
		code = trouble_library(&error);
	return session_end(&session, code);
}
