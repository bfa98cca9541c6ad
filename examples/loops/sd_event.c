/*
 * A lock in an event loop of libsystemd.
 *
 * usage: sd_event NAME [MS]
 */
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <systemd/sd-event.h>

#include "job.h"

/* ---- the adapter ---- */

/* A descriptor of the library, and what is to be called when it is readable. */
struct watch {
	sd_event_source *source;
	void (*ready)(void *context);
	void *context;
};

static int on_readable(sd_event_source *source, int fd, uint32_t events, void *data)
{
	const struct watch *watch = data;
	(void)source;
	(void)fd;
	(void)events;
	watch->ready(watch->context);
	return 0;
}

static void watch_start(struct watch *watch, sd_event *loop, int fd)
{
	int rc = sd_event_add_io(loop, &watch->source, fd, EPOLLIN, on_readable, watch);
	if (rc < 0)
		fprintf(stderr, "sd_event_add_io: %s\n", strerror(-rc));
}

/* The library closes the descriptor. */
static void watch_stop(struct watch *watch)
{
	sd_event_source_disable_unref(watch->source);
}

/* ---- the program ---- */

static sd_event *loop;

static int on_timer(sd_event_source *source, uint64_t us, void *job)
{
	(void)source;
	(void)us;
	job_worked(job);
	return 0;
}

static void work(struct job *job)
{
	sd_event_add_time_relative(loop, NULL, CLOCK_BOOTTIME, (uint64_t)job->work_ms * 1000, 0,
				   on_timer, job);
}

static void end(struct job *job)
{
	(void)job;
	sd_event_exit(loop, 0);
}

int main(int argc, char **argv)
{
	struct job job = {.work = work, .end = end};
	struct watch queue = {.ready = job_ready, .context = &job};
	job_start(&job, argc, argv);
	sd_event_default(&loop);
	watch_start(&queue, loop, lk_queue_fd(job.queue, NULL));
	sd_event_loop(loop);
	watch_stop(&queue);
	sd_event_unref(loop);
	return job_end(&job);
}
