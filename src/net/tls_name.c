/* SPDX-License-Identifier: MIT */
#include "net/tls_name.h"

#include <lockkeeper/error.h>
#include <string.h>

#include "conf/config.h"
#include "conf/url.h"

const char *lk__tls_name(const struct lk_config *config)
{
	return *config->tls_server_name ? config->tls_server_name : config->host;
}

/* The next seed that has a host name, as it is in certificates. NULL: there is none left. */
static const char *seed_next(const char *seeds, char *name_out)
{
	int port;
	do
		seeds = lk__place_next(seeds, name_out, &port);
	while (seeds && lk__host_is_address(name_out));
	return seeds;
}

bool lk__tls_name_is_lent(const struct lk_config *config)
{
	char name[LK__PLACE_SIZE];
	return !*config->tls_server_name && lk__host_is_address(config->host) &&
	       seed_next(config->seeds, name);
}

/* Certificates and SNI leave out the dot that ends a complete DNS name. */
static void drop_dot(char *name)
{
	size_t length = strlen(name);
	if (length > 1 && name[length - 1] == '.')
		name[length - 1] = '\0';
}

bool lk__tls_name_of_seed(const struct lk_config *config, X509 *certificate)
{
	char name[LK__PLACE_SIZE];
	for (const char *at = config->seeds; (at = seed_next(at, name));) {
		drop_dot(name);
		if (lk__openssl.X509_check_host(certificate, name, 0,
						X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, NULL) == 1)
			return true;
	}
	return false;
}

static int ask_for(SSL *ssl, const char *name)
{
	long asked = lk__openssl.SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME,
					  TLSEXT_NAMETYPE_host_name, (void *)name);
	return asked == 1 ? 0 : LK_ENOMEM;
}

static int expect_address(SSL *ssl, const struct lk_config *config, const char *address)
{
	char seed[LK__PLACE_SIZE];
	X509_VERIFY_PARAM *rules = lk__openssl.SSL_get0_param(ssl);
	if (lk__openssl.X509_VERIFY_PARAM_set1_ip_asc(rules, address) != 1)
		return LK_ENOMEM;
	if (!lk__tls_name_is_lent(config))
		return 0;
	seed_next(config->seeds, seed);
	drop_dot(seed);
	return ask_for(ssl, seed);
}

int lk__tls_expect_name(SSL *ssl, const struct lk_config *config)
{
	char host[LK__PLACE_SIZE];
	const char *name = lk__tls_name(config);
	X509_VERIFY_PARAM *rules = lk__openssl.SSL_get0_param(ssl);
	if (lk__host_is_address(name))
		return expect_address(ssl, config, name);
	size_t length = strnlen(name, sizeof(host) - 1);
	memcpy(host, name, length);
	host[length] = '\0';
	drop_dot(host);
	lk__openssl.X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	if (lk__openssl.X509_VERIFY_PARAM_set1_host(rules, host, 0) != 1)
		return LK_ENOMEM;
	return ask_for(ssl, host);
}
