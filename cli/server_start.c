#include "server_start.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exit_code.h"
#include "message.h"
#include "server.h"

/* The descriptor by which the server holds the lock on `alive`; it never uses it. */
#define ALIVE_FD 3

/*
 * `appendfsync everysec`: what the server wrote survives its own death; only a crash of the machine
 * can lose a second, and then all holders, which are on this machine, are gone as well.
 */
static const char settings[] = "port 0\n"
			       "unixsocketperm 600\n"
			       "daemonize no\n"
			       "appendonly yes\n"
			       "appendfsync everysec\n"
			       "save \"\"\n"
			       "maxmemory-policy noeviction\n"
			       "loglevel warning\n";

/* A value in the configuration's quotes; all that could be special is written \xNN. */
static void setting_write(FILE *file, const char *name, const char *folder, const char *leaf)
{
	fprintf(file, "%s \"", name);
	for (const char *byte = folder; *byte; byte++) {
		if (*byte > ' ' && *byte < 0x7f && *byte != '"' && *byte != '\\')
			fputc(*byte, file);
		else
			fprintf(file, "\\x%02x", (unsigned char)*byte);
	}
	fprintf(file, "%s\"\n", leaf);
}

static int settings_write(const struct server_place *place, const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
	if (!file) {
		int reason = errno;
		if (fd >= 0)
			close(fd);
		return trouble_errno(reason, "cannot write %s", path);
	}
	fputs(settings, file);
	setting_write(file, "dir", place->folder, "");
	setting_write(file, "unixsocket", place->folder, "/redis.sock");
	int failed = ferror(file);
	return fclose(file) || failed ? trouble_errno(errno, "cannot write %s", path) : 0;
}

static void signals_reset(void)
{
	sigset_t none;
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static int alive_open(const struct server_place *place)
{
	char path[PATH_MAX + 16];
	snprintf(path, sizeof(path), "%s/alive", place->folder);
	return open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

int server_is_alive(const struct server_place *place)
{
	/* A lock of the open file: it goes to the server with the descriptor, and ends with it. */
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int fd = alive_open(place);
	int alive = fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
	if (fd >= 0)
		close(fd);
	return alive;
}

struct start {
	char config[PATH_MAX + 16];
	int alive, log;
	int failure[2]; /* takes errno when the server cannot be executed; ends when it is */
};

/* In the new process: becomes the server, or writes errno to `failure` and ends. */
__attribute__((noreturn)) static void server_become(const struct start *start)
{
	static char redis[] = "redis-server", valkey[] = "valkey-server", from_stdin[] = "-";
	static char path_default[] = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
	char *environment[] = {path_default, NULL}, *arguments[] = {NULL, from_stdin, NULL};
	/* Not by its name, in which the server would expand wildcards. */
	int settings_fd = open(start->config, O_RDONLY);
	/* Above those that are about to be replaced. */
	int alive = fcntl(start->alive, F_DUPFD, ALIVE_FD + 1);
	int failure = fcntl(start->failure[1], F_DUPFD_CLOEXEC, ALIVE_FD + 2);
	setsid();
	umask(077);
	signals_reset();
	dup2(settings_fd, STDIN_FILENO);
	dup2(start->log, STDOUT_FILENO);
	dup2(start->log, STDERR_FILENO);
	dup2(alive, ALIVE_FD);
	dup2(failure, ALIVE_FD + 1);
	fcntl(ALIVE_FD + 1, F_SETFD, FD_CLOEXEC);
	syscall(SYS_close_range, ALIVE_FD + 2, ~0U, 0);
	arguments[0] = redis;
	execvpe(redis, arguments, environment);
	arguments[0] = valkey;
	if (errno == ENOENT)
		execvpe(valkey, arguments, environment);
	int reason = errno;
	ssize_t written = write(ALIVE_FD + 1, &reason, sizeof(reason));
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

static int start_open(struct start *start, const struct server_place *place)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char path[PATH_MAX + 16];
	snprintf(start->config, sizeof(start->config), "%s/redis.conf", place->folder);
	if (settings_write(place, start->config))
		return EXIT_TROUBLE;
	start->alive = alive_open(place);
	if (start->alive < 0 || fcntl(start->alive, F_OFD_SETLK, &lock))
		return trouble_errno(errno, "cannot lock %s/alive", place->folder);
	snprintf(path, sizeof(path), "%s/redis.log", place->folder);
	start->log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (start->log < 0)
		return trouble_errno(errno, "cannot write %s", path);
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

int server_start(const struct server_place *place)
{
	struct start start = {.alive = -1, .log = -1, .failure = {-1, -1}};
	int reason, code = start_open(&start, place);
	if (code == 0)
		code = server_fork(&start);
	if (code == 0) {
		close(start.failure[1]);
		start.failure[1] = -1;
		if (read(start.failure[0], &reason, sizeof(reason)) == sizeof(reason))
			code = trouble_errno(reason, "no private server: cannot execute "
						     "redis-server or valkey-server");
	}
	start_close(&start);
	return code;
}
