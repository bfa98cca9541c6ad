/*
 * A lock in a plain epoll loop.
 *
 * usage: epoll NAME [MS]
 */
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "job.h"

/* ---- the adapter ---- */

/* A descriptor, and what is to be called when it is readable. */
struct watch {
	int fd;
	void (*ready)(void *context);
	void *context;
};

static void watch_start(int loop, struct watch *watch)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = watch};
	if (epoll_ctl(loop, EPOLL_CTL_ADD, watch->fd, &event) < 0)
		perror("epoll_ctl");
}

/* Waits for one of them. */
static void watch_turn(int loop)
{
	struct epoll_event event;
	if (epoll_wait(loop, &event, 1, -1) == 1) {
		struct watch *watch = event.data.ptr;
		watch->ready(watch->context);
	}
}

/* ---- the program ---- */

static struct watch queue, timer;
static int over;

static void work(struct job *job)
{
	struct itimerspec time = {.it_value = {job->work_ms / 1000, job->work_ms % 1000 * 1000000}};
	timerfd_settime(timer.fd, 0, &time, NULL);
}

static void worked(void *job)
{
	timerfd_settime(timer.fd, 0, &(struct itimerspec){{0, 0}, {0, 0}}, NULL);
	job_worked(job);
}

static void end(struct job *job)
{
	(void)job;
	over = 1;
}

int main(int argc, char **argv)
{
	struct job job = {.work = work, .end = end};
	int loop = epoll_create1(EPOLL_CLOEXEC);
	job_start(&job, argc, argv);
	queue = (struct watch){lk_queue_fd(job.queue, NULL), job_ready, &job};
	timer = (struct watch){timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC), worked, &job};
	watch_start(loop, &queue);
	watch_start(loop, &timer);
	while (!over)
		watch_turn(loop);
	close(timer.fd);
	close(loop);
	return job_end(&job);
}
