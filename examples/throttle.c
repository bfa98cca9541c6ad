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
	printf("%s is baked\n", name); /* here is the work */
	lk_permit permit;
	need(lk_completion_permits(completed, &permit, 1, &error));
	lk_request request = {.struct_size = sizeof(request),
			      .operation = LK_OP_RELEASE,
			      .permit_semaphore = ovens,
			      .number = 1,
			      .permits = &permit,
			      .tag = completed->tag};
	need(lk_queue_start(queue, &request, NULL, &error));
}

int main(int argc, char **argv)
{
	lk_permit_semaphore *ovens = NULL;
	lk_completion completed = LK_COMPLETION_INIT;
	lk_client *client = NULL;
	lk_queue *queue = NULL;

	need(lk_client_open(&client, NULL, &error));
	need(lk_queue_new(&queue, 0, &error));
	need(lk_permit_semaphore_new(&ovens, client, "ovens", LK_STRLEN, NULL, &error));
	lk_request request = {.struct_size = sizeof(request),
			      .operation = LK_OP_TRY_SET,
			      .permit_semaphore = ovens,
			      .number = 2};
	need(lk_queue_start(queue, &request, NULL, &error));
	need(lk_queue_take(queue, &completed, 1, -1, &error));
	for (int i = 1; i < argc; i++) {
		request = (lk_request){.struct_size = sizeof(request),
				       .operation = LK_OP_ACQUIRE,
				       .permit_semaphore = ovens,
				       .wait_ms = -1,
				       .number = 1,
				       .tag = (uint64_t)i};
		need(lk_queue_start(queue, &request, NULL, &error));
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
