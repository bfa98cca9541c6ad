/* SPDX-License-Identifier: MIT */
/* lockkeeper elect: runs a command while leading an election; and who waits to lead. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "commands.h"
#include "connect.h"
#include "elect_watch.h"
#include "escape.h"
#include "exit_code.h"
#include "inspect_json.h"
#include "keeper.h"
#include "message.h"
#include "run_settle.h"
#include "session.h"
#include "signals.h"

/* ---- rounds ---- */

/*
 * The rounds of `elect`: each stands for election, runs the command while it leads, and resigns
 * when that has ended.
 *
 *   shell ── elect ── keeper ── guard ── command ── …
 *
 * Each round is a process of its own, with a client, a keeper and a guard as those of `run`:
 * nothing of one round is left in the next. A signal is handed to the round, and no other round
 * follows that one.
 */

/* A command that ends so soon after its start has failed at once, whatever its status; with a
 * status other than 0 it may take longer. */
#define AT_ONCE_MS 1000
#define FAILED_MS 10000
#define PAUSE_MIN_MS 1000
#define PAUSE_MAX_MS 60000

struct shared {
	struct keeper_outcome outcome;
	struct keeper_drain drain;
};

struct rounds {
	lk_config *config;
	struct keeper_options options;
	struct keeper_election election;
	struct keeper_outcome *outcome; /* shared with the round's process, as `election.drain` */
	sigset_t taken, before;
	int ending; /* the signal that ends it all, or 0 */
	int64_t pause_ms;
};

/* A round's process. */
__attribute__((noreturn)) static void round_become(struct rounds *rounds, pid_t parent)
{
	sigprocmask(SIG_SETMASK, &rounds->before, NULL);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(EXIT_TROUBLE);
	exit(keeper_run(rounds->config, &rounds->options));
}

static int ends(int number)
{
	return number == SIGTERM || number == SIGINT || number == SIGHUP || number == SIGQUIT;
}

/* It stands no more: one that waits leaves, and a leader hands over when another waits. */
static void rounds_drain(struct rounds *rounds, pid_t pid)
{
	struct keeper_drain *drain = rounds->election.drain;
	if (atomic_exchange(&drain->wanted, 1))
		return;
	if (pid && !atomic_load(&drain->leads))
		kill(pid, SIGTERM);
	message("%s: draining: %s", rounds->options.name,
		atomic_load(&drain->leads) ? "leading until another candidate waits" : "leaving");
}

/* Hands a signal to the round, unless the terminal has sent it to both. */
static void signal_hand_on(struct rounds *rounds, const siginfo_t *info, pid_t pid)
{
	if (info->si_signo == rounds->election.drain_signal) {
		rounds_drain(rounds, pid);
		return;
	}
	if (ends(info->si_signo))
		rounds->ending = info->si_signo;
	if (pid && info->si_code != SI_KERNEL)
		kill(pid, info->si_signo);
}

/* Waits for the end of the round; its exit code, or -1 - the signal that killed it. */
static int round_await(struct rounds *rounds, pid_t pid)
{
	siginfo_t info;
	int status;
	for (;;) {
		pid_t ended = waitpid(pid, &status, WNOHANG);
		if (ended == pid)
			return WIFEXITED(status) ? WEXITSTATUS(status) : -1 - WTERMSIG(status);
		if (sigwaitinfo(&rounds->taken, &info) > 0 && info.si_signo != SIGCHLD)
			signal_hand_on(rounds, &info, pid);
	}
}

/* Waits before the next round, if the last one was over too soon. */
static void rounds_pause(struct rounds *rounds)
{
	int64_t until_ns = clock_now_ns() + rounds->pause_ms * NS_PER_MS;
	siginfo_t info;
	int64_t left_ns;
	while (!rounds->ending && !atomic_load(&rounds->election.drain->wanted) &&
	       (left_ns = until_ns - clock_now_ns()) > 0) {
		struct timespec left = {.tv_sec = left_ns / 1000000000,
					.tv_nsec = left_ns % 1000000000};
		if (sigtimedwait(&rounds->taken, &info, &left) > 0 && info.si_signo != SIGCHLD)
			signal_hand_on(rounds, &info, 0);
	}
}

/* How long to wait before the next round. */
static void pause_set(struct rounds *rounds, int code)
{
	const struct keeper_outcome *outcome = rounds->outcome;
	int64_t most_ms = code ? FAILED_MS : AT_ONCE_MS;
	if (outcome->asked || (outcome->started && outcome->held_ms >= most_ms)) {
		rounds->pause_ms = 0;
		return;
	}
	rounds->pause_ms *= 2;
	if (rounds->pause_ms < PAUSE_MIN_MS)
		rounds->pause_ms = PAUSE_MIN_MS;
	if (rounds->pause_ms > PAUSE_MAX_MS)
		rounds->pause_ms = PAUSE_MAX_MS;
	message("%s: over after %" PRId64 " ms with status %d; standing again in %" PRId64 " s",
		rounds->options.name, outcome->held_ms, code, rounds->pause_ms / 1000);
}

/* Tells whether another round can be of use. */
static int goes_on(const struct rounds *rounds, int code)
{
	const struct keeper_outcome *outcome = rounds->outcome;
	if (rounds->ending || atomic_load(&rounds->election.drain->wanted))
		return 0;
	if (code < 0) /* its process was killed */
		return 1;
	return outcome->started || outcome->passes;
}

static int rounds_run(struct rounds *rounds, int once)
{
	pid_t parent = getpid();
	for (;;) {
		*rounds->outcome = (struct keeper_outcome){.acquired = 0};
		atomic_store(&rounds->election.drain->leads, 0);
		pid_t pid = fork();
		if (pid < 0)
			return trouble_errno(errno, "cannot fork");
		if (pid == 0)
			round_become(rounds, parent);
		int code = round_await(rounds, pid);
		int shown = code < 0 ? EXIT_SIGNAL_BASE - 1 - code : code;
		bool drained = atomic_load(&rounds->election.drain->wanted);
		if (once || !goes_on(rounds, code))
			return drained && !rounds->ending && !rounds->outcome->started ? 0 : shown;
		if (rounds->outcome->leaving)
			rounds->election.standing = LK_STAND_LEAVING;
		pause_set(rounds, shown);
		rounds_pause(rounds);
		if (rounds->ending)
			return EXIT_SIGNAL_BASE + rounds->ending;
		if (atomic_load(&rounds->election.drain->wanted))
			return shown;
	}
}

/* Runs rounds, or one. Returns the exit code of the program. */
static int elect_rounds(lk_config *config, const struct keeper_options *options, int once)
{
	struct rounds rounds = {.config = config, .options = *options};
	static const int taken[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD};
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return trouble_errno(errno, "cannot map memory");
	rounds.outcome = &shared->outcome;
	rounds.options.outcome = rounds.outcome;
	rounds.election = *options->election;
	rounds.election.drain = &shared->drain;
	rounds.options.election = &rounds.election;
	sigemptyset(&rounds.taken);
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
		sigaddset(&rounds.taken, taken[i]);
	if (rounds.election.drain_signal)
		sigaddset(&rounds.taken, rounds.election.drain_signal);
	int code = elect_watch_prepare(options->election->ready_file);
	if (code)
		return code;
	sigprocmask(SIG_BLOCK, &rounds.taken, &rounds.before);
	code = rounds_run(&rounds, once);
	if (options->election->ready_file)
		unlink(options->election->ready_file);
	munmap(shared, sizeof(*shared));
	return code;
}

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
