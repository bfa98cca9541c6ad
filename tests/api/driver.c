#include "driver.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "waiting.h"

#define CLIENTS_MAX 16

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static lk_client *clients[CLIENTS_MAX];
static size_t client_count;

bool program_drives(void)
{
	const char *driver = getenv("LK_TEST_DRIVER");
	return driver && strcmp(driver, "program") == 0;
}

/* The descriptors, and how many there are; waits for none. */
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
		int rc = lk_client_process(clients[i], &error);
		if (rc < 0 && rc != LK_ECLOSED)
			check_fail(__FILE__, __LINE__, "%s", error.message);
	}
	pthread_mutex_unlock(&mutex);
}

/* Ends with the process. */
static void *drive(void *argument)
{
	(void)argument;
	for (;;) {
		struct pollfd fds[CLIENTS_MAX];
		if (poll(fds, list(fds), 2) > 0)
			process_all();
	}
	return NULL;
}

void driver_add(lk_client *client)
{
	static pthread_t thread;
	pthread_mutex_lock(&mutex);
	check_int(client_count, <, CLIENTS_MAX);
	clients[client_count++] = client;
	if (!thread)
		check_int(pthread_create(&thread, NULL, drive, NULL), ==, 0);
	pthread_mutex_unlock(&mutex);
}

void driver_remove(lk_client *client)
{
	pthread_mutex_lock(&mutex);
	for (size_t i = 0; i < client_count; i++)
		if (clients[i] == client)
			clients[i] = clients[--client_count];
	pthread_mutex_unlock(&mutex);
}

static int close_by_request(lk_client *client, int how, lk_error *error)
{
	lk_queue *queue = NULL;
	lk_completion completion = {.operation = 0};
	check_int(lk_queue_new(&queue, 1, NULL), ==, 0);
	int rc = lk_queue_close(queue, client, how, 0, NULL, error);
	if (rc == 0) {
		check_int(lk_queue_take(queue, &completion, 1, slow_ms(20000), NULL), ==, 1);
		check_int(completion.operation, ==, LK_OP_CLOSE);
		rc = completion.error.code;
		if (error)
			*error = completion.error;
	}
	check_int(lk_queue_free(queue, NULL), ==, 0);
	return rc == LK_ECLOSED ? 0 : rc;
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

int driver_close(lk_client *client, int how, lk_error *error)
{
	return is_driven(client) ? close_by_request(client, how, error)
				 : lk_client_close(client, how, error);
}

lk_client *driver_free(lk_client *client)
{
	driver_remove(client);
	return lk_client_free(client);
}
