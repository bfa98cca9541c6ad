/* The fixture itself: the server starts, stops, pauses, comes back, and dies with its parent. */
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "redis.h"
#include "server.h"
#include "threads.h"
#include "waiting.h"

static void test_server_answers_and_leaves_nothing(void **state)
{
	struct server server;
	char field[8];
	server_start(&server, (const char *[]){"--databases", "3", NULL});
	check_int(redis_integer(&server, "HSET h f 7"), ==, 1);
	check_int(redis_integer(&server, "HGET h f"), ==, 7);
	check(redis_field(&server, "h", 1, field, sizeof(field)) && !strcmp(field, "f"));
	check_int(redis_info(&server, "commandstats", "cmdstat_hset:calls="), ==, 1);
	redis_do(&server, "CLIENT SETNAME x");
	check_int(redis_clients(&server, "x"), ==, 0);
	server_stop(&server);
	check(access(server.folder, F_OK) != 0);
}

static void test_server_comes_back(void **state)
{
	struct server server;
	server_start(&server, NULL);
	redis_do(&server, "SET k v");
	server_kill(&server);
	server_start_again(&server);
	check_int(redis_integer(&server, "EXISTS k"), ==, 0);
	server_stop(&server);
}

static bool accepts(const struct server *server)
{
	redisContext *context = redisConnectUnix(server->socket);
	bool connected = context && !context->err;
	redisFree(context);
	return connected;
}

static void test_server_dies_with_its_parent(void **state)
{
	struct server *server = mmap(NULL, sizeof(*server), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check(server != MAP_FAILED);
	pid_t pid = fork();
	if (pid == 0) {
		server_start(server, NULL);
		_exit(0);
	}
	check(waitpid(pid, NULL, 0) == pid);
	wait_until(!accepts(server), 5000);
	server->pid = 0; /* no child of ours */
	server_stop(server);
	munmap(server, sizeof(*server));
}

static void add(size_t index, void *argument)
{
	__atomic_fetch_add((size_t *)argument, index, __ATOMIC_SEQ_CST);
}

static void test_threads_run_once_each(void **state)
{
	struct threads threads;
	size_t sum = 0;
	threads_start(&threads, 20, add, &sum);
	threads_join(&threads, 5000);
	check_int(sum, ==, 190);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_server_answers_and_leaves_nothing),
		cmocka_unit_test(test_server_comes_back),
		cmocka_unit_test(test_server_dies_with_its_parent),
		cmocka_unit_test(test_threads_run_once_each),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
