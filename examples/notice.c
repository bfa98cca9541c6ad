/*
 * Works while it holds a lock, and ends the work when the lock is lost.
 *
 * usage: notice NAME TOOL STEPS
 *
 * One thread reads the notices. When the lock is lost, it calls lk_cancel_now(). That ends a call
 * in which the worker waits, here for a second lock (TOOL). The worker looks at the same token
 * before each step.
 */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <lockkeeper.h>

#define STEP_MS 10

struct job {
	lk_client *client;
	lk_lock *lock, *tool;
	lk_cancel *stop;
};

/* The notice loop: it ends when the client is closed. */
static void *read_notices(void *argument)
{
	struct job *job = argument;
	lk_event event = LK_EVENT_INIT;

	while (lk_event_wait(job->client, &event, -1, NULL, NULL) == 1) {
		if (event.type == LK_EVENT_AT_RISK)
			printf("at risk: %s\n", event.name);
		if (event.type == LK_EVENT_LOST) {
			printf("lost: %s\n", event.name);
			lk_cancel_now(job->stop);
		}
	}
	return NULL;
}

static int step(struct job *job, lk_error *error)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	int64_t left_ms;

	options.cancel = job->stop;
	if (lk_lock_acquire(job->tool, -1, &options, error))
		return 1;
	/* A memory read: is there enough of the lease left for this step? */
	int stopped = lk_lock_remaining_ms(job->lock, NULL, &left_ms, error) || left_ms < STEP_MS;
	if (!stopped)
		poll(NULL, 0, STEP_MS); /* the work */
	return lk_lock_release(job->tool, NULL, error) || stopped;
}

/* 1 when the work stopped early. */
static int work(struct job *job, long steps, lk_error *error)
{
	int stopped = 0;

	if (lk_lock_acquire(job->lock, -1, NULL, error))
		return 1;
	puts("working");
	fflush(stdout);
	for (long i = 0; i < steps && !stopped; i++)
		stopped = lk_cancel_is_set(job->stop) || step(job, error);
	/* The server may know more: LK_ELOST if the lock was broken meanwhile. */
	return lk_lock_release(job->lock, NULL, error) || stopped;
}

static int job_open(struct job *job, char **names, lk_error *error)
{
	return lk_cancel_new(&job->stop, error) || lk_client_open(&job->client, NULL, error) ||
	       lk_lock_new(&job->lock, job->client, names[0], LK_STRLEN, error) ||
	       lk_lock_new(&job->tool, job->client, names[1], LK_STRLEN, error);
}

int main(int argc, char **argv)
{
	struct job job = {0};
	lk_error error = {0};
	pthread_t reader;
	char *end = NULL;
	long steps = argc == 4 ? strtol(argv[3], &end, 10) : 0;
	int stopped = 1;

	if (argc != 4 || end == argv[3] || *end) {
		fprintf(stderr, "usage: notice NAME TOOL STEPS\n");
		return 2;
	}
	if (job_open(&job, argv + 1, &error) == 0 &&
	    pthread_create(&reader, NULL, read_notices, &job) == 0) {
		stopped = work(&job, steps, &error);
		lk_client_close(job.client, LK_CLOSE_RELEASE, NULL); /* ends the notice loop */
		pthread_join(reader, NULL);
	}
	if (stopped)
		fprintf(stderr, "stopped: %s\n",
			error.code ? error.message : "too little of the lease is left");
	else
		puts("done");
	lk_lock_free(job.lock);
	lk_lock_free(job.tool);
	lk_client_free(job.client);
	lk_cancel_free(job.stop);
	return stopped;
}
