/*
 * Memory that runs out at each allocation of the library in turn, once and from there on: every
 * call succeeds or says so, nothing leaks (ASan looks), and no lock is left behind.
 *
 * The library is linked statically with its allocating calls wrapped; those of the libraries under
 * it are not.
 */
#include "fixture.h"

#define ALLOCATIONS_MAX 20000

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t size);

static _Atomic long countdown; /* allocations until one fails; <= 0: that one is behind us */
static _Atomic bool armed, for_good;

static bool fails(void)
{
	if (!armed)
		return false;
	long left = --countdown;
	return left == 0 || (left < 0 && for_good);
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
	return fails() ? NULL : __real_realloc(memory, size);
}

char *__wrap_strdup(const char *text)
{
	return fails() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t size)
{
	return fails() ? NULL : __real_strndup(text, size);
}

struct script {
	lk_config *config;
	lk_client *client;
	lk_lock *lock, *busy;
	lk_scan *scan;
	lk_cancel *cancel;
	bool maybe_held;
};

/* The call must answer `wanted` or be out of memory; in that case the script ends. */
#define attempt(wanted, call)                                                                      \
	do {                                                                                       \
		check_clear_error();                                                               \
		int attempt_code = (call);                                                         \
		if (attempt_code == LK_ENOMEM || attempt_code == LK_ESYSTEM)                       \
			return;                                                                    \
		check_code(attempt_code, (wanted), #call, __FILE__, __LINE__);                     \
	} while (0)

static void run_locks(struct script *script)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_release_options release = LK_RELEASE_OPTIONS_INIT;
	options.cancel = script->cancel;
	attempt(0, lk_lock_acquire(script->lock, &options, &err));
	attempt(0, lk_lock_try(script->lock, &options, &err));
	attempt(0, lk_lock_extend(script->lock, 40000, NULL, &err));
	attempt(1, lk_lock_is_locked(script->lock, &err));
	expect(0, lk_lock_release(script->lock, NULL, &err)); /* a re-entry: needs none */
	attempt(0, lk_lock_release(script->lock, NULL, &err));
	options.owner = release.owner = "named";
	options.lease_ms = 20000;
	attempt(0, lk_lock_acquire(script->lock, &options, &err));
	release.no_wait = 1;
	attempt(0, lk_lock_release(script->lock, &release, &err));
	attempt(LK_EBUSY, lk_lock_try(script->busy, NULL, &err));
	attempt(LK_ETIMEDOUT, lk_lock_acquire_within(script->busy, 5, &options, &err));
}

static void run(struct script *script)
{
	lk_lock_info info;
	lk_stats stats = {.struct_size = sizeof(stats)};
	attempt(0, lk_config_new(&script->config, &err));
	attempt(0, lk_config_set(script->config, "url", server.url_unix, &err));
	attempt(0, lk_config_set(script->config, "client_name", "nomem", &err));
	attempt(0, lk_client_new(&script->client, script->config, &err));
	attempt(0, lk_client_ping(script->client, &err));
	attempt(0, lk_cancel_new(&script->cancel, &err));
	attempt(0, lk_lock_new(&script->lock, script->client, "free", 4, &err));
	attempt(0, lk_lock_new(&script->busy, script->client, "busy", 4, &err));
	run_locks(script);
	attempt(0, lk_client_stats(script->client, &stats, &err));
	attempt(0, lk_scan_new(&script->scan, script->client, "b*", &err));
	attempt(0, lk_scan_show(script->scan, "free", 4, &info, &err));
	int answer;
	while ((answer = lk_scan_next(script->scan, &info, &err)) == 1)
		check(!strcmp(info.name, "busy"));
	attempt(0, answer);
}

/* What was not done for want of memory is done when there is some again. */
static void end(struct script *script)
{
	lk_scan_free(script->scan);
	if (script->client) {
		int code = lk_client_close(script->client, LK_CLOSE_RELEASE, &err);
		check(code == 0 || code == LK_ENOMEM || code == LK_EMAYBEHELD);
		script->maybe_held = code == LK_EMAYBEHELD;
	}
	armed = false;
	if (script->client)
		expect(0, lk_client_close(script->client, LK_CLOSE_RELEASE, &err));
	lk_lock_free(script->lock);
	lk_lock_free(script->busy);
	lk_client_free(script->client);
	lk_cancel_free(script->cancel);
	lk_config_free(script->config);
}

/* Fails the n-th allocation; false when the script needed fewer. */
static bool run_failing(long n, bool ever_after)
{
	struct script script = {0};
	countdown = n;
	for_good = ever_after;
	armed = true;
	run(&script);
	end(&script);
	if (script.maybe_held)
		redis_do(&server, "DEL free");
	return countdown <= 0;
}

static void sweep(bool for_ever)
{
	long n = 1;
	stranger_takes("busy", 3600000);
	while (run_failing(n, for_ever)) {
		if (redis_integer(&server, "EXISTS free"))
			check_fail(__FILE__, __LINE__, "allocation %ld: a lock is left behind", n);
		check_int(++n, <, ALLOCATIONS_MAX);
	}
	print_message("%ld allocations\n", n - 1);
	check_int(n, >, 20);
	check_int(redis_integer(&server, "HLEN busy"), ==, 1);
	stranger_releases("busy");
}

static void test_each_allocation_fails_once(void **state)
{
	(void)state;
	sweep(false);
}

static void test_memory_is_gone_from_each_allocation_on(void **state)
{
	(void)state;
	sweep(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_each_allocation_fails_once),
		api_test(test_memory_is_gone_from_each_allocation_on),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
