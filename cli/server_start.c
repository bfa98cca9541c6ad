/* SPDX-License-Identifier: MIT */
#include "server_start.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "descriptors.h"
#include "exit_code.h"
#include "message.h"
#include "server_folder.h"

/* The descriptor by which the server holds the lock on `alive`; it never uses it. */
#define ALIVE_FD 3
#define FAILURE_FD 4
#define FILES_MIN 256 /* Redis keeps 32 of them; one command takes up to three */
#define FILES_WANTED 4096

/*
 * All settings are arguments, so that no failure to read a file can bring up a server with the
 * defaults, which listens on a port. Paths are relative to the folder, where it is started.
 * `appendfsync everysec`: what the server wrote survives its own death; only a crash of the machine
 * can lose a second, and then all holders, which are on this machine, are gone as well.
 */
static const char *const settings[] = {
	"--port",
	"0",
	"--unixsocket",
	"start.sock",
	"--unixsocketperm",
	"600",
	"--daemonize",
	"no",
	"--dir",
	"./",
	"--appendonly",
	"yes",
	"--appendfsync",
	"everysec",
	"--save",
	"",
	"--loglevel",
	"warning",
	"--maxmemory-policy",
	"noeviction",
};
#define SETTING_COUNT (sizeof(settings) / sizeof(settings[0]))

/* Limits that a server for all must not inherit from the one command that starts it. */
static const struct limit {
	int resource;
	rlim_t least;  /* a server with less would fail those who use it later */
	rlim_t wanted; /* asked for where the right to raise the hard limit is there */
	const char *name;
} limits[] = {
	{RLIMIT_NOFILE, FILES_MIN, FILES_WANTED, "open files"},
	{RLIMIT_FSIZE, RLIM_INFINITY, RLIM_INFINITY, "file size"},
	{RLIMIT_CPU, RLIM_INFINITY, RLIM_INFINITY, "CPU time"},
	{RLIMIT_AS, 0, RLIM_INFINITY, "address space"},
	{RLIMIT_DATA, 0, RLIM_INFINITY, "data segment"},
	{RLIMIT_NPROC, 0, 0, "processes"},
};

/* The failure that keeps the new process from becoming the server. */
struct failure {
	int reason;                /* errno */
	const struct limit *limit; /* that is too low, or NULL */
};

struct start {
	int folder, alive, log;
	int failure[2]; /* takes a struct failure when the server cannot be executed */
};

/* NULL, or the limit that stays too low. */
static const struct limit *limits_raise(void)
{
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		const struct limit *row = &limits[i];
		struct rlimit now, more;
		if (getrlimit(row->resource, &now))
			continue;
		rlim_t most = now.rlim_max > row->wanted ? now.rlim_max : row->wanted;
		more = (struct rlimit){most, most};
		if (setrlimit(row->resource, &more) == 0)
			continue;
		now.rlim_cur = now.rlim_max;
		setrlimit(row->resource, &now);
		if (now.rlim_max < row->least)
			return row;
	}
	return NULL;
}

static void signals_reset(void)
{
	sigset_t none;
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

int server_is_alive(int folder)
{
	/* A lock of the open file: it goes to the server with the descriptor, and ends with it. */
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int fd = folder_file(folder, "alive", O_RDWR);
	int alive = fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
	if (fd >= 0)
		close(fd);
	return alive;
}

static void pid_record(int alive)
{
	char text[16];
	int length = snprintf(text, sizeof(text), "%d\n", (int)getpid());
	if (ftruncate(alive, 0) == 0) {
		ssize_t written = pwrite(alive, text, (size_t)length, 0);
		(void)written; /* without it only a server that hangs cannot be named */
	}
}

pid_t server_recorded(int folder)
{
	char text[16] = "", path[32];
	struct stat ours, its;
	int fd = folder_file(folder, "alive", O_RDONLY);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	int pid = got > 0 ? atoi(text) : 0;
	/* The number of another pid namespace names no process of ours that works in the folder. */
	snprintf(path, sizeof(path), "/proc/%d/cwd", pid);
	if (pid <= 0 || fstat(folder, &ours) || stat(path, &its))
		return 0;
	return ours.st_dev == its.st_dev && ours.st_ino == its.st_ino ? pid : 0;
}

int server_has_data(int folder)
{
	/* A folder from Redis 7 on, a file before. */
	return faccessat(folder, "appendonlydir", F_OK, 0) == 0 ||
	       faccessat(folder, "appendonly.aof", F_OK, 0) == 0;
}

/* Takes its place in the world: descriptors, session, folder. 0, or -1 with errno. */
static int server_settle(const struct start *start)
{
	int null = open("/dev/null", O_RDONLY);
	/* Above those that are about to be replaced. */
	int log = fcntl(start->log, F_DUPFD, FAILURE_FD + 1);
	int alive = fcntl(start->alive, F_DUPFD, FAILURE_FD + 1);
	int failure = fcntl(start->failure[1], F_DUPFD, FAILURE_FD + 1);
	if (null < 0 || log < 0 || alive < 0 || failure < 0 || fchdir(start->folder))
		return -1;
	if (dup2(null, STDIN_FILENO) < 0 || dup2(log, STDOUT_FILENO) < 0 ||
	    dup2(log, STDERR_FILENO) < 0 || dup2(alive, ALIVE_FD) < 0 ||
	    dup2(failure, FAILURE_FD) < 0 || fcntl(FAILURE_FD, F_SETFD, FD_CLOEXEC))
		return -1;
	descriptors_close(FAILURE_FD + 1, ~0U);
	setsid();
	umask(077);
	signals_reset();
	pid_record(ALIVE_FD);
	return 0;
}

/* Returns when neither program could be executed. */
static void server_execute(void)
{
	static char redis[] = "redis-server", valkey[] = "valkey-server";
	static char path_default[] = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
	char *environment[] = {path_default, NULL}, *arguments[SETTING_COUNT + 2] = {redis};
	for (size_t i = 0; i < SETTING_COUNT; i++)
		arguments[i + 1] = (char *)settings[i];
	execvpe(redis, arguments, environment);
	arguments[0] = valkey;
	if (errno == ENOENT)
		execvpe(valkey, arguments, environment);
}

/* In the new process: becomes the server, or says why not and ends. */
__attribute__((noreturn)) static void server_become(const struct start *start)
{
	struct failure failure = {0, limits_raise()};
	int fd = start->failure[1];
	if (!failure.limit && server_settle(start) == 0) {
		fd = FAILURE_FD;
		server_execute();
	}
	failure.reason = errno;
	ssize_t written = write(fd, &failure, sizeof(failure));
	(void)written;
	_exit(127);
}

/* Two forks: the server is nobody's child whom we could leave as a zombie. */
static int server_fork(const struct start *start)
{
	pid_t between = fork();
	if (between < 0)
		return trouble_errno(errno, "cannot fork");
	if (between == 0) {
		pid_t server = fork();
		if (server == 0)
			server_become(start);
		_exit(server < 0);
	}
	int status;
	while (waitpid(between, &status, 0) < 0) {
		if (errno != EINTR)
			return 0; /* children are ignored; the pipe tells what happened */
	}
	return status ? trouble("cannot fork") : 0;
}

static int start_open(struct start *start)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	start->alive = folder_file(start->folder, "alive", O_RDWR);
	if (start->alive < 0 || fcntl(start->alive, F_OFD_SETLK, &lock))
		return trouble_errno(errno, "the private server: cannot lock the file 'alive'");
	start->log = folder_file(start->folder, "redis.log", O_WRONLY | O_APPEND);
	if (start->log < 0)
		return trouble_errno(errno, "the private server: cannot write redis.log");
	if (pipe2(start->failure, O_CLOEXEC))
		return trouble_errno(errno, "cannot make a pipe");
	return 0;
}

static void start_close(const struct start *start)
{
	const int fds[] = {start->alive, start->log, start->failure[0], start->failure[1]};
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
}

static int failure_tell(const struct failure *failure)
{
	if (!failure->limit) {
		trouble_errno(failure->reason, "no private server: cannot execute redis-server or "
					       "valkey-server");
		return trouble("install one, or name a server in LOCKKEEPER_URL");
	}
	return trouble("no private server: it would serve all later commands under this command's "
		       "hard limit of %s (ulimit -a); run `lockkeeper server start` without that "
		       "limit first, or name a server in LOCKKEEPER_URL",
		       failure->limit->name);
}

int server_start(int folder)
{
	struct start start = {folder, .alive = -1, .log = -1, .failure = {-1, -1}};
	struct failure failure;
	int code = start_open(&start);
	if (code == 0)
		code = server_fork(&start);
	if (code == 0) {
		close(start.failure[1]);
		start.failure[1] = -1;
		if (read(start.failure[0], &failure, sizeof(failure)) == sizeof(failure))
			code = failure_tell(&failure);
	}
	start_close(&start);
	return code;
}
