/* SPDX-License-Identifier: MIT */
/* The certificates and protocol rules of one TLS connection. For src/net alone. */
#ifndef LK__NET_TLS_CONTEXT_H
#define LK__NET_TLS_CONTEXT_H

#include <lockkeeper/error.h>

#include "net/openssl.h"

struct lk_config;

/*
 * Reads the files that `config` names; OpenSSL is loaded. Errors, which begin with `node`: LK_ETLS,
 * LK_ENOMEM, LK_ESYSTEM.
 */
int lk__tls_context_new(SSL_CTX **context_out, const struct lk_config *config, const char *node,
			lk_error *error);

#endif
