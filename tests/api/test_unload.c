/* The library is loaded at run time and unloaded while threads of its own still end. */
#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fixture.h"

#define ROUNDS 20

/* The few calls that are needed, under their own names but for the prefix. */
static struct {
	void *library;
	__typeof__(&lk_client_open) client_open;
	__typeof__(&lk_client_free) client_free;
	__typeof__(&lk_lock_new) lock_new;
	__typeof__(&lk_lock_acquire) lock_acquire;
	__typeof__(&lk_lock_release) lock_release;
	__typeof__(&lk_lock_free) lock_free;
} lib;

static void find(void *function_out, const char *name)
{
	void *found = dlsym(lib.library, name);
	check(found != NULL);
	memcpy(function_out, &found, sizeof(found));
}

static void load(void)
{
	lib.library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	check(lib.library != NULL);
	find(&lib.client_open, "lk_client_open");
	find(&lib.client_free, "lk_client_free");
	find(&lib.lock_new, "lk_lock_new");
	find(&lib.lock_acquire, "lk_lock_acquire");
	find(&lib.lock_release, "lk_lock_release");
	find(&lib.lock_free, "lk_lock_free");
}

static size_t tasks(void)
{
	size_t count = 0;
	DIR *directory = opendir("/proc/self/task");
	check(directory != NULL);
	for (struct dirent *entry; (entry = readdir(directory));)
		count += entry->d_name[0] != '.';
	closedir(directory);
	return count;
}

/* One acquire and all that belongs to it; the library goes as soon as the calls are back. */
static int use_and_unload(const char *url, int64_t limit_ms)
{
	lk_client *client = NULL;
	lk_lock *lock = NULL;
	load();
	check(lib.client_open(&client, url, NULL) == 0);
	check(lib.lock_new(&lock, client, "unload", 6, NULL) == 0);
	int code = lib.lock_acquire(lock, limit_ms, NULL, NULL);
	if (code == 0)
		check(lib.lock_release(lock, NULL, NULL) == 0);
	lib.lock_free(lock);
	lib.client_free(client);
	check(dlclose(lib.library) == 0);
	return code;
}

static void test_a_client_that_did_its_work(void **state)
{
	size_t before = tasks();
	for (int round = 0; round < ROUNDS; round++) {
		check(use_and_unload(server.url_unix, slow_ms(5000)) == 0);
		wait_until(tasks() == before, 5000);
	}
}

/* It accepts and never answers: the thread that connects learns that its client is gone. */
static void test_a_connection_that_is_being_made(void **state)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	size_t before = tasks();
	char url[64];
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	check(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	check(listen(fd, ROUNDS) == 0);
	check(getsockname(fd, (struct sockaddr *)&address, &size) == 0);
	snprintf(url, sizeof(url), "redis://127.0.0.1:%d", ntohs(address.sin_port));
	for (int round = 0; round < ROUNDS; round++) {
		check(use_and_unload(url, 20) < 0);
		wait_until(tasks() == before, 5000);
	}
	close(fd);
}

static void begin(size_t index, void *argument)
{
}

/* With a first thread a sanitizer may start one of its own: before they are counted. */
static int start_threaded(void **state)
{
	struct threads threads;
	threads_start(&threads, 1, begin, NULL);
	threads_join(&threads, 5000);
	return start_server(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_a_client_that_did_its_work),
		api_test(test_a_connection_that_is_being_made),
	};
	return cmocka_run_group_tests(tests, start_threaded, stop_server);
}
