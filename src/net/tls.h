/* SPDX-License-Identifier: MIT */
/* TLS over a connected socket. Only tls*.c and openssl.* know OpenSSL. */
#ifndef LK__NET_TLS_H
#define LK__NET_TLS_H

#include "net/stream.h"

/*
 * Shakes hands over the connected `fd`, which is the stream's if this succeeds, and verifies the
 * peer: TLS 1.2 at least, a certificate that leads to a trusted one, and the host's name or
 * address in it. Certificates are read from their files each time, so renewed ones are seen.
 * `node` is for messages. Errors: LK_ETLS (also when OpenSSL is missing), LK_EUNREACHABLE,
 * LK_ECANCELLED, LK_ESYSTEM, LK_ENOMEM.
 */
int lk__tls_open(struct lk__stream **stream_out, int fd, const struct lk_config *config,
		 const char *node, int64_t deadline_ns, int cancel_fd, lk_error *error);

#endif
