/* SPDX-License-Identifier: MIT */
/* The door to the real system: Linux. */
#include "base/door.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <lockkeeper/error.h>

#include "base/clock.h"
#include "base/descriptors.h"

#define NS_PER_S INT64_C(1000000000)
#define TAKE_MAX 16 /* of a set at once */
#define PROBES 3    /* unanswered probes after which a connection is dead */
#define PROBE_IDLE_MOST_S 32767

/* Called some 20 times for one lock. A stack guard would double it, and guard two numbers. */
__attribute__((no_stack_protector)) int64_t lk__now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

int64_t lk__wall_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static struct timespec timespec_of(int64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S),
				 .tv_nsec = (long)(ns % NS_PER_S)};
}

int lk__random_bytes(void *bytes, size_t size)
{
	size_t filled = 0;
	while (filled < size) {
		ssize_t got = getrandom((char *)bytes + filled, size - filled, 0);
		if (got > 0)
			filled += (size_t)got;
		else if (got == 0 || errno != EINTR)
			return LK_ESYSTEM;
	}
	return 0;
}

/* ---- threads ---- */

unsigned lk__core_count(void)
{
	cpu_set_t cores;
	return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? (unsigned)CPU_COUNT(&cores) : 1;
}

int lk__thread_start(pthread_t *thread_out, void *(*main)(void *), void *argument)
{
	sigset_t all, saved;
	pthread_attr_t attributes;
	pthread_t detached;
	pthread_attr_init(&attributes);
	if (!thread_out)
		pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	int rc = pthread_create(thread_out ? thread_out : &detached, &attributes, main, argument);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	pthread_attr_destroy(&attributes);
	return rc;
}

void lk__thread_join(pthread_t thread)
{
	pthread_join(thread, NULL);
}

int lk__thread_key_new(pthread_key_t *key_out, void (*end)(void *value))
{
	return pthread_key_create(key_out, end);
}

void lk__thread_key_free(pthread_key_t key)
{
	pthread_key_delete(key);
}

void *lk__thread_get(pthread_key_t key)
{
	return pthread_getspecific(key);
}

int lk__thread_set(pthread_key_t key, void *value)
{
	return pthread_setspecific(key, value);
}

/* ---- park and wake ---- */

enum { EMPTY, TOKEN, ASLEEP };

static int park_sleep(struct lk__park *park, int64_t deadline_ns)
{
	struct timespec left, *limit = NULL;
	if (deadline_ns != LK__NEVER) {
		int64_t left_ns = deadline_ns - lk__now_ns();
		if (left_ns <= 0)
			return 0;
		left = timespec_of(left_ns);
		limit = &left;
	}
	long rc = syscall(SYS_futex, &park->state, FUTEX_WAIT_PRIVATE, ASLEEP, limit, NULL, 0);
	return rc < 0 && errno == EINTR ? LK__INTERRUPTED : 0;
}

int lk__park_wait(struct lk__park *park, int64_t deadline_ns)
{
	int rc = 0;
	uint32_t state = EMPTY;
	if (atomic_compare_exchange_strong(&park->state, &state, ASLEEP))
		rc = park_sleep(park, deadline_ns);
	atomic_store(&park->state, EMPTY);
	return rc;
}

void lk__park_wake(struct lk__park *park)
{
	if (atomic_exchange(&park->state, TOKEN) == ASLEEP) {
		int saved = errno;
		syscall(SYS_futex, &park->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
		errno = saved;
	}
}

/* ---- waiting for descriptors ---- */

int lk__poll(struct pollfd *fds, size_t count, int timeout_ms)
{
	return poll(fds, count, timeout_ms);
}

void lk__fd_close(int fd)
{
	lk__fd_forget(fd);
	close(fd);
}

int lk__wake_fd_new(void)
{
	return lk__fd_note(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

void lk__wake_fd(int fd)
{
	ssize_t wrote = write(fd, &(uint64_t){1}, sizeof(uint64_t));
	(void)wrote; /* a full counter wakes as well */
}

void lk__wake_fd_clear(int fd)
{
	uint64_t count;
	ssize_t got = read(fd, &count, sizeof(count));
	(void)got; /* nothing to read is fine */
}

int lk__timer_new(void)
{
	return lk__fd_note(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
}

void lk__timer_arm(int timer_fd, int64_t at_ns)
{
	struct itimerspec when = {0};
	if (at_ns != LK__NEVER)
		when.it_value = timespec_of(at_ns > 0 ? at_ns : 1); /* 0 would disarm it */
	timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

int lk__set_new(void)
{
	return lk__fd_note(epoll_create1(EPOLL_CLOEXEC));
}

int lk__set_add(int set_fd, int fd, enum lk__set_event event, void *data)
{
	struct epoll_event added = {
		.events = event == LK__SET_ENDED ? EPOLLRDHUP | EPOLLONESHOT : EPOLLIN,
		.data.ptr = data,
	};
	return epoll_ctl(set_fd, EPOLL_CTL_ADD, fd, &added);
}

int lk__set_rearm(int set_fd, int fd, int writes, void *data)
{
	struct epoll_event next = {
		.events = EPOLLIN | EPOLLRDHUP | EPOLLONESHOT | (writes ? EPOLLOUT : 0),
		.data.ptr = data,
	};
	return epoll_ctl(set_fd, EPOLL_CTL_MOD, fd, &next);
}

int lk__set_take(int set_fd, void **data_out, int most)
{
	struct epoll_event events[TAKE_MAX];
	int count = epoll_wait(set_fd, events, most < TAKE_MAX ? most : TAKE_MAX, 0);
	for (int i = 0; i < count; i++)
		data_out[i] = events[i].data.ptr;
	return count;
}

/* ---- sockets ---- */

int lk__socket_new(int family)
{
	return lk__fd_note(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

int lk__socket_connect(int fd, const struct sockaddr *address, socklen_t size)
{
	return connect(fd, address, size);
}

int lk__socket_failure(int fd)
{
	int failure = 0;
	socklen_t size = sizeof(failure);
	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) == 0 ? failure : errno;
}

int lk__socket_peer(int fd, char *host_out, size_t size)
{
	struct sockaddr_storage address = {0};
	socklen_t length = sizeof(address);
	if (getpeername(fd, (struct sockaddr *)&address, &length) < 0 ||
	    address.ss_family == AF_UNIX)
		return -1;
	int rc = getnameinfo((struct sockaddr *)&address, length, host_out, (socklen_t)size, NULL,
			     0, NI_NUMERICHOST);
	return rc == 0 ? 0 : -1;
}

ssize_t lk__socket_read(int fd, void *bytes, size_t size)
{
	return recv(fd, bytes, size, MSG_DONTWAIT);
}

ssize_t lk__socket_write(int fd, const void *bytes, size_t size)
{
	return send(fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void lk__socket_shutdown(int fd)
{
	shutdown(fd, SHUT_RDWR);
}

void lk__socket_discard(int fd)
{
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1},
		   sizeof(struct linger));
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

int lk__look_up(struct addrinfo **addresses_out, const char *host, const char *port, int flags)
{
	const struct addrinfo hints = {
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICSERV | flags,
	};
	return getaddrinfo(host, port, &hints, addresses_out);
}

void lk__look_up_free(struct addrinfo *addresses)
{
	freeaddrinfo(addresses);
}
