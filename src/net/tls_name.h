/* SPDX-License-Identifier: MIT */
/*
 * The names that a server's certificate may have. For src/net alone; OpenSSL is loaded.
 *
 *     tls_server_name   that one, if it is set; else
 *     the host          the name or address by which the node is known; or
 *     a seed's name     of a cluster's URL, where the node is known by an address
 */
#ifndef LK__NET_TLS_NAME_H
#define LK__NET_TLS_NAME_H

#include <stdbool.h>

#include "net/openssl.h"

struct lk_config;

/* The name or address that the certificate must have, where no seed lends its name. */
const char *lk__tls_name(const struct lk_config *config);

/* Whether a seed's host name is as good. */
bool lk__tls_name_is_lent(const struct lk_config *config);

/* Whether the certificate has the host name of a seed, which is_lent() allows. */
bool lk__tls_name_of_seed(const struct lk_config *config, X509 *certificate);

/*
 * Sets the name that the peer's certificate must have, and the one to ask for (SNI). A seed's name
 * is left to the callback that verifies. 0 or LK_ENOMEM.
 */
int lk__tls_expect_name(SSL *ssl, const struct lk_config *config);

#endif
