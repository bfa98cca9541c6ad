/*
 * Many jobs in one thread: each takes a lock, works and releases.
 *
 * usage: queue NAME…
 *
 * What completes, and what is lost meanwhile, comes through one queue. This program waits for it
 * there; in an event loop it would watch lk_queue_fd() and never wait (see loops/).
 */
#include <stdio.h>
#include <stdlib.h>

#include <lockkeeper.h>

#define COMPLETIONS 16

static lk_error error;

static void need(int result)
{
	if (result < 0) {
		fprintf(stderr, "%s\n", error.message);
		exit(1);
	}
}

static void start(lk_queue *queue, lk_lock *lock, const char *name, uint64_t job)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.owner = name; /* a job, not a thread, has the lock */
	options.tag = job;    /* of its notices; that of the request is in the completion */
	lk_request request = {.struct_size = sizeof(request),
			      .operation = LK_OP_ACQUIRE,
			      .lock = lock,
			      .wait_ms = -1,
			      .acquire = &options,
			      .tag = job};
	need(lk_queue_start(queue, &request, NULL, &error));
}

/* One that has completed. Returns 1 when its job is done. */
static int complete(lk_queue *queue, const lk_completion *completed, lk_lock *lock,
		    const char *name)
{
	lk_release_options options = LK_RELEASE_OPTIONS_INIT;
	if (completed->operation == LK_OP_NOTICE) {
		if (completed->event == LK_EVENT_LOST)
			fprintf(stderr, "%s is lost: stop its job\n", name);
		return 0;
	}
	if (completed->error.code)
		fprintf(stderr, "%s\n", completed->error.message);
	if (completed->operation == LK_OP_RELEASE || completed->error.code)
		return 1;
	printf("%s is ours\n", name); /* here is the work */
	options.owner = name;
	lk_request request = {.struct_size = sizeof(request),
			      .operation = LK_OP_RELEASE,
			      .lock = lock,
			      .release = &options,
			      .tag = completed->tag};
	need(lk_queue_start(queue, &request, NULL, &error));
	return 0;
}

int main(int argc, char **argv)
{
	int jobs = argc - 1, left = jobs;
	lk_lock **locks = calloc((size_t)argc, sizeof(lk_lock *));
	lk_completion completed[COMPLETIONS] = {LK_COMPLETION_INIT};
	lk_request notices = {.struct_size = sizeof(notices), .operation = LK_OP_NOTICE};
	lk_client *client = NULL;
	lk_queue *queue = NULL;

	need(lk_client_open(&client, NULL, &error));
	need(lk_queue_new(&queue, 0, &error));
	notices.client = client;
	need(lk_queue_start(queue, &notices, NULL, &error));
	for (int i = 0; i < jobs; i++) {
		need(lk_lock_new(&locks[i], client, argv[i + 1], LK_STRLEN, &error));
		start(queue, locks[i], argv[i + 1], (uint64_t)i);
	}
	while (left > 0) {
		int count = lk_queue_take(queue, completed, COMPLETIONS, -1, &error);
		need(count);
		for (int i = 0; i < count; i++)
			left -= complete(queue, &completed[i], locks[completed[i].tag],
					 argv[completed[i].tag + 1]);
	}
	for (int i = 0; i < jobs; i++)
		lk_lock_free(locks[i]);
	free(locks);
	need(lk_client_close(client, LK_CLOSE_RELEASE, &error));
	while (lk_queue_take(queue, completed, 1, 0, &error) == 1)
		continue; /* the end of the notices */
	need(lk_queue_free(queue, &error));
	lk_client_free(client);
	return 0;
}
