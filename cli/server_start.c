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

#include "message.h"
#include "server.h"

/* The descriptor that the server keeps open, and never uses, so that its end can be noticed. */
#define LIFE_FD 3

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

/* In the new process: becomes the server, or writes errno to `life` and ends. */
__attribute__((noreturn)) static void server_become(const char *config, int log, int life)
{
	static char redis[] = "redis-server", valkey[] = "valkey-server", from_stdin[] = "-";
	static char path_default[] = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
	char *environment[] = {path_default, NULL}, *arguments[] = {NULL, from_stdin, NULL};
	/* Not by its name, in which the server would expand wildcards. */
	int settings_fd = open(config, O_RDONLY);
	setsid();
	umask(077);
	signals_reset();
	dup2(settings_fd, STDIN_FILENO);
	dup2(log, STDOUT_FILENO);
	dup2(log, STDERR_FILENO);
	dup2(life, LIFE_FD);
	fcntl(LIFE_FD, F_SETFD, 0);
	syscall(SYS_close_range, LIFE_FD + 1, ~0U, 0);
	arguments[0] = redis;
	execvpe(redis, arguments, environment);
	arguments[0] = valkey;
	if (errno == ENOENT)
		execvpe(valkey, arguments, environment);
	int reason = errno;
	ssize_t written = write(LIFE_FD, &reason, sizeof(reason));
	(void)written;
	_exit(127);
}

/* Two forks: the server is nobody's child whom we could leave as a zombie. */
static int server_fork(const char *config, int log, int life)
{
	pid_t between = fork();
	if (between < 0)
		return trouble_errno(errno, "cannot fork");
	if (between == 0) {
		pid_t server = fork();
		if (server == 0)
			server_become(config, log, life);
		_exit(server < 0);
	}
	int status;
	while (waitpid(between, &status, 0) < 0) {
		if (errno != EINTR)
			return 0; /* children are ignored; the pipe tells what happened */
	}
	return status ? trouble("cannot fork") : 0;
}

int server_start(const struct server_place *place)
{
	char config[PATH_MAX + 16], path[PATH_MAX + 16];
	int life[2];
	snprintf(config, sizeof(config), "%s/redis.conf", place->folder);
	snprintf(path, sizeof(path), "%s/redis.log", place->folder);
	if (settings_write(place, config))
		return -1;
	int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (log < 0) {
		trouble_errno(errno, "cannot write %s", path);
		return -1;
	}
	if (pipe2(life, O_CLOEXEC)) {
		trouble_errno(errno, "cannot make a pipe");
		close(log);
		return -1;
	}
	int code = server_fork(config, log, life[1]);
	close(log);
	close(life[1]);
	if (code) {
		close(life[0]);
		return -1;
	}
	return life[0];
}
