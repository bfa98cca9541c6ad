/* SPDX-License-Identifier: MIT */
/* The streams without TLS: TCP and unix sockets. For src/net alone. */
#ifndef LK__NET_PLAIN_H
#define LK__NET_PLAIN_H

#include "net/stream.h"

/* Makes a stream of a connected descriptor, which is the stream's from then on. NULL: no memory. */
struct lk__stream *lk__plain_new(int fd);

#endif
