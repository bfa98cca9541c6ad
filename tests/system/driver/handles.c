#include "driver.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define HANDLES_MAX 256

struct handle {
	char *name;
	lk_client *client;
	lk_cancel *cancel;
};

static pthread_mutex_t handles_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct handle handles[HANDLES_MAX];

/* With the mutex held: the entry of a name, made when there is none. */
static struct handle *find(const char *name)
{
	for (int i = 0; i < HANDLES_MAX; i++) {
		if (!handles[i].name)
			handles[i].name = strdup(name);
		if (handles[i].name && strcmp(handles[i].name, name) == 0)
			return &handles[i];
	}
	abort();
}

lk_client *handle_client_named(const char *name)
{
	pthread_mutex_lock(&handles_mutex);
	lk_client *client = find(name)->client;
	pthread_mutex_unlock(&handles_mutex);
	return client;
}

lk_client *handle_client(const struct command *command)
{
	const char *name = command_text(command, "c", NULL);
	return handle_client_named(name ? name : "c");
}

void handle_client_set(const char *name, lk_client *client)
{
	pthread_mutex_lock(&handles_mutex);
	find(name)->client = client;
	pthread_mutex_unlock(&handles_mutex);
}

lk_cancel *handle_cancel(const char *name)
{
	pthread_mutex_lock(&handles_mutex);
	struct handle *handle = find(name);
	if (!handle->cancel && lk_cancel_new(&handle->cancel, NULL))
		abort();
	lk_cancel *cancel = handle->cancel;
	pthread_mutex_unlock(&handles_mutex);
	return cancel;
}
