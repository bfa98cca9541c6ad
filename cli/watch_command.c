/* SPDX-License-Identifier: MIT */
#include "watch_command.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "exit_code.h"
#include "message.h"
#include "owner.h"
#include "process_handle.h"
#include "signals.h"
#include "watch_line.h"

#define GRACE_MS 10000
#define LOOK_MS 20 /* between two looks, where the kernel tells of no process's end */

static const char *const variables[] = {
	"LOCKKEEPER_EVENT",  "LOCKKEEPER_NAME",    "LOCKKEEPER_OWNER",   "LOCKKEEPER_WAS",
	"LOCKKEEPER_HOLDER", "LOCKKEEPER_HOLDERS", "LOCKKEEPER_FENCE",   "LOCKKEEPER_COUNT",
	"LOCKKEEPER_REASON", "LOCKKEEPER_INITIAL", "LOCKKEEPER_MERGED",  "LOCKKEEPER_GAP",
	"LOCKKEEPER_RUN",    "LOCKKEEPER_STATUS",  "LOCKKEEPER_TRACE_ID"};
#define VARIABLES (sizeof(variables) / sizeof(variables[0]))

enum variable {
	EVENT,
	NAME,
	OWNER,
	WAS,
	HOLDER,
	HOLDERS,
	FENCE,
	COUNT,
	REASON,
	INITIAL,
	MERGED,
	GAP,
	TOLD /* the others are of a run further out, which would be taken for ours */
};

/* The state that one name has come to. */
struct told {
	struct told *next;
	size_t name_size;
	char *name;
	char *values[TOLD]; /* NULL: it is not set */
	json_t *object;
	int64_t merged;
	int gap;
};

struct watch_command {
	char **argv;
	struct told *first;
	sigset_t mask;
	int code; /* of the last one */
};

static lk_cancel *_Atomic woken;
static volatile sig_atomic_t running; /* the group of the one that runs; 0 */
static volatile sig_atomic_t caught;

static const int ending[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
#define ENDING (sizeof(ending) / sizeof(ending[0]))

/* ---- signals ---- */

static void note(int number)
{
	int saved = errno;
	if (number != SIGCHLD) {
		caught = number;
		if (running)
			kill(-(pid_t)running, number);
	}
	if (woken)
		lk_cancel_now(woken);
	errno = saved;
}

/* A signal that was ignored stays so (nohup). */
static void signals_take(void)
{
	struct sigaction action = {.sa_handler = note}, before;
	for (size_t i = 0; i < ENDING; i++)
		if (sigaction(ending[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			sigaction(ending[i], &action, NULL);
	sigaction(SIGCHLD, &action, NULL);
}

int watch_command_signal(void)
{
	return caught;
}

/* ---- what is told ---- */

static void told_clear(struct told *told)
{
	for (int i = 0; i < TOLD; i++)
		free(told->values[i]);
	memset(told->values, 0, sizeof(told->values));
	json_decref(told->object);
	told->object = NULL;
}

static void told_free(struct told *told)
{
	told_clear(told);
	free(told->name);
	free(told);
}

__attribute__((format(printf, 3, 4))) static int value_put(struct told *told,
							   enum variable variable,
							   const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	int size = vasprintf(&told->values[variable], format, arguments);
	va_end(arguments);
	if (size >= 0)
		return 0;
	told->values[variable] = NULL;
	return -1;
}

static int text_put(struct told *told, enum variable variable, const char *text)
{
	return text ? value_put(told, variable, "%s", text) : 0;
}

static int told_fill(struct told *told, const lk_change *change)
{
	char holder[OWNER_TEXT_SIZE] = "";
	const char *field = change->owner ? change->owner : change->was;
	size_t size = change->owner ? change->owner_size : change->was_size;
	if (field)
		owner_info_text(change->owner ? change->client : change->was_client, field, size,
				holder, sizeof(holder));
	told->object = change_json(change);
	return told->object && text_put(told, EVENT, change_name(change)) == 0 &&
			       text_put(told, NAME, change->name) == 0 &&
			       text_put(told, OWNER, change->owner) == 0 &&
			       text_put(told, WAS, change->was) == 0 &&
			       text_put(told, HOLDER, field ? holder : NULL) == 0 &&
			       text_put(told, REASON, change->reason) == 0 &&
			       text_put(told, INITIAL, change->initial ? "1" : NULL) == 0 &&
			       value_put(told, HOLDERS, "%zu", change->holder_count) == 0 &&
			       (!change->fence ||
				value_put(told, FENCE, "%" PRIu64, change->fence) == 0) &&
			       (!change->is_counter ||
				value_put(told, COUNT, "%" PRId64, change->count) == 0)
		       ? 0
		       : -1;
}

/* That of a name, behind the others where there is none yet; NULL when out of memory. */
static struct told *told_get(struct watch_command *command, const lk_change *change)
{
	struct told **at = &command->first;
	for (; *at; at = &(*at)->next)
		if ((*at)->name_size == change->name_size &&
		    memcmp((*at)->name, change->name, change->name_size) == 0)
			return *at;
	struct told *told = calloc(1, sizeof(*told));
	char *name = malloc(change->name_size + 1);
	if (!told || !name) {
		free(told);
		free(name);
		return NULL;
	}
	memcpy(name, change->name, change->name_size);
	told->name = name;
	told->name_size = change->name_size;
	*at = told;
	return told;
}

int watch_command_tell(struct watch_command *command, const lk_change *change)
{
	struct told *told = told_get(command, change);
	if (!told)
		return trouble("out of memory");
	told_clear(told);
	told->merged++;
	told->gap |= change->kind == LK_CHANGE_GAP;
	return told_fill(told, change) == 0 ? 0 : trouble("out of memory");
}

/* ---- one run ---- */

/* Nothing more is merged into it. A file with the object; -1. */
static int input_make(struct told *told)
{
	json_object_set_new(told->object, "merged", json_integer(told->merged));
	json_object_set_new(told->object, "gap", json_boolean(told->gap));
	if (value_put(told, MERGED, "%" PRId64, told->merged) ||
	    text_put(told, GAP, told->gap ? "1" : NULL))
		return -1;
	char *text = json_dumps(told->object, JSON_COMPACT | JSON_PRESERVE_ORDER);
	int fd = text ? memfd_create("change", MFD_CLOEXEC) : -1;
	if (fd >= 0 && (dprintf(fd, "%s\n", text) < 0 || lseek(fd, 0, SEEK_SET) < 0)) {
		close(fd);
		fd = -1;
	}
	free(text);
	return fd;
}

static int environment_fill(const struct told *told)
{
	int rc = unsetenv("LOCKKEEPER_DEADLINE_MS");
	for (size_t i = 0; i < VARIABLES && rc == 0; i++)
		rc = i < TOLD && told->values[i] ? setenv(variables[i], told->values[i], 1)
						 : unsetenv(variables[i]);
	return rc;
}

__attribute__((noreturn)) static void child_become(const struct watch_command *command,
						   const struct told *told, int input, int failed)
{
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	int is_input = input == STDIN_FILENO ? fcntl(input, F_SETFD, 0) : dup2(input, STDIN_FILENO);
	if (is_input >= 0 && environment_fill(told) == 0) {
		sigprocmask(SIG_SETMASK, &command->mask, NULL);
		execvp(command->argv[0], command->argv);
	}
	int why = errno;
	_exit(write(failed, &why, sizeof(why)) == sizeof(why) ? EXIT_NOT_FOUND : EXIT_TROUBLE);
}

/* 0 once it is executed, or an errno. */
static int executed_look(int fd)
{
	int why = 0;
	ssize_t got;
	while ((got = read(fd, &why, sizeof(why))) < 0 && errno == EINTR) {}
	return got == sizeof(why) ? why : 0;
}

static int run_begin(struct watch_command *command, struct told *told)
{
	int pair[2], input = input_make(told);
	if (input < 0 || pipe2(pair, O_CLOEXEC)) {
		int code = trouble_errno(errno, "%s is not run", command->argv[0]);
		if (input >= 0)
			close(input);
		return code;
	}
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &command->mask); /* `running` is there when a signal comes */
	pid_t pid = fork();
	int why = pid < 0 ? errno : 0;
	if (pid == 0)
		child_become(command, told, input, pair[1]);
	close(input);
	close(pair[1]);
	if (pid > 0) {
		setpgid(pid, pid);
		running = pid;
		if (caught)
			kill(-pid, caught);
	}
	sigprocmask(SIG_SETMASK, &command->mask, NULL);
	if (pid > 0)
		why = executed_look(pair[0]);
	close(pair[0]);
	if (why == 0)
		return 0;
	trouble_errno(why, "%s cannot be executed", command->argv[0]);
	return why == ENOENT || why == ENOTDIR ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE;
}

/* Tells whether it has ended; then its exit code is known. */
static int run_has_ended(struct watch_command *command)
{
	int status;
	pid_t pid = running;
	if (pid == 0 || waitpid(pid, &status, WNOHANG) != pid)
		return pid == 0;
	running = 0;
	command->code = WIFEXITED(status) ? WEXITSTATUS(status)
					  : EXIT_SIGNAL_BASE + WTERMSIG(status);
	return 1;
}

/* ---- all of them ---- */

struct watch_command *watch_command_new(char **argv, lk_cancel *wake)
{
	struct watch_command *command = calloc(1, sizeof(*command));
	if (!command)
		return NULL;
	command->argv = argv;
	woken = wake;
	signals_take();
	return command;
}

int watch_command_turn(struct watch_command *command, int *code_out)
{
	*code_out = 0;
	if (!run_has_ended(command))
		return 1;
	struct told *told = command->first;
	if (!told || caught)
		return 0;
	command->first = told->next;
	*code_out = run_begin(command, told);
	told_free(told);
	return *code_out == 0;
}

/* Waits until the one that runs has ended, or the time is up, or a signal came. */
static void run_await(struct watch_command *command, int64_t until_ns)
{
	struct process_handle handle;
	int known = caught;
	if (running == 0 || process_handle_open(&handle, (pid_t)running) != 0)
		return;
	while (!run_has_ended(command) && caught == known && clock_now_ns() < until_ns) {
		struct pollfd end = {handle.fd, POLLIN, 0};
		int64_t left_ms = (until_ns - clock_now_ns()) / NS_PER_MS + 1;
		int most_ms = handle.fd >= 0 ? 1000 : LOOK_MS;
		poll(&end, 1, left_ms < most_ms ? (int)left_ms : most_ms);
	}
	process_handle_close(&handle);
}

int watch_command_drain(struct watch_command *command)
{
	int code = 0;
	while (!caught && watch_command_turn(command, &code))
		run_await(command, INT64_MAX);
	return code ? code : command->code;
}

/* A second signal does not end the grace: it was passed on, too. */
static void run_end(struct watch_command *command)
{
	int64_t until_ns = clock_now_ns() + GRACE_MS * NS_PER_MS;
	if (run_has_ended(command))
		return;
	if (!caught)
		kill(-(pid_t)running, SIGTERM);
	while (!run_has_ended(command) && clock_now_ns() < until_ns)
		run_await(command, until_ns);
	if (running == 0)
		return;
	pid_t pid = running;
	running = 0;
	kill(-pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {}
}

void watch_command_free(struct watch_command *command)
{
	if (!command)
		return;
	run_end(command);
	woken = NULL;
	while (command->first) {
		struct told *told = command->first;
		command->first = told->next;
		told_free(told);
	}
	free(command);
}
