#include "program.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "request.h"

#define CLIENTS_MAX 16
#define CLOSE_LIMIT_MS 120000

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static lk_client *clients[CLIENTS_MAX];
static size_t client_count;

static void need(int result, const lk_error *error)
{
	if (result >= 0)
		return;
	fprintf(stderr, "program: %s\n", error->message);
	abort();
}

bool program_drives(void)
{
	const char *driver = getenv("LK_TEST_DRIVER");
	return driver && strcmp(driver, "program") == 0;
}

/* The descriptors, and how many there are. */
static size_t list(struct pollfd fds[CLIENTS_MAX])
{
	pthread_mutex_lock(&mutex);
	size_t count = client_count;
	for (size_t i = 0; i < count; i++)
		fds[i] = (struct pollfd){.fd = lk_client_fd(clients[i], NULL), .events = POLLIN};
	pthread_mutex_unlock(&mutex);
	return count;
}

static void process_all(void)
{
	pthread_mutex_lock(&mutex);
	for (size_t i = 0; i < client_count; i++) {
		lk_error error;
		int result = lk_client_process(clients[i], &error);
		need(result == LK_ECLOSED ? 0 : result, &error);
	}
	pthread_mutex_unlock(&mutex);
}

/* Ends with the process. */
static void *drive(void *argument)
{
	(void)argument;
	for (;;) {
		struct pollfd fds[CLIENTS_MAX];
		if (poll(fds, list(fds), 2) > 0) /* a client may have come meanwhile */
			process_all();
	}
	return NULL;
}

void program_add(lk_client *client)
{
	static bool runs;
	pthread_t thread;
	pthread_mutex_lock(&mutex);
	if (client_count == CLIENTS_MAX || (!runs && pthread_create(&thread, NULL, drive, NULL)))
		abort();
	runs = true;
	clients[client_count++] = client;
	pthread_mutex_unlock(&mutex);
}

static bool is_driven(const lk_client *client)
{
	bool found = false;
	pthread_mutex_lock(&mutex);
	for (size_t i = 0; i < client_count; i++)
		found |= clients[i] == client;
	pthread_mutex_unlock(&mutex);
	return found;
}

static int close_by_request(lk_client *client, int how, lk_error *error)
{
	lk_queue *queue = NULL;
	lk_completion completion = LK_COMPLETION_INIT;
	lk_error own;
	need(lk_queue_new(&queue, 1, &own), &own);
	int result = lk_queue_start(queue, request_of(CLOSE, .client = client, .how = how), NULL,
				    error);
	if (result == 0) {
		if (lk_queue_take(queue, &completion, 1, CLOSE_LIMIT_MS, &own) != 1)
			abort();
		result = completion.error.code;
		if (error)
			*error = completion.error;
	}
	need(lk_queue_free(queue, &own), &own);
	return result == LK_ECLOSED ? 0 : result; /* it was closed before */
}

int program_close(lk_client *client, int how, lk_error *error)
{
	return is_driven(client) ? close_by_request(client, how, error)
				 : lk_client_close(client, how, error);
}

lk_client *program_free(lk_client *client)
{
	pthread_mutex_lock(&mutex);
	for (size_t i = 0; i < client_count; i++)
		if (clients[i] == client)
			clients[i] = clients[--client_count];
	pthread_mutex_unlock(&mutex);
	return lk_client_free(client);
}
