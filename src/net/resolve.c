#include "net/resolve.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/socket.h"

/* Shared by the caller and the thread; freed by the one who lets go of it last. */
struct lookup {
	_Atomic int users;
	_Atomic int done; /* what stands below is written */
	int done_fd;      /* the same, to be polled */
	int failed;       /* EAI_… */
	int system_errno;
	struct addrinfo *addresses;
	char port[8];
	char host[];
};

static int look_up(const char *host, const char *port, int flags, struct addrinfo **addresses)
{
	const struct addrinfo hints = {
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICSERV | flags,
	};
	return getaddrinfo(host, port, &hints, addresses);
}

static void lookup_leave(struct lookup *lookup)
{
	if (atomic_fetch_sub(&lookup->users, 1) > 1)
		return;
	if (lookup->addresses)
		freeaddrinfo(lookup->addresses);
	close(lookup->done_fd);
	free(lookup);
}

static void *lookup_run(void *argument)
{
	struct lookup *lookup = argument;
	lookup->failed = look_up(lookup->host, lookup->port, 0, &lookup->addresses);
	lookup->system_errno = errno;
	atomic_store(&lookup->done, 1);
	ssize_t wrote = write(lookup->done_fd, &(uint64_t){1}, sizeof(uint64_t));
	(void)wrote; /* the counter was 0 */
	lookup_leave(lookup);
	return NULL;
}

static struct lookup *lookup_new(const char *host, const char *port)
{
	struct lookup *lookup = calloc(1, sizeof(*lookup) + strlen(host) + 1);
	if (!lookup)
		return NULL;
	lookup->users = 2;
	lookup->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (lookup->done_fd < 0) {
		int saved = errno;
		free(lookup);
		errno = saved;
		return NULL;
	}
	memcpy(lookup->host, host, strlen(host));
	memcpy(lookup->port, port, strlen(port));
	return lookup;
}

/* A detached thread in which no signal is handled. 0 or an errno. */
static int start_thread(struct lookup *lookup)
{
	sigset_t every;
	sigset_t before;
	pthread_t thread;
	sigfillset(&every);
	pthread_sigmask(SIG_SETMASK, &every, &before);
	int failed = pthread_create(&thread, NULL, lookup_run, lookup);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (failed)
		return failed;
	pthread_detach(thread);
	return 0;
}

static int look_up_within(struct addrinfo **addresses_out, const char *host, const char *port,
			  int64_t deadline_ns, int cancel_fd)
{
	struct lookup *lookup = lookup_new(host, port);
	if (!lookup)
		return EAI_SYSTEM;
	int failed = start_thread(lookup);
	if (failed) {
		lookup_leave(lookup); /* for the thread that is not there */
		lookup_leave(lookup);
		errno = failed;
		return EAI_SYSTEM;
	}
	int status = lk__socket_wait(lookup->done_fd, POLLIN, deadline_ns, cancel_fd);
	int saved = -status;
	failed = EAI_SYSTEM;
	if (status == 0 && atomic_load(&lookup->done)) {
		failed = lookup->failed;
		saved = lookup->system_errno;
		*addresses_out = lookup->addresses;
		lookup->addresses = NULL;
	}
	lookup_leave(lookup);
	errno = saved;
	return failed;
}

int lk__resolve(struct addrinfo **addresses_out, const char *host, int port, int64_t deadline_ns,
		int cancel_fd)
{
	char digits[8];
	snprintf(digits, sizeof(digits), "%d", port & 0xffff);
	int failed = look_up(host, digits, AI_NUMERICHOST, addresses_out);
	if (failed != EAI_NONAME)
		return failed;
	return look_up_within(addresses_out, host, digits, deadline_ns, cancel_fd);
}
