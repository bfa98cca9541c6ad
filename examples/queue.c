/*
 * Many jobs in one thread, in an event loop of its own: each takes a lock, works and releases.
 *
 * usage: queue NAME…
 *
 * The loop watches two descriptors: lk_queue_fd() for what has completed, and lk_event_fd() for
 * locks that are lost meanwhile. No call blocks but epoll_wait().
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

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

static void watch(int loop, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
	need(fd);
	epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event);
}

static void start(lk_queue *queue, lk_lock *lock, const char *name, uint64_t job)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.owner = name; /* a job, not a thread, has the lock */
	options.tag = job;
	need(lk_queue_acquire(queue, lock, -1, &options, NULL, &error));
}

/* What has completed. Returns how many jobs are done. */
static int take(lk_queue *queue, lk_lock **locks, char **names)
{
	lk_completion completed[COMPLETIONS];
	lk_release_options options = LK_RELEASE_OPTIONS_INIT;
	int done = 0, count = lk_queue_take(queue, completed, COMPLETIONS, 0, &error);
	need(count);
	for (int i = 0; i < count; i++) {
		uint64_t job = completed[i].tag;
		if (completed[i].error.code)
			fprintf(stderr, "%s\n", completed[i].error.message);
		if (completed[i].operation != LK_OP_ACQUIRE || completed[i].error.code) {
			done++;
			continue;
		}
		printf("%s is ours\n", names[job]); /* here is the work */
		options.owner = names[job];
		need(lk_queue_release(queue, locks[job], &options, job, NULL, &error));
	}
	return done;
}

int main(int argc, char **argv)
{
	int jobs = argc - 1, left = jobs, loop = epoll_create1(EPOLL_CLOEXEC);
	lk_lock **locks = calloc((size_t)argc, sizeof(lk_lock *));
	lk_client *client = NULL;
	lk_queue *queue = NULL;
	struct epoll_event ready;
	lk_event event;

	need(lk_client_open(&client, NULL, &error));
	need(lk_queue_new(&queue, 0, &error));
	watch(loop, lk_queue_fd(queue, &error));
	watch(loop, lk_event_fd(client, &error));
	for (int i = 0; i < jobs; i++) {
		need(lk_lock_new(&locks[i], client, argv[i + 1], LK_STRLEN, &error));
		start(queue, locks[i], argv[i + 1], (uint64_t)i);
	}
	while (left > 0 && epoll_wait(loop, &ready, 1, -1) >= 0) {
		left -= take(queue, locks, argv + 1);
		while (lk_event_wait(client, &event, 0, NULL, &error) == 1)
			if (event.type == LK_EVENT_LOST)
				fprintf(stderr, "%s is lost: stop its job\n", event.name);
	}
	for (int i = 0; i < jobs; i++)
		lk_lock_free(locks[i]);
	free(locks);
	need(lk_queue_free(queue, &error));
	need(lk_client_close(client, LK_CLOSE_RELEASE, &error));
	lk_client_free(client);
	return 0;
}
