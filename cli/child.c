/* SPDX-License-Identifier: MIT */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "guard.h"

/* Ignored by ours, so that a background group may write to the terminal and a closed pipe is an
 * error; SIGCHLD must not be ignored, or there is no status to wait for. */
static const int changed[] = {SIGTTIN, SIGTTOU, SIGPIPE, SIGCHLD};
#define CHANGED_COUNT (sizeof(changed) / sizeof(changed[0]))

static struct sigaction saved[CHANGED_COUNT];

void child_save_signals(void)
{
	for (size_t i = 0; i < CHANGED_COUNT; i++) {
		struct sigaction action = {.sa_handler = SIG_IGN};
		if (changed[i] == SIGCHLD)
			action.sa_handler = SIG_DFL;
		sigaction(changed[i], &action, &saved[i]);
	}
}

void child_restore_signals(const sigset_t *mask)
{
	for (size_t i = 0; i < CHANGED_COUNT; i++)
		sigaction(changed[i], &saved[i], NULL);
	sigprocmask(SIG_SETMASK, mask, NULL);
}

/* The variables in which a service manager tells one process, whose number it names, of sockets
 * (sd_listen_fds(3)), a watchdog (sd_watchdog_enabled(3)), a journal. What is told to lockkeeper is
 * meant for the command; what is told to another process stays. */
static int numbers_hand_on(pid_t started)
{
	static const char *const names[] = {"LISTEN_PID", "WATCHDOG_PID", "SYSTEMD_EXEC_PID"};
	char ours[24], own[24];
	snprintf(ours, sizeof(ours), "%d", (int)started);
	snprintf(own, sizeof(own), "%d", (int)getpid());
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = getenv(names[i]);
		if (!value || strcmp(value, ours) != 0)
			continue;
		if (setenv(names[i], own, 1))
			return -1;
		if (i == 0) /* it would contradict that, and need not be there */
			unsetenv("LISTEN_PIDFDID");
	}
	return 0;
}

static int environment_fill(const struct guard_page *page)
{
	char deadline[24];
	char fence[24];
	snprintf(fence, sizeof(fence), "%" PRIu64, page->fence);
	/* One of a lock further out would be taken for ours. */
	if (page->fence ? setenv("LOCKKEEPER_FENCE", fence, 1) : unsetenv("LOCKKEEPER_FENCE"))
		return -1;
	if (page->elects &&
	    (setenv("LOCKKEEPER_TERM", fence, 1) || setenv("LOCKKEEPER_ELECTION", page->name, 1)))
		return -1;
	if (page->meets && setenv("LOCKKEEPER_GENERATION", fence, 1))
		return -1;
	snprintf(deadline, sizeof(deadline), "%" PRId64, page->deadline_ns / NS_PER_MS);
	if (numbers_hand_on(page->started))
		return -1;
	return setenv("LOCKKEEPER_NAME", page->name, 1) || setenv("LOCKKEEPER_RUN", page->run, 1) ||
	       setenv("LOCKKEEPER_OWNER", page->owner, 1) ||
	       setenv("LOCKKEEPER_OUTER", page->outer, 1) ||
	       setenv("LOCKKEEPER_DEADLINE_MS", deadline, 1);
}

/* In the child: executes, or sends errno to the guard and ends. */
__attribute__((noreturn)) static void child_become(const struct guard_page *page, pid_t parent,
						   int guard)
{
	char go = 0;
	/* The job's group may be gone already; then a group of its own is as good. */
	if (setpgid(0, page->join_group))
		setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (page->join_group && recv(guard, &go, sizeof(go), 0) != (ssize_t)sizeof(go))
		_exit(127); /* the guard is gone */
	if (getppid() == parent && environment_fill(page) == 0) {
		child_restore_signals(&page->mask);
		setrlimit(RLIMIT_NOFILE, &page->descriptors);
		execvp(page->argv[0], page->argv);
	}
	int reason = errno;
	send(guard, &reason, sizeof(reason), MSG_NOSIGNAL);
	_exit(127);
}

int child_start(const struct guard_page *page, pid_t *pid_out, int *exec_out)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return errno;
	pid_t parent = getpid(), child = fork();
	int fork_errno = errno;
	if (child == 0) {
		close(pair[0]);
		child_become(page, parent, pair[1]);
	}
	close(pair[1]);
	if (child < 0) {
		close(pair[0]);
		return fork_errno;
	}
	/* Here too: a signal for the group may come before the child has joined it by itself. */
	if (setpgid(child, page->join_group))
		setpgid(child, 0);
	*pid_out = child;
	*exec_out = pair[0];
	return 0;
}

void child_go(int exec)
{
	char go = 1;
	send(exec, &go, sizeof(go), MSG_NOSIGNAL | MSG_DONTWAIT);
}
