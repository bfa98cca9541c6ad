/* SPDX-License-Identifier: MIT */
/*
 * Names to addresses, without waiting.
 *
 * getaddrinfo() can be neither limited nor interrupted, so a name is looked up in a thread of its
 * own, which outlives a caller that gives up by at most the resolver's own limit.
 */
#ifndef LK__NET_RESOLVE_H
#define LK__NET_RESOLVE_H

#include <netdb.h>

struct lk__lookup;

/* The address that `host` is, to be freed with lk__look_up_free(). 0; EAI_NONAME: it is a name;
 * another EAI_… code; or EAI_SYSTEM with errno. */
int lk__resolve_address(struct addrinfo **addresses_out, const char *host, int port);

/* Begins to look a name up. 0 or an errno. */
int lk__lookup_begin(struct lk__lookup **lookup_out, const char *host, int port);

/* Readable when it is done. */
int lk__lookup_fd(const struct lk__lookup *lookup);
int lk__lookup_done(struct lk__lookup *lookup);

/* Takes the addresses of a lookup that is done, as lk__resolve_address() does. */
int lk__lookup_take(struct lk__lookup *lookup, struct addrinfo **addresses_out);

/* The caller lets go of it, done or not. NULL is fine. */
void lk__lookup_leave(struct lk__lookup *lookup);

#endif
