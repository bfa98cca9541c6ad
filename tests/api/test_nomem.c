/*
 * Memory that runs out at each allocation of the library in turn, once and from there on: every
 * call succeeds or says so, nothing leaks (ASan looks), and no lock is left behind.
 *
 * The library is linked statically with its allocating calls wrapped; those of the libraries under
 * it are not.
 */
#include "quorum.h"

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
	lk_lock *lock, *busy, *fenced, *spin, *plain, *fair, *read, *write;
	lk_semaphore *semaphore;
	lk_permit_semaphore *permits;
	lk_latch *latch;
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

/* As attempt(), of a wait that ends: a server that is slower than its few ms has not said who
 * holds it. */
#define attempt_in_vain(call)                                                                      \
	do {                                                                                       \
		int vain_code = (call);                                                            \
		if (vain_code == LK_ENOMEM || vain_code == LK_ESYSTEM)                             \
			return;                                                                    \
		check(vain_code == LK_ETIMEDOUT || vain_code == LK_EMAYBEHELD ||                   \
		      vain_code == LK_EUNREACHABLE);                                               \
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
	attempt_in_vain(lk_lock_acquire_within(script->busy, 5, &options, &err));
}

/* Kinds that make more of their own: keys beside the lock's, tokens at a resource. */
static void run_kinds(struct script *script)
{
	uint64_t token = 0;
	attempt(0, lk_fenced_lock_new(&script->fenced, script->client, "kinds", 5, NULL, &err));
	attempt(0, lk_spin_lock_new(&script->spin, script->client, "kinds", 5, NULL, &err));
	attempt(0, lk_fair_lock_new(&script->fair, script->client, "kinds", 5, &err));
	attempt(0, lk_lock_acquire(script->fair, NULL, &err));
	attempt(0, lk_lock_release(script->fair, NULL, &err));
	attempt(0, lk_lock_acquire(script->fenced, NULL, &err));
	attempt(0, lk_lock_fence(script->fenced, NULL, &token, &err));
	attempt(0, lk_lock_release(script->fenced, NULL, &err));
	attempt(0, lk_fence_write(script->client, "report", 6, token, "x", 1, NULL, NULL, &err));
	attempt(0, lk_lock_acquire(script->spin, NULL, &err));
	attempt(0, lk_lock_release(script->spin, NULL, &err));
	/* Its first try is a batch of commands that ask what the server can do. */
	attempt(0, lk_plain_lock_new(&script->plain, script->client, "string", 6, NULL, &err));
	attempt(0, lk_lock_acquire(script->plain, NULL, &err));
	attempt(0, lk_lock_extend(script->plain, 40000, NULL, &err));
	attempt(0, lk_lock_release(script->plain, NULL, &err));
}

static void run_permits(struct script *script)
{
	lk_permit some[3];
	int64_t ms;
	attempt(0, lk_permit_semaphore_new(&script->permits, script->client, "slots", 5, &err));
	attempt(0, lk_permit_semaphore_set(script->permits, 3, &err));
	memset(some, '-', sizeof(some));
	int code = lk_permit_semaphore_acquire(script->permits, 3, some, NULL, &err);
	for (size_t i = 0; code < 0 && i < COUNT(some); i++)
		check(some[i].id[0] == '-'); /* what fails writes nothing */
	attempt(0, code);
	attempt(0, lk_permit_semaphore_remaining_ms(script->permits, some[0].id, &ms, &err));
	attempt(0, lk_permit_semaphore_update_lease(script->permits, some[0].id, 40000, &err));
	attempt(0, lk_permit_semaphore_release(script->permits, some, 1, &err));
	attempt(0, lk_permit_semaphore_release(script->permits, some + 1, 2, &err));
	attempt(0, lk_permit_semaphore_count(script->permits, &ms, NULL, &err));
	attempt(1, lk_permit_semaphore_delete(script->permits, &err));
}

static void run_counters(struct script *script)
{
	int64_t count;
	attempt(0, lk_semaphore_new(&script->semaphore, script->client, "pool", 4, &err));
	attempt(1, lk_semaphore_try_set(script->semaphore, 1, 0, &err));
	attempt(0, lk_semaphore_acquire(script->semaphore, 1, NULL, &err));
	attempt_in_vain(lk_semaphore_acquire_within(script->semaphore, 1, 5, NULL, &err));
	attempt(0, lk_semaphore_release(script->semaphore, 1, &err));
	attempt(0, lk_semaphore_drain(script->semaphore, &count, &err));
	attempt(1, lk_semaphore_delete(script->semaphore, &err));
	attempt(0, lk_latch_new(&script->latch, script->client, "gate", 4, &err));
	attempt(1, lk_latch_try_set(script->latch, 2, &err));
	attempt(0, lk_latch_count_down(script->latch, 2, &count, &err));
	attempt(0, lk_latch_await(script->latch, NULL, &err));
	attempt(0, lk_latch_delete(script->latch, &err));
	run_permits(script);
}

/* Two sides of one key: down, and not up. */
static void run_sides(struct script *script)
{
	attempt(0, lk_read_lock_new(&script->read, script->client, "sides", 5, NULL, &err));
	attempt(0, lk_write_lock_new(&script->write, script->client, "sides", 5, NULL, &err));
	attempt(0, lk_lock_acquire(script->write, NULL, &err));
	attempt(0, lk_lock_acquire(script->read, NULL, &err));
	attempt(0, lk_lock_release(script->write, NULL, &err));
	attempt(LK_EUPGRADE, lk_lock_try(script->write, NULL, &err));
	attempt(0, lk_lock_extend(script->read, 40000, NULL, &err));
	attempt(1, lk_lock_is_locked(script->read, &err));
	attempt(0, lk_lock_release(script->read, NULL, &err));
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
	run_kinds(script);
	run_sides(script);
	run_counters(script);
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
	lk_lock_free(script->fenced);
	lk_lock_free(script->spin);
	lk_lock_free(script->read);
	lk_lock_free(script->write);
	lk_lock_free(script->plain);
	lk_lock_free(script->fair);
	lk_semaphore_free(script->semaphore);
	lk_permit_semaphore_free(script->permits);
	lk_latch_free(script->latch);
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
		redis_do(&server, "DEL free kinds sides");
	return countdown <= 0;
}

static void sweep(bool for_ever)
{
	long n = 1;
	stranger_takes("busy", 3600000);
	while (run_failing(n, for_ever)) {
		if (redis_integer(&server, "EXISTS free kinds sides"))
			check_fail(__FILE__, __LINE__, "allocation %ld: a lock is left behind", n);
		/* Without any memory a permit stays until its lease is over. */
		if (!for_ever && redis_integer(&server, "ZCARD {slots}:timeout"))
			check_fail(__FILE__, __LINE__, "allocation %ld: a permit is left", n);
		redis_do(&server, "DEL pool gate slots {slots}:timeout");
		check_int(++n, <, ALLOCATIONS_MAX);
	}
	print_message("%ld allocations\n", n - 1);
	check_int(n, >, 20);
	check_int(redis_integer(&server, "HLEN busy"), ==, 1);
	stranger_releases("busy");
	redis_do(&server, "DEL report lockkeeper_fence:{kinds}");
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

/* ---- locks made of locks: over three servers, from clients that are connected ---- */

struct several {
	lk_client *client[MOST];
	lk_lock *part[MOST], *multi, *red;
	bool untold; /* a call did not say that it was done, or no memory is left to do it */
};

/* Done, or out of memory here or at so many nodes that there is no majority. */
static bool is_done(struct several *several, int code)
{
	check(code == 0 || code == LK_ENOMEM || code == LK_ESYSTEM || code == LK_EMAYBEHELD ||
	      code == LK_ENOQUORUM);
	several->untold |= code != 0;
	return code == 0;
}

static bool run_multi(struct several *several)
{
	for (size_t i = 0; i < MOST; i++) /* two in one script, the third elsewhere */
		if (!is_done(several, lk_lock_new(&several->part[i], several->client[i / 2],
						  i ? "right" : "left", i ? 5 : 4, &err)))
			return false;
	return is_done(several, lk_multi_lock_new(&several->multi, several->part, MOST, &err)) &&
	       is_done(several, lk_lock_try(several->multi, NULL, &err)) &&
	       is_done(several, lk_lock_extend(several->multi, 40000, NULL, &err)) &&
	       is_done(several, lk_lock_release(several->multi, NULL, &err));
}

static bool run_red(struct several *several)
{
	lk_red_lock_options options = LK_RED_LOCK_OPTIONS_INIT;
	options.quarantine_ms = -1;
	options.node_limit_ms = slow_ms(100);
	return is_done(several, lk_red_lock_new(&several->red, several->client, MOST, "q", 1,
						&options, &err)) &&
	       is_done(several, lk_lock_try(several->red, NULL, &err)) &&
	       is_done(several, lk_lock_extend(several->red, 40000, NULL, &err)) &&
	       is_done(several, lk_lock_release(several->red, NULL, &err));
}

static void end_several(struct several *several)
{
	lk_lock_free(several->multi);
	lk_lock_free(several->red);
	for (size_t i = 0; i < MOST; i++)
		lk_lock_free(several->part[i]);
	for (size_t i = 0; i < MOST; i++) {
		int code = lk_client_close(several->client[i], LK_CLOSE_RELEASE, &err);
		check(code == 0 || code == LK_EMAYBEHELD);
		several->untold |= code == LK_EMAYBEHELD;
		lk_client_free(several->client[i]);
	}
}

/* A release that was said to be done is done on every node, if in the background. */
static void check_given_back(const struct several *several, long n)
{
	size_t left = several->untold ? 0 : 1;
	for (int64_t end_ms = now_ms() + slow_ms(5000); left && now_ms() < end_ms;)
		left = nodes_with("left") + nodes_with("right") + nodes_with("q");
	if (left)
		check_fail(__FILE__, __LINE__, "allocation %ld: %zu keys are left", n, left);
}

/* Fails the n-th allocation; false when it needed fewer. */
static bool run_several(bool (*work)(struct several *several), long n, bool ever_after)
{
	/* What cannot be taken back for want of any memory ends with its lease. */
	struct several several = {.untold = ever_after};
	for (size_t i = 0; i < MOST; i++) {
		several.client[i] = open_client_at(nodes[i].url_unix, "");
		expect(0, lk_client_ping(several.client[i], &err));
	}
	countdown = n;
	for_good = ever_after;
	armed = true;
	work(&several);
	armed = false;
	bool failed = countdown <= 0;
	check_given_back(&several, n);
	end_several(&several);
	if (several.untold)
		for (size_t i = 0; i < MOST; i++)
			redis_do(&nodes[i], "DEL left right q");
	return failed;
}

static void sweep_several(bool (*work)(struct several *several))
{
	for (int ever_after = 0; ever_after < 2; ever_after++) {
		long n = 1;
		while (run_several(work, n, ever_after))
			check_int(++n, <, ALLOCATIONS_MAX);
		print_message("%ld allocations\n", n - 1);
		check_int(n, >, 20);
	}
}

static void test_multi_lock(void **state)
{
	(void)state;
	sweep_several(run_multi);
}

static void test_red_lock(void **state)
{
	(void)state;
	sweep_several(run_red);
}

static int start_all(void **state)
{
	return start_server(state) || start_nodes(state);
}

static int stop_all(void **state)
{
	return stop_nodes(state) || stop_server(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		counter_test(test_each_allocation_fails_once),
		counter_test(test_memory_is_gone_from_each_allocation_on),
		quorum_test(test_multi_lock),
		quorum_test(test_red_lock),
	};
	return cmocka_run_group_tests(tests, start_all, stop_all);
}
