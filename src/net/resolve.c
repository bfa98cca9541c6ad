/* SPDX-License-Identifier: MIT */
#include "net/resolve.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/door.h"

#define PORT_SIZE 8

/* Shared by the caller and the thread; freed by the one who lets go of it last. */
struct lk__lookup {
	_Atomic int users;
	_Atomic int done; /* what stands below is written */
	int done_fd;      /* the same, to be polled */
	int failed;       /* EAI_… */
	int system_errno;
	struct addrinfo *addresses;
	char port[PORT_SIZE];
	char host[];
};

void lk__lookup_leave(struct lk__lookup *lookup)
{
	if (!lookup || atomic_fetch_sub(&lookup->users, 1) > 1)
		return;
	if (lookup->addresses)
		lk__look_up_free(lookup->addresses);
	if (lookup->done_fd >= 0)
		lk__fd_close(lookup->done_fd);
	free(lookup);
}

static void *lookup_run(void *argument)
{
	struct lk__lookup *lookup = argument;
	lookup->failed = lk__look_up(&lookup->addresses, lookup->host, lookup->port, 0);
	lookup->system_errno = errno;
	atomic_store(&lookup->done, 1);
	lk__wake_fd(lookup->done_fd);
	lk__lookup_leave(lookup);
	return NULL;
}

static void print_port(char port_out[PORT_SIZE], int port)
{
	snprintf(port_out, PORT_SIZE, "%d", port & 0xffff);
}

int lk__lookup_begin(struct lk__lookup **lookup_out, const char *host, int port)
{
	struct lk__lookup *lookup = calloc(1, sizeof(*lookup) + strlen(host) + 1);
	if (!lookup)
		return ENOMEM;
	lookup->users = 2;
	memcpy(lookup->host, host, strlen(host));
	print_port(lookup->port, port);
	lookup->done_fd = lk__wake_fd_new();
	int failed = lookup->done_fd < 0 ? errno : lk__thread_start(NULL, lookup_run, lookup);
	if (failed) {
		lk__lookup_leave(lookup); /* for the thread that is not there */
		lk__lookup_leave(lookup);
		return failed;
	}
	*lookup_out = lookup;
	return 0;
}

int lk__lookup_fd(const struct lk__lookup *lookup)
{
	return lookup->done_fd;
}

int lk__lookup_done(struct lk__lookup *lookup)
{
	return atomic_load(&lookup->done);
}

int lk__lookup_take(struct lk__lookup *lookup, struct addrinfo **addresses_out)
{
	*addresses_out = lookup->addresses;
	lookup->addresses = NULL;
	errno = lookup->system_errno;
	return lookup->failed;
}

int lk__resolve_address(struct addrinfo **addresses_out, const char *host, int port)
{
	char digits[PORT_SIZE];
	print_port(digits, port);
	return lk__look_up(addresses_out, host, digits, AI_NUMERICHOST);
}
