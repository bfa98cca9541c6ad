#include "net/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/clock.h"

#define POLL_MOST_MS 60000 /* a long wait is taken in pieces */
#define PROBES 3           /* unanswered probes after which a connection is dead */
#define PROBE_IDLE_MOST_S 32767

int lk__socket_wait(int fd, short events, int64_t deadline_ns, int cancel_fd)
{
	for (;;) {
		struct pollfd polled[2] = {{.fd = fd, .events = events},
					   {.fd = cancel_fd, .events = POLLIN}};
		int64_t now_ns = lk__now_ns();
		int ready = poll(polled, 2, lk__ms_until(now_ns, deadline_ns, POLL_MOST_MS));
		if (ready < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		if (ready > 0)
			return polled[1].revents ? -ECANCELED : 0;
		if (now_ns >= deadline_ns)
			return -ETIMEDOUT;
	}
}

static void set_tcp(int fd, int name, int value)
{
	setsockopt(fd, IPPROTO_TCP, name, &value, sizeof(value));
}

void lk__socket_tune(int fd, int64_t keepalive_s)
{
	set_tcp(fd, TCP_NODELAY, 1);
	if (keepalive_s <= 0)
		return;
	int idle_s = (int)(keepalive_s < PROBE_IDLE_MOST_S ? keepalive_s : PROBE_IDLE_MOST_S);
	int interval_s = idle_s > PROBES ? idle_s / PROBES : 1;
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){1}, sizeof(int));
	set_tcp(fd, TCP_KEEPIDLE, idle_s);
	set_tcp(fd, TCP_KEEPINTVL, interval_s);
	set_tcp(fd, TCP_KEEPCNT, PROBES);
	/* The same limit for bytes that were sent and are never acknowledged. */
	set_tcp(fd, TCP_USER_TIMEOUT, (idle_s + interval_s * PROBES) * 1000);
}
