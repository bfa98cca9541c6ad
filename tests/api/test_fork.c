/* After fork() every call in the child fails, and nothing there touches the parent's. */
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

struct scene {
	lk_client *client;
	lk_lock *held, *other;
	lk_cancel *cancel;
};

static lk_client *open_threadless(void)
{
	lk_config *config = NULL;
	lk_client *client = NULL;
	expect(0, lk_config_new(&config, &err));
	expect(0, lk_config_set(config, "url", server.url_unix, &err));
	lk_config_set_threadless(config, NULL, NULL);
	expect(0, lk_client_new(&client, config, &err));
	lk_config_free(config);
	return client;
}

/* Runs `child` in a forked child; its failed checks fail the test. */
static void in_child(void (*child)(struct scene *), struct scene *scene)
{
	int status = -1;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		check_in_thread = true; /* there is no way back into cmocka */
		alarm((unsigned)(slow_ms(20000) / 1000));
		child(scene);
		_exit(check_take_failures() ? 1 : 0);
	}
	check(waitpid(pid, &status, 0) == pid);
	check_int(status, ==, 0);
}

static void every_call_fails(struct scene *scene)
{
	char field[LK_FIELD_SIZE];
	int64_t number = 77;
	lk_lock *lock = scene->held, *new = NULL;
	lk_scan *scan = NULL;
	lk_event event = LK_EVENT_INIT;
	lk_stats stats = {.struct_size = sizeof(stats)};
	expect(LK_EFORKED, lk_client_ping(scene->client, &err));
	expect(LK_EFORKED, lk_client_stats(scene->client, &stats, &err));
	const lk_stats_source source = {scene->client, NULL};
	size_t length;
	expect(LK_EFORKED, lk_stats_declare(scene->client, "name", 4, &err));
	expect(LK_EFORKED, lk_stats_write(&source, 1, 0, NULL, 0, &length, &err));
	expect(LK_EFORKED, lk_event_wait(scene->client, &event, 0, NULL, &err));
	expect(LK_EFORKED, lk_event_wait(scene->client, &event, -1, scene->cancel, &err));
	expect(LK_EFORKED, lk_event_fd(scene->client, &err));
	expect(LK_EFORKED, lk_scan_new(&scan, scene->client, NULL, &err));
	expect(LK_EFORKED, lk_lock_new(&new, scene->client, "n", 1, &err));
	expect(LK_EFORKED, lk_lock_acquire(lock, -1, NULL, &err));
	expect(LK_EFORKED, lk_lock_acquire(scene->other, -1, NULL, &err));
	expect(LK_EFORKED, lk_lock_acquire(lock, 10, NULL, &err));
	expect(LK_EFORKED, lk_lock_acquire(lock, 0, NULL, &err));
	expect(LK_EFORKED, lk_lock_release(lock, NULL, &err));
	expect(LK_EFORKED, lk_lock_force_release(lock, &err));
	expect(LK_EFORKED, lk_lock_extend(lock, 60000, NULL, &err));
	expect(LK_EFORKED, is_locked(lock, &err));
	expect(LK_EFORKED, not_held(lock, &err));
	expect(LK_EFORKED, is_held_by(lock, "f", &err));
	expect(LK_EFORKED, lk_lock_remaining_ms(lock, NULL, &number, &err));
	expect(LK_EFORKED, lk_lock_deadline_ns(lock, NULL, &number, &err));
	expect(LK_EFORKED, lk_lock_server_ttl_ms(lock, &number, &err));
	expect(LK_EFORKED, lk_lock_export(lock, NULL, field, sizeof(field), &err));
	expect(LK_EFORKED, lk_lock_release(lock, release_of("f"), &err));
	expect(LK_EFORKED, lk_lock_extend(lock, 60000, extend_of("f"), &err));
	expect(LK_EFORKED, lk_client_close(scene->client, LK_CLOSE_RELEASE, &err));
	expect(LK_EFORKED, lk_client_close(scene->client, LK_CLOSE_IF_IDLE, &err));
	check_int(number, ==, 77);
}

static void free_everything(struct scene *scene)
{
	check(lk_lock_free(scene->held) == NULL);
	check(lk_client_free(scene->client) == NULL);
	check(lk_lock_free(scene->other) == NULL);
	check(lk_cancel_free(scene->cancel) == NULL);
}

static void own_fork_client(struct scene *scene)
{
	every_call_fails(scene);
#ifndef UNDER_TSAN /* it cannot start threads after such a fork */
	lk_client *client = open_client();
	lk_lock *lock = new_lock(client, "fork"), *other = new_lock(client, "child");
	expect(LK_EBUSY, lk_lock_acquire(lock, 0, NULL, &err));
	expect(0, lk_lock_acquire(other, -1, NULL, &err));
	expect(0, lk_lock_release(other, NULL, &err));
	lk_lock_free(lock);
	lk_lock_free(other);
	close_client(client);
#endif
}

static void wait_for_other(size_t index, void *argument)
{
	struct scene *scene = argument;
	expect(0, lk_lock_acquire(scene->other, -1, NULL, &err));
	expect(0, lk_lock_release(scene->other, NULL, &err));
}

/* The counters once all connections are made: no more for some renewals. */
static lk_stats settled(lk_client *client)
{
	lk_stats first = stats_of(client), now = first;
	wait_until((now = stats_of(client)).renewals >= first.renewals + 2, 10000);
	return now;
}

/* A client that holds one lock and waits for another: connections and threads are all there. */
static void test_child_fails_and_parent_goes_on(void **state)
{
	static void (*const children[])(struct scene *) = {every_call_fails, free_everything,
							   own_fork_client, every_call_fails};
	struct scene scene = {.client = open_client_with("watchdog_ms=%lld", slow_ms(900))};
	struct threads threads;
	scene.held = new_lock(scene.client, "fork");
	scene.other = new_lock(scene.client, "waited");
	expect(0, lk_cancel_new(&scene.cancel, &err));
	expect(0, lk_lock_acquire(scene.held, -1, NULL, &err));
	stranger_takes("waited", slow_ms(60000));
	threads_start(&threads, 1, wait_for_other, &scene);
	wait_until(stats_of(scene.client).waiting == 1, 5000);
	lk_stats before = settled(scene.client);
	for (size_t i = 0; i < COUNT(children); i++) {
		in_child(children[i], &scene);
		expect(0, lk_client_ping(scene.client, &err));
		expect(1, lk_lock_is_held(scene.held, NULL, &err));
		check_int(redis_integer(&server, "EXISTS fork"), ==, 1);
	}
	lk_stats after = stats_of(scene.client);
	check_int(after.connects, ==, before.connects);
	check_int(after.disconnects, ==, before.disconnects);
	check_int(after.resent, ==, before.resent);
	stranger_releases("waited");
	threads_join(&threads, 10000);
	expect(0, lk_lock_release(scene.held, NULL, &err));
	lk_cancel_free(scene.cancel);
	lk_lock_free(scene.held);
	lk_lock_free(scene.other);
	close_client(scene.client);
}

/* No byte may leave the child: the server's own counter of them says so. */
static void test_child_sends_nothing(void **state)
{
	struct scene scene = {.client = open_client_with("tracking=off")};
	scene.held = new_lock(scene.client, "quiet");
	scene.other = new_lock(scene.client, "other");
	expect(0, lk_cancel_new(&scene.cancel, &err));
	expect(0, lk_lock_acquire(scene.held, -1, NULL, &err));
	wait_until(stats_of(scene.client).connects == 2, 10000); /* the watchdog's own is there */
	long long before = redis_info(&server, "stats", "total_net_input_bytes:");
	long long one_info = redis_info(&server, "stats", "total_net_input_bytes:") - before;
	long long start = redis_info(&server, "stats", "total_net_input_bytes:");
	in_child(every_call_fails, &scene);
	in_child(free_everything, &scene);
	check_int(redis_info(&server, "stats", "total_net_input_bytes:") - start, ==, one_info);
	expect(0, lk_lock_release(scene.held, NULL, &err));
	lk_cancel_free(scene.cancel);
	lk_lock_free(scene.held);
	lk_lock_free(scene.other);
	close_client(scene.client);
}

/* That it would block is not what is wrong in the child. */
static void test_child_of_a_threadless_client(void **state)
{
	struct scene scene = {.client = open_threadless()};
	scene.held = new_lock(scene.client, "fork");
	scene.other = new_lock(scene.client, "other");
	expect(0, lk_cancel_new(&scene.cancel, &err));
	expect(LK_EBLOCKING, is_locked(scene.held, &err));
	in_child(every_call_fails, &scene);
	lk_cancel_free(scene.cancel);
	lk_lock_free(scene.held);
	lk_lock_free(scene.other);
	lk_client_free(scene.client);
}

/* How many descriptors a program that is run now finds open. */
static int descriptors_of_a_program(void)
{
	char text[4096];
	int fds[2], lines = 0;
	check(pipe(fds) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(fds[1], 1);
		close(fds[0]);
		close(fds[1]);
		execlp("ls", "ls", "-1", "/proc/self/fd", (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	for (ssize_t got; (got = read(fds[0], text, sizeof(text))) > 0;)
		for (ssize_t i = 0; i < got; i++)
			lines += text[i] == '\n';
	close(fds[0]);
	check(waitpid(pid, NULL, 0) == pid);
	check_int(lines, >=, 3);
	return lines;
}

static void test_descriptors_are_close_on_exec(void **state)
{
	int before = descriptors_of_a_program();
	lk_client *client = open_client();
	lk_lock *lock = new_lock(client, "exec");
	lk_cancel *cancel = NULL;
	expect(0, lk_cancel_new(&cancel, &err));
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	check(lk_event_fd(client, &err) >= 0);
	check_int(descriptors_of_a_program(), ==, before);
	expect(0, lk_lock_release(lock, NULL, &err));
	lk_cancel_free(cancel);
	lk_lock_free(lock);
	close_client(client);
}

/* ---- descriptors ---- */

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* Those from 3 on, below 256. */
static int open_descriptors(void)
{
	int count = 0;
	for (int fd = 3; fd < 256; fd++)
		count += is_open(fd);
	return count;
}

struct crowd {
	lk_queue *queue;
	int before; /* descriptors of a program without a client */
};

static struct crowd crowd;

/* All but the token's. It still wakes, and clients of the child's own are not touched. */
static void free_closes_copies(struct scene *scene)
{
	check_int(open_descriptors(), >=, crowd.before + 5);
	free_everything(&(struct scene){.client = scene->client});
	check_int(open_descriptors(), ==, crowd.before + 1);
#ifndef UNDER_TSAN /* it cannot start threads after such a fork */
	lk_client *client = open_client();
	lk_lock *lock = new_lock(client, "child");
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	free_everything(&(struct scene){.client = scene->client});
	expect(0, lk_queue_free(crowd.queue, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	lk_lock_free(lock);
	close_client(client);
#endif
	check_int(open_descriptors(), ==, crowd.before + 1);
}

static void a_queue_closes_them_too(struct scene *scene)
{
	expect(0, lk_queue_free(crowd.queue, &err));
	check_int(open_descriptors(), ==, crowd.before + 1);
}

/* As a daemon does: closes all, and opens its own. None of these is taken for the parent's. */
static void what_is_reused_stays(struct scene *scene)
{
	int count = 0;
	for (int fd = 3; fd < 256; fd++)
		close(fd);
	while (count < 64) {
		int fd = count % 4 == 0   ? eventfd(0, 0)
			 : count % 4 == 1 ? epoll_create1(0)
			 : count % 4 == 2 ? socket(AF_UNIX, SOCK_STREAM, 0)
					  : timerfd_create(CLOCK_MONOTONIC, 0);
		check(fd >= 0);
		count++;
	}
	check_int(open_descriptors(), ==, count);
	free_everything(&(struct scene){.client = scene->client});
	expect(0, lk_queue_free(crowd.queue, &err));
	check_int(open_descriptors(), ==, count);
}

static void test_descriptors_of_a_child(void **state)
{
	crowd.before = open_descriptors();
	struct scene scene = {.client = open_client_with("tracking=off")};
	expect(0, lk_queue_new(&crowd.queue, 0, &err));
	scene.held = new_lock(scene.client, "fork");
	expect(0, lk_cancel_new(&scene.cancel, &err));
	expect(0, lk_lock_acquire(scene.held, -1, NULL, &err));
	wait_until(stats_of(scene.client).connects == 2, 10000); /* the watchdog's own is there */
	check(lk_event_fd(scene.client, &err) >= 0);
	int open = open_descriptors();
	lk_stats before = stats_of(scene.client);
	in_child(free_closes_copies, &scene);
	in_child(a_queue_closes_them_too, &scene);
	in_child(what_is_reused_stays, &scene);
	check_int(open_descriptors(), ==, open);
	expect(0, lk_client_ping(scene.client, &err));
	expect(0, lk_lock_release(scene.held, NULL, &err));
	check_int(stats_of(scene.client).disconnects, ==, before.disconnects);
	expect(0, lk_queue_free(crowd.queue, &err));
	lk_cancel_free(scene.cancel);
	lk_lock_free(scene.held);
	close_client(scene.client);
	check_int(open_descriptors(), ==, crowd.before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_child_fails_and_parent_goes_on),
		api_test(test_child_sends_nothing),
		api_test(test_child_of_a_threadless_client),
		api_test(test_descriptors_are_close_on_exec),
		api_test(test_descriptors_of_a_child),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
