/* SPDX-License-Identifier: MIT */
/* Opening a stream: resolve, connect to one address after the other, and TLS on top. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "net/plain.h"
#include "net/resolve.h"
#include "net/socket.h"
#include "net/stream.h"
#include "net/tls.h"

#define ADDRESSES_MAX 16
#define BACKLOG_PAUSE_MS 5 /* before the next try at a unix socket whose backlog is full */

struct opening {
	const struct lk_config *config;
	int64_t deadline_ns;
	int cancel_fd;
	lk_error *error;
	char node[300]; /* for messages */
};

static void name_node(struct opening *opening)
{
	const struct lk_config *config = opening->config;
	if (config->scheme == LK__SCHEME_UNIX)
		snprintf(opening->node, sizeof(opening->node), "%s", config->host);
	else
		snprintf(opening->node, sizeof(opening->node),
			 strchr(config->host, ':') ? "[%s]:%d" : "%s:%d", config->host,
			 config->port);
}

/* Turns the negative errno of an attempt to connect into an error. */
static int fail_connect(struct opening *opening, int status)
{
	if (status == -ECANCELED)
		return lk__fail(opening->error, LK_ECANCELLED, "connect to %s: cancelled",
				opening->node);
	int code = status == -EMFILE || status == -ENFILE || status == -ENOBUFS ? LK_ESYSTEM
		   : status == -ENOMEM                                          ? LK_ENOMEM
										: LK_EUNREACHABLE;
	return lk__fail_errno(opening->error, code, -status, "connect to %s", opening->node);
}

/* connect() that is under way ends when the descriptor becomes writable. */
static int finish_connect(int fd, int64_t deadline_ns, int cancel_fd)
{
	int status = lk__socket_wait(fd, POLLOUT, deadline_ns, cancel_fd);
	if (status != 0)
		return status;
	return -lk__socket_failure(fd);
}

/* A connected descriptor, or -errno. */
static int connect_address(const struct sockaddr *address, socklen_t size, int64_t deadline_ns,
			   int cancel_fd)
{
	int fd = lk__socket_new(address->sa_family);
	int status = 0;
	if (fd < 0)
		return -errno;
	while (lk__socket_connect(fd, address, size) != 0) {
		status = -errno;
		if (status == -EINPROGRESS || status == -EINTR) {
			status = finish_connect(fd, deadline_ns, cancel_fd);
			break;
		}
		if (status != -EAGAIN || address->sa_family != AF_UNIX)
			break;
		/* No event tells when the backlog has room again. */
		int64_t pause_ns = lk__after_ms(lk__now_ns(), BACKLOG_PAUSE_MS);
		if (pause_ns < deadline_ns)
			status = lk__socket_wait(-1, 0, pause_ns, cancel_fd);
		if (status != -ETIMEDOUT)
			break;
		status = 0;
	}
	if (status == 0)
		return fd;
	lk__fd_close(fd);
	return status;
}

static int connect_path(struct opening *opening)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = strlen(opening->config->host);
	if (length >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, opening->config->host, length + 1);
	return connect_address((struct sockaddr *)&address, sizeof(address), opening->deadline_ns,
			       opening->cancel_fd);
}

/* Every address gets its share of what is left, so that a silent one does not use up all. */
static int connect_any(struct opening *opening, const struct addrinfo *addresses)
{
	int left = 0;
	int status = -EADDRNOTAVAIL;
	for (const struct addrinfo *at = addresses; at && left < ADDRESSES_MAX; at = at->ai_next)
		left++;
	for (const struct addrinfo *at = addresses; at && left > 0; at = at->ai_next, left--) {
		int64_t now_ns = lk__now_ns();
		if (now_ns >= opening->deadline_ns)
			return -ETIMEDOUT;
		int64_t share_ns = (opening->deadline_ns - now_ns) / left;
		status = connect_address(at->ai_addr, at->ai_addrlen, now_ns + share_ns,
					 opening->cancel_fd);
		if (status >= 0 || status == -ECANCELED)
			return status;
	}
	return status;
}

static int connect_tcp(struct opening *opening, int *fd_out)
{
	const struct lk_config *config = opening->config;
	struct addrinfo *addresses = NULL;
	int failed = lk__resolve(&addresses, config->host, config->port, opening->deadline_ns,
				 opening->cancel_fd);
	if (failed == EAI_SYSTEM)
		return fail_connect(opening, -errno);
	if (failed)
		return lk__fail(opening->error, LK_EUNREACHABLE, "connect to %s: resolve: %s",
				opening->node, gai_strerror(failed));
	int fd = connect_any(opening, addresses);
	lk__look_up_free(addresses);
	if (fd < 0)
		return fail_connect(opening, fd);
	lk__socket_tune(fd, config->keepalive_s);
	*fd_out = fd;
	return 0;
}

static int connect_unix(struct opening *opening, int *fd_out)
{
	int fd = connect_path(opening);
	if (fd < 0)
		return fail_connect(opening, fd);
	*fd_out = fd;
	return 0;
}

static int wrap(struct opening *opening, int fd, struct lk__stream **stream_out)
{
	if (opening->config->scheme == LK__SCHEME_TLS)
		return lk__tls_open(stream_out, fd, opening->config, opening->node,
				    opening->deadline_ns, opening->cancel_fd, opening->error);
	struct lk__stream *stream = lk__plain_new(fd);
	if (!stream)
		return lk__fail(opening->error, LK_ENOMEM, "connect to %s: out of memory",
				opening->node);
	*stream_out = stream;
	return 0;
}

int lk__stream_open(struct lk__stream **stream_out, const struct lk_config *config,
		    int64_t deadline_ns, int cancel_fd, lk_error *error)
{
	struct opening opening = {config, deadline_ns, cancel_fd, error, ""};
	int fd = -1;
	name_node(&opening);
	int status = config->scheme == LK__SCHEME_UNIX ? connect_unix(&opening, &fd)
						       : connect_tcp(&opening, &fd);
	if (status != 0)
		return status;
	status = wrap(&opening, fd, stream_out);
	if (status != 0)
		lk__fd_close(fd);
	return status;
}
