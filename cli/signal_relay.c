/* SPDX-License-Identifier: MIT */
#include "signal_relay.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "exit_code.h"
#include "message.h"
#include "signals.h"

/* A handler can only reach what is global. */
static struct {
	int pipe[2];
	pid_t front;
	lk_cancel *cancel;
	volatile sig_atomic_t phase;
	volatile sig_atomic_t cause;
	volatile sig_atomic_t exit_code;
	volatile sig_atomic_t hurried;
	volatile sig_atomic_t keeps;
	int64_t released_since_ns;
	const char *volatile words;
} relay = {.pipe = {-1, -1}};

/* How long signals belong to what ended the command, and what a later one leaves the server. */
#define RELEASE_OWN_NS (1000 * NS_PER_MS)
#define RELEASE_HURRIED_S 1

static void relay_take(int number, int shared)
{
	struct relay_signal taken = {(unsigned char)number, (unsigned char)shared};
	/* When the pipe is full, thousands are waiting already: one more is of no use. */
	ssize_t written = write(relay.pipe[1], &taken, sizeof(taken));
	(void)written;
}

/* The answer to the release is not waited for any longer. */
__attribute__((noreturn)) static void relay_leave(void)
{
	static const char released[] = "lockkeeper: unknown whether the lock was released: it may "
				       "stay locked until its lease ends\n";
	static const char kept[] = "lockkeeper: unknown whether the lock stays locked as "
				   "--hold-at-least wants: it may be free as soon as its lease "
				   "ends\n";
	ssize_t written = 0;
	if (relay.phase != RELAY_RELEASED)
		written = relay.keeps ? write(STDERR_FILENO, kept, sizeof(kept) - 1)
				      : write(STDERR_FILENO, released, sizeof(released) - 1);
	if (relay.words)
		written = write(STDERR_FILENO, relay.words, strlen(relay.words));
	(void)written;
	_exit(relay.exit_code);
}

static void release_signalled(int number, const siginfo_t *info)
{
	if (number == SIGALRM && info->si_code == SI_KERNEL)
		relay_leave();
	if (relay.phase == RELAY_RELEASED || relay.hurried || !signal_ends_wait(number) ||
	    clock_now_ns() - relay.released_since_ns < RELEASE_OWN_NS)
		return;
	if (relay.phase == RELAY_LINGERING) {
		relay_take(number, 0);
		return;
	}
	relay.hurried = 1;
	alarm(RELEASE_HURRIED_S);
}

static void relay_handle(int number, siginfo_t *info, void *context)
{
	int saved_errno = errno;
	int shared = info->si_code == SI_QUEUE && relay.front && info->si_pid == relay.front &&
		     info->si_value.sival_int;
	(void)context;
	if (relay.phase == RELAY_WAITING && number == SIGTSTP && !relay.front) {
		raise(SIGSTOP); /* nothing is held: all may stand still */
	} else if (relay.phase >= RELAY_RELEASING) {
		release_signalled(number, info);
	} else {
		relay_take(number, shared);
		if (relay.phase == RELAY_WAITING &&
		    (signal_ends_wait(number) || number == SIGTSTP)) {
			if (relay.cause == 0 || relay.cause == SIGTSTP)
				relay.cause = number;
			lk_cancel_now(relay.cancel);
		}
	}
	errno = saved_errno;
}

void relay_block(sigset_t *relayed_out, sigset_t *mask_out)
{
	signals_relayed(relayed_out);
	sigprocmask(SIG_BLOCK, relayed_out, mask_out);
}

int relay_begin(const sigset_t *relayed, pid_t front, lk_cancel *cancel)
{
	struct sigaction action = {.sa_sigaction = relay_handle,
				   .sa_flags = SA_SIGINFO | SA_RESTART};
	if (pipe2(relay.pipe, O_CLOEXEC | O_NONBLOCK))
		return trouble_errno(errno, "cannot make a pipe");
	relay.front = front;
	relay.cancel = cancel;
	relay.phase = RELAY_WAITING;
	action.sa_mask = *relayed;
	for (int number = 1; number < NSIG; number++) {
		if (sigismember(relayed, number) == 1)
			sigaction(number, &action, NULL);
	}
	sigprocmask(SIG_UNBLOCK, relayed, NULL);
	return 0;
}

void relay_run(void)
{
	relay.phase = RELAY_RUNNING;
}

void relay_release(int code, unsigned limit_s, int keeps)
{
	struct sigaction action = {.sa_sigaction = relay_handle,
				   .sa_flags = SA_SIGINFO | SA_RESTART};
	sigset_t alarm_only;
	relay.exit_code = code;
	relay.keeps = keeps;
	relay.released_since_ns = clock_now_ns();
	relay.phase = RELAY_RELEASING;
	sigfillset(&action.sa_mask);
	sigaction(SIGALRM, &action, NULL);
	sigemptyset(&alarm_only);
	sigaddset(&alarm_only, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &alarm_only, NULL);
	alarm(limit_s);
}

void relay_released(void)
{
	relay.phase = RELAY_RELEASED;
}

void relay_wait(void)
{
	struct relay_signal old;
	alarm(0);
	while (relay_read(&old)) {}
	relay.cause = 0;
	relay.phase = RELAY_WAITING;
}

void relay_words(const char *words)
{
	relay.words = words;
}

void relay_linger(void)
{
	struct relay_signal old;
	alarm(0);
	while (relay_read(&old)) {}
	relay.hurried = 0;
	relay.phase = RELAY_LINGERING;
}

int relay_fd(void)
{
	return relay.pipe[0];
}

int relay_read(struct relay_signal *signal_out)
{
	return read(relay.pipe[0], signal_out, sizeof(*signal_out)) == (ssize_t)sizeof(*signal_out);
}

int relay_cause(void)
{
	return relay.cause;
}

void relay_resume(void)
{
	if (relay.cause == SIGTSTP)
		relay.cause = 0;
}
