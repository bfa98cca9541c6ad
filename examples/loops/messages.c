/*
 * A lock in a loop that takes messages and cannot watch descriptors, as those of window systems and
 * of many language runtimes.
 *
 * usage: messages NAME [MS]
 */
#include <pthread.h>
#include <time.h>

#include "job.h"

/* ---- the adapter ---- */

/* Stands for the loop's own queue of messages, with room for the only one that it takes here. */
struct loop {
	pthread_mutex_t mutex;
	pthread_cond_t posted;
	int ready;
};

/* The wake-up callback, on a thread of the library: posts "something has completed". It may take
 * this mutex, because nobody calls the library while they hold it. */
static void loop_post(void *context)
{
	struct loop *loop = context;
	pthread_mutex_lock(&loop->mutex);
	loop->ready = 1;
	pthread_cond_signal(&loop->posted);
	pthread_mutex_unlock(&loop->mutex);
}

/* Waits for the message, until that time if there is one. Returns whether it came. */
static int loop_wait(struct loop *loop, const struct timespec *until)
{
	int rc = 0;
	pthread_mutex_lock(&loop->mutex);
	while (!loop->ready && rc == 0)
		rc = until ? pthread_cond_timedwait(&loop->posted, &loop->mutex, until)
			   : pthread_cond_wait(&loop->posted, &loop->mutex);
	int ready = loop->ready;
	loop->ready = 0;
	pthread_mutex_unlock(&loop->mutex);
	return ready;
}

/* ---- the program ---- */

static struct timespec worked; /* while it works: when that is over */
static int works, over;

static void work(struct job *job)
{
	clock_gettime(CLOCK_REALTIME, &worked);
	worked.tv_nsec += job->work_ms % 1000 * 1000000;
	worked.tv_sec += job->work_ms / 1000 + worked.tv_nsec / 1000000000;
	worked.tv_nsec %= 1000000000;
	works = 1;
}

static void end(struct job *job)
{
	(void)job;
	over = 1;
}

int main(int argc, char **argv)
{
	struct loop loop = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
	struct job job = {.work = work, .end = end, .wake = loop_post, .wake_context = &loop};
	job_start(&job, argc, argv);
	while (!over) {
		if (loop_wait(&loop, works ? &worked : NULL)) {
			job_ready(&job); /* takes until nothing is left */
		} else {
			works = 0;
			job_worked(&job);
		}
	}
	return job_end(&job);
}
