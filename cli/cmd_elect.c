/* SPDX-License-Identifier: MIT */
/* lockkeeper elect: runs a command while leading an election; and who waits to lead. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "connect.h"
#include "elect_rounds.h"
#include "elect_watch.h"
#include "escape.h"
#include "exit_code.h"
#include "inspect_json.h"
#include "message.h"
#include "run_settle.h"
#include "session.h"
#include "signals.h"

#define CANDIDATES_MOST 10000 /* shown */

const struct option_row elect_options[] = {
	{OPTION_VALUE, "value", "VALUE", "what `leader` shows while this candidate leads"},
	{OPTION_PRIORITY, "priority", "N", "a higher one is elected first (default 0)"},
	{OPTION_STANDBY, "standby", NULL, "lead only while no other candidate waits"},
	{OPTION_ONCE, "once", NULL, "do not stand again when COMMAND has ended"},
	{'l', "lease", "LEASE", "lease of the leadership, renewed while COMMAND runs (default 30)"},
	{'k', "kill-after", "GRACE", "time from SIGNAL to SIGKILL (default min(5, LEASE/3))"},
	{'s', "signal", "SIGNAL", "signal that ends COMMAND before the lease does (default TERM)"},
	{OPTION_DRAIN_SIGNAL, "drain-signal", "SIGNAL",
	 "on SIGNAL stand no more: leave, or lead until another candidate waits"},
	{'c', "command", "STRING", "run STRING with the shell instead of COMMAND"},
	{OPTION_CANDIDATES, "candidates", NULL, "show who waits to lead NAME, the next one first"},
	{OPTION_JSON, "json", NULL, "(--candidates) as JSON"},
	{OPTION_TRANSFER, "transfer", "ID",
	 "ask the leader of NAME to end its command and hand over to ID"},
	{OPTION_RESIGN, "resign", NULL, "ask the leader of NAME to end its command and resign"},
	{OPTION_RETIRE, "retire", NULL,
	 "before a deploy: all that stand for NAME now make way for those that come"},
	{OPTION_READY_FILE, "ready-file", "FILE",
	 "keep FILE, with `candidate` or `leading TERM`, while the server answers"},
	{OPTION_PROGRESS_FILE, "progress-file", "FILE",
	 "COMMAND touches FILE while its work goes on; else another one leads"},
	{OPTION_PROGRESS_WITHIN, "progress-within", "TIME",
	 "(--progress-file) at least so often (default LEASE)"},
	{OPTION_CHECK, "check", NULL, "(--ready-file) print FILE; fail if it is gone or old"},
	{'v', "verbose", NULL, "report what happens"},
	{0, NULL, NULL, NULL},
};

struct elect_state {
	struct keeper_options keep;
	struct keeper_election election;
	struct run_given given;
	int once, json;
	int asks; /* the option without a command that was given; 0 */
	const char *to;
};

/* One question at a time. */
static int asks_take(struct elect_state *state, int id)
{
	if (state->asks)
		return trouble("--candidates, --transfer, --resign, --retire and --check exclude "
			       "each other");
	state->asks = id;
	return 0;
}

static int elect_take(void *context, int id, const char *value)
{
	struct elect_state *state = context;
	switch (id) {
	case OPTION_VALUE:
		state->election.value = value;
		return strlen(value) > LK_ELECTION_VALUE_SIZE_MAX
			       ? trouble("option --value: more than %d bytes",
					 LK_ELECTION_VALUE_SIZE_MAX)
			       : 0;
	case OPTION_PRIORITY:
		return option_number("--priority", value, -LK_ELECTION_PRIORITY_MAX,
				     LK_ELECTION_PRIORITY_MAX, &state->election.priority);
	case OPTION_STANDBY:
		state->election.standing = LK_STAND_BY;
		return 0;
	case OPTION_ONCE:
		state->once = 1;
		return 0;
	case OPTION_READY_FILE:
		state->election.ready_file = value;
		return 0;
	case OPTION_PROGRESS_FILE:
		state->election.progress_file = value;
		return 0;
	case OPTION_PROGRESS_WITHIN:
		return option_duration("--progress-within", value, LK_LEASE_MIN_MS, LK_LEASE_MAX_MS,
				       &state->election.progress_ms);
	case OPTION_TRANSFER:
		state->to = value;
		return asks_take(state, id);
	case OPTION_RESIGN:
	case OPTION_RETIRE:
	case OPTION_CANDIDATES:
	case OPTION_CHECK:
		return asks_take(state, id);
	case OPTION_JSON:
		state->json = 1;
		return 0;
	case OPTION_DRAIN_SIGNAL:
		state->election.drain_signal = signal_parse(value);
		return state->election.drain_signal <= 0
			       ? trouble("option --drain-signal: '%s' is not a signal", value)
			       : 0;
	case 'v':
		state->keep.told.verbose = 1;
		return 0;
	default:
		return run_take(&state->keep, &state->given, id, value);
	}
}

/* ---- who waits ---- */

static json_t *candidate_json(const lk_candidate *candidate)
{
	static const char *const standings[] = {"normal", "standby", "leaving"};
	return json_pack("{s:o, s:o, s:o, s:i, s:s, s:b, s:I}", "id", text_json(candidate->id),
			 "value", text_json(candidate->value), "host", text_json(candidate->host),
			 "priority", candidate->priority, "standing",
			 standings[candidate->standing], "listens", candidate->listens, "since_us",
			 (json_int_t)candidate->since_us);
}

static int candidates_show(const lk_candidate *candidates, int count, int json)
{
	json_t *list = json ? json_array() : NULL;
	for (int i = 0; i < count; i++) {
		const lk_candidate *candidate = &candidates[i];
		if (json) {
			json_array_append_new(list, candidate_json(candidate));
			continue;
		}
		printf("%s\t", candidate->id);
		escape_print(stdout, candidate->value, candidate->value_size);
		printf("\t%d\t", candidate->priority);
		escape_print(stdout, candidate->host, strlen(candidate->host));
		printf("%s%s%s\n", candidate->standing == LK_STAND_BY ? "\tstandby" : "",
		       candidate->standing == LK_STAND_LEAVING ? "\tleaving" : "",
		       candidate->listens ? "" : "\tsilent");
	}
	return json ? inspect_json_print(list) : output_finish();
}

static int candidates_ask(lk_election *election, int json)
{
	lk_error error = {0};
	lk_candidate *candidates = calloc(CANDIDATES_MOST, sizeof(*candidates));
	if (!candidates)
		return trouble("out of memory");
	candidates->struct_size = sizeof(*candidates);
	int count = lk_election_candidates(election, candidates, CANDIDATES_MOST, &error);
	int shown = count > CANDIDATES_MOST ? CANDIDATES_MOST : count;
	int code = count < 0 ? trouble_library(&error) : candidates_show(candidates, shown, json);
	free(candidates);
	return code;
}

/* ---- what a leader is asked ---- */

static int leader_ask(lk_election *election, const char *name, const char *id)
{
	lk_error error = {0};
	int result = lk_election_ask(election, id, &error);
	if (result == LK_ENOTOWNER) {
		message("%s: nobody leads", name);
		return EXIT_VACANT;
	}
	return result ? trouble_library(&error) : 0;
}

static int retire_ask(lk_election *election, const char *name)
{
	lk_error error = {0};
	int count = lk_election_retire(election, &error);
	if (count == 0) {
		message("%s: nobody stands for it", name);
		return EXIT_VACANT;
	}
	return count < 0 ? trouble_library(&error) : 0;
}

static int client_ask(const struct elect_state *state, lk_client *client, const char *name)
{
	lk_election *election = NULL;
	lk_error error = {0};
	if (lk_election_new(&election, client, name, LK_STRLEN, NULL, &error))
		return trouble_library(&error);
	int code = state->asks == OPTION_CANDIDATES ? candidates_ask(election, state->json)
		   : state->asks == OPTION_RETIRE   ? retire_ask(election, name)
						    : leader_ask(election, name, state->to);
	lk_election_free(election);
	return code;
}

/* ---- the command ---- */

/* Without a command: what is asked about NAME. */
static int elect_ask(const struct command *command, struct elect_state *state, lk_config *config,
		     int argc, char **argv)
{
	lk_client *client = NULL;
	if (state->asks == OPTION_CHECK)
		return argc || !state->election.ready_file
			       ? usage_error(command, "wanted: --check --ready-file FILE")
			       : elect_watch_check(state->election.ready_file);
	if (argc != 1 || !*argv[0] || state->given.shell_line)
		return usage_error(command, "wanted: NAME alone, without a command");
	int code = config_settle(config);
	if (code == 0)
		code = client_open(config, &client);
	if (code == 0)
		code = client_ask(state, client, argv[0]);
	if (client)
		lk_client_close(client, LK_CLOSE_ABANDON, NULL);
	lk_client_free(client);
	return code;
}

static int elect_settle(const struct command *command, struct elect_state *state, lk_config *config,
			int argc, char **argv)
{
	if (state->json)
		return usage_error(command, "--json is for --candidates");
	if (state->election.progress_ms && !state->election.progress_file)
		return usage_error(command, "--progress-within is for --progress-file");
	int code = run_operands(command, &state->keep, &state->given, argc, argv);
	if (code == 0)
		code = run_settle(&state->keep, &state->given, config);
	if (state->election.progress_file && !state->election.progress_ms)
		state->election.progress_ms = state->keep.lease_ms;
	return code;
}

int cmd_elect(const struct command *command, int argc, char **argv)
{
	lk_error error = {0};
	lk_config *config;
	/* A limit, so that each trouble that may pass is outlasted, the first connect included. */
	struct elect_state state = {.keep = {.wait_ms = LK_WAIT_MAX_MS,
					     .conflict_code = EXIT_NOT_ACQUIRED,
					     .end_signal = SIGTERM,
					     .kind = &kind_default}};
	state.keep.election = &state.election;
	if (lk_config_new(&config, &error))
		return trouble_library(&error);
	int first = options_parse(command, argc, argv, config, elect_take, &state);
	int code = first < 0 ? -1 - first : 0;
	if (first >= 0 && state.asks)
		code = elect_ask(command, &state, config, argc - first, argv + first);
	else if (first >= 0)
		code = elect_settle(command, &state, config, argc - first, argv + first);
	if (first >= 0 && code == 0 && !state.asks)
		code = elect_rounds(config, &state.keep, state.once);
	lk_config_free(config);
	return code;
}
