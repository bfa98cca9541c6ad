/*
 * A lock in a libuv loop.
 *
 * usage: libuv NAME [MS]
 */
#include <stdio.h>
#include <uv.h>

#include "job.h"

/* ---- the adapter ---- */

/* A descriptor of the library, and what is to be called when it is readable. */
struct watch {
	uv_poll_t poll;
	void (*ready)(void *context);
	void *context;
};

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct watch *watch = poll->data;
	(void)status;
	(void)events;
	watch->ready(watch->context);
}

static void watch_start(struct watch *watch, uv_loop_t *loop, int fd)
{
	int rc = uv_poll_init(loop, &watch->poll, fd);
	watch->poll.data = watch;
	if (rc == 0)
		rc = uv_poll_start(&watch->poll, UV_READABLE, on_poll);
	if (rc < 0)
		fprintf(stderr, "%s\n", uv_strerror(rc));
}

/* The library closes the descriptor; `watch` must stay until the loop's next turn. */
static void watch_stop(struct watch *watch)
{
	uv_close((uv_handle_t *)&watch->poll, NULL);
}

/* ---- the program ---- */

static struct watch queue;
static uv_timer_t timer;

static void on_timer(uv_timer_t *which)
{
	job_worked(which->data);
}

static void work(struct job *job)
{
	uv_timer_start(&timer, on_timer, (uint64_t)job->work_ms, 0);
}

static void end(struct job *job)
{
	(void)job;
	watch_stop(&queue);
	uv_close((uv_handle_t *)&timer, NULL);
}

int main(int argc, char **argv)
{
	struct job job = {.work = work, .end = end};
	uv_loop_t *loop = uv_default_loop();
	job_start(&job, argc, argv);
	uv_timer_init(loop, &timer);
	timer.data = &job;
	queue.ready = job_ready;
	queue.context = &job;
	watch_start(&queue, loop, lk_queue_fd(job.queue, NULL));
	uv_run(loop, UV_RUN_DEFAULT); /* until nothing is watched any more */
	uv_loop_close(loop);
	return job_end(&job);
}
