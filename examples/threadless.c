/*
 * A lock in a program of one thread: it drives the client itself.
 *
 * usage: threadless NAME [MS]
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include <lockkeeper.h>

static lk_error error;
static lk_client *client;
static lk_queue *queue;

static void need(int result)
{
	if (result < 0) {
		fprintf(stderr, "%s\n", error.message);
		exit(1);
	}
}

/* The client from the environment; its work is done by lk_client_process(). */
static void open_client(void)
{
	lk_config *config;
	need(lk_config_new(&config, &error));
	need(lk_config_load_environment(config, &error));
	lk_config_set_threadless(config, NULL, NULL);
	need(lk_client_new(&client, config, &error));
	lk_config_free(config);
}

/* One turn of the program's loop; a real one watches other descriptors too. */
static void turn(int limit_ms)
{
	struct pollfd fd = {.fd = lk_client_fd(client, &error), .events = POLLIN};
	if (poll(&fd, 1, limit_ms) > 0)
		need(lk_client_process(client, &error));
}

/* The loop, until the next completion. */
static void await(void)
{
	lk_completion completion;
	while (lk_queue_take(queue, &completion, 1, 0, &error) == 0)
		turn(-1);
	error = completion.error;
	need(error.code);
}

int main(int argc, char **argv)
{
	lk_acquire_options acquire = LK_ACQUIRE_OPTIONS_INIT;
	lk_release_options release = LK_RELEASE_OPTIONS_INIT;
	lk_lock *lock;
	if (argc < 2) {
		fprintf(stderr, "usage: %s NAME [MS]\n", argv[0]);
		return 2;
	}
	acquire.owner = release.owner = "task"; /* never a thread */
	open_client();
	need(lk_queue_new(&queue, 0, &error));
	need(lk_lock_new(&lock, client, argv[1], LK_STRLEN, &error));

	need(lk_queue_acquire(queue, lock, -1, &acquire, NULL, &error));
	await();
	printf("%s is ours\n", argv[1]);
	fflush(stdout);
	for (int piece = 0; piece < 10; piece++) /* of work, with turns between them */
		turn(argc > 2 ? atoi(argv[2]) / 10 : 10);

	need(lk_queue_release(queue, lock, &release, 0, NULL, &error));
	await();
	lk_lock_free(lock);
	need(lk_queue_close(queue, client, LK_CLOSE_RELEASE, 0, NULL, &error));
	await();
	lk_client_free(client);
	need(lk_queue_free(queue, &error));
	return 0;
}
