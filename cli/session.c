/* SPDX-License-Identifier: MIT */
#include "session.h"

#include <stdlib.h>
#include <string.h>

#include "connect.h"
#include "descriptors.h"
#include "exit_code.h"
#include "message.h"
#include "nodes.h"

int session_begin(struct session *session_out, const struct command *command, int argc, char **argv,
		  option_taker take, void *state, int least, int most)
{
	lk_error error = {0};
	*session_out = (struct session){.kind = &kind_default};
	if (lk_config_new(&session_out->config, &error))
		return -1 - trouble_library(&error);
	session_out->several = nodes_are_several(getenv("LOCKKEEPER_URL"));
	if (session_out->several) /* --url may still name one */
		unsetenv("LOCKKEEPER_URL");
	int first = options_parse(command, argc, argv, session_out->config, take, state);
	if (first < 0)
		return session_end(session_out, first);
	session_out->argc = argc - first;
	session_out->argv = argv + first;
	if (session_out->argc < least || session_out->argc > most)
		return session_end(session_out,
				   -1 - usage_error(command, "wanted: %s", command->operands));
	return 0;
}

int session_open(struct session *session)
{
	char url[8]; /* only whether there is one */
	if (session->several && lk_config_get(session->config, "url", url, sizeof(url)) <= 0)
		return trouble("LOCKKEEPER_URL names several servers: they are a quorum, which "
			       "only run supports; name one with --url");
	int code = config_settle(session->config);
	if (code == 0)
		code = descriptors_check(1);
	return code ? code : client_open(session->config, &session->client);
}

int session_open_lock(struct session *session, lk_lock **lock_out)
{
	lk_error error = {0};
	const char *name = session->argv[0];
	if (*name == '\0')
		return trouble("NAME is empty");
	int code = session_open(session);
	if (code)
		return code;
	return session->kind->make(lock_out, session->client, name, strlen(name), &error)
		       ? trouble_library(&error)
		       : 0;
}

int session_end(struct session *session, int code)
{
	lk_error error = {0};
	if (session->client &&
	    lk_client_close(session->client, LK_CLOSE_ABANDON, &error) == LK_EMAYBEHELD)
		message("%s", library_text(&error));
	waiting_join(&session->waiting);
	session->client = lk_client_free(session->client);
	session->config = lk_config_free(session->config);
	return code;
}

int take_nothing(void *state, int id, const char *value)
{
	(void)state;
	(void)id;
	(void)value;
	return EXIT_TROUBLE;
}

int take_flag(void *state, int id, const char *value)
{
	int *flag = state;
	(void)id;
	(void)value;
	*flag = 1;
	return 0;
}
