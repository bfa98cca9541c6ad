/* OpenSSL is loaded by its first use: what is said when that fails, and that it is tried again. */
#include "unit.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "net/openssl.h"

static int refused; /* errno of a dlopen() that fails, or 0 */
static int loads;

void *__real_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags);

void *__wrap_dlopen(const char *name, int flags)
{
	loads++;
	void *library = __real_dlopen(refused ? "libssl-that-is-missing.so.3" : name, flags);
	if (refused)
		errno = refused;
	return library;
}

static void refuse(int reason, int code)
{
	lk_error error = {0};
	refused = reason;
	assert_int_equal(lk__openssl_load("host:1", &error), code);
	assert_int_equal(error.code, code);
	print_message("%s\n", error.message);
	assert_non_null(strstr(error.message, "connect to host:1: TLS: OpenSSL cannot be loaded"));
	assert_non_null(strstr(error.message, "libssl"));
	assert_null(lk__openssl.SSL_new);
	refused = 0;
}

static void test_a_library_that_is_missing_is_named(void **state)
{
	refuse(ENOENT, LK_ETLS);
}

static void test_a_lack_of_resources_is_not_a_tls_error(void **state)
{
	refuse(EMFILE, LK_ESYSTEM);
	refuse(ENFILE, LK_ESYSTEM);
	refuse(ENOMEM, LK_ENOMEM);
}

static void test_it_is_tried_again_and_loaded_once(void **state)
{
	lk_error error = {0};
	needs_openssl();
	refuse(EMFILE, LK_ESYSTEM);
	loads = 0;
	for (int i = 0; i < 3; i++)
		assert_int_equal(lk__openssl_load("host:1", &error), 0);
	assert_int_equal(loads, 1);
	assert_non_null(lk__openssl.SSL_new);
	assert_non_null(lk__openssl.X509_verify_cert_error_string);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_library_that_is_missing_is_named),
		cmocka_unit_test(test_a_lack_of_resources_is_not_a_tls_error),
		cmocka_unit_test(test_it_is_tried_again_and_loaded_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
