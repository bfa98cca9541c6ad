/*
 * Works in small steps while the lock is certain, and stops at once when it is lost.
 *
 * usage: notice NAME STEPS
 *
 * The program polls the descriptor of lk_event_fd() together with whatever else it waits for; here
 * that is the next step, every 10 ms.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include <lockkeeper.h>

#define STEP_MS 10

/* 1 when the lock is lost. */
static int notices_read(lk_client *client, lk_error *error)
{
	lk_event event;
	while (lk_event_wait(client, &event, 0, NULL, error) == 1) {
		if (event.type == LK_EVENT_AT_RISK)
			printf("at risk: %s\n", event.name);
		if (event.type == LK_EVENT_LOST) {
			printf("lost: %s\n", event.name);
			return 1;
		}
	}
	return 0;
}

/* 1 when the work must stop early. */
static int work(lk_client *client, lk_lock *lock, long steps, lk_error *error)
{
	struct pollfd notices = {lk_event_fd(client, error), POLLIN, 0};
	int64_t left_ms;

	puts("working");
	fflush(stdout);
	for (long step = 0; step < steps; step++) {
		if (poll(&notices, 1, STEP_MS) > 0 && notices_read(client, error))
			return 1;
		/* A memory read: is there enough of the lease left for the next step? */
		if (lk_lock_remaining_ms(lock, NULL, &left_ms, error) || left_ms < STEP_MS)
			return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	lk_client *client = NULL;
	lk_lock *lock = NULL;
	lk_error error = {0};
	char *end = NULL;
	long steps = argc == 3 ? strtol(argv[2], &end, 10) : 0;
	int stopped = 1;

	if (argc != 3 || end == argv[2] || *end) {
		fprintf(stderr, "usage: notice NAME STEPS\n");
		return 2;
	}
	if (lk_client_open(&client, NULL, &error) == 0 &&
	    lk_lock_new(&lock, client, argv[1], LK_STRLEN, &error) == 0 &&
	    lk_lock_acquire(lock, NULL, &error) == 0) {
		stopped = work(client, lock, steps, &error);
		/* The server may know more: LK_ELOST if the lock was broken meanwhile. */
		if (lk_lock_release(lock, NULL, &error))
			stopped = 1;
	}
	if (stopped)
		fprintf(stderr, "stopped: %s\n",
			error.code ? error.message : "too little of the lease is left");
	else
		puts("done");
	lk_lock_free(lock);
	lk_client_free(client);
	return stopped;
}
