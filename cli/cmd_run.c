/* SPDX-License-Identifier: MIT */
/* lockkeeper run: options, and what follows from them; keeper.c does the work. */
#include <string.h>

#include "commands.h"
#include "connect.h"
#include "exit_code.h"
#include "job_metrics.h"
#include "keeper.h"
#include "message.h"
#include "run_settle.h"
#include "signals.h"

const struct option_row run_options[] = {
	{'n', "nonblock", NULL, "fail if another owner holds the lock, instead of waiting"},
	{'w', "wait", "WAIT", "wait for the lock at most this long"},
	{'E', "conflict-exit-code", "CODE",
	 "exit with CODE instead of 124 if the lock is not acquired"},
	{'l', "lease", "LEASE", "lease of the lock, renewed while COMMAND runs (default 30)"},
	{'k', "kill-after", "GRACE", "time from SIGNAL to SIGKILL (default min(5, LEASE/3))"},
	{OPTION_HOLD_AT_LEAST, "hold-at-least", "TIME",
	 "keep the lock so long from its grant on, also when COMMAND has ended"},
	{'s', "signal", "SIGNAL", "signal that ends COMMAND before the lease does (default TERM)"},
	{'c', "command", "STRING", "run STRING with the shell instead of COMMAND"},
	{OPTION_FAIR, "fair", NULL, "take a fair lock: first come, first served"},
	{OPTION_FENCE, "fence", NULL,
	 "take a fenced lock; COMMAND finds its token in LOCKKEEPER_FENCE"},
	{OPTION_SHARED, "shared", NULL, "take the read side of a read/write lock"},
	{OPTION_EXCLUSIVE, "exclusive", NULL, "take the write side of a read/write lock"},
	{OPTION_NO_PREFER_WRITERS, "no-prefer-writers", NULL,
	 "(--shared, --exclusive) admit readers while a writer waits"},
	{OPTION_PLAIN, "plain", NULL,
	 "take a plain lock (SET NX PX), which other libraries use too"},
	{OPTION_POLL, "poll", "TIME",
	 "(--plain) look again after TIME at the latest (default 0.1)"},
	{OPTION_NOTIFY, "notify", "WHOM",
	 "(plain) wake this library's waiters too when it is released"},
	{OPTION_PERMITS, "permits", "N", "run at most N commands at once, each with a permit"},
	{OPTION_ALSO, "also", "NAME", "take this lock too (all or none); may be repeated"},
	{OPTION_URL, "url", "URL",
	 "the server, instead of LOCKKEEPER_URL; three or more are a quorum"},
	{OPTION_QUARANTINE, "quarantine", "TIME",
	 "(quorum) ignore a server that restarted more recently than this"},
	{OPTION_METRICS_FILE, "metrics-file", "FILE",
	 "write what the job did last into FILE (…/NAME.prom), for Prometheus"},
	{OPTION_ON, "on", "EVENT=HOOK",
	 "run the shell's line HOOK at start, skip, timeout, risk, lost, ask, end or error"},
	{OPTION_NOTE, "note", "TEXT", "why the lock is held, for those who look or wait"},
	{OPTION_YIELD, "yield", NULL, "end COMMAND and release the lock when somebody asks for it"},
	{OPTION_REPLACE, "replace", NULL, "ask the holder to give the lock up, and wait for it"},
	{OPTION_JSON, "json", NULL, "write an object on stderr at the end: what became of it"},
	{'v', "verbose", NULL, "report what happens, and who holds the lock during a wait"},
	{'q', "quiet", NULL, "say neither what the command waits for nor who has it"},
	{0, NULL, NULL, NULL},
};

struct run_state {
	struct keeper_options keep;
	int nonblock;
	int has_wait;
	struct run_given given;
	int no_preference;
};

/* Takes an option that needs no look at its value: 1, or 0 for any other option. */
static int run_note(struct run_state *state, int id, const char *value)
{
	switch (id) {
	case 'n':
		state->nonblock = 1;
		return 1;
	case OPTION_NOTE:
		state->given.note = value;
		return 1;
	case OPTION_YIELD:
		state->keep.yields = 1;
		return 1;
	case OPTION_REPLACE:
		state->keep.replaces = 1;
		return 1;
	case OPTION_JSON:
		state->keep.tell.json = 1;
		return 1;
	case OPTION_NO_PREFER_WRITERS:
		state->no_preference = 1;
		return 1;
	default:
		return wait_status_take(&state->keep.told, id);
	}
}

static int option_take(void *context, int id, const char *value)
{
	struct run_state *state = context;
	int is_kind = kind_take(&state->keep.kind, id);
	if (is_kind)
		return is_kind < 0 ? -is_kind : 0;
	if (run_note(state, id, value))
		return 0;
	switch (id) {
	case OPTION_NOTIFY:
		kind_notify(value);
		return 0;
	case 'w':
		state->has_wait = 1;
		return option_duration("-w", value, 0, LK_WAIT_MAX_MS, &state->keep.wait_ms);
	case 'E':
		return option_number("-E", value, 0, 255, &state->keep.conflict_code);
	case OPTION_HOLD_AT_LEAST:
		return option_duration("--hold-at-least", value, 0, LK_LEASE_MAX_MS,
				       &state->keep.hold_ms);
	case OPTION_ALSO:
		if (*value == '\0')
			return trouble("option --also: NAME is empty");
		if (state->keep.also_count + 1 == LK_MULTI_LOCK_MAX)
			return trouble("option --also: more than %d locks", LK_MULTI_LOCK_MAX);
		state->keep.also[state->keep.also_count++] = value;
		return 0;
	case 'o':
		return nodes_note(&state->keep.nodes, value);
	case OPTION_URL:
		return nodes_add(&state->keep.nodes, value);
	case OPTION_QUARANTINE:
		state->given.quarantine = 1;
		return option_duration("--quarantine", value, 1, LK_LEASE_MAX_MS,
				       &state->keep.quarantine_ms);
	case OPTION_METRICS_FILE:
		state->keep.metrics_file = value;
		return job_metrics_check(value);
	case OPTION_ON:
		return hooks_take(&state->keep.tell.hooks, value);
	case OPTION_POLL:
		return option_duration("--poll", value, LK_POLL_MIN_MS, LK_POLL_MAX_MS,
				       kind_poll_ms());
	case OPTION_PERMITS:
		return operand_count("option --permits", value, 1, LK_PERMITS_MAX,
				     &state->keep.permits);
	default:
		return run_take(&state->keep, &state->given, id, value);
	}
}

/* Refuses options that exclude each other. */
static int run_check(const struct command *command, const struct run_state *state)
{
	const struct keeper_options *keep = &state->keep;
	int several = keep->nodes.count > 1;
	const char *what = several ? "several servers" : "--also";
	if (state->nonblock && state->has_wait)
		return usage_error(command, "-n and -w exclude each other");
	if (state->nonblock && keep->replaces)
		return usage_error(command, "-n and --replace exclude each other");
	if ((keep->yields || keep->replaces || keeper_hears(keep)) && (several || keep->permits))
		return usage_error(command,
				   "--yield, --replace and --on ask are for locks of one "
				   "server: not for %s",
				   several ? what : "--permits");
	if (keep->permits && keep->kind != &kind_default)
		return usage_error(command, "--permits and --%s exclude each other",
				   keep->kind->name);
	if (kind_polls_in_vain(keep->kind, several))
		return usage_error(command, "--poll is for --plain%s",
				   several ? " on one server" : "");
	if (keep->permits && keep->hold_ms)
		return usage_error(command, "--permits and --hold-at-least exclude each other");
	if (state->no_preference && !kind_is_side(keep->kind))
		return usage_error(command, "--no-prefer-writers is for --shared and --exclusive");
	if (kind_notifies_in_vain(keep->kind) || (several && kind_notifies_in_vain(&kind_default)))
		return usage_error(command, several ? "--notify is for one server"
						    : "--notify needs --plain");
	if (state->given.quarantine && !several)
		return usage_error(command,
				   "--quarantine is for several servers, each a whole URL");
	if (several && keep->also_count)
		return usage_error(command, "--also and several servers exclude each other");
	if (!several && !keep->also_count)
		return 0;
	if (keep->permits)
		return usage_error(command, "--permits and %s exclude each other", what);
	if (keep->kind != &kind_default && !(several && keep->kind->option == OPTION_PLAIN))
		return usage_error(command, "--%s and %s exclude each other", keep->kind->name,
				   what);
	return 0;
}

static int state_settle(const struct command *command, struct run_state *state, lk_config *config,
			int argc, char **argv)
{
	int code = run_operands(command, &state->keep, &state->given, argc, argv);
	if (code == 0)
		code = run_check(command, state);
	if (state->nonblock)
		state->keep.wait_ms = 0;
	if (state->no_preference)
		state->keep.kind = kind_without_preference(state->keep.kind);
	if (code == 0)
		code = nodes_check_quorum(&state->keep.nodes);
	if (code == 0)
		code = nodes_settle(&state->keep.nodes, config);
	return code ? code : run_settle(&state->keep, &state->given, config);
}

int cmd_run(const struct command *command, int argc, char **argv)
{
	lk_error error = {0};
	lk_config *config;
	struct run_state state = {.keep = {.wait_ms = KEEPER_WAIT_FOREVER,
					   .conflict_code = EXIT_NOT_ACQUIRED,
					   .end_signal = SIGTERM,
					   .kind = &kind_default}};
	if (lk_config_new(&config, &error))
		return trouble_library(&error);
	int first = 0, code = nodes_from_environment(&state.keep.nodes);
	if (code == 0) {
		first = options_parse(command, argc, argv, config, option_take, &state);
		code = first < 0
			       ? -1 - first
			       : state_settle(command, &state, config, argc - first, argv + first);
	}
	if (code == 0 && first >= 0)
		code = keeper_run(config, &state.keep);
	nodes_free(&state.keep.nodes);
	lk_config_free(config);
	return code;
}
