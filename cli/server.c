/* SPDX-License-Identifier: MIT */
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
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "exit_code.h"
#include "message.h"
#include "server_data.h"
#include "server_folder.h"
#include "server_prepare.h"
#include "server_start.h"
#include "server_talk.h"

#define ANSWER_LIMIT_MS 3000 /* a private server that is slower than this hangs */
#define GUARD_LIMIT_MS 20000 /* longer than a start or a stop may take */
#define USERS_LIMIT_MS 1000  /* of those that are about to end */
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
			       "LOCKKEEPER_STATE_DIR, or name a server in LOCKKEEPER_URL",
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
	if (strpbrk(named, "\r\n")) /* it would be another folder, and another server */
		return trouble("LOCKKEEPER_STATE_DIR: '%s' has a line break", named);
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

static int socket_locate(const char *folder, const char *leaf, struct server_socket *socket_out)
{
	size_t most = sizeof(socket_out->path) - 1;
	char path[PATH_MAX + 16];
	snprintf(path, sizeof(path), "%s/%s", folder, leaf);
	if (strlen(path) > most)
		return trouble("%s: a unix socket's path has at most %zu bytes, this one has %zu: "
			       "set LOCKKEEPER_STATE_DIR to a shorter folder",
			       path, most, strlen(path));
	memcpy(socket_out->path, path, strlen(path) + 1);
	url_fill(path, socket_out->url);
	return 0;
}

int server_locate(struct server_place *place_out)
{
	int code = folder_find(place_out->folder, sizeof(place_out->folder));
	if (code == 0)
		code = socket_locate(place_out->folder, "redis.sock", &place_out->published);
	if (code == 0)
		code = socket_locate(place_out->folder, "start.sock", &place_out->starting);
	return code;
}

/* Locks a file of the folder; a descriptor, or -1 with errno: EWOULDBLOCK at the limit. */
static int file_lock(int folder, const char *leaf, int operation, int64_t limit_ms)
{
	int64_t deadline_ns = clock_now_ns() + limit_ms * NS_PER_MS;
	int fd = folder_file(folder, leaf, O_RDWR);
	while (fd >= 0 && flock(fd, operation | LOCK_NB)) {
		int reason = errno;
		if ((reason == EWOULDBLOCK || reason == EINTR) && clock_now_ns() < deadline_ns) {
			poll(NULL, 0, TURN_MS);
			continue;
		}
		close(fd);
		errno = reason;
		return -1;
	}
	return fd;
}

static int lock_refuse(const char *leaf)
{
	if (errno != EWOULDBLOCK)
		return trouble_errno(errno, "the private server: cannot lock the file '%s'", leaf);
	return trouble("another lockkeeper is starting or stopping the private server, and has "
		       "not finished within %d s",
		       GUARD_LIMIT_MS / 1000);
}

int server_enter(const struct server_place *place, struct server_guard *guard_out)
{
	*guard_out = (struct server_guard){folder_make(place->folder), -1, -1};
	if (guard_out->folder < 0)
		return EXIT_TROUBLE;
	guard_out->users = file_lock(guard_out->folder, "users", LOCK_SH, GUARD_LIMIT_MS);
	return guard_out->users < 0 ? lock_refuse("users") : 0;
}

int server_enter_alone(const struct server_place *place, struct server_guard *guard_out)
{
	*guard_out = (struct server_guard){folder_make(place->folder), -1, -1};
	if (guard_out->folder < 0)
		return EXIT_TROUBLE;
	guard_out->users = file_lock(guard_out->folder, "users", LOCK_EX, USERS_LIMIT_MS);
	return guard_out->users >= 0 || errno == EWOULDBLOCK ? 0 : lock_refuse("users");
}

int server_lock(struct server_guard *guard)
{
	guard->lock = file_lock(guard->folder, "lock", LOCK_EX, GUARD_LIMIT_MS);
	return guard->lock < 0 ? lock_refuse("lock") : 0;
}

void server_leave(const struct server_guard *guard)
{
	const int fds[] = {guard->lock, guard->users, guard->folder};
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
}

void server_find(const struct server_place *place, int folder, struct server_view *view_out)
{
	int64_t deadline_ns = clock_now_ns() + ANSWER_LIMIT_MS * NS_PER_MS;
	talk_look(&place->published, deadline_ns, view_out);
	if (view_out->state == SERVER_ABSENT)
		talk_look(&place->starting, deadline_ns, view_out);
	if (view_out->pid == 0 && server_is_alive(folder))
		view_out->pid = server_recorded(folder);
}

int server_complain(const struct server_view *view)
{
	char process[32] = "";
	if (view->pid)
		snprintf(process, sizeof(process), " (process %d)", (int)view->pid);
	switch (view->state) {
	case SERVER_REFUSES:
		return trouble("the private server%s refuses: %s", process, view->text + 1);
	case SERVER_HANGS:
		return trouble("the private server%s does not answer; `lockkeeper server stop "
			       "--force` ends it",
			       process);
	case SERVER_LOADS:
		return trouble("the private server%s is still loading its data; try again later",
			       process);
	case SERVER_TROUBLE:
		return trouble("the private server: %s", view->text);
	default:
		return trouble("the private server%s exists but does not listen; `lockkeeper "
			       "server stop --force` ends it",
			       process);
	}
}

/* While the handle is open, no other process can get the number; so it is checked again. */
static int process_kill(int folder, pid_t pid)
{
	int handle = (int)syscall(SYS_pidfd_open, pid, 0), code = 0;
	struct pollfd ended = {handle, POLLIN, 0};
	if (handle < 0 || server_recorded(folder) != pid)
		code = trouble("the private server is not process %d any more: try again",
			       (int)pid);
	else if (syscall(SYS_pidfd_send_signal, handle, SIGKILL, NULL, 0))
		code = trouble_errno(errno, "cannot end process %d", (int)pid);
	else if (poll(&ended, 1, STOP_LIMIT_MS) != 1)
		code = trouble("killed the private server, process %d, but it does not end",
			       (int)pid);
	if (handle >= 0)
		close(handle);
	return code;
}

/* 0 when the server has gone within the limit. */
static int end_await(int folder, int64_t limit_ms)
{
	int64_t deadline_ns = clock_now_ns() + limit_ms * NS_PER_MS;
	while (server_is_alive(folder)) {
		if (clock_now_ns() > deadline_ns)
			return -1;
		poll(NULL, 0, TURN_MS);
	}
	return 0;
}

/* Sends a command, not a signal: the server may be in another pid namespace. */
static int server_shut_down(const struct server_guard *guard, const struct server_view *view)
{
	struct server_view again;
	char reply[200];
	int64_t deadline_ns = clock_now_ns() + STOP_LIMIT_MS * NS_PER_MS;
	int fd = talk_open(view->socket, deadline_ns, &again), code = 0;
	/* The server closes the connection; it answers only with a reason not to. */
	if (fd >= 0 && talk_ask(fd, "SHUTDOWN", reply, sizeof(reply), deadline_ns) == 0)
		code = trouble("the private server does not end: %.*s", (int)strcspn(reply, "\r"),
			       reply);
	if (fd >= 0)
		close(fd);
	if (code == 0 && end_await(guard->folder, STOP_LIMIT_MS))
		code = trouble("the private server does not end; see its log, or stop it with "
			       "--force");
	return code;
}

static int server_kill(const struct server_guard *guard, const struct server_view *view)
{
	pid_t pid = server_recorded(guard->folder);
	if (pid == 0)
		return trouble("the private server does not answer, and its process cannot be "
			       "found: it may be in another pid namespace");
	message("the private server, process %d, %s: killing it", (int)pid,
		view->state == SERVER_REFUSES ? "refuses commands" : "does not answer");
	return process_kill(guard->folder, pid);
}

int server_end(const struct server_guard *guard, const struct server_view *view, int force)
{
	int code = 0;
	if (view->state == SERVER_READY)
		code = server_shut_down(guard, view);
	else if (view->state == SERVER_TROUBLE)
		code = server_complain(view);
	else if (view->state != SERVER_ABSENT || end_await(guard->folder, ANSWER_LIMIT_MS))
		code = force ? server_kill(guard, view) : server_complain(view);
	if (code == 0)
		unlinkat(guard->folder, "redis.sock", 0);
	return code;
}

/* The state of a start: what ends it, or SERVER_ABSENT and SERVER_LOADS. */
struct bringing {
	const struct server_place *place;
	const struct server_guard *guard;
	struct server_view view;
	int started;  /* by us */
	int had_data; /* an earlier server may have left a torn file */
};

/* It may still be loading or listening nowhere; one that never listened is not ours to keep. */
static int bring_give_up(const struct bringing *self)
{
	if (self->view.state == SERVER_LOADS)
		return server_complain(&self->view);
	pid_t pid = server_recorded(self->guard->folder);
	if (pid)
		process_kill(self->guard->folder, pid);
	return trouble("the private server does not start: see %s/redis.log", self->place->folder);
}

/* Nobody listens: starts the server, once. 1 to go on, else an exit code negated. */
static int bring_start(struct bringing *self)
{
	if (server_is_alive(self->guard->folder))
		return 1; /* about to listen, or about to end */
	if (self->started)
		return -trouble("the private server ended at once: see %s/redis.log",
				self->place->folder);
	self->started = 1;
	self->had_data = server_has_data(self->guard->folder);
	if (server_data_mend(self->guard->folder, self->place->folder))
		return -EXIT_TROUBLE;
	return server_start(self->guard->folder) ? -EXIT_TROUBLE : 1;
}

/* 1 to go on, 0 when the server is ready, else an exit code negated. */
static int bring_step(struct bringing *self)
{
	server_find(self->place, self->guard->folder, &self->view);
	switch (self->view.state) {
	case SERVER_READY:
		if (self->view.socket == &self->place->published)
			return 0;
		return -server_prepare(self->guard->folder, self->view.socket, self->had_data);
	case SERVER_LOADS:
		return 1;
	case SERVER_ABSENT:
		return bring_start(self);
	default:
		return -server_complain(&self->view);
	}
}

int server_ensure_locked(const struct server_place *place, const struct server_guard *guard)
{
	/* A server that we find starting was left by a starter that was killed. */
	struct bringing self = {.place = place, .guard = guard, .had_data = 1};
	int64_t deadline_ns = clock_now_ns() + START_LIMIT_MS * NS_PER_MS;
	int result;
	while ((result = bring_step(&self)) == 1) {
		if (clock_now_ns() > deadline_ns)
			return bring_give_up(&self);
		poll(NULL, 0, self.started ? 1 : TURN_MS);
	}
	return -result;
}

/* 1 when there is a server that no start can help. */
static int server_is_stuck(const struct server_view *view)
{
	return view->state == SERVER_REFUSES || view->state == SERVER_HANGS ||
	       view->state == SERVER_TROUBLE;
}

int server_ensure(const struct server_place *place)
{
	struct server_guard guard;
	struct server_view view;
	int code = server_enter(place, &guard);
	if (code == 0)
		server_find(place, guard.folder, &view);
	if (code == 0 && server_is_stuck(&view))
		code = server_complain(&view);
	if (code == 0 && (view.state != SERVER_READY || view.socket != &place->published)) {
		code = server_lock(&guard);
		if (code == 0)
			code = server_ensure_locked(place, &guard);
	}
	if (code == 0)
		guard.users = -1; /* kept to the end of the process */
	server_leave(&guard);
	return code;
}
