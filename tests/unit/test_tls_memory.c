/* OpenSSL without memory, at each of its requests: no certificate is called bad, and no failure is
 * one that lasts. */
#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <openssl/crypto.h>
#include <openssl/ssl.h>

#include "base/clock.h"
#include "conf/config.h"
#include "net/stream.h"
#include "opening.h"
#include "tls_server.h"

#define LONG_MS 20000      /* never reached unless something hangs */
#define REQUESTS_MAX 20000 /* of one connection, far more than it has */
#define STEP 31            /* of the requests, each of which is one of hundreds alike */

static char folder[] = "/tmp/lockkeeper-test-XXXXXX";
static struct identity authority, good;

/* This thread's requests until one fails; 0: none does. The server has a thread of its own. */
static _Thread_local long countdown;

static bool fails(void)
{
	bool now = countdown > 0 && --countdown == 0;
	if (now)
		errno = ENOMEM; /* as malloc() does */
	return now;
}

static void *take(size_t size, const char *file, int line)
{
	return fails() ? NULL : malloc(size);
}

static void *take_again(void *memory, size_t size, const char *file, int line)
{
	if (size > 0)
		return fails() ? NULL : realloc(memory, size);
	free(memory);
	return NULL;
}

static void give(void *memory, const char *file, int line)
{
	free(memory);
}

static char authorities[8192];

/* Whether that many requests were not all of them: one has failed. */
static bool open_without(long requests)
{
	struct tls_server server = {.mode = TLS_SERVER_ECHO, .identity = &good};
	struct lk__stream *opened = NULL;
	lk_config *config = NULL;
	lk_error error = {.code = 0};
	char url[256];
	tls_server_start(&server);
	snprintf(url, sizeof(url),
		 "rediss://127.0.0.1:%d?tls_ca_file=%s/authority.crt&tls_cert_file=%s/good.crt"
		 "&tls_key_file=%s/good.locked",
		 server.port, folder, folder, folder);
	assert_int_equal(lk_config_new(&config, NULL), 0);
	assert_int_equal(lk_config_set(config, "url", url, &error), 0);
	assert_int_equal(lk_config_set(config, "tls_key_password", IDENTITY_PASSWORD, NULL), 0);
	assert_int_equal(lk_config_set(config, "tls_ca_data", authorities, NULL), 0);
	lk_config_set_threadless(config, NULL, NULL); /* all in this thread */
	countdown = requests;
	open_stream(&opened, config, lk__after_ms(lk__now_ns(), LONG_MS), -1, &error);
	bool failed = countdown == 0;
	countdown = 0;
	/* OpenSSL forgets what it lacked where it goes on to tell the peer of its failure. */
	if (error.code != 0 && error.code != LK_ENOMEM && error.code != LK_EUNREACHABLE)
		fail_msg("request %ld: %s: %s", requests, lk_error_name(error.code), error.message);
	lk__stream_close(opened);
	tls_server_join(&server);
	lk_config_free(config);
	return failed;
}

static void test_what_lacks_is_memory(void **state)
{
	open_without(0); /* what is made once is there from now on */
	long requests = 1;
	while (requests < REQUESTS_MAX && open_without(requests))
		requests += STEP;
	assert_in_range(requests, 100, REQUESTS_MAX - 1);
}

static int setup(void **state)
{
	assert_non_null(mkdtemp(folder));
	authority = identity_new(folder, "authority", NULL, NULL, -1, 2);
	good = identity_new(folder, "good", &authority, "DNS:localhost,IP:127.0.0.1", -1, 2);
	identity_write_locked(&good, folder, "good");
	FILE *file = fopen(path_in(folder, "authority.crt"), "r");
	assert_non_null(file);
	assert_in_range(fread(authorities, 1, sizeof(authorities) - 1, file), 1, 8190);
	return fclose(file);
}

static int teardown(void **state)
{
	char command[128];
	identity_free(&authority);
	identity_free(&good);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_lacks_is_memory)};
	if (CRYPTO_set_mem_functions(take, take_again, give) != 1)
		return 1;
	return cmocka_run_group_tests(tests, setup, teardown);
}
