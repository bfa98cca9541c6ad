/* SPDX-License-Identifier: MIT */
#include "net/resolve.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/door.h"
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

static void lookup_leave(struct lookup *lookup)
{
	if (atomic_fetch_sub(&lookup->users, 1) > 1)
		return;
	if (lookup->addresses)
		lk__look_up_free(lookup->addresses);
	lk__fd_close(lookup->done_fd);
	free(lookup);
}

static void *lookup_run(void *argument)
{
	struct lookup *lookup = argument;
	lookup->failed = lk__look_up(&lookup->addresses, lookup->host, lookup->port, 0);
	lookup->system_errno = errno;
	atomic_store(&lookup->done, 1);
	lk__wake_fd(lookup->done_fd);
	lookup_leave(lookup);
	return NULL;
}

static struct lookup *lookup_new(const char *host, const char *port)
{
	struct lookup *lookup = calloc(1, sizeof(*lookup) + strlen(host) + 1);
	if (!lookup)
		return NULL;
	lookup->users = 2;
	lookup->done_fd = lk__wake_fd_new();
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

static int look_up_within(struct addrinfo **addresses_out, const char *host, const char *port,
			  int64_t deadline_ns, int cancel_fd)
{
	struct lookup *lookup = lookup_new(host, port);
	if (!lookup)
		return EAI_SYSTEM;
	int failed = lk__thread_start(NULL, lookup_run, lookup);
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
	int failed = lk__look_up(addresses_out, host, digits, AI_NUMERICHOST);
	if (failed != EAI_NONAME)
		return failed;
	return look_up_within(addresses_out, host, digits, deadline_ns, cancel_fd);
}
