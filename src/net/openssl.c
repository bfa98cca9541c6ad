/* SPDX-License-Identifier: MIT */
#include "net/openssl.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>

#include "base/fail.h"

/* The one that the headers belong to: another one's structures and numbers may differ. */
#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
#define LIBRARY "libssl.so." TEXT(OPENSSL_SHLIB_VERSION)

struct lk__openssl lk__openssl;

/* Each function, and where in the table it belongs. */
static const struct {
	const char *name;
	size_t offset;
} functions[] = {
#define ROW(name) {#name, offsetof(struct lk__openssl, name)},
	LK__OPENSSL(ROW)
#undef ROW
};

static int fail_load(const char *node, int failed, lk_error *error)
{
	const char *reason = dlerror();
	return lk__fail(error, lk__errno_code(failed, LK_ETLS),
			"connect to %s: TLS: OpenSSL cannot be loaded: %.200s", node,
			reason ? reason : LIBRARY);
}

static int load(const char *node, lk_error *error)
{
	struct lk__openssl found;
	errno = 0;
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	int failed = errno;
	if (!library)
		return fail_load(node, failed, error);
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *function = dlsym(library, functions[i].name); /* libcrypto's, too */
		if (!function) {
			dlclose(library);
			return fail_load(node, 0, error);
		}
		*(void **)((char *)&found + functions[i].offset) = function;
	}
	lk__openssl = found;
	return 0;
}

int lk__openssl_load(const char *node, lk_error *error)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	int rc = 0;
	pthread_mutex_lock(&mutex);
	if (!lk__openssl.SSL_new)
		rc = load(node, error);
	pthread_mutex_unlock(&mutex);
	return rc;
}
