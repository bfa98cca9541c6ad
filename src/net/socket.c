/* SPDX-License-Identifier: MIT */
#include "net/socket.h"

#include <errno.h>
#include <poll.h>

#include "base/clock.h"

#define POLL_MOST_MS 60000 /* a long wait is taken in pieces */

int lk__socket_wait(const struct lk__readiness *readiness, int cancel_fd)
{
	for (;;) {
		struct pollfd polled[2] = {{.fd = readiness->fd, .events = readiness->events},
					   {.fd = cancel_fd, .events = POLLIN}};
		int64_t now_ns = lk__now_ns();
		int ready = lk__poll(polled, 2,
				     lk__ms_until(now_ns, readiness->until_ns, POLL_MOST_MS));
		if (ready < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		if (ready > 0)
			return polled[1].revents ? -ECANCELED : 0;
		if (now_ns >= readiness->until_ns)
			return -ETIMEDOUT;
	}
}
