/* SPDX-License-Identifier: MIT */
/* The process that runs the hooks. It is a subreaper, so that it can end what they leave. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "clock.h"
#include "descriptors.h"
#include "hooks.h"
#include "message.h"
#include "tree.h"

#define GROUP_LOOK_MS 50 /* between looks at a group whose first process has ended */
#define CLEAN_ROUNDS 20  /* of SIGKILL for what is left at the end, 10 ms apart */
#define CLEAN_PAUSE_MS 10

struct run {
	pid_t pid; /* of the hook and of its group; 0: it does not run */
	int reaped;
	enum run_event_type type;
	int64_t until_ns;
};

struct runner {
	const struct hook_job *job;
	int fd;       /* to the keeper, which sees us end by it */
	int is_alone; /* the keeper has said all, or is gone */
	int child_signals;
	struct run runs[HOOKS_MAX];
	struct run_event last; /* which, or that the keeper promised */
	int last_told;         /* the keeper has told of it, or is gone */
	int last_run;          /* its hooks were started */
};

/* ---- one hook ---- */

static void number_set(const char *name, const char *format, int64_t number)
{
	char text[32];
	if (number == RUN_UNKNOWN) {
		unsetenv(name);
		return;
	}
	/* Seconds have three places. */
	if (strcmp(format, "seconds") == 0)
		snprintf(text, sizeof(text), "%" PRId64 ".%03" PRId64, number / 1000,
			 number % 1000);
	else
		snprintf(text, sizeof(text), "%" PRId64, number);
	setenv(name, text, 1);
}

/* Removes a variable that would be empty: one of a run further out would be taken for ours. */
static void text_set(const char *name, const char *text)
{
	if (*text)
		setenv(name, text, 1);
	else
		unsetenv(name);
}

static void environment_fill(const struct run_facts *facts, const struct run_event *event)
{
	text_set("LOCKKEEPER_EVENT", run_event_name(event->type));
	text_set("LOCKKEEPER_RUN", facts->id);
	text_set("LOCKKEEPER_NAME", facts->name);
	text_set("LOCKKEEPER_TRACE_ID", facts->trace);
	text_set("LOCKKEEPER_OWNER", event->owner);
	text_set("LOCKKEEPER_HOLDER", event->holder);
	text_set("LOCKKEEPER_REASON", event->reason);
	number_set("LOCKKEEPER_FENCE", "", event->fence ? (int64_t)event->fence : RUN_UNKNOWN);
	number_set("LOCKKEEPER_STATUS", "", event->status);
	number_set("LOCKKEEPER_WAITED", "seconds", event->waited_ms);
	number_set("LOCKKEEPER_HELD", "seconds", event->held_ms);
	unsetenv("LOCKKEEPER_DEADLINE_MS");
}

__attribute__((noreturn)) static void hook_become(const struct runner *runner, const char *command,
						  const struct run_event *event)
{
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	environment_fill(runner->job->facts, event);
	child_restore_signals(&runner->job->mask);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

static void hook_start(struct runner *runner, size_t number, const struct run_event *event)
{
	struct run *run = &runner->runs[number];
	const char *name = run_event_name(event->type);
	if (run->pid) {
		message_at(LK_LOG_WARNING, "hook %zu runs since %s: it is not told of %s",
			   number + 1, run_event_name(run->type), name);
		return;
	}
	pid_t pid = fork();
	if (pid == 0)
		hook_become(runner, runner->job->list->hooks[number].command, event);
	if (pid < 0) {
		message_at(LK_LOG_WARNING, "hook %zu (%s) was not started: %s", number + 1, name,
			   strerror(errno));
		return;
	}
	setpgid(pid, pid);
	*run = (struct run){.pid = pid,
			    .type = event->type,
			    .until_ns = clock_now_ns() + HOOK_LIMIT_MS * NS_PER_MS};
}

static void event_run(struct runner *runner, const struct run_event *event)
{
	const struct hook_list *list = runner->job->list;
	for (size_t i = 0; i < list->count; i++)
		if (list->hooks[i].events & 1U << event->type)
			hook_start(runner, i, event);
}

/* The status that a hook's first process ended with. */
static void hook_judge(struct run *run, size_t number, int status)
{
	const char *name = run_event_name(run->type);
	run->reaped = 1;
	if (WIFSIGNALED(status))
		message_at(LK_LOG_WARNING, "hook %zu (%s) died of signal %d", number + 1, name,
			   WTERMSIG(status));
	else if (WEXITSTATUS(status))
		message_at(LK_LOG_WARNING, "hook %zu (%s) failed: exit status %d", number + 1, name,
			   WEXITSTATUS(status));
}

static void hook_kill(struct run *run, size_t number)
{
	message_at(LK_LOG_WARNING, "hook %zu (%s) was killed: it ran for more than %d s",
		   number + 1, run_event_name(run->type), (int)(HOOK_LIMIT_MS / 1000));
	if (!run->reaped)
		tree_signal(run->pid, 0, SIGKILL, NULL); /* also those that left the group */
	kill(-run->pid, SIGKILL);
	run->pid = 0; /* whatever still dies is reaped as it comes */
}

/* ---- all of them ---- */

static void children_reap(struct runner *runner)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;
	while (read(runner->child_signals, &info, sizeof(info)) > 0) {}
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (size_t i = 0; i < runner->job->list->count; i++)
			if (runner->runs[i].pid == pid && !runner->runs[i].reaped)
				hook_judge(&runner->runs[i], i, status);
}

/* Forgets those that have ended, ends those that are late. How many run. */
static size_t runs_look(struct runner *runner)
{
	size_t running = 0;
	for (size_t i = 0; i < runner->job->list->count; i++) {
		struct run *run = &runner->runs[i];
		if (run->reaped && run->pid && kill(-run->pid, 0) && errno == ESRCH)
			run->pid = 0;
		else if (run->pid && clock_now_ns() >= run->until_ns)
			hook_kill(run, i);
		running += run->pid != 0;
	}
	return running;
}

static int pause_find(const struct runner *runner)
{
	int64_t pause_ms = -1, now_ns = clock_now_ns();
	for (size_t i = 0; i < runner->job->list->count; i++) {
		const struct run *run = &runner->runs[i];
		if (!run->pid)
			continue;
		int64_t left_ms = (run->until_ns - now_ns) / NS_PER_MS + 1;
		if (run->reaped && left_ms > GROUP_LOOK_MS)
			left_ms = GROUP_LOOK_MS;
		if (pause_ms < 0 || left_ms < pause_ms)
			pause_ms = left_ms;
	}
	return (int)(pause_ms > HOOK_LIMIT_MS ? HOOK_LIMIT_MS : pause_ms);
}

static void message_take(struct runner *runner, const struct hook_message *told)
{
	enum run_event_type type = told->event.type;
	int is_last = type != RUN_START && type != RUN_RISK && type != RUN_LOST && type != RUN_ASK;
	if (runner->last_told)
		return;
	if (!is_last) {
		event_run(runner, &told->event);
		return;
	}
	runner->last = told->event;
	runner->last_told = !told->is_promise;
}

static void messages_read(struct runner *runner)
{
	struct hook_message told;
	ssize_t got;
	while ((got = recv(runner->fd, &told, sizeof(told), MSG_DONTWAIT)) == sizeof(told))
		message_take(runner, &told);
	if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
		runner->is_alone = 1;
		runner->last_told = 1;
	}
}

static void runner_serve(struct runner *runner)
{
	for (;;) {
		children_reap(runner);
		size_t running = runs_look(runner);
		if (runner->last_told && !runner->last_run && running == 0) {
			runner->last_run = 1;
			event_run(runner, &runner->last);
			continue;
		}
		if (runner->is_alone && running == 0 && runner->last_run)
			return;
		struct pollfd ready[] = {
			{runner->child_signals, POLLIN, 0},
			{runner->is_alone ? -1 : runner->fd, POLLIN, 0},
		};
		if (poll(ready, 2, pause_find(runner)) > 0 && ready[1].revents)
			messages_read(runner);
	}
}

/* Processes that left their group are ended with the last hook. */
static void rest_end(void)
{
	for (int i = 0; i < CLEAN_ROUNDS; i++) {
		while (waitpid(-1, NULL, WNOHANG) > 0) {}
		if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD)
			return;
		tree_signal(getpid(), 0, SIGKILL, NULL);
		poll(NULL, 0, CLEAN_PAUSE_MS);
	}
}

/* Hooks read nothing, what they print goes to stderr, and they have nothing else of ours open. */
static void descriptors_settle(int fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (fcntl(STDERR_FILENO, F_GETFD) < 0)
		dup2(null, STDERR_FILENO);
	dup2(null, STDIN_FILENO);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	descriptors_close(STDERR_FILENO + 1, (unsigned)fd - 1);
	descriptors_close((unsigned)fd + 1, ~0U);
}

void hook_runner_main(int fd, const struct hook_job *job)
{
	static struct runner runner;
	sigset_t set;
	runner = (struct runner){.job = job, .fd = fd};
	runner.last = (struct run_event){.type = RUN_ERROR,
					 .status = RUN_UNKNOWN,
					 .waited_ms = RUN_UNKNOWN,
					 .held_ms = RUN_UNKNOWN};
	sigfillset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	prctl(PR_SET_NAME, "lk-hooks");
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	descriptors_settle(fd);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	runner.child_signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	runner_serve(&runner);
	rest_end();
}
