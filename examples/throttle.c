/*
 * Many jobs in one thread, at most two at a time, counted over all processes.
 *
 * usage: throttle NAME…
 *
 * Each job waits for a permit in the queue, works and gives it back. The permit of a process that
 * dies comes back by itself.
 */
#include <stdio.h>
#include <stdlib.h>

#include <lockkeeper.h>

static lk_error error;

static void need(int result)
{
	if (result < 0) {
		fprintf(stderr, "%s\n", error.message);
		exit(1);
	}
}

static void complete(lk_queue *queue, lk_permit_semaphore *ovens, const lk_completion *completed,
		     const char *name)
{
	if (completed->error.code) {
		fprintf(stderr, "%s: %s\n", name, completed->error.message);
		exit(1);
	}
	if (completed->operation != LK_OP_ACQUIRE)
		return;
	printf("%s is baked\n", name); /* here is the work; the permit's id is in `field` */
	need(lk_queue_permit_release(queue, ovens, completed->field, completed->tag, NULL, &error));
}

int main(int argc, char **argv)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_permit_semaphore *ovens = NULL;
	lk_completion completed;
	lk_client *client = NULL;
	lk_queue *queue = NULL;

	need(lk_client_open(&client, NULL, &error));
	need(lk_queue_new(&queue, 0, &error));
	need(lk_permit_semaphore_new(&ovens, client, "ovens", LK_STRLEN, NULL, &error));
	need(lk_queue_permit_try_set(queue, ovens, 2, 0, NULL, &error));
	need(lk_queue_take(queue, &completed, 1, -1, &error));
	for (int i = 1; i < argc; i++) {
		options.tag = (uint64_t)i;
		need(lk_queue_permit_acquire(queue, ovens, -1, &options, NULL, &error));
	}
	for (int left = 2 * (argc - 1); left > 0; left--) {
		need(lk_queue_take(queue, &completed, 1, -1, &error));
		complete(queue, ovens, &completed, argv[completed.tag]);
	}
	lk_permit_semaphore_free(ovens);
	need(lk_client_close(client, LK_CLOSE_RELEASE, &error));
	lk_client_free(client);
	need(lk_queue_free(queue, &error));
	return 0;
}
