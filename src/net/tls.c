/* SPDX-License-Identifier: MIT */
/* TLS over a connected socket. Only this file and openssl.* know OpenSSL. */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conf/url.h"
#include "net/openssl.h"
#include "net/stream.h"

#define REASON_MAX 256
#define FILE_SIZE_MAX (16 << 20) /* of certificates, or a key */
#define ALERT_MAX 255            /* the numbers above are other reasons */
#define APP_DATA 0               /* where SSL_set_app_data() puts it */

struct tls_stream {
	struct lk__stream stream;
	SSL_CTX *context;
	SSL *ssl;
	const struct lk_config *config; /* while it shakes hands */
	BIO_METHOD *socket_method;
	int io_errno;           /* of the last call to the socket that failed, or 0 */
	bool ended;             /* the peer closed the connection */
	bool read_any;          /* at least one byte of data has come */
	bool refused;           /* by the peer or by us: trying again does not help */
	bool certificate_lacks; /* the server asked for a certificate and there is none */
	bool no_memory;         /* OpenSSL lacked some */
	short read_wants;
	short write_wants;       /* 0: the last write was not blocked */
	char reason[REASON_MAX]; /* why TLS broke the stream, or "" */
};

static struct tls_stream *tls_of(struct lk__stream *stream)
{
	return (struct tls_stream *)stream;
}

/*
 * OpenSSL without memory calls a certificate bad, a key too weak, a file unusable: what it could
 * not copy or decode. Its queue of errors often tells that as well, in any place; or the
 * allocator's errno has stayed, which is set to 0 before each call here. Empties the queue, and
 * returns the first, which is the cause.
 */
static unsigned long take_errors(bool *no_memory)
{
	unsigned long first = lk__openssl.ERR_get_error();
	*no_memory |= errno == ENOMEM;
	for (unsigned long next = first; next; next = lk__openssl.ERR_get_error())
		*no_memory |= ERR_GET_REASON(next) == ERR_R_MALLOC_FAILURE;
	return first;
}

static void begin_call(void)
{
	errno = 0;
	lk__openssl.ERR_clear_error();
}

static int fail_memory(const char *node, lk_error *error)
{
	lk__openssl.ERR_clear_error();
	return lk__fail(error, LK_ENOMEM, "connect to %s: no memory for TLS", node);
}

/* OpenSSL's own socket BIO would raise SIGPIPE; this one does not. */
static int socket_read(BIO *bio, char *bytes, int size)
{
	struct tls_stream *tls = lk__openssl.BIO_get_data(bio);
	tls->no_memory |= errno == ENOMEM; /* the socket sets its own */
	lk__openssl.BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
	ssize_t got = lk__socket_read(tls->stream.fd, bytes, (size_t)size);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		lk__openssl.BIO_set_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY);
	else if (got < 0)
		tls->io_errno = errno;
	else if (got == 0)
		tls->ended = true;
	return (int)got;
}

static int socket_write(BIO *bio, const char *bytes, int size)
{
	struct tls_stream *tls = lk__openssl.BIO_get_data(bio);
	tls->no_memory |= errno == ENOMEM; /* the socket sets its own */
	lk__openssl.BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
	ssize_t sent = lk__socket_write(tls->stream.fd, bytes, (size_t)size);
	if (sent < 0 && (errno == EAGAIN || errno == EINTR))
		lk__openssl.BIO_set_flags(bio, BIO_FLAGS_WRITE | BIO_FLAGS_SHOULD_RETRY);
	else if (sent < 0)
		tls->io_errno = errno;
	return (int)sent;
}

static long socket_control(BIO *bio, int command, long number, void *pointer)
{
	(void)bio, (void)number, (void)pointer;
	return command == BIO_CTRL_FLUSH; /* nothing is kept back */
}

static int attach_socket(struct tls_stream *tls)
{
	tls->socket_method = lk__openssl.BIO_meth_new(BIO_TYPE_SOCKET, "lockkeeper socket");
	if (!tls->socket_method ||
	    lk__openssl.BIO_meth_set_read(tls->socket_method, socket_read) != 1 ||
	    lk__openssl.BIO_meth_set_write(tls->socket_method, socket_write) != 1 ||
	    lk__openssl.BIO_meth_set_ctrl(tls->socket_method, socket_control) != 1)
		return LK_ENOMEM;
	BIO *bio = lk__openssl.BIO_new(tls->socket_method);
	if (!bio)
		return LK_ENOMEM;
	lk__openssl.BIO_set_data(bio, tls);
	lk__openssl.BIO_set_init(bio, 1);
	lk__openssl.SSL_set_bio(tls->ssl, bio, bio);
	return 0;
}

/* Alerts by which a peer says that it will not have us: certificates, versions, ciphers, rights. */
static bool alert_is_refusal(int alert)
{
	return (alert >= SSL_AD_HANDSHAKE_FAILURE && alert <= SSL_AD_CERTIFICATE_UNKNOWN) ||
	       alert == SSL_AD_UNKNOWN_CA || alert == SSL_AD_ACCESS_DENIED ||
	       alert == SSL_AD_PROTOCOL_VERSION || alert == SSL_AD_INSUFFICIENT_SECURITY ||
	       alert == SSL_AD_UNRECOGNIZED_NAME || alert == SSL_AD_CERTIFICATE_REQUIRED;
}

/* True of what fails inside OpenSSL, often without memory: it is nobody's refusal; nor is a
 * calculation that comes out wrong. */
static bool error_is_inside(unsigned long first)
{
	int reason = ERR_GET_REASON(first);
	return ERR_GET_LIB(first) != ERR_LIB_SSL || (reason & ERR_RFLAG_COMMON) ||
	       reason == SSL_R_BAD_SIGNATURE || reason == SSL_R_DIGEST_CHECK_FAILED ||
	       reason == SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC;
}

/* Keeps OpenSSL's reason in words; a reason that is there stays, for the first is the cause. */
static void keep_reason(struct tls_stream *tls, unsigned long first)
{
	int reason = ERR_GET_REASON(first);
	const char *text = lk__openssl.ERR_reason_error_string(first);
	int number = reason - SSL_AD_REASON_OFFSET;
	bool alert = ERR_GET_LIB(first) == ERR_LIB_SSL && number > 0 && number <= ALERT_MAX;
	if (tls->reason[0])
		return;
	tls->refused = !tls->no_memory && !error_is_inside(first) &&
		       (!alert || alert_is_refusal(number));
	snprintf(tls->reason, sizeof(tls->reason), "%s%s%s%s", alert ? "the server refused: " : "",
		 text ? text : "TLS failed",
		 reason == SSL_R_WRONG_VERSION_NUMBER ? " (the peer does not speak TLS)" : "",
		 tls->certificate_lacks ? " (the server asked for a client certificate, see "
					  "tls_cert_file)"
					: "");
}

/*
 * Reads a call to OpenSSL that moved no bytes: 0 at the end of the stream, or -errno; -EAGAIN with
 * what to poll for in `wants`.
 */
static ssize_t call_failed(struct tls_stream *tls, int result, short *wants)
{
	int got = lk__openssl.SSL_get_error(tls->ssl, result); /* it looks at the queue */
	unsigned long first = take_errors(&tls->no_memory);
	switch (got) {
	case SSL_ERROR_WANT_READ:
		*wants = POLLIN;
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		*wants = POLLOUT;
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		return tls->io_errno ? -tls->io_errno : tls->ended ? 0 : -EIO;
	default:
		/* A connection that ends in the midst of something is cut, whatever that was. */
		if (ERR_GET_REASON(first) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
			return tls->io_errno ? -tls->io_errno : 0;
		keep_reason(tls, first);
		return -EPROTO;
	}
}

static void set_wants(struct tls_stream *tls)
{
	tls->stream.wants = tls->read_wants | tls->write_wants;
}

static ssize_t tls_read(struct lk__stream *stream, void *bytes, size_t size)
{
	struct tls_stream *tls = tls_of(stream);
	size_t got = 0;
	begin_call();
	tls->read_wants = POLLIN;
	int result = lk__openssl.SSL_read_ex(tls->ssl, bytes, size, &got);
	ssize_t status = result == 1 ? (ssize_t)got : call_failed(tls, result, &tls->read_wants);
	stream->buffered = result == 1 && lk__openssl.SSL_has_pending(tls->ssl);
	if (result == 1)
		tls->read_any = true;
	set_wants(tls);
	return status;
}

static ssize_t tls_write(struct lk__stream *stream, const void *bytes, size_t size)
{
	struct tls_stream *tls = tls_of(stream);
	size_t taken = 0;
	begin_call();
	tls->write_wants = 0;
	int result = lk__openssl.SSL_write_ex(tls->ssl, bytes, size, &taken);
	ssize_t status = (ssize_t)taken;
	if (result != 1)
		status = call_failed(tls, result, &tls->write_wants);
	set_wants(tls);
	return result != 1 && status == 0 ? -EPIPE : status;
}

static void tls_close(struct lk__stream *stream)
{
	struct tls_stream *tls = tls_of(stream);
	int fd = stream->fd;
	lk__openssl.SSL_free(tls->ssl);
	lk__openssl.SSL_CTX_free(tls->context);
	lk__openssl.BIO_meth_free(tls->socket_method);
	lk__openssl.ERR_clear_error();
	if (fd >= 0)
		lk__fd_close(fd);
	free(tls);
}

/*
 * In TLS 1.3 a server that refuses our certificate says so only after the handshake, and then
 * resets the connection: a write may fail first, and the alert waits to be read.
 */
static int tls_explain(struct lk__stream *stream, char *text, size_t size)
{
	struct tls_stream *tls = tls_of(stream);
	if (!tls->reason[0]) {
		char byte;
		size_t got;
		begin_call();
		int result = lk__openssl.SSL_peek_ex(tls->ssl, &byte, sizeof(byte), &got);
		if (result != 1)
			call_failed(tls, result, &(short){0});
	}
	if (!tls->reason[0] && tls->certificate_lacks && !tls->read_any)
		snprintf(tls->reason, sizeof(tls->reason),
			 "the server asked for a client certificate and got none "
			 "(see tls_cert_file)");
	snprintf(text, size, "%s", tls->reason);
	if (!tls->reason[0])
		return 0;
	return tls->no_memory ? LK_ENOMEM : tls->refused ? LK_ETLS : LK_EUNREACHABLE;
}

static const struct lk__stream_ops tls_ops = {
	.read = tls_read,
	.write = tls_write,
	.close = tls_close,
	.explain = tls_explain,
};

/* ---- certificates ---- */

/* The password that locks a key, or "". */
struct key_password {
	const char *text;
	bool asked;
};

/* Nobody is there to be asked: without the password a key that is locked cannot be used, nor with
 * one that is longer than OpenSSL takes. */
static int give_password(char *password, int size, int writing, void *context)
{
	struct key_password *given = context;
	size_t length = strlen(given->text);
	(void)writing;
	given->asked = true;
	if (length == 0 || size < 0 || length > (size_t)size)
		return -1;
	memcpy(password, given->text, length);
	return (int)length;
}

/* OpenSSL's reason, or the system's where a file cannot be opened. */
static int fail_file(const char *node, const char *option, const char *path, lk_error *error)
{
	bool no_memory = false;
	unsigned long first = take_errors(&no_memory);
	const char *reason = lk__openssl.ERR_reason_error_string(first);
	int failed = ERR_SYSTEM_ERROR(first) ? ERR_GET_REASON(first) : 0;
	if (!failed && no_memory)
		return fail_memory(node, error);
	if (failed)
		return lk__fail_errno(error, lk__errno_code(failed, LK_ETLS), failed,
				      "connect to %s: %s \"%.128s\"", node, option, path);
	return lk__fail(error, LK_ETLS, "connect to %s: %s \"%.128s\": %s", node, option, path,
			reason ? reason : "cannot be used");
}

/* Believes OpenSSL's reading of a file only where no memory lacked: it skips what it could not
 * decode, and says that all is well. */
static int end_file(int result, const char *node, const char *option, const char *path,
		    lk_error *error)
{
	bool no_memory = false;
	if (result != 1)
		return fail_file(node, option, path, error);
	take_errors(&no_memory);
	return no_memory ? fail_memory(node, error) : 0;
}

/* A pipe that nobody writes to would be waited for without end, and a device read without end. */
static int check_file(const char *node, const char *option, const char *path, lk_error *error)
{
	struct stat status;
	if (stat(path, &status) != 0)
		return 0; /* OpenSSL says why */
	if (S_ISREG(status.st_mode) && status.st_size <= FILE_SIZE_MAX)
		return 0;
	return lk__fail(error, LK_ETLS, "connect to %s: %s \"%.128s\": %s", node, option, path,
			S_ISREG(status.st_mode) ? "larger than 16 MiB" : "not a regular file");
}

static int load_trusted_file(SSL_CTX *context, const char *path, const char *node, lk_error *error)
{
	if (check_file(node, "tls_ca_file", path, error) != 0)
		return LK_ETLS;
	begin_call();
	return end_file(lk__openssl.SSL_CTX_load_verify_file(context, path), node, "tls_ca_file",
			path, error);
}

/* OpenSSL looks into it when it verifies, and then says no more than that a certificate is not
 * there. */
static int load_trusted_folder(SSL_CTX *context, const char *path, const char *node,
			       lk_error *error)
{
	struct stat status;
	int failed = stat(path, &status) != 0 || access(path, X_OK) != 0 ? errno : 0;
	if (!failed && !S_ISDIR(status.st_mode))
		failed = ENOTDIR;
	if (failed)
		return lk__fail_errno(error, lk__errno_code(failed, LK_ETLS), failed,
				      "connect to %s: tls_ca_dir \"%.128s\"", node, path);
	begin_call();
	return end_file(lk__openssl.SSL_CTX_load_verify_dir(context, path), node, "tls_ca_dir",
			path, error);
}

/* Each certificate of the text, up to the first that cannot be taken: how many. */
static int add_certificates(SSL_CTX *context, BIO *text)
{
	X509_STORE *store = lk__openssl.SSL_CTX_get_cert_store(context);
	struct key_password none = {.text = ""};
	X509 *certificate;
	int count = 0;
	begin_call();
	while ((certificate = lk__openssl.PEM_read_bio_X509(text, NULL, give_password, &none))) {
		int added = lk__openssl.X509_STORE_add_cert(store, certificate);
		lk__openssl.X509_free(certificate);
		if (added != 1)
			break;
		count++;
	}
	return count;
}

static int load_trusted_text(SSL_CTX *context, const char *text, const char *node, lk_error *error)
{
	bool no_memory = false;
	BIO *bio = lk__openssl.BIO_new_mem_buf(text, -1);
	if (!bio)
		return fail_memory(node, error);
	int count = add_certificates(context, bio);
	unsigned long first = take_errors(&no_memory);
	lk__openssl.BIO_free(bio);
	if (no_memory)
		return fail_memory(node, error);
	bool ended = ERR_GET_LIB(first) == ERR_LIB_PEM &&
		     ERR_GET_REASON(first) == PEM_R_NO_START_LINE;
	if (ended && count > 0)
		return 0;
	const char *reason = lk__openssl.ERR_reason_error_string(first);
	return lk__fail(error, LK_ETLS, "connect to %s: tls_ca_data: %s", node,
			ended    ? "no certificate is in it"
			: reason ? reason
				 : "cannot be used");
}

/* All that is named, or else the system's. */
static int load_trusted(SSL_CTX *context, const struct lk_config *config, const char *node,
			lk_error *error)
{
	int rc = 0;
	if (*config->tls_ca_file)
		rc = load_trusted_file(context, config->tls_ca_file, node, error);
	if (rc == 0 && *config->tls_ca_dir)
		rc = load_trusted_folder(context, config->tls_ca_dir, node, error);
	if (rc == 0 && *config->tls_ca_data)
		rc = load_trusted_text(context, config->tls_ca_data, node, error);
	if (rc < 0 || *config->tls_ca_file || *config->tls_ca_dir || *config->tls_ca_data)
		return rc;
	begin_call();
	return end_file(lk__openssl.SSL_CTX_set_default_verify_paths(context), node,
			"trusted certificates", lk__openssl.X509_get_default_cert_dir(), error);
}

static int load_key(SSL_CTX *context, const struct lk_config *config, const char *node,
		    lk_error *error)
{
	const char *path = config->tls_key_file;
	struct key_password password = {.text = config->tls_key_password};
	bool no_memory = false;
	lk__openssl.SSL_CTX_set_default_passwd_cb(context, give_password);
	lk__openssl.SSL_CTX_set_default_passwd_cb_userdata(context, &password);
	begin_call();
	int used = lk__openssl.SSL_CTX_use_PrivateKey_file(context, path, SSL_FILETYPE_PEM);
	lk__openssl.SSL_CTX_set_default_passwd_cb_userdata(context, NULL);
	if (used == 1 || !password.asked)
		return end_file(used, node, "tls_key_file", path, error);
	take_errors(&no_memory);
	if (no_memory && *password.text)
		return fail_memory(node, error);
	return lk__fail(error, LK_ETLS, "connect to %s: tls_key_file \"%.128s\": %s", node, path,
			*password.text ? "tls_key_password does not unlock it"
				       : "locked by a password (tls_key_password)");
}

static int load_own(SSL_CTX *context, const struct lk_config *config, const char *node,
		    lk_error *error)
{
	struct key_password none = {.text = ""};
	const char *cert = config->tls_cert_file;
	if (!*cert)
		return 0;
	if (check_file(node, "tls_cert_file", cert, error) != 0 ||
	    check_file(node, "tls_key_file", config->tls_key_file, error) != 0)
		return LK_ETLS;
	lk__openssl.SSL_CTX_set_default_passwd_cb(context, give_password);
	lk__openssl.SSL_CTX_set_default_passwd_cb_userdata(context, &none);
	begin_call();
	int rc = end_file(lk__openssl.SSL_CTX_use_certificate_chain_file(context, cert), node,
			  "tls_cert_file", cert, error);
	return rc < 0 ? rc : load_key(context, config, node, error);
}

/* Reads the files that `config` names, and sets the rules of the protocol. LK_ETLS, LK_ENOMEM,
 * LK_ESYSTEM; the messages begin with `node`. */
static int context_new(SSL_CTX **context_out, const struct lk_config *config, const char *node,
		       lk_error *error)
{
	/* A program may end while a thread of ours is connecting: what it uses must stay. */
	lk__openssl.OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL);
	begin_call();
	SSL_CTX *context = lk__openssl.SSL_CTX_new(lk__openssl.TLS_client_method());
	if (!context || lk__openssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION,
						 TLS1_2_VERSION, NULL) != 1) {
		lk__openssl.SSL_CTX_free(context);
		return fail_memory(node, error);
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

/* ---- names ---- */

/*
 * The names that a server's certificate may have:
 *
 *     tls_server_name   that one, if it is set; else
 *     the host          the name or address by which the node is known; or
 *     a seed's name     of a cluster's URL, where the node is known by an address
 *
 * With tls_verify=authority any name is good, and with off any certificate.
 */

/* The name or address that it must have, where no seed lends its name. */
static const char *name_expected(const struct lk_config *config)
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

/* Tells whether a seed's host name is as good. */
static bool name_is_lent(const struct lk_config *config)
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

/* Tells whether the certificate has the host name of a seed, which name_is_lent() allows. */
static bool name_of_seed(const struct lk_config *config, X509 *certificate)
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

static bool names_count(const struct lk_config *config)
{
	return config->chosen.verify == LK__VERIFY_ON;
}

static int expect_address(SSL *ssl, const struct lk_config *config, const char *address)
{
	char seed[LK__PLACE_SIZE];
	X509_VERIFY_PARAM *rules = lk__openssl.SSL_get0_param(ssl);
	if (names_count(config) && lk__openssl.X509_VERIFY_PARAM_set1_ip_asc(rules, address) != 1)
		return LK_ENOMEM;
	if (!name_is_lent(config))
		return 0;
	seed_next(config->seeds, seed);
	drop_dot(seed);
	return ask_for(ssl, seed);
}

/*
 * Sets the name that the peer's certificate must have, and the one to ask for (SNI). A seed's name
 * is left to the callback that verifies. 0 or LK_ENOMEM.
 */
static int expect_name(SSL *ssl, const struct lk_config *config)
{
	char host[LK__PLACE_SIZE];
	const char *name = name_expected(config);
	X509_VERIFY_PARAM *rules = lk__openssl.SSL_get0_param(ssl);
	if (lk__host_is_address(name))
		return expect_address(ssl, config, name);
	size_t length = strnlen(name, sizeof(host) - 1);
	memcpy(host, name, length);
	host[length] = '\0';
	drop_dot(host);
	lk__openssl.X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	if (names_count(config) && lk__openssl.X509_VERIFY_PARAM_set1_host(rules, host, 0) != 1)
		return LK_ENOMEM;
	return ask_for(ssl, host);
}

/* ---- the handshake ---- */

/* Called when the server asks for a certificate and none is configured. */
static int certificate_asked(SSL *ssl, X509 **certificate, EVP_PKEY **key)
{
	struct tls_stream *tls = lk__openssl.SSL_get_ex_data(ssl, APP_DATA);
	(void)certificate, (void)key;
	tls->certificate_lacks = true;
	return 0;
}

/* Where the certificate has another address, a seed's name may do. */
static int certificate_judged(int good, X509_STORE_CTX *chain)
{
	bool no_memory = errno == ENOMEM;
	int ssl_data = lk__openssl.SSL_get_ex_data_X509_STORE_CTX_idx();
	SSL *ssl = lk__openssl.X509_STORE_CTX_get_ex_data(chain, ssl_data);
	struct tls_stream *tls = lk__openssl.SSL_get_ex_data(ssl, APP_DATA);
	tls->no_memory |= no_memory;
	if (good || !name_is_lent(tls->config) ||
	    lk__openssl.X509_STORE_CTX_get_error(chain) != X509_V_ERR_IP_ADDRESS_MISMATCH ||
	    !name_of_seed(tls->config, lk__openssl.X509_STORE_CTX_get0_cert(chain)))
		return good;
	lk__openssl.X509_STORE_CTX_set_error(chain, X509_V_OK);
	return 1;
}

static int fail_handshake(struct tls_stream *tls, ssize_t status, const struct lk_config *config,
			  const char *node, lk_error *error)
{
	long verified = config->chosen.verify == LK__VERIFY_OFF
				? X509_V_OK
				: lk__openssl.SSL_get_verify_result(tls->ssl);
	if (tls->no_memory && status != -ETIMEDOUT)
		return fail_memory(node, error);
	if (verified == X509_V_ERR_HOSTNAME_MISMATCH || verified == X509_V_ERR_IP_ADDRESS_MISMATCH)
		return lk__fail(error, LK_ETLS,
				"connect to %s: TLS: the server's certificate is not for \"%s\"%s",
				node, name_expected(config),
				name_is_lent(config) ? ", nor for a seed of the cluster" : "");
	if (verified != X509_V_OK)
		return lk__fail(error, LK_ETLS, "connect to %s: TLS: the server's certificate: %s",
				node, lk__openssl.X509_verify_cert_error_string(verified));
	if (status == -EPROTO)
		return lk__fail(error, tls->refused ? LK_ETLS : LK_EUNREACHABLE,
				"connect to %s: TLS: %s", node, tls->reason);
	if (status == 0)
		return lk__fail(error, LK_EUNREACHABLE,
				"connect to %s: TLS: the peer closed the connection in the "
				"handshake (does the port speak TLS?)",
				node);
	return lk__fail_errno(error, LK_EUNREACHABLE, (int)-status,
			      "connect to %s: TLS handshake%s", node,
			      status == -ETIMEDOUT ? " (does the port speak TLS?)" : "");
}

static int prepare(struct tls_stream *tls, const struct lk_config *config)
{
	tls->ssl = lk__openssl.SSL_new(tls->context);
	if (!tls->ssl || lk__openssl.SSL_set_ex_data(tls->ssl, APP_DATA, tls) != 1)
		return LK_ENOMEM;
	lk__openssl.SSL_set_quiet_shutdown(tls->ssl, 1);
	if (attach_socket(tls) != 0)
		return LK_ENOMEM;
	return expect_name(tls->ssl, config);
}

static int begin_over(struct tls_stream *tls, const struct lk_config *config, const char *node,
		      lk_error *error)
{
	int status = context_new(&tls->context, config, node, error);
	if (status != 0)
		return status;
	bool any = config->chosen.verify == LK__VERIFY_OFF;
	lk__openssl.SSL_CTX_set_verify(tls->context, any ? SSL_VERIFY_NONE : SSL_VERIFY_PEER,
				       certificate_judged);
	if (!*config->tls_cert_file)
		lk__openssl.SSL_CTX_set_client_cert_cb(tls->context, certificate_asked);
	if (prepare(tls, config) != 0)
		return fail_memory(node, error);
	return 0;
}

int lk__tls_begin(struct lk__stream **stream_out, int fd, const struct lk_config *config,
		  const char *node, lk_error *error)
{
	int status = lk__openssl_load(node, error);
	if (status != 0)
		return status;
	struct tls_stream *tls = calloc(1, sizeof(*tls));
	if (!tls)
		return lk__fail(error, LK_ENOMEM, "connect to %s: out of memory", node);
	tls->stream = (struct lk__stream){.ops = &tls_ops, .fd = fd, .wants = POLLIN};
	tls->read_wants = POLLIN;
	status = begin_over(tls, config, node, error);
	if (status != 0) {
		tls->stream.fd = -1; /* stays the caller's */
		tls_close(&tls->stream);
		return status;
	}
	*stream_out = &tls->stream;
	return 0;
}

int lk__tls_shake(struct lk__stream *stream, const struct lk_config *config, const char *node,
		  int64_t deadline_ns, lk_error *error)
{
	struct tls_stream *tls = tls_of(stream);
	begin_call();
	tls->config = config;
	int result = lk__openssl.SSL_connect(tls->ssl);
	tls->config = NULL;
	if (result == 1) {
		stream->wants = POLLIN;
		return 1;
	}
	ssize_t status = call_failed(tls, result, &stream->wants);
	if (status == -EAGAIN && lk__now_ns() < deadline_ns)
		return 0;
	return fail_handshake(tls, status == -EAGAIN ? -ETIMEDOUT : status, config, node, error);
}
