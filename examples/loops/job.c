#include "job.h"

#include <stdio.h>
#include <stdlib.h>

#define OWNER "job" /* a task, not a thread, has the lock */

static lk_error error;

static void need(int result)
{
	if (result < 0) {
		fprintf(stderr, "%s\n", error.message);
		exit(1);
	}
}

void job_start(struct job *job, int argc, char **argv)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	if (argc < 2) {
		fprintf(stderr, "usage: %s NAME [MS]\n", argv[0]);
		exit(2);
	}
	options.owner = OWNER;
	job->name = argv[1];
	job->work_ms = argc > 2 ? atol(argv[2]) : 100;
	need(lk_client_open(&job->client, NULL, &error));
	need(lk_queue_new(&job->queue, 0, &error));
	if (job->wake)
		need(lk_queue_on_ready(job->queue, job->wake, job->wake_context, &error));
	lk_request notices = {
		.struct_size = sizeof(notices), .operation = LK_OP_NOTICE, .client = job->client};
	need(lk_queue_start(job->queue, &notices, NULL, &error));
	need(lk_lock_new(&job->lock, job->client, job->name, LK_STRLEN, &error));
	lk_request acquire = {.struct_size = sizeof(acquire),
			      .operation = LK_OP_ACQUIRE,
			      .lock = job->lock,
			      .wait_ms = -1,
			      .acquire = &options};
	need(lk_queue_start(job->queue, &acquire, NULL, &error));
}

static void job_stop(struct job *job, int status)
{
	if (!job->ended)
		job->end(job);
	job->ended = 1;
	job->status |= status;
}

static void job_complete(struct job *job, const lk_completion *completion)
{
	if (completion->error.code) {
		fprintf(stderr, "%s\n", completion->error.message);
		job_stop(job, 1);
	} else if (completion->event == LK_EVENT_LOST) {
		fprintf(stderr, "%s is lost: the work must stop\n", job->name);
		job_stop(job, 1);
	} else if (completion->operation == LK_OP_ACQUIRE) {
		printf("%s is ours\n", job->name);
		fflush(stdout);
		job->work(job);
	} else if (completion->operation == LK_OP_RELEASE) {
		job_stop(job, 0);
	}
}

void job_ready(void *context)
{
	struct job *job = context;
	lk_completion completion = LK_COMPLETION_INIT;
	while (lk_queue_take(job->queue, &completion, 1, 0, &error) == 1)
		job_complete(job, &completion);
}

void job_worked(struct job *job)
{
	lk_release_options options = LK_RELEASE_OPTIONS_INIT;
	options.owner = OWNER;
	lk_request release = {.struct_size = sizeof(release),
			      .operation = LK_OP_RELEASE,
			      .lock = job->lock,
			      .release = &options};
	need(lk_queue_start(job->queue, &release, NULL, &error));
}

int job_end(struct job *job)
{
	lk_completion completion = LK_COMPLETION_INIT;
	lk_lock_free(job->lock);
	need(lk_client_close(job->client, LK_CLOSE_RELEASE, &error));
	while (lk_queue_take(job->queue, &completion, 1, 0, &error) == 1)
		continue; /* the end of the notices */
	need(lk_queue_free(job->queue, &error));
	lk_client_free(job->client);
	return job->status;
}
