/* SPDX-License-Identifier: MIT */
#include "net/tls_context.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/fail.h"
#include "conf/config.h"
#include "net/openssl.h"

#define DNS_NAME_MAX 253

/* A key that is locked by a password cannot be used: nobody is there to be asked. */
static int refuse_password(char *password, int size, int writing, void *context)
{
	bool *asked = context;
	(void)password, (void)size, (void)writing;
	*asked = true;
	return 0;
}

/* OpenSSL's reason, or the system's where a file cannot be opened. */
static int fail_file(const char *node, const char *option, const char *path, lk_error *error)
{
	unsigned long first = lk__openssl.ERR_peek_error();
	const char *reason = lk__openssl.ERR_reason_error_string(first);
	int failed = ERR_SYSTEM_ERROR(first) ? ERR_GET_REASON(first) : 0;
	int code = failed == EMFILE || failed == ENFILE ? LK_ESYSTEM : LK_ETLS;
	lk__openssl.ERR_clear_error();
	if (failed)
		return lk__fail_errno(error, code, failed, "connect to %s: %s \"%.128s\"", node,
				      option, path);
	return lk__fail(error, LK_ETLS, "connect to %s: %s \"%.128s\": %s", node, option, path,
			reason ? reason : "cannot be used");
}

static int load_trusted(SSL_CTX *context, const struct lk_config *config, const char *node,
			lk_error *error)
{
	const char *path = config->tls_ca_file;
	if (*path && lk__openssl.SSL_CTX_load_verify_file(context, path) != 1)
		return fail_file(node, "tls_ca_file", path, error);
	if (!*path && lk__openssl.SSL_CTX_set_default_verify_paths(context) != 1)
		return fail_file(node, "trusted certificates",
				 lk__openssl.X509_get_default_cert_dir(), error);
	return 0;
}

static int load_own(SSL_CTX *context, const struct lk_config *config, const char *node,
		    lk_error *error)
{
	bool asked = false;
	const char *cert = config->tls_cert_file;
	const char *key = config->tls_key_file;
	if (!*cert)
		return 0;
	lk__openssl.SSL_CTX_set_default_passwd_cb(context, refuse_password);
	lk__openssl.SSL_CTX_set_default_passwd_cb_userdata(context, &asked);
	if (lk__openssl.SSL_CTX_use_certificate_chain_file(context, cert) != 1)
		return fail_file(node, "tls_cert_file", cert, error);
	int used = lk__openssl.SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM);
	lk__openssl.SSL_CTX_set_default_passwd_cb_userdata(context, NULL);
	if (used != 1 && asked) {
		lk__openssl.ERR_clear_error();
		return lk__fail(error, LK_ETLS,
				"connect to %s: tls_key_file \"%.128s\": locked by a password",
				node, key);
	}
	if (used != 1)
		return fail_file(node, "tls_key_file", key, error);
	return 0;
}

int lk__tls_context_new(SSL_CTX **context_out, const struct lk_config *config, const char *node,
			lk_error *error)
{
	/* A program may end while a thread of ours is connecting: what it uses must stay. */
	lk__openssl.OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL);
	lk__openssl.ERR_clear_error();
	SSL_CTX *context = lk__openssl.SSL_CTX_new(lk__openssl.TLS_client_method());
	if (!context || lk__openssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION,
						 TLS1_2_VERSION, NULL) != 1) {
		lk__openssl.SSL_CTX_free(context);
		lk__openssl.ERR_clear_error();
		return lk__fail(error, LK_ENOMEM, "connect to %s: no memory for TLS", node);
	}
	lk__openssl.SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	lk__openssl.SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
	/* What was not taken may stand elsewhere in memory when it is offered again. */
	lk__openssl.SSL_CTX_ctrl(
		context, SSL_CTRL_MODE,
		SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, NULL);
	lk__openssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_READ_AHEAD, 1, NULL);
	int status = load_trusted(context, config, node, error);
	if (status == 0)
		status = load_own(context, config, node, error);
	if (status != 0) {
		lk__openssl.SSL_CTX_free(context);
		return status;
	}
	*context_out = context;
	return 0;
}

static bool is_address(const char *name)
{
	struct in6_addr address;
	return inet_pton(AF_INET, name, &address) == 1 || inet_pton(AF_INET6, name, &address) == 1;
}

int lk__tls_expect_name(SSL *ssl, const char *name)
{
	char host[DNS_NAME_MAX + 1] = "";
	X509_VERIFY_PARAM *rules = lk__openssl.SSL_get0_param(ssl);
	if (is_address(name))
		return lk__openssl.X509_VERIFY_PARAM_set1_ip_asc(rules, name) == 1 ? 0 : LK_ENOMEM;
	/* The dot at the end of a complete DNS name is no part of it in certificates and SNI. */
	size_t length = strnlen(name, DNS_NAME_MAX);
	memcpy(host, name, length);
	if (length > 1 && host[length - 1] == '.')
		host[length - 1] = '\0';
	lk__openssl.X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	if (lk__openssl.X509_VERIFY_PARAM_set1_host(rules, host, 0) != 1 ||
	    lk__openssl.SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
				 host) != 1)
		return LK_ENOMEM;
	return 0;
}
