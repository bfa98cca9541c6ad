/* SPDX-License-Identifier: MIT */
/*
 * OpenSSL, loaded by the first stream that uses TLS. A program without TLS does not pay for it:
 * loading it takes about a third of the time of a short `lockkeeper run`. For src/net alone.
 */
#ifndef LK__NET_OPENSSL_H
#define LK__NET_OPENSSL_H

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <lockkeeper/error.h>

/* The functions that we call; OpenSSL's macros over these are written out where they are used. */
#define LK__OPENSSL(FUNCTION)                                                                      \
	FUNCTION(BIO_clear_flags)                                                                  \
	FUNCTION(BIO_free)                                                                         \
	FUNCTION(BIO_get_data)                                                                     \
	FUNCTION(BIO_meth_free)                                                                    \
	FUNCTION(BIO_meth_new)                                                                     \
	FUNCTION(BIO_meth_set_ctrl)                                                                \
	FUNCTION(BIO_meth_set_read)                                                                \
	FUNCTION(BIO_meth_set_write)                                                               \
	FUNCTION(BIO_new)                                                                          \
	FUNCTION(BIO_new_mem_buf)                                                                  \
	FUNCTION(BIO_set_data)                                                                     \
	FUNCTION(BIO_set_flags)                                                                    \
	FUNCTION(BIO_set_init)                                                                     \
	FUNCTION(ERR_clear_error)                                                                  \
	FUNCTION(ERR_get_error)                                                                    \
	FUNCTION(ERR_reason_error_string)                                                          \
	FUNCTION(OPENSSL_init_ssl)                                                                 \
	FUNCTION(PEM_read_bio_X509)                                                                \
	FUNCTION(SSL_CTX_ctrl)                                                                     \
	FUNCTION(SSL_CTX_free)                                                                     \
	FUNCTION(SSL_CTX_get_cert_store)                                                           \
	FUNCTION(SSL_CTX_load_verify_dir)                                                          \
	FUNCTION(SSL_CTX_load_verify_file)                                                         \
	FUNCTION(SSL_CTX_new)                                                                      \
	FUNCTION(SSL_CTX_set_client_cert_cb)                                                       \
	FUNCTION(SSL_CTX_set_default_passwd_cb)                                                    \
	FUNCTION(SSL_CTX_set_default_passwd_cb_userdata)                                           \
	FUNCTION(SSL_CTX_set_default_verify_paths)                                                 \
	FUNCTION(SSL_CTX_set_options)                                                              \
	FUNCTION(SSL_CTX_set_verify)                                                               \
	FUNCTION(SSL_CTX_use_PrivateKey_file)                                                      \
	FUNCTION(SSL_CTX_use_certificate_chain_file)                                               \
	FUNCTION(SSL_connect)                                                                      \
	FUNCTION(SSL_ctrl)                                                                         \
	FUNCTION(SSL_free)                                                                         \
	FUNCTION(SSL_get0_param)                                                                   \
	FUNCTION(SSL_get_error)                                                                    \
	FUNCTION(SSL_get_ex_data)                                                                  \
	FUNCTION(SSL_get_ex_data_X509_STORE_CTX_idx)                                               \
	FUNCTION(SSL_get_verify_result)                                                            \
	FUNCTION(SSL_has_pending)                                                                  \
	FUNCTION(SSL_new)                                                                          \
	FUNCTION(SSL_peek_ex)                                                                      \
	FUNCTION(SSL_read_ex)                                                                      \
	FUNCTION(SSL_set_bio)                                                                      \
	FUNCTION(SSL_set_ex_data)                                                                  \
	FUNCTION(SSL_set_quiet_shutdown)                                                           \
	FUNCTION(SSL_write_ex)                                                                     \
	FUNCTION(TLS_client_method)                                                                \
	FUNCTION(X509_STORE_CTX_get0_cert)                                                         \
	FUNCTION(X509_STORE_CTX_get_error)                                                         \
	FUNCTION(X509_STORE_CTX_get_ex_data)                                                       \
	FUNCTION(X509_STORE_CTX_set_error)                                                         \
	FUNCTION(X509_STORE_add_cert)                                                              \
	FUNCTION(X509_VERIFY_PARAM_set1_host)                                                      \
	FUNCTION(X509_VERIFY_PARAM_set1_ip_asc)                                                    \
	FUNCTION(X509_VERIFY_PARAM_set_hostflags)                                                  \
	FUNCTION(X509_check_host)                                                                  \
	FUNCTION(X509_free)                                                                        \
	FUNCTION(X509_get_default_cert_dir)                                                        \
	FUNCTION(X509_verify_cert_error_string)

struct lk__openssl {
#define LK__OPENSSL_MEMBER(name) __typeof__(name) *name;
	LK__OPENSSL(LK__OPENSSL_MEMBER)
#undef LK__OPENSSL_MEMBER
};

/* Written once, before lk__openssl_load() has first returned 0. */
extern struct lk__openssl lk__openssl;

/*
 * Makes sure that `lk__openssl` can be used; it stays loaded to the end of the process. Errors,
 * which begin with `node`: LK_ETLS with what is missing; LK_ESYSTEM, LK_ENOMEM.
 */
int lk__openssl_load(const char *node, lk_error *error);

#endif
