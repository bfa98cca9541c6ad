/* SPDX-License-Identifier: MIT */
#include "session.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "connect.h"
#include "descriptors.h"
#include "exit_code.h"
#include "message.h"

/* The takers of an option: the session takes the servers, the command the rest. */
struct taking {
	struct session *session;
	option_taker take;
	void *state;
};

static int session_take(void *context, int id, const char *value)
{
	struct taking *taking = context;
	if (wait_status_take(&taking->session->told, id))
		return 0;
	if (id == 'o')
		return nodes_note(&taking->session->nodes, value);
	if (id == OPTION_URL)
		return nodes_add(&taking->session->nodes, value);
	return taking->take(taking->state, id, value);
}

/* Shows the library one of several servers at most. 0, or EXIT_TROUBLE (said). */
static int environment_take(struct session *session, const struct command *command)
{
	if (command_takes_several(command))
		return nodes_from_environment(&session->nodes);
	session->refused = nodes_are_several(getenv("LOCKKEEPER_URL"));
	if (session->refused) /* --url may still name one */
		unsetenv("LOCKKEEPER_URL");
	return 0;
}

int session_begin(struct session *session_out, const struct command *command, int argc, char **argv,
		  option_taker take, void *state, int least, int most)
{
	lk_error error = {0};
	struct taking taking = {session_out, take, state};
	*session_out = (struct session){.kind = &kind_default};
	if (lk_config_new(&session_out->config, &error))
		return -1 - trouble_library(&error);
	int code = environment_take(session_out, command);
	int first = code ? -1 - code
			 : options_parse(command, argc, argv, session_out->config, session_take,
					 &taking);
	if (first < 0)
		return session_end(session_out, first);
	session_out->argc = argc - first;
	session_out->argv = argv + first;
	if (session_out->argc < least || session_out->argc > most)
		return session_end(session_out,
				   -1 - usage_error(command, "wanted: %s", command->operands));
	return 0;
}

static int clients_open(struct session *session)
{
	size_t others = 0;
	int code = client_open(session->config, &session->client);
	if (code)
		return code;
	session->clients[0] = session->client;
	code = nodes_open(&session->nodes, session->config, session->clients + 1, &others);
	session->count = 1 + others;
	return code;
}

int session_open(struct session *session)
{
	char url[8]; /* only whether there is one */
	if (session->refused && lk_config_get(session->config, "url", url, sizeof(url)) <= 0)
		return trouble("LOCKKEEPER_URL names several servers: they are a quorum, on which "
			       "this command does not work; name one with --url");
	log_begin(session->config, session->told.verbose);
	int code = nodes_check_quorum(&session->nodes);
	if (code == 0)
		code = nodes_settle(&session->nodes, session->config);
	if (code == 0)
		code = config_settle(session->config);
	if (code == 0)
		code = descriptors_check(session->nodes.count ? session->nodes.count : 1);
	session->opened_ns = clock_now_ns();
	if (code == 0)
		code = clients_open(session);
	if (code == 0 && session->told.verbose)
		servers_say(session->clients, session->count);
	return code;
}

void session_did(const struct session *session, const char *done, const char *name)
{
	if (session->told.verbose)
		message("%s %.200s after %" PRId64 " ms", done, name,
			(clock_now_ns() - session->opened_ns) / NS_PER_MS);
}

const char *session_node(const struct session *session, size_t index)
{
	return session->count > 1 ? lk_client_node(session->clients[index]) : NULL;
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
	for (size_t i = 0; i < session->count; i++)
		if (lk_client_close(session->clients[i], LK_CLOSE_ABANDON, &error) == LK_EMAYBEHELD)
			message("%s", library_text(&error));
	wait_status_join(&session->waiting);
	for (size_t i = 0; i < session->count; i++)
		lk_client_free(session->clients[i]);
	session->client = NULL;
	session->count = 0;
	nodes_free(&session->nodes);
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
