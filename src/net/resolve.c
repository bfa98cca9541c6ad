/* SPDX-License-Identifier: MIT */
#include "net/resolve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/door.h"
#include "net/errand.h"

#define PORT_SIZE 8

struct lk__lookup {
	struct lk__errand errand; /* first */
	int failed;               /* EAI_… */
	int system_errno;
	struct addrinfo *addresses;
	char port[PORT_SIZE];
	char host[];
};

static void lookup_free(struct lk__errand *errand)
{
	struct lk__lookup *lookup = (struct lk__lookup *)errand;
	if (lookup->addresses)
		lk__look_up_free(lookup->addresses);
	free(lookup);
}

void lk__lookup_leave(struct lk__lookup *lookup)
{
	lk__errand_leave((struct lk__errand *)lookup);
}

static void lookup_run(struct lk__errand *errand)
{
	struct lk__lookup *lookup = (struct lk__lookup *)errand;
	lookup->failed = lk__look_up(&lookup->addresses, lookup->host, lookup->port, 0);
	lookup->system_errno = errno;
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
	lookup->errand.run = lookup_run;
	lookup->errand.free = lookup_free;
	memcpy(lookup->host, host, strlen(host));
	print_port(lookup->port, port);
	int failed = lk__errand_begin(&lookup->errand, true);
	if (failed == 0)
		*lookup_out = lookup;
	return failed;
}

int lk__lookup_fd(const struct lk__lookup *lookup)
{
	return lookup->errand.fd;
}

int lk__lookup_done(struct lk__lookup *lookup)
{
	return lk__errand_is_done(&lookup->errand);
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
