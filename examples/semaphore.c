/* A pool of ten connections that several programs share: each takes as many as it needs. */
#include <stdio.h>

#include <lockkeeper.h>

static int work(lk_semaphore *connections, lk_error *error)
{
	int64_t left = 0;
	if (lk_semaphore_acquire(connections, 4, 10000, NULL, error))
		return error->code;
	if (lk_semaphore_available(connections, &left, NULL) == 0)
		printf("four are ours, %lld are left\n", (long long)left);
	return lk_semaphore_release(connections, 4, NULL, error); /* no watchdog returns them */
}

int main(void)
{
	lk_client *client = NULL;
	lk_semaphore *connections = NULL;
	lk_semaphore_options options = LK_SEMAPHORE_OPTIONS_INIT;
	lk_error error = {0};
	options.permits = 10;
	if (lk_client_open(&client, NULL, &error) ||
	    lk_semaphore_new(&connections, client, "connections", LK_STRLEN, &options, &error) ||
	    work(connections, &error))
		fprintf(stderr, "not done: %s\n", error.message);
	lk_semaphore_free(connections);
	lk_client_free(client);
	return error.code != 0;
}
