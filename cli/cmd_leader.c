/* SPDX-License-Identifier: MIT */
/* lockkeeper leader: who leads an election, now or from change to change. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "commands.h"
#include "escape.h"
#include "exit_code.h"
#include "inspect_json.h"
#include "message.h"
#include "session.h"

const struct option_row leader_options[] = {
	{OPTION_WATCH, "watch", NULL, "go on, with a line for each change"},
	{OPTION_JSON, "json", NULL, "as JSON: an object a line"},
	{0, NULL, NULL, NULL},
};

struct leader_state {
	int watch, json;
};

static int leader_take(void *context, int id, const char *value)
{
	struct leader_state *state = context;
	(void)value;
	if (id == OPTION_WATCH)
		state->watch = 1;
	if (id == OPTION_JSON)
		state->json = 1;
	return 0;
}

static void since_text(const lk_leader *leader, char *text_out, size_t size)
{
	time_t seconds = (time_t)(leader->since_us / 1000000);
	struct tm utc;
	if (!gmtime_r(&seconds, &utc) || strftime(text_out, size, "%Y-%m-%dT%H:%M:%SZ", &utc) == 0)
		snprintf(text_out, size, "%" PRId64, (int64_t)seconds);
}

static int leader_json(const lk_leader *leader, const char *since)
{
	json_t *object = leader->vacant ? json_pack("{s:b, s:I}", "vacant", 1, "last_term",
						    (json_int_t)leader->term)
					: json_pack("{s:b, s:o, s:I, s:s, s:o, s:o}", "vacant", 0,
						    "value", text_json(leader->value), "term",
						    (json_int_t)leader->term, "since", since, "id",
						    text_json(leader->id), "host",
						    text_json(leader->host));
	if (object && leader->missed)
		json_object_set_new(object, "missed", json_true());
	int failed = !object || json_dumpf(object, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER);
	json_decref(object);
	putchar('\n');
	return failed ? trouble("cannot print the JSON") : output_finish();
}

static int leader_print(const lk_leader *leader, int json)
{
	char since[40];
	since_text(leader, since, sizeof(since));
	if (json)
		return leader_json(leader, since);
	if (leader->vacant) {
		puts("vacant");
		return output_finish();
	}
	escape_print(stdout, leader->value, leader->value_size);
	printf("\t%" PRIu64 "\t%s\n", leader->term, since);
	return output_finish();
}

static int leader_show(lk_election *election, const struct leader_state *state)
{
	lk_leader leader = {.struct_size = sizeof(leader)};
	lk_error error = {0};
	if (lk_election_leader(election, &leader, &error))
		return trouble_library(&error);
	int code = leader.vacant && !state->json ? 0 : leader_print(&leader, state->json);
	return code ? code : leader.vacant ? EXIT_VACANT : 0;
}

/* Until a signal ends it, or nobody reads it any more. */
static int leader_watch(lk_election *election, const struct leader_state *state)
{
	lk_leader leader = {.struct_size = sizeof(leader)};
	lk_error error = {0};
	int code = 0;
	while (code == 0) {
		int result = lk_election_observe(election, -1, NULL, &leader, &error);
		code = result < 0 ? trouble_library(&error) : leader_print(&leader, state->json);
	}
	return code;
}

int cmd_leader(const struct command *command, int argc, char **argv)
{
	struct session session;
	struct leader_state state = {0, 0};
	lk_election *election = NULL;
	lk_error error = {0};
	int result = session_begin(&session, command, argc, argv, leader_take, &state, 1, 1);
	if (result)
		return -1 - result;
	int code = *session.argv[0] ? session_open(&session) : trouble("NAME is empty");
	if (code == 0 &&
	    lk_election_new(&election, session.client, session.argv[0], LK_STRLEN, NULL, &error))
		code = trouble_library(&error);
	if (code == 0)
		code = state.watch ? leader_watch(election, &state) : leader_show(election, &state);
	lk_election_free(election);
	return session_end(&session, code);
}
