/* SPDX-License-Identifier: MIT */
#include "elect_rounds.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "elect_watch.h"
#include "exit_code.h"
#include "message.h"

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

int elect_rounds(lk_config *config, const struct keeper_options *options, int once)
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
