/* SPDX-License-Identifier: MIT */
/* TLS over a connected socket. Only tls*.c and openssl.* know OpenSSL. */
#ifndef LK__NET_TLS_H
#define LK__NET_TLS_H

#include "net/stream.h"

/*
 * Begins TLS over the connected `fd`, which is the stream's if this succeeds. Certificates are read
 * from their files each time, so renewed ones are seen. `node` is for messages. Errors: LK_ETLS
 * (also when OpenSSL is missing), LK_ESYSTEM, LK_ENOMEM.
 */
int lk__tls_begin(struct lk__stream **stream_out, int fd, const struct lk_config *config,
		  const char *node, lk_error *error);

/*
 * Shakes hands as far as that goes without waiting, and verifies the peer: TLS 1.2 at least, a
 * certificate that leads to a trusted one, and the host's name or address in it. 1: done; 0: it
 * waits for what the stream `wants`; or LK_ETLS, LK_EUNREACHABLE, also at `deadline_ns`.
 */
int lk__tls_shake(struct lk__stream *stream, const struct lk_config *config, const char *node,
		  int64_t deadline_ns, lk_error *error);

#endif
