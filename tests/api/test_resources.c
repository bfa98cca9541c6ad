/* What a client takes of its process, as lockkeeper.h tells it. */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "quorum.h"

#define DESCRIPTORS_NEW 4   /* of a client that was only made */
#define DESCRIPTORS_USED 10 /* of one that holds, waits and renews */
#define CLIENTS_MOST 1024   /* thread-specific keys of a process */
#define STACK_SIZE (1 << 20)
#define STACK_OF_A_CALL (32 << 10)
#define STACK_OF_A_MULTI_LOCK (64 << 10)
#define PAINT 0xA5

#if defined(__SANITIZE_ADDRESS__) || defined(UNDER_TSAN)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif

/* ---- descriptors ---- */

static long descriptors(void)
{
	long count = 0;
	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void test_descriptors_of_a_client(void **state)
{
	long before = descriptors();
	lk_client *client = open_client_with("watchdog_ms=%lld", slow_ms(300));
	check_int(descriptors() - before, <=, DESCRIPTORS_NEW);
	lk_lock *lock = new_lock(client, "held"), *busy = new_lock(client, "busy");
	stranger_takes("busy", 3600000);
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(LK_ETIMEDOUT, lk_lock_acquire(busy, slow_ms(200), NULL, &err));
	wait_until(stats_of(client).renewals > 0, 2000);
	check_int(descriptors() - before, <=, DESCRIPTORS_USED);
	expect(0, lk_lock_release(lock, NULL, &err));
	stranger_releases("busy");
	lk_lock_free(lock);
	lk_lock_free(busy);
	close_client(client);
	wait_until(descriptors() == before, 2000);
}

/* ---- thread-specific keys ---- */

static void test_more_clients_than_keys(void **state)
{
	static lk_client *client[CLIENTS_MOST + 1];
	struct rlimit usual, most;
	size_t count = 0;
	int code = 0;
	check(getrlimit(RLIMIT_NOFILE, &usual) == 0);
	most = usual;
	most.rlim_cur = usual.rlim_max;
	if (most.rlim_cur < (CLIENTS_MOST + 100) * DESCRIPTORS_NEW)
		check_skip("may open too few files");
	check(setrlimit(RLIMIT_NOFILE, &most) == 0);
	while (count < COUNT(client) &&
	       (code = lk_client_open(&client[count], server.url_unix, &err)) == 0)
		count++;
	check_int(code, ==, LK_ESYSTEM);
	check(strstr(err.message, "thread-specific key"));
	check_int(count, >, CLIENTS_MOST / 2);
	lk_lock *lock = new_lock(client[count - 1], "last");
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	lk_lock_free(lock);
	while (count > 0)
		close_client(client[--count]);
	close_client(open_client());
	check(setrlimit(RLIMIT_NOFILE, &usual) == 0);
}

/* ---- stack ---- */

/* Runs it in a thread whose stack is painted; how much of that is gone afterwards. */
static size_t stack_of(void *(*body)(void *))
{
	pthread_attr_t attributes;
	pthread_t thread;
	unsigned char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(stack != MAP_FAILED);
	memset(stack, PAINT, STACK_SIZE);
	pthread_attr_init(&attributes);
	check(pthread_attr_setstack(&attributes, stack, STACK_SIZE) == 0);
	check(pthread_create(&thread, &attributes, body, NULL) == 0);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attributes);
	check_int(check_take_failures(), ==, 0);
	size_t left = 0;
	while (left < STACK_SIZE && stack[left] == PAINT)
		left++;
	munmap(stack, STACK_SIZE);
	return STACK_SIZE - left;
}

static void use(lk_lock *lock)
{
	expect(0, lk_lock_acquire(lock, slow_ms(5000), NULL, &err));
	expect(0, lk_lock_extend(lock, 40000, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	lk_lock_free(lock);
}

static void *use_multi_lock(void *argument)
{
	lk_lock *part[LK_MULTI_LOCK_MAX], *multi = NULL;
	lk_client *client = open_client();
	char name[16];
	check_in_thread = true;
	for (size_t i = 0; i < COUNT(part); i++) {
		snprintf(name, sizeof(name), "part %zu", i);
		part[i] = new_lock(client, name);
	}
	expect(0, lk_multi_lock_new(&multi, part, COUNT(part), &err));
	use(multi);
	for (size_t i = 0; i < COUNT(part); i++)
		lk_lock_free(part[i]);
	close_client(client);
	return NULL;
}

static void *use_red_lock(void *argument)
{
	lk_client *client[MOST];
	lk_lock *red = NULL;
	lk_red_lock_options options = LK_RED_LOCK_OPTIONS_INIT;
	check_in_thread = true;
	options.quarantine_ms = -1;
	for (size_t i = 0; i < MOST; i++)
		client[i] = open_client_at(nodes[i].url_unix, "");
	expect(0, lk_red_lock_new(&red, client, MOST, "red", 3, &options, &err));
	use(red);
	for (size_t i = 0; i < MOST; i++)
		drop_client(client[i]);
	return NULL;
}

static void *use_kinds(void *argument)
{
	lk_client *client = open_client();
	lk_lock *lock = NULL;
	lk_latch *latch = NULL;
	lk_permit_semaphore *permits = NULL;
	lk_permit permit;
	int64_t count;
	check_in_thread = true;
	use(new_lock(client, "lock"));
	expect(0, lk_fair_lock_new(&lock, client, "fair", 4, &err));
	use(lock);
	expect(0, lk_plain_lock_new(&lock, client, "plain", 5, NULL, &err));
	use(lock);
	expect(0, lk_write_lock_new(&lock, client, "write", 5, NULL, &err));
	use(lock);
	expect(0, lk_latch_new(&latch, client, "latch", 5, NULL, &err));
	expect(1, lk_latch_try_set(latch, 1, &err));
	expect(0, lk_latch_count_down(latch, 1, &count, &err));
	expect(0, lk_latch_await(latch, -1, NULL, &err));
	lk_latch_free(latch);
	expect(0, lk_permit_semaphore_new(&permits, client, "permits", 7, NULL, &err));
	expect(0, lk_permit_semaphore_set(permits, 1, &err));
	expect(0, lk_permit_semaphore_acquire(permits, 1, &permit, -1, NULL, &err));
	expect(0, lk_permit_semaphore_release(permits, &permit, 1, &err));
	expect(1, lk_permit_semaphore_delete(permits, &err));
	lk_permit_semaphore_free(permits);
	close_client(client);
	return NULL;
}

static void check_stack(const char *what, void *(*body)(void *), size_t most)
{
	size_t used = stack_of(body);
	print_message("%s: %zu bytes of stack\n", what, used);
#ifndef SANITIZED
	check_int(used, <=, most);
#else
#endif
}

static void test_stack_of_a_call(void **state)
{
	check_stack("kinds", use_kinds, STACK_OF_A_CALL);
	check_stack("multi lock", use_multi_lock, STACK_OF_A_MULTI_LOCK);
	check_stack("red lock", use_red_lock, STACK_OF_A_CALL);
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
		api_test(test_descriptors_of_a_client),
		api_test(test_more_clients_than_keys),
		counter_test(test_stack_of_a_call),
	};
	return cmocka_run_group_tests(tests, start_all, stop_all);
}
