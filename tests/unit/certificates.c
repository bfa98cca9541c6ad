#include "certificates.h"

#include "unit.h"

#include <stdio.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#define DAY_S 86400

const char *path_in(const char *folder, const char *name)
{
	static char paths[8][256];
	static int next;
	char *path = paths[next++ % 8];
	snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
	return path;
}

static FILE *create(const char *folder, const char *name, const char *kind)
{
	char file[64];
	snprintf(file, sizeof(file), "%s.%s", name, kind);
	FILE *stream = fopen(path_in(folder, file), "w");
	assert_non_null(stream);
	return stream;
}

static void add_extension(X509 *certificate, int nid, const char *value)
{
	X509V3_CTX context;
	X509V3_set_ctx_nodb(&context);
	X509V3_set_ctx(&context, certificate, certificate, NULL, NULL, 0);
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
	assert_non_null(extension);
	assert_int_equal(X509_add_ext(certificate, extension, -1), 1);
	X509_EXTENSION_free(extension);
}

struct identity identity_new(const char *folder, const char *name, const struct identity *issuer,
			     const char *names, int from_days, int to_days)
{
	static long serial = 1;
	struct identity made = {X509_new(), EVP_EC_gen("P-256")};
	const struct identity *signer = issuer ? issuer : &made;
	assert_non_null(made.certificate);
	assert_non_null(made.key);
	X509_set_version(made.certificate, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(made.certificate), serial++);
	X509_gmtime_adj(X509_getm_notBefore(made.certificate), (long)from_days * DAY_S);
	X509_gmtime_adj(X509_getm_notAfter(made.certificate), (long)to_days * DAY_S);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(made.certificate), "CN", MBSTRING_ASC,
				   (const unsigned char *)name, -1, -1, 0);
	X509_set_issuer_name(made.certificate, X509_get_subject_name(signer->certificate));
	X509_set_pubkey(made.certificate, made.key);
	if (names)
		add_extension(made.certificate, NID_subject_alt_name, names);
	else
		add_extension(made.certificate, NID_basic_constraints, "critical,CA:TRUE");
	assert_true(X509_sign(made.certificate, signer->key, EVP_sha256()) > 0);

	FILE *file = create(folder, name, "crt");
	assert_int_equal(PEM_write_X509(file, made.certificate), 1);
	fclose(file);
	file = create(folder, name, "key");
	assert_int_equal(PEM_write_PrivateKey(file, made.key, NULL, NULL, 0, NULL, NULL), 1);
	fclose(file);
	return made;
}

void identity_write_locked(const struct identity *identity, const char *folder, const char *name)
{
	static unsigned char password[] = IDENTITY_PASSWORD;
	FILE *file = create(folder, name, "locked");
	assert_int_equal(PEM_write_PrivateKey(file, identity->key, EVP_aes_128_cbc(), password,
					      sizeof(password) - 1, NULL, NULL),
			 1);
	fclose(file);
}

void identity_free(struct identity *identity)
{
	X509_free(identity->certificate);
	EVP_PKEY_free(identity->key);
}
