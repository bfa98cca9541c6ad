/* SPDX-License-Identifier: MIT */
/*
 * Names to addresses, within a limit.
 *
 * getaddrinfo() can be neither limited nor interrupted, so a name (an address not) is looked up in
 * a thread of its own, which outlives a call that gives up by at most the resolver's own limit.
 */
#ifndef LK__NET_RESOLVE_H
#define LK__NET_RESOLVE_H

#include <netdb.h>
#include <stdint.h>

/*
 * Addresses of `host`, to be freed with lk__look_up_free(). 0; an EAI_… code; or EAI_SYSTEM with
 * errno: ETIMEDOUT at `deadline_ns` (CLOCK_BOOTTIME), ECANCELED when `cancel_fd` is readable.
 */
int lk__resolve(struct addrinfo **addresses_out, const char *host, int port, int64_t deadline_ns,
		int cancel_fd);

#endif
