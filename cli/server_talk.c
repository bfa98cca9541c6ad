/* SPDX-License-Identifier: MIT */
#include "server_talk.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"

#define TURN_MS 10

static int left_ms(int64_t deadline_ns)
{
	int64_t left_ns = deadline_ns - clock_now_ns();
	return left_ns > 0 ? (int)(left_ns / NS_PER_MS) + 1 : 0;
}

static int view_fail(struct server_view *view, enum server_state state, int reason)
{
	view->state = state;
	snprintf(view->text, sizeof(view->text), "cannot connect to %s: %s", view->socket->path,
		 strerror(reason));
	return -1;
}

/* The user who listens there is the kernel's word, not the server's. */
static int peer_check(int fd, struct server_view *view)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size))
		return view_fail(view, SERVER_TROUBLE, errno);
	view->pid = peer.pid;
	if (peer.uid == geteuid())
		return 0;
	view->state = SERVER_TROUBLE;
	snprintf(view->text, sizeof(view->text),
		 "the server at %s belongs to user %u, not to this user", view->socket->path,
		 (unsigned)peer.uid);
	return -1;
}

/* Without O_NONBLOCK, connect(2) would wait without end for room in the server's backlog. */
static int socket_connect(int fd, int64_t deadline_ns, struct server_view *view)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	memcpy(address.sun_path, view->socket->path, sizeof(address.sun_path));
	while (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
		if (errno == ENOENT || errno == ECONNREFUSED)
			return view_fail(view, SERVER_ABSENT, errno);
		if (errno != EAGAIN && errno != EINTR)
			return view_fail(view, SERVER_TROUBLE, errno);
		if (left_ms(deadline_ns) == 0)
			return view_fail(view, SERVER_HANGS, errno);
		poll(NULL, 0, TURN_MS);
	}
	return peer_check(fd, view);
}

int talk_open(const struct server_socket *socket_at, int64_t deadline_ns, struct server_view *view)
{
	*view = (struct server_view){.socket = socket_at};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return view_fail(view, SERVER_TROUBLE, errno);
	if (socket_connect(fd, deadline_ns, view) == 0)
		return fd;
	close(fd);
	return -1;
}

/* 1 when `reply` is whole: a line, or a bulk string with all its bytes. */
static int reply_is_whole(const char *reply, size_t have)
{
	const char *end = strstr(reply, "\r\n");
	if (!end || reply[0] != '$')
		return end != NULL;
	return have >= (size_t)(end - reply) + 2 + strtoul(reply + 1, NULL, 10) + 2;
}

/* 0, or -1 when the reply does not come in time or the server goes. Errno tells which. */
int talk_ask(int fd, const char *command, char *reply, size_t size, int64_t deadline_ns)
{
	char line[64];
	size_t have = 0;
	int length = snprintf(line, sizeof(line), "%s\r\n", command);
	reply[0] = '\0';
	if (send(fd, line, (size_t)length, MSG_NOSIGNAL) != length)
		return -1;
	while (!reply_is_whole(reply, have) && have + 1 < size) {
		struct pollfd ready = {fd, POLLIN, 0};
		int limit_ms = left_ms(deadline_ns);
		errno = ETIMEDOUT;
		if (limit_ms == 0 || (poll(&ready, 1, limit_ms) < 0 && errno != EINTR))
			return -1;
		ssize_t got = recv(fd, reply + have, size - 1 - have, MSG_DONTWAIT);
		if (got == 0)
			errno = ECONNRESET;
		if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
			return -1;
		have += got > 0 ? (size_t)got : 0;
		reply[have] = '\0';
	}
	return 0;
}

void talk_look(const struct server_socket *socket_at, int64_t deadline_ns, struct server_view *view)
{
	int fd = talk_open(socket_at, deadline_ns, view);
	if (fd < 0)
		return;
	if (talk_ask(fd, "PING", view->text, sizeof(view->text), deadline_ns))
		view->state = errno == ETIMEDOUT ? SERVER_HANGS : SERVER_ABSENT;
	else if (strncmp(view->text, "-LOADING", 8) == 0)
		view->state = SERVER_LOADS;
	else if (strncmp(view->text, "-BUSY", 5) == 0 || view->text[0] == '+')
		view->state = SERVER_READY; /* a script may run for long; the library waits */
	else
		view->state = SERVER_REFUSES;
	view->text[strcspn(view->text, "\r\n")] = '\0';
	close(fd);
}
