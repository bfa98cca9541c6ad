/* Certificates made for one test run, as PEM files in a folder. */
#ifndef CERTIFICATES_H
#define CERTIFICATES_H

#include <openssl/x509.h>

struct identity {
	X509 *certificate;
	EVP_PKEY *key;
};

/*
 * Makes a key and a certificate, valid from `from_days` to `to_days` from now, for `names`
 * ("DNS:localhost,IP:127.0.0.1", or NULL), signed by `issuer` or by itself. They are written to
 * FOLDER/NAME.crt and FOLDER/NAME.key. NULL `names`: an authority.
 */
struct identity identity_new(const char *folder, const char *name, const struct identity *issuer,
			     const char *names, int from_days, int to_days);
void identity_free(struct identity *identity);

#define IDENTITY_PASSWORD "secret"

/* Writes the key again, locked by that password: FOLDER/NAME.locked. */
void identity_write_locked(const struct identity *identity, const char *folder, const char *name);

/* FOLDER/NAME as a path; static memory, good for the next seven calls. */
const char *path_in(const char *folder, const char *name);

#endif
