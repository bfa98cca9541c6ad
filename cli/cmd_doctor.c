/* SPDX-License-Identifier: MIT */
/* lockkeeper doctor: what the servers promise, and what would lose locks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "connect.h"
#include "descriptors.h"
#include "escape.h"
#include "exit_code.h"
#include "inspect_json.h"
#include "message.h"
#include "nodes.h"

const struct option_row doctor_options[] = {
	{OPTION_JSON, "json", NULL, "print JSON"},
	SEVERAL_ROW,
	{0, NULL, NULL, NULL},
};

struct doctor_state {
	struct nodes nodes;
	int as_json;
	lk_client *clients[LK_RED_NODES_MAX];
	size_t count;
	lk_doctor *doctor;
};

static int doctor_take(void *context, int id, const char *value)
{
	struct doctor_state *state = context;
	if (id == 'o')
		return nodes_note(&state->nodes, value);
	if (id == OPTION_URL)
		return nodes_add(&state->nodes, value);
	state->as_json = 1;
	return 0;
}

static const char *severity_name(int severity)
{
	static const char *const names[] = {
		[LK_SEVERITY_NOTE] = "note",
		[LK_SEVERITY_WARNING] = "warning",
		[LK_SEVERITY_ERROR] = "error",
	};
	return names[severity];
}

static int exit_code(int severity)
{
	static const int codes[] = {
		[LK_SEVERITY_NOTE] = 0,
		[LK_SEVERITY_WARNING] = EXIT_WARNINGS,
		[LK_SEVERITY_ERROR] = EXIT_ERRORS,
	};
	return codes[severity];
}

/* ---- for people ---- */

static void text_print(const char *text)
{
	escape_print(stdout, text, strlen(text));
}

static int report_print(const lk_doctor *doctor)
{
	const lk_finding *finding;
	for (size_t i = 0; (finding = lk_doctor_finding(doctor, i)); i++) {
		printf("%s: %s: ", severity_name(finding->severity), finding->id);
		text_print(finding->node);
		fputs(*finding->node ? ": " : "", stdout);
		text_print(finding->detail);
		printf(". %s Fix: %s\n", finding->meaning, finding->remedy);
	}
	printf("promise: ");
	text_print(lk_doctor_promise(doctor));
	puts(".");
	return output_finish();
}

/* ---- for programs ---- */

static json_t *text_or_null(const char *text)
{
	return *text ? text_json(text) : json_null();
}

static json_t *node_json(const lk_doctor_node *node)
{
	int measured = node->round_trip_us >= 0;
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "url", text_json(node->url), "server",
			 text_or_null(node->server), "version", text_or_null(node->version), "role",
			 text_or_null(node->role), "round_trip_us",
			 measured ? json_integer(node->round_trip_us) : json_null(),
			 "clock_ahead_us",
			 measured ? json_integer(node->clock_ahead_us) : json_null());
}

static json_t *finding_json(const lk_finding *finding)
{
	return json_pack("{s:s, s:s, s:o, s:o, s:s, s:s}", "id", finding->id, "severity",
			 severity_name(finding->severity), "node", text_or_null(finding->node),
			 "detail", text_json(finding->detail), "meaning", finding->meaning, "fix",
			 finding->remedy);
}

static json_t *report_json(const lk_doctor *doctor)
{
	const lk_doctor_node *node;
	const lk_finding *finding;
	int failed = 0;
	json_t *nodes = json_array(), *findings = json_array();
	for (size_t i = 0; (node = lk_doctor_node_at(doctor, i)); i++)
		failed |= json_array_append_new(nodes, node_json(node));
	for (size_t i = 0; (finding = lk_doctor_finding(doctor, i)); i++)
		failed |= json_array_append_new(findings, finding_json(finding));
	json_t *report = json_pack(
		"{s:s, s:o, s:o, s:o}", "worst", severity_name(lk_doctor_worst(doctor)), "promise",
		text_json(lk_doctor_promise(doctor)), "nodes", nodes, "findings", findings);
	if (!failed)
		return report;
	json_decref(report);
	return NULL;
}

/* ---- the examination ---- */

static int clients_open(struct doctor_state *state, lk_config *config)
{
	size_t others = 0;
	int code = client_open(config, &state->clients[0]);
	if (code)
		return code;
	code = nodes_open(&state->nodes, config, state->clients + 1, &others);
	state->count = 1 + others;
	return code;
}

static int examine(struct doctor_state *state, lk_config *config, const char *name)
{
	lk_error error = {0};
	int code = nodes_settle(&state->nodes, config);
	if (code == 0)
		code = config_settle(config);
	if (code == 0)
		code = descriptors_check(state->nodes.count ? state->nodes.count : 1);
	if (code == 0)
		code = clients_open(state, config);
	if (code == 0 &&
	    lk_doctor_new(&state->doctor, state->clients, state->count, name, LK_STRLEN, &error))
		code = trouble_library(&error);
	if (code)
		return code;
	code = state->as_json ? inspect_json_print(report_json(state->doctor))
			      : report_print(state->doctor);
	return code ? code : exit_code(lk_doctor_worst(state->doctor));
}

static int operands_check(const struct command *command, int argc, char **argv)
{
	if (argc > 1)
		return usage_error(command, "wanted: %s", command->operands);
	return argc == 1 && *argv[0] == '\0' ? trouble("NAME is empty") : 0;
}

int cmd_doctor(const struct command *command, int argc, char **argv)
{
	lk_error error = {0};
	lk_config *config;
	struct doctor_state state = {.count = 0};
	if (lk_config_new(&config, &error))
		return trouble_library(&error);
	int code = nodes_from_environment(&state.nodes);
	if (code == 0) {
		int first = options_parse(command, argc, argv, config, doctor_take, &state);
		if (first < 0)
			code = -1 - first;
		else
			code = operands_check(command, argc - first, argv + first);
		if (first >= 0 && code == 0)
			code = examine(&state, config, argv[first]);
	}
	lk_doctor_free(state.doctor);
	for (size_t i = 0; i < state.count; i++)
		lk_client_free(state.clients[i]);
	nodes_free(&state.nodes);
	lk_config_free(config);
	return code;
}
