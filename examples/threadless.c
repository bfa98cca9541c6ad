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
	lk_completion completion = LK_COMPLETION_INIT;
	while (lk_queue_take(queue, &completion, 1, 0, &error) == 0)
		turn(-1);
	error = completion.error;
	need(error.code);
}

/* A request, until it has completed. */
static void start(const lk_request *request)
{
	need(lk_queue_start(queue, request, NULL, &error));
	await();
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

	lk_request request = {.struct_size = sizeof(request),
			      .operation = LK_OP_ACQUIRE,
			      .lock = lock,
			      .wait_ms = -1,
			      .acquire = &acquire};
	start(&request);
	printf("%s is ours\n", argv[1]);
	fflush(stdout);
	for (int piece = 0; piece < 10; piece++) /* of work, with turns between them */
		turn(argc > 2 ? atoi(argv[2]) / 10 : 10);

	request = (lk_request){.struct_size = sizeof(request),
			       .operation = LK_OP_RELEASE,
			       .lock = lock,
			       .release = &release};
	start(&request);
	lk_lock_free(lock);
	request = (lk_request){.struct_size = sizeof(request),
			       .operation = LK_OP_CLOSE,
			       .client = client,
			       .how = LK_CLOSE_RELEASE};
	start(&request);
	lk_client_free(client);
	need(lk_queue_free(queue, &error));
	return 0;
}
