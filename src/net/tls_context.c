/* SPDX-License-Identifier: MIT */
#include "net/tls_context.h"

#include <errno.h>
#include <stdbool.h>

#include "base/fail.h"
#include "conf/config.h"
#include "net/openssl.h"

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
