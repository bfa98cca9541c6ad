#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "exit_code.h"
#include "message.h"
#include "server_start.h"

#define ANSWER_LIMIT_MS 1000 /* a private server that is slower than this is not answering */
#define GUARD_LIMIT_MS 20000 /* longer than a start may take */
#define START_LIMIT_MS 15000
#define STOP_LIMIT_MS 15000
#define TURN_MS 10

/* The home directory of the user's entry: the environment's differs under cron, su and systemd. */
static int folder_default(char *folder, size_t size)
{
	char host[HOST_NAME_MAX + 1] = "";
	const struct passwd *entry = getpwuid(getuid());
	if (!entry || !entry->pw_dir || entry->pw_dir[0] != '/')
		return trouble("user %u has no home directory for the private server: set "
			       "LOCKKEEPER_STATE_DIR, or name a server by LOCKKEEPER_URL",
			       (unsigned)getuid());
	if (gethostname(host, sizeof(host) - 1) || host[0] == '\0' || host[0] == '.' ||
	    strchr(host, '/'))
		return trouble("this machine has no usable host name: set LOCKKEEPER_STATE_DIR");
	int length = snprintf(folder, size, "%s/.local/state/lockkeeper/%s",
			      strcmp(entry->pw_dir, "/") ? entry->pw_dir : "", host);
	return length < 0 || (size_t)length >= size ? trouble("%s: path too long", folder) : 0;
}

static int folder_find(char *folder, size_t size)
{
	const char *named = getenv("LOCKKEEPER_STATE_DIR");
	if (!named || !*named)
		return folder_default(folder, size);
	if (named[0] != '/')
		return trouble("LOCKKEEPER_STATE_DIR: '%s' is not an absolute path", named);
	if (strlen(named) >= size)
		return trouble("LOCKKEEPER_STATE_DIR: path too long");
	snprintf(folder, size, "%s", named);
	for (size_t end = strlen(folder); end > 1 && folder[end - 1] == '/'; end--)
		folder[end - 1] = '\0';
	return 0;
}

static void url_fill(const char *path, char *url)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789-._~/";
	char *end = stpcpy(url, "unix://");
	for (; *path; path++) {
		if (strchr(plain, *path))
			*end++ = *path;
		else
			end += sprintf(end, "%%%02X", (unsigned char)*path);
	}
	*end = '\0';
}

int server_locate(struct server_place *place_out)
{
	int code = folder_find(place_out->folder, sizeof(place_out->folder));
	if (code)
		return code;
	size_t most = sizeof(place_out->socket) - 1;
	char path[PATH_MAX + 16];
	snprintf(path, sizeof(path), "%s/redis.sock", place_out->folder);
	if (strlen(path) > most)
		return trouble("%s: a unix socket's path has at most %zu bytes, this one has %zu: "
			       "set LOCKKEEPER_STATE_DIR to a shorter folder",
			       path, most, strlen(path));
	snprintf(place_out->socket, sizeof(place_out->socket), "%s", path);
	url_fill(place_out->socket, place_out->url);
	return 0;
}

static int socket_connect(const struct server_place *place)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", place->socket);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* 1 when the server says that it is up, 0 when it loads its data, or says nothing. */
static int socket_ping(int fd)
{
	static const char ping[] = "PING\r\n", pong[] = "+PONG\r\n";
	char answer[sizeof(pong) - 1];
	size_t have = 0;
	if (send(fd, ping, sizeof(ping) - 1, MSG_NOSIGNAL) != (ssize_t)sizeof(ping) - 1)
		return 0;
	while (have < sizeof(answer)) {
		struct pollfd ready = {fd, POLLIN, 0};
		ssize_t got = poll(&ready, 1, ANSWER_LIMIT_MS) == 1
				      ? recv(fd, answer + have, sizeof(answer) - have, 0)
				      : 0;
		if (got <= 0)
			return 0;
		have += (size_t)got;
	}
	return memcmp(answer, pong, sizeof(answer)) == 0;
}

pid_t server_find(const struct server_place *place)
{
	struct ucred peer = {0};
	socklen_t size = sizeof(peer);
	int fd = socket_connect(place);
	if (fd < 0)
		return 0;
	if (!socket_ping(fd) || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size))
		peer.pid = 0;
	close(fd);
	return peer.pid;
}

static int folder_check(const char *folder)
{
	struct stat status;
	if (lstat(folder, &status))
		return trouble_errno(errno, "%s", folder);
	if (!S_ISDIR(status.st_mode))
		return trouble("%s: not a folder", folder);
	if (status.st_uid != geteuid())
		return trouble("%s: belongs to user %u, not to us", folder,
			       (unsigned)status.st_uid);
	if (status.st_mode & 077)
		return trouble("%s: mode %03o lets other users in, 700 is wanted", folder,
			       (unsigned)status.st_mode & 0777);
	return 0;
}

static int folder_make(const char *folder)
{
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "%s", folder);
	for (char *slash = path; (slash = strchr(slash + 1, '/')) != NULL; *slash = '/') {
		*slash = '\0';
		if (mkdir(path, 0700) && errno != EEXIST)
			return trouble_errno(errno, "cannot make the folder %s", path);
	}
	if (mkdir(path, 0700) && errno != EEXIST)
		return trouble_errno(errno, "cannot make the folder %s", path);
	return folder_check(path);
}

int server_guard(const struct server_place *place)
{
	char path[PATH_MAX + 16];
	if (folder_make(place->folder))
		return -1;
	snprintf(path, sizeof(path), "%s/lock", place->folder);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		trouble_errno(errno, "cannot open %s", path);
		return -1;
	}
	for (int waited_ms = 0; flock(fd, LOCK_EX | LOCK_NB); waited_ms += TURN_MS) {
		if (waited_ms < GUARD_LIMIT_MS && (errno == EWOULDBLOCK || errno == EINTR)) {
			poll(NULL, 0, TURN_MS);
			continue;
		}
		trouble_errno(errno, "cannot lock %s", path);
		close(fd);
		return -1;
	}
	return fd;
}

/* 0 when it answers, -1 when it has ended, 1 when it does neither. */
static int server_await(const struct server_place *place)
{
	for (int waited_ms = 0; waited_ms < START_LIMIT_MS; waited_ms += TURN_MS) {
		if (server_find(place))
			return 0;
		if (!server_is_alive(place))
			return -1;
		poll(NULL, 0, TURN_MS);
	}
	return 1;
}

/* With the guard held. */
static int server_bring(const struct server_place *place)
{
	/* One that is alive was started by somebody who was killed since, or is about to end. */
	int result = server_await(place);
	if (result < 0) {
		if (server_start(place))
			return EXIT_TROUBLE;
		result = server_await(place);
	}
	if (result == 0)
		return 0;
	return trouble("the private server %s: see %s/redis.log",
		       result < 0 ? "ended at once" : "does not answer", place->folder);
}

int server_ensure(const struct server_place *place)
{
	if (server_find(place))
		return 0;
	int guard = server_guard(place);
	if (guard < 0)
		return trouble("the private server cannot be started");
	int code = server_bring(place);
	close(guard);
	return code;
}

int server_end(const struct server_place *place, pid_t pid)
{
	int handle = (int)syscall(SYS_pidfd_open, pid, 0);
	/* Asked again behind the handle: now the number cannot have gone to another process. */
	if (handle < 0 || server_find(place) != pid) {
		if (handle >= 0)
			close(handle);
		return trouble("the private server has just ended or been replaced");
	}
	struct pollfd ended = {handle, POLLIN, 0};
	int code = 0;
	if (syscall(SYS_pidfd_send_signal, handle, SIGTERM, NULL, 0))
		code = trouble_errno(errno, "cannot end process %d", (int)pid);
	else if (poll(&ended, 1, STOP_LIMIT_MS) != 1)
		code = trouble("the private server (process %d) does not end", (int)pid);
	close(handle);
	return code;
}
